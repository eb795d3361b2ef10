"""The contract with Kueue: what its integration does to a TFJob, and what it reads of one (kueue.py plays it)."""
import kueue
from harness import case, template, tfjob

PODS = ['j-ps-0', 'j-worker-0', 'j-worker-1']
FLAVOR = {'nodeLabels': {'pool': 'spot'}, 'tolerations': [{'key': 'spot', 'operator': 'Exists', 'effect': 'NoSchedule'}]}


def tolerates(t, pod, key):
    return any(one.get('key') == key for one in t.pod(pod)['spec'].get('tolerations', []))


@case()
def kueue_admits_a_suspended_job_with_what_it_puts_into_the_templates(t):
    with kueue.Kueue(t, pods=0, flavor=FLAVOR) as queue:
        pod = template(nodeSelector={'disk': 'ssd'}, metadata={'labels': {'team': 'a'}})
        t.create(kueue.in_queue(tfjob(PS=1, Worker=2, pod=pod)))
        queue.wait('its Workload', queue.workload)
        t.expect('its pod sets', [(one['name'], one['count']) for one in queue.workload()['spec']['podSets']],
                 [('ps', 1), ('worker', 2)])
        t.wait_for('Suspended')
        t.stays('it waits for quota', lambda: not t.made('pods') and not t.made('services') and
                not t.status().get('startTime') and not queue.is_true('Admitted'))
        t.rule('j-*', hold=True)
        queue.quota(3)
        t.wait_pods(*PODS)
        queue.wait_for('Admitted')
        for name in PODS:
            t.expect('nodeSelector of ' + name, t.pod(name)['spec'].get('nodeSelector'), {'disk': 'ssd', 'pool': 'spot'})
            t.expect('toleration of ' + name, tolerates(t, name, 'spot'))
            meta = t.pod(name)['metadata']
            t.expect('labels of ' + name, (meta['labels'].get('team'), meta['labels'].get(kueue.POD_SET)),
                     ('a', name.split('-')[1]))
            t.expect('annotation of ' + name, meta['annotations'].get('kueue.x-k8s.io/workload'), 'tfjob-j')
        queue.wait('PodsReady to be False', lambda: queue.condition('PodsReady').get('reason') == 'WaitForStart')
        t.stays('pending pods are not ready ones', lambda: not queue.is_true('PodsReady') and not t.ever('Running'))
        t.start(*PODS)
        queue.wait_for('PodsReady')
        t.expect('each pod was made once', len(t.made('pods')), 3)
        selector = 'training.kubeflow.org/job-name=j,training.kubeflow.org/operator-name=tfjob-controller'
        t.expect('the pods by the selector of Kueue', sorted(
            p['metadata']['name'] for p in t.client.list('pods', t.ns, labelSelector=selector)['items']), PODS)
        t.expect('the label by which it places them', sorted(
            t.pod(p)['metadata']['labels']['training.kubeflow.org/replica-index'] for p in PODS), ['0', '0', '1'])


@case()
def kueue_stops_a_job_that_was_made_unsuspended(t):
    """As without Kueue's webhook, or from before its time."""
    with kueue.Kueue(t, pods=0) as queue:
        t.create(kueue.in_queue(tfjob(PS=1, Worker=2), suspend=False))
        t.wait_for('Suspended')
        t.wait_pods()
        queue.wait('its Workload', queue.workload)
        t.stays('it waits', lambda: not t.pods() and not queue.is_true('Admitted'))
        queue.quota(3)
        t.wait_running(*PODS)
        queue.wait_for('PodsReady')


@case()
def kueue_runs_two_jobs_one_after_the_other_where_there_is_room_for_one(t):
    with kueue.Kueue(t, pods=3) as queue:
        t.create(kueue.in_queue(tfjob('a', PS=1, Worker=2, policy={'cleanPodPolicy': 'Running'})))
        queue.wait_for('PodsReady', 'a')
        t.create(kueue.in_queue(tfjob('b', Worker=3)))
        queue.wait('the Workload of b', lambda: queue.workload('b'))
        t.stays('b has no pods', lambda: not any(name.startswith('b-') for name in t.pods()), 2)
        t.exit('a-worker-0')
        queue.wait_for('Finished', 'a')
        finished = queue.condition('Finished', 'a')
        t.expect('how a has finished', (finished['reason'], finished['message']),
                 ('Succeeded', t.condition('Succeeded', 'a')['message']))
        queue.wait_for('PodsReady', 'b')
        began = {name: min(p['metadata']['creationTimestamp'] for seen, _, p in t.mirror.past(t.ns) if seen == 'pods' and
                           p['metadata']['name'].startswith(name)) for name in ('a-', 'b-')}
        t.expect('b began when a had ended: %s' % began, began['b-'] >= t.status('a')['completionTime'])


