"""Suspension and managers (J)."""
from harness import case, template, tfjob

PODS = ['j-ps-0', 'j-worker-0', 'j-worker-1']


@case('J1')
def created_suspended_makes_nothing(t):
    t.create(tfjob(PS=1, Worker=2, policy={'suspend': True}))
    t.wait('its conditions', lambda: t.conditions() == [
        ('Created', 'True', 'TFJobCreated'), ('Suspended', 'True', 'TFJobSuspended')])
    t.stays('nothing is made', lambda: not t.made('pods') and not t.made('services'), 3)
    t.expect('startTime', t.status().get('startTime'), None)
    t.expect('message', t.condition('Suspended')['message'], 'TFJob j is suspended.')


@case('J2')
def suspending_a_running_job_takes_its_pods(t):
    t.create(tfjob(PS=1, Worker=2))
    t.wait_running(*PODS)
    t.wait_for('Running')
    began = t.status()['startTime']
    t.patch('j', {'runPolicy': {'suspend': True}})
    t.wait('its conditions', lambda: t.conditions() == [
        ('Created', 'True', 'TFJobCreated'), ('Running', 'False', 'TFJobSuspended'),
        ('Suspended', 'True', 'TFJobSuspended')])
    t.wait('no children', lambda: not t.mirror.all('pods', t.ns) and not t.services())
    t.stays('they stay gone', lambda: not t.mirror.all('pods', t.ns) and not t.services(), 1.5)
    t.wait_counts('Worker')
    t.wait_counts('PS')
    t.expect('startTime', t.status().get('startTime'), began)
    t.expect('restarts', t.status().get('replicaStatuses', {}).get('Worker', {}).get('restarts', 0), 0)
    t.wait('the event', lambda: t.events('TFJobSuspended'))
    t.expect('events', sum(e.get('count', 1) for e in t.events('TFJobSuspended')), 1)


@case('J3')
def resuming_starts_anew(t):
    t.create(tfjob(PS=1, Worker=2))
    t.wait_running(*PODS)
    t.wait_for('Running')
    began = t.status()['startTime']
    t.mirror.wait(t.ns, lambda: False, 1.1)  # times have whole seconds
    t.patch('j', {'runPolicy': {'suspend': True}})
    t.wait_for('Suspended')
    t.wait_pods()
    t.patch('j', {'runPolicy': {'suspend': False}})
    t.wait_running(*PODS)
    t.wait('its conditions', lambda: t.conditions() == [
        ('Created', 'True', 'TFJobCreated'), ('Suspended', 'False', 'TFJobResumed'), ('Running', 'True', 'TFJobRunning')])
    t.expect('message', t.condition('Suspended')['message'], 'TFJob j is resumed.')
    t.expect('a later start than ' + began, t.status()['startTime'] > began)
    t.wait_services(*PODS)


@case('J3')
def template_may_change_while_suspended(t):
    """As Kueue does before it lets a job start."""
    t.create(tfjob(Worker=1, policy={'suspend': True}))
    t.wait_for('Suspended')
    pod = template(nodeSelector={'pool': 'a'}, metadata={'labels': {'kueue': 'x'}},
                   tolerations=[{'key': 'k', 'operator': 'Exists'}])
    t.patch('j', {'runPolicy': {'suspend': False}, 'tfReplicaSpecs': {'Worker': {'template': pod}}})
    t.wait_running('j-worker-0')
    t.expect('nodeSelector', t.pod('j-worker-0')['spec']['nodeSelector'], {'pool': 'a'})
    t.expect('label', t.pod('j-worker-0')['metadata']['labels'].get('kueue'), 'x')


@case('J4')
def job_of_another_manager_is_left_alone(t):
    t.create(tfjob(Worker=1, policy={'managedBy': 'kueue.x-k8s.io/multikueue', 'suspend': True}))
    t.stays('nothing happens', lambda: not t.made('pods') and not t.status(), 1)
    t.patch('j', {'runPolicy': {'suspend': False}})
    t.stays('nothing happens', lambda: not t.made('pods') and not t.made('services') and not t.status(), 2)


@case('J5')
def which_managers_are_ours(t):
    """The empty string and unknown names cannot be stored any more: the CRD refuses them."""
    t.create(tfjob('nobody', Worker=1))
    t.create(tfjob('us', Worker=1, policy={'managedBy': 'kubeflow.org/training-operator'}))
    t.create(tfjob('kueue', Worker=1, policy={'managedBy': 'kueue.x-k8s.io/multikueue'}))
    t.wait_pods('nobody-worker-0', 'us-worker-0')
    for value in ('', 'other'):
        t.refused(tfjob('x', Worker=1, policy={'managedBy': value}), 'Unsupported value')
    t.stays('kueue is left alone', lambda: len(t.pods()) == 2, 1)
