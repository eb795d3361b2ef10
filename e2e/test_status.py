"""Conditions and counters (F), and who ends a job (I)."""
import json

from harness import LABEL, case, template, tfjob


def workers(count):
    return ['j-worker-%d' % i for i in range(count)]


def not_running(t, name='j'):
    t.expect('Running at the end', t.is_true('Running', name), False)


# F. Status

@case('F1')
def chief_and_worker_succeeded_is_success(t):
    t.create(tfjob(Chief=1, Worker=1))
    t.wait_running('j-chief-0', 'j-worker-0')
    t.exit('j-worker-0')
    t.wait_counts('Worker', succeeded=1)
    t.exit('j-chief-0')
    t.wait_for('Succeeded')
    not_running(t)


@case('F2')
def running_chief_is_a_running_job(t):
    t.rule('*-worker-*', hold=True)
    t.create(tfjob(Chief=1, Worker=1))
    t.wait_for('Running')


@case('F2')
def running_workers_without_their_chief_are_not(t):
    t.rule('*-chief-*', hold=True)
    t.create(tfjob(Chief=1, Worker=1))
    t.wait_counts('Worker', active=1)
    t.stays('not Running', lambda: not t.ever('Running'), 1)


@case('F3')
def failed_chief_is_failure(t):
    t.create(tfjob(Chief=1, Worker=1))
    t.wait_running('j-chief-0', 'j-worker-0')
    t.exit('j-chief-0', 1)
    message = t.wait_for('Failed')['message']
    t.expect('message', message, 'TFJob %s/j has failed because 1 Chief replica(s) failed.' % t.ns)
    not_running(t)


@case('F4')
def lone_worker_fails_succeeds_or_runs(t):
    for name in ('fails', 'succeeds', 'runs'):
        t.create(tfjob(name, Worker=1))
    t.wait_running('fails-worker-0', 'succeeds-worker-0', 'runs-worker-0')
    t.exit('fails-worker-0', 1)
    t.exit('succeeds-worker-0', 0)
    t.wait_for('Failed', 'fails')
    t.wait_for('Succeeded', 'succeeds')
    t.wait_for('Running', 'runs')
    t.stays('runs runs', lambda: t.is_true('Running', 'runs'), 0.5)
    not_running(t, 'fails')
    not_running(t, 'succeeds')


@case('F5')
def half_of_the_workers_done_is_running(t):
    t.create(tfjob(Worker=4, PS=2))
    t.wait_running(*workers(4), 'j-ps-0', 'j-ps-1')
    t.exit('j-worker-2')
    t.exit('j-worker-3')
    t.wait_counts('Worker', active=2, succeeded=2)
    t.stays('Running', lambda: t.is_true('Running') and not t.is_true('Succeeded'), 1)


@case('F6')
def half_of_the_workers_failed_is_failure(t):
    t.create(tfjob(Worker=4))
    t.wait_running(*workers(4))
    t.exit('j-worker-1', 1)
    t.exit('j-worker-2', 1)
    t.wait_for('Failed')
    not_running(t)


@case('F7')
def failures_beside_successes_are_failure(t):
    t.create(tfjob(Worker=4))
    t.wait_running(*workers(4))
    for name, code in (('j-worker-2', 0), ('j-worker-3', 0), ('j-worker-0', 1), ('j-worker-1', 1)):
        t.exit(name, code)
    t.wait_for('Failed')
    t.expect('Succeeded', t.is_true('Succeeded'), False)


@case('F8')
def worker_0_done_is_success(t):
    t.create(tfjob(Worker=4))
    t.wait_running(*workers(4))
    t.exit('j-worker-0')
    t.wait_for('Succeeded')
    not_running(t)


@case('F9')
def worker_0_done_is_not_enough_for_all_workers(t):
    t.create(tfjob(Worker=4, spec={'successPolicy': 'AllWorkers'}))
    t.wait_running(*workers(4))
    t.exit('j-worker-0')
    t.wait_counts('Worker', active=3, succeeded=1)
    t.stays('Running', lambda: t.is_true('Running') and not t.is_true('Succeeded'), 1)