@case()
def kueue_evicts_a_job_and_admits_it_again_elsewhere(t):
    with kueue.Kueue(t, pods=3, flavor=FLAVOR) as queue:
        t.create(kueue.in_queue(tfjob(PS=1, Worker=2, policy={'cleanPodPolicy': 'None'})))
        queue.wait_for('PodsReady')
        t.wait_running(*PODS)
        t.wait_counts('Worker', active=2)
        began, first = t.status()['startTime'], t.made('pods')
        t.mirror.wait(t.ns, lambda: False, 1.1)  # times have whole seconds
        queue.quota(0)
        queue.evict()
        queue.wait('its quota to be given back', lambda: not (queue.workload().get('status') or {}).get('admission'))
        t.wait_pods()
        t.expect('active', (t.counts('PS')[0], t.counts('Worker')[0]), (0, 0))
        t.expect('conditions', t.conditions(), [
            ('Created', 'True', 'TFJobCreated'), ('Running', 'False', 'TFJobSuspended'),
            ('Suspended', 'True', 'TFJobSuspended')])
        worker = t.job()['spec']['tfReplicaSpecs']['Worker']['template']
        t.expect('its template is as before', (worker['spec'].get('nodeSelector'), worker['spec'].get('tolerations'),
                                               worker.get('metadata', {}).get('labels')), (None, None, None))
        t.stays('it stays stopped', lambda: not t.pods())
        t.expect('PodsReady', queue.condition('PodsReady')['status'], 'False')

        queue.change_flavor(nodeLabels={'pool': 'reserved'}, tolerations=[])
        queue.quota(3)
        t.wait_running(*PODS)
        queue.wait_for('PodsReady')
        for name in PODS:
            t.expect('nodeSelector of ' + name, t.pod(name)['spec'].get('nodeSelector'), {'pool': 'reserved'})
            t.expect('old toleration of ' + name, tolerates(t, name, 'spot'), False)
        t.expect('a later start than ' + began, t.status()['startTime'] > began)
        t.expect('pods made anew', len(t.made('pods')), len(first) + 3)
        t.expect('restarts', t.status()['replicaStatuses']['Worker'].get('restarts', 0), 0)
        t.exit('j-worker-0')
        queue.wait_for('Finished')


@case()
def kueue_admits_a_job_again_while_its_old_pods_still_end(t):
    with kueue.Kueue(t, pods=2) as queue:
        t.rule('j-worker-1', ignore_delete=True)
        t.create(kueue.in_queue(tfjob(Worker=2)))
        queue.wait_for('PodsReady')
        t.wait_running('j-worker-0', 'j-worker-1')
        old = t.pod('j-worker-1')['metadata']['uid']
        queue.evict()
        queue.wait('it to be admitted again', lambda: queue.condition('Evicted').get('status') == 'False' and
                   queue.is_true('Admitted'))
        t.wait('worker 0 to be made again', lambda: len(t.made('pods', 'j-worker-0')) == 2)
        t.rule('j-worker-1')
        t.client.delete('pods', t.ns, 'j-worker-1', gracePeriodSeconds=0, preconditions={'uid': old})
        t.wait_running('j-worker-0', 'j-worker-1')
        t.expect('worker 1 is another', t.pod('j-worker-1')['metadata']['uid'] != old)
        t.expect('it never failed', t.ever('Failed'), False)


@case()
def kueue_learns_of_a_failure_and_its_words(t):
    with kueue.Kueue(t, pods=3) as queue:
        t.create(kueue.in_queue(tfjob(Worker=2)))
        queue.wait_for('PodsReady')
        t.wait_running('j-worker-0', 'j-worker-1')
        t.exit('j-worker-1', 1)
        queue.wait_for('Finished')
        t.expect('how', (queue.condition('Finished')['reason'], queue.condition('Finished')['message']),
                 ('Failed', t.condition('Failed')['message']))


@case()
def kueue_sees_a_restart_as_waiting_for_recovery(t):
    """PodsReady is the condition Running, which a restart removes; counters follow each pod."""
    with kueue.Kueue(t, pods=3) as queue:
        t.rule('j-worker-1', hold=True)
        t.create(kueue.in_queue(tfjob(Worker=(2, 'ExitCode'), spec={'successPolicy': 'AllWorkers'})))
        t.start('j-worker-1')
        t.wait_counts('Worker', active=2)
        queue.wait_for('PodsReady')
        t.expect('reason', queue.condition('PodsReady')['reason'], 'Started')
        t.exit('j-worker-0')
        t.wait_counts('Worker', active=1, succeeded=1)
        t.exit('j-worker-1', 130)
        queue.wait('it to wait for recovery', lambda: queue.condition('PodsReady').get('reason') == 'WaitForRecovery')
        t.wait('worker 1 to be made again', lambda: len(t.made('pods', 'j-worker-1')) == 2)
        t.start('j-worker-1')
        queue.wait('it to have recovered', lambda: queue.condition('PodsReady').get('reason') == 'Recovered')
        t.wait_counts('Worker', active=1, succeeded=1)
        t.exit('j-worker-1')
        queue.wait_for('Finished')


@case()
def template_change_while_running_reaches_only_new_pods(t):
    """As v1.9 does, which never compares pods with their template."""
    t.create(tfjob(Worker=(2, 'ExitCode')))
    t.wait_running('j-worker-0', 'j-worker-1')
    kept = t.pod('j-worker-0')['metadata']['uid']
    t.patch('j', {'tfReplicaSpecs': {'Worker': {'template': template(image='train:2', nodeSelector={'pool': 'b'})}}})
    t.stays('its pods stay', lambda: len(t.made('pods')) == 2)
    t.exit('j-worker-1', 130)
    t.wait('worker 1 to be made again', lambda: len(t.made('pods', 'j-worker-1')) == 2)
    t.wait_running('j-worker-1')
    t.expect('worker 1', (t.pod('j-worker-1')['spec']['containers'][0]['image'], t.pod('j-worker-1')['spec']['nodeSelector']),
             ('train:2', {'pool': 'b'}))
    t.expect('worker 0', (t.pod('j-worker-0')['metadata']['uid'], t.pod('j-worker-0')['spec'].get('nodeSelector')),
             (kept, None))


@case()
def kueue_admits_anew_a_running_job_whose_template_changes(t):
    """It no longer is what was admitted: Kueue stops it, makes another Workload, and starts it with the new template."""
    with kueue.Kueue(t, pods=3) as queue:
        t.create(kueue.in_queue(tfjob(PS=1, Worker=2)))
        queue.wait_for('PodsReady')
        t.wait_running(*PODS)
        first = queue.workload()['metadata']['uid']
        t.patch('j', {'tfReplicaSpecs': {'Worker': {'template': template(image='train:2')}}})
        queue.wait('another Workload', lambda: queue.workload() and queue.workload()['metadata']['uid'] != first)
        t.wait('workers of the new template', lambda: all(
            name in t.pods('Running') and len(t.made('pods', name)) == 2 for name in PODS))
        t.expect('image', t.pod('j-worker-1')['spec']['containers'][0]['image'], 'train:2')
        queue.wait_for('PodsReady')


@case()
def kueue_admits_fewer_workers_than_first_wanted(t):
    """While it waits, its size may change; it then starts with that size."""
    with kueue.Kueue(t, pods=2) as queue:
        t.create(kueue.in_queue(tfjob(PS=1, Worker=4)))
        queue.wait('its Workload', queue.workload)
        t.patch('j', {'tfReplicaSpecs': {'Worker': {'replicas': 1}}})
        t.wait_running('j-ps-0', 'j-worker-0')
        queue.wait_for('PodsReady')
        t.stays('no more', lambda: t.pods() == ['j-ps-0', 'j-worker-0'])


@case()
def multikueue_keeps_the_job_and_its_status(t):
    """The job runs in another cluster: MultiKueue copies its status here."""
    with kueue.Kueue(t, pods=2) as queue:
        t.create(kueue.in_queue(tfjob(Worker=2, policy={'managedBy': kueue.MULTIKUEUE})))
        queue.wait_for('Admitted')
        t.wait('it to be unsuspended', lambda: t.job()['spec']['runPolicy'].get('suspend') is False)

        def copied(kind, **counts):
            status = {'conditions': [{'type': kind, 'status': 'True', 'reason': 'TFJob' + kind, 'message': 'over there',
                                      'lastUpdateTime': '2026-01-01T00:00:00Z', 'lastTransitionTime': '2026-01-01T00:00:00Z'}],
                      'replicaStatuses': {'Worker': counts}, 'startTime': '2026-01-01T00:00:00Z'}
            t.client.patch('tfjobs', t.ns, 'j', {'status': status}, 'status')
            return status
        running = copied('Running', active=2)
        queue.wait_for('PodsReady')
        t.stays('nothing is done here', lambda: not t.made('pods') and not t.made('services') and t.status() == running, 2)
        ended = copied('Succeeded', active=0, succeeded=2)
        queue.wait_for('Finished')
        t.expect('its words', queue.condition('Finished')['message'], 'over there')
        t.stays('its status stays', lambda: t.status() == ended and not t.made('pods') and not t.events(), 1)