@case('F10')
def all_workers_done_is_success_for_all_workers(t):
    t.create(tfjob(Worker=4, spec={'successPolicy': 'AllWorkers'}))
    t.wait_running(*workers(4))
    for name in workers(4):
        t.exit(name)
    t.wait_for('Succeeded')
    t.wait_counts('Worker', succeeded=4)


@case('F11')
def one_failed_worker_is_failure_for_all_workers(t):
    t.create(tfjob(Worker=4, spec={'successPolicy': 'AllWorkers'}))
    t.wait_running(*workers(4))
    t.exit('j-worker-0')
    t.exit('j-worker-3', 1)
    t.wait_for('Failed')


@case('F12')
def failed_workers_beside_a_running_chief_are_failure(t):
    t.create(tfjob(Chief=1, Worker=4))
    t.wait_running('j-chief-0', *workers(4))
    t.wait_for('Running')
    for name in workers(4):
        t.exit(name, 1)
    t.wait_for('Failed')
    t.expect('Running was there', t.condition('Running') is not None)


@case('F13')
def succeeded_workers_beside_a_running_chief_are_running(t):
    t.create(tfjob(Chief=1, Worker=2))
    t.wait_running('j-chief-0', *workers(2))
    for name in workers(2):
        t.exit(name)
    t.wait_counts('Worker', succeeded=2)
    t.stays('Running', lambda: t.is_true('Running') and not t.is_true('Succeeded'), 1)


@case('F14')
def failed_ps_is_failure(t):
    t.create(tfjob(Chief=1, PS=2, Worker=1))
    t.wait_running('j-chief-0', 'j-ps-0', 'j-ps-1', 'j-worker-0')
    t.exit('j-ps-1', 1)
    t.expect('message', t.wait_for('Failed')['message'], 'TFJob %s/j has failed because 1 PS replica(s) failed.' % t.ns)


@case('F15')
def failed_chief_after_succeeded_workers_is_failure(t):
    t.create(tfjob(Chief=1, Worker=2))
    t.wait_running('j-chief-0', *workers(2))
    for name in workers(2):
        t.exit(name)
    t.wait_counts('Worker', succeeded=2)
    t.exit('j-chief-0', 1)
    t.wait_for('Failed')


@case('F16')
def failed_workers_after_a_succeeded_chief_leave_success(t):
    t.create(tfjob(Chief=1, Worker=2))
    t.wait_running('j-chief-0', *workers(2))
    t.exit('j-chief-0')
    t.wait_for('Succeeded')
    for name in workers(2):
        t.exit(name, 1)
    t.stays('Succeeded and not Failed', lambda: t.is_true('Succeeded') and not t.is_true('Failed'), 1)


@case('F17')
def failures_to_be_retried_are_restarting(t):
    t.create(tfjob(Chief=(1, 'ExitCode'), Worker=(1, 'ExitCode')))
    t.wait_running('j-chief-0', 'j-worker-0')
    t.rule('*', hold=True)
    t.exit('j-chief-0', 130)
    t.exit('j-worker-0', 130)
    condition = t.wait_for('Restarting')
    t.expect('reason', condition['reason'], 'TFJobRestarting')
    t.expect('message ' + condition['message'],
             condition['message'].startswith('job j is restarting because ') and 'replica(s) failed.' in condition['message'])
    t.wait('new pods', lambda: len(t.made('pods')) == 4)


@case('F18')
def conditions_follow_each_other(t):
    t.rule('*', hold=True)
    t.create(tfjob(Worker=(1, 'ExitCode')))
    t.wait('Created', lambda: t.conditions() == [('Created', 'True', 'TFJobCreated')])
    t.expect('message', t.condition('Created')['message'], 'TFJob j is created.')
    t.start('j-worker-0')
    running = ('Running', 'True', 'TFJobRunning')
    created = ('Created', 'True', 'TFJobCreated')
    t.wait('Running', lambda: t.conditions() == [created, running])
    t.exit('j-worker-0', 130)
    t.wait('Restarting in its place', lambda: t.conditions() == [created, ('Restarting', 'True', 'TFJobRestarting')])
    t.wait('a new pod', lambda: len(t.made('pods')) == 2 and t.pods('Pending') == ['j-worker-0'])
    t.start('j-worker-0')
    t.wait('Running in its place', lambda: t.conditions() == [created, running])
    t.exit('j-worker-0', 1)
    t.wait('Failed, Running False', lambda: t.conditions() == [
        created, ('Running', 'False', 'TFJobRunning'), ('Failed', 'True', 'TFJobFailed')])


@case('F19')
def suspended_is_not_finished(t):
    t.create(tfjob(Worker=1, policy={'suspend': True, 'ttlSecondsAfterFinished': 0}))
    t.wait_for('Suspended')
    t.stays('it is there and not finished', lambda: t.job() and 'completionTime' not in t.status(), 1)
    t.patch('j', {'runPolicy': {'suspend': False}})
    t.wait_running('j-worker-0')


@case('F20')
def pod_that_is_being_deleted_is_not_failed(t):
    """v1.9 counted it as failed and ended the job (see the next case)."""
    t.create(tfjob(PS=1, Worker=(2, 'OnFailure')))
    t.wait_running('j-ps-0', *workers(2))
    first = t.pod('j-worker-1')['metadata']['uid']
    t.client.delete('pods', t.ns, 'j-worker-1')
    t.wait('a new worker 1', lambda: t.pod('j-worker-1') and t.pod('j-worker-1')['metadata']['uid'] != first and
           t.pods('Running') == ['j-ps-0', 'j-worker-0', 'j-worker-1'])
    t.stays('not failed', lambda: not t.ever('Failed'), 0.5)
    t.wait_counts('Worker', active=2)


@case('F20', flags=['--compat=v1.9'])
def pod_that_is_being_deleted_is_failed_in_v19(t):
    t.create(tfjob(PS=1, Worker=2))
    t.wait_running('j-ps-0', *workers(2))
    t.rule('*', hold=True)
    t.world.kubelet.lose_node(t.ns, 'j-worker-1')
    t.wait_for('Failed')


# I. Who ends the job

@case('I1')
def chief_ends_the_job_while_others_run(t):
    names = ['j-chief-0', 'j-ps-0', 'j-ps-1'] + workers(4)
    t.create(tfjob(Chief=1, PS=2, Worker=4))
    t.wait_running(*names)
    t.exit('j-chief-0')
    t.wait_for('Succeeded')


@case('I2')
def worker_0_ends_a_job_without_chief(t):
    t.create(tfjob(PS=1, Worker=2))
    t.wait_running('j-ps-0', *workers(2))
    t.exit('j-worker-0')
    t.wait_for('Succeeded')
    t.wait_counts('PS', succeeded=1)  # what is active counts as succeeded, as in v1.9


@case('I3')
def worker_0_alone_ends_it(t):
    t.create(tfjob('other', Worker=2))
    t.create(tfjob('first', Worker=2))
    t.create(tfjob('none', PS=1))
    t.wait_running('other-worker-0', 'other-worker-1', 'first-worker-0', 'first-worker-1', 'none-ps-0')
    t.exit('other-worker-1')
    t.exit('first-worker-0')
    t.wait_for('Succeeded', 'first')
    t.exit('none-ps-0')
    t.stays('others do not end', lambda: not t.is_true('Succeeded', 'other') and not t.is_true('Succeeded', 'none'), 1)
    t.exit('other-worker-0', 1)
    t.wait_for('Failed', 'other')


@case('I4')
def simple_job_succeeds_and_tells_of_each_child(t):
    names = ['j-chief-0', 'j-ps-0', 'j-ps-1'] + workers(4)
    t.create(tfjob(Chief=1, PS=2, Worker=4))
    t.wait_running(*names)
    for name in workers(4) + ['j-chief-0']:
        t.exit(name)
    t.wait_for('Succeeded')

    def told(reason):
        text = ' '.join(e['message'] for e in t.events(reason))
        return all(name in text for name in names)
    t.wait('events about 7 pods', lambda: told('SuccessfulCreatePod'))
    t.wait('events about 7 services', lambda: told('SuccessfulCreateService'))
    t.wait('the event about the end', lambda: t.events('TFJobSucceeded'))
    t.expect('event writes', sum(e.get('count', 1) for e in t.events('TFJobSucceeded')), 1)


@case('I5')
def gpu_limits_pass_through(t):
    pod = template(container={'resources': {'limits': {'nvidia.com/gpu': 1}}})
    t.create(tfjob(Chief=1, pod=pod))
    t.wait_running('j-chief-0')
    t.expect('limits', t.pod('j-chief-0')['spec']['containers'][0]['resources']['limits'], {'nvidia.com/gpu': '1'})
    t.exit('j-chief-0')
    t.wait_for('Succeeded')


@case('I6')
def three_workers_finish(t):
    t.rule('*', exits=[0], after=0.2)
    t.create(tfjob(Worker=3))
    t.wait_for('Succeeded')


@case()
def pod_whose_sidecar_fails_is_failed(t):
    pod = template()
    pod['spec']['containers'].append({'name': 'side', 'image': 'side:1'})
    t.create(tfjob(Chief=1, Worker=1, pod=pod))
    t.wait_running('j-chief-0', 'j-worker-0')
    t.exit('j-worker-0', 0, others=3)
    t.wait_for('Failed')


@case()
def every_field_of_a_pod_passes_through(t):
    pod = template(container={'env': [{'name': 'A', 'value': 'b'}], 'workingDir': '/w', 'command': ['c'], 'args': ['d'],
                              'resources': {'requests': {'cpu': '1'}}, 'volumeMounts': [{'name': 'v', 'mountPath': '/v'}]},
                   volumes=[{'name': 'v', 'emptyDir': {}}], nodeSelector={'a': 'b'}, priority=0, hostNetwork=True,
                   tolerations=[{'key': 'gpu', 'operator': 'Exists', 'effect': 'NoSchedule'}], schedulerName='my-scheduler',
                   metadata={'labels': {LABEL + 'job-name': 'forged'}})
    t.create(tfjob(Worker=2, pod=pod))
    t.wait_pods(*workers(2))
    spec = t.pod('j-worker-0')['spec']
    for key in ('nodeSelector', 'hostNetwork', 'schedulerName', 'volumes'):
        t.expect(key, spec[key], pod['spec'][key])
    t.expect('toleration', pod['spec']['tolerations'][0] in spec['tolerations'])
    container = spec['containers'][0]
    for key in ('workingDir', 'command', 'args'):
        t.expect(key, container[key], pod['spec']['containers'][0][key])
    t.expect('env', {'name': 'A', 'value': 'b'} in container['env'])
    t.expect('mount', container['volumeMounts'][0], {'name': 'v', 'mountPath': '/v'})
    t.expect('label', t.pod('j-worker-0')['metadata']['labels'][LABEL + 'job-name'], 'j')


@case()
def kubectl_shows_state_workers_and_restarts(t):
    t.create(tfjob(PS=1, Worker=(2, 'ExitCode')))
    t.wait_running('j-ps-0', *workers(2))
    t.exit('j-worker-1', 137)
    t.wait('the restart', lambda: len(t.made('pods')) == 4 and t.counts('Worker') == (2, 0, 0))
    t.wait_for('Running')
    connection = t.client.connect()
    connection.request('GET', '/apis/kubeflow.org/v1/namespaces/%s/tfjobs' % t.ns,
                       headers=dict(t.client.headers(), Accept='application/json;as=Table;v=v1;g=meta.k8s.io'))
    table = json.loads(connection.getresponse().read())
    connection.close()
    shown = dict(zip([c['name'] for c in table['columnDefinitions']], table['rows'][0]['cells']))
    t.expect('columns', [c['name'] for c in table['columnDefinitions'] if c['priority'] == 0],
             ['Name', 'State', 'Progress', 'Workers', 'Restarts', 'Age'])
    t.expect('the row', (shown['Name'], shown['State'], shown['Workers'], shown['Restarts'], shown['PS']),
             ('j', 'Running', 2, 1, 1))
    scale = t.client.request('GET', '/apis/kubeflow.org/v1/namespaces/%s/tfjobs/j/scale' % t.ns)
    t.expect('scale', (scale['spec']['replicas'], scale['status']['replicas']), (2, 2))
    chosen = t.client.list('pods', t.ns, labelSelector=scale['status']['selector'])['items']
    t.expect('pods of the selector', sorted(p['metadata']['name'] for p in chosen), ['j-worker-0', 'j-worker-1'])
