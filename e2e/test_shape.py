"""What a job says of its types: the order of their start, how long they may be Pending, bounds of their number, what is
cleaned of each, and who is in the cluster spec."""
import json

import kube
from harness import case, template, tfjob

ALL = ['j-chief-0', 'j-evaluator-0', 'j-ps-0', 'j-ps-1', 'j-worker-0']


def replicas(count, restart='Never', **more):
    return dict({'replicas': count, 'restartPolicy': restart, 'template': template()}, **more)


@case()
def types_start_in_order(t):
    t.rule('*', hold=True)
    t.create(tfjob(PS=2, Chief=1, Worker=1, Evaluator=1, spec={'startupPolicy': {'startupPolicyOrder': 'InOrder'}}))
    t.wait_pods('j-ps-0', 'j-ps-1')
    t.wait_services(*ALL)
    t.start('j-ps-0')
    t.stays('only parameter servers', lambda: t.pods() == ['j-ps-0', 'j-ps-1'])
    t.start('j-ps-1')
    t.wait_pods('j-chief-0', 'j-ps-0', 'j-ps-1')
    t.start('j-chief-0')
    t.wait_pods('j-chief-0', 'j-ps-0', 'j-ps-1', 'j-worker-0')
    t.start('j-worker-0')
    t.wait_pods(*ALL)
    t.start('j-evaluator-0')
    t.exit('j-chief-0')
    t.wait_for('Succeeded')


@case()
def pod_that_is_pending_for_too_long_fails_the_job(t):
    t.rule('j-worker-1', waiting='ImagePullBackOff')
    t.create(tfjob(PS=1, Worker=2, policy={'failurePolicy': {'rules': [
        {'action': 'FailJob', 'replicaTypes': ['Worker'], 'onPodPending': {'timeoutSeconds': 2}}]}}))
    message = t.wait_for('Failed')['message']
    for text in ('j-worker-1 was pending for 2 s', 'ImagePullBackOff', 'rule 0 of spec.runPolicy.failurePolicy'):
        t.expect('%r in %s' % (text, message), text in message)
    failure, = t.status()['failures']
    t.expect('failure', (failure['pod'], failure['reason']), ('j-worker-1', 'ImagePullBackOff'))


@case()
def pod_that_is_pending_for_too_long_is_replaced(t):
    t.rule('j-worker-1', hold=True)
    t.create(tfjob(Worker=2, policy={'backoffLimit': 3, 'failurePolicy': {'rules': [
        {'action': 'RestartReplica', 'onPodPending': {'timeoutSeconds': 2}}]}}))
    t.wait_pods('j-worker-0', 'j-worker-1')
    first = t.pod('j-worker-1')['metadata']['uid']
    t.wait('another pod', lambda: 'j-worker-1' in t.pods() and t.pod('j-worker-1')['metadata']['uid'] != first)
    t.start('j-worker-1')
    t.wait('Running again', lambda: t.is_true('Running'))
    t.expect('restarts', t.status()['replicaStatuses']['Worker']['restarts'] in (1, 2))


@case()
def elastic_workers_keep_their_bounds(t):
    t.create(tfjob(PS=1, Worker=replicas(3, minReplicas=2, maxReplicas=4)))
    t.wait_running('j-ps-0', 'j-worker-0', 'j-worker-1', 'j-worker-2')
    scale = kube.path_of('tfjobs', t.ns, 'j', 'scale')
    for count in (1, 5):
        try:
            t.client.request('PATCH', scale, {'spec': {'replicas': count}}, content_type='application/merge-patch+json')
            t.expect('scaling to %d is refused' % count, False)
        except kube.ApiError as e:
            t.expect('the reason in: %s' % e, 'at least minReplicas and at most maxReplicas' in str(e))
    t.client.request('PATCH', scale, {'spec': {'replicas': 4}}, content_type='application/merge-patch+json')
    t.wait_running('j-ps-0', 'j-worker-0', 'j-worker-1', 'j-worker-2', 'j-worker-3')
    t.exit('j-worker-3', 1)
    t.exit('j-worker-2', 1)
    t.wait_counts('Worker', active=2, failed=2)
    t.stays('the job goes on', lambda: not t.is_true('Failed'))
    t.exit('j-worker-1', 1)
    t.expect('message', '3 Worker replica(s) failed' in t.wait_for('Failed')['message'])


@case()
def finished_jobs_keep_no_parameter_server_and_no_service(t):
    t.create(tfjob(PS=2, Worker=1))
    t.wait_running('j-ps-0', 'j-ps-1', 'j-worker-0')
    t.exit('j-worker-0')
    t.wait_for('Succeeded')
    t.wait_pods('j-worker-0')
    t.wait_services()
    t.create(tfjob('told', PS=replicas(1, cleanPodPolicy='None'), Worker=1))
    t.wait_running('told-ps-0', 'told-worker-0')
    t.exit('told-worker-0')
    t.wait_for('Succeeded', 'told')
    t.wait_services('told-ps-0')
    t.stays('the parameter server stays', lambda: 'told-ps-0' in t.pods('Running'))


@case()
def policy_of_a_type_goes_before_that_of_the_job(t):
    t.create(tfjob(PS=1, Worker=replicas(2, cleanPodPolicy='Running'), policy={'cleanPodPolicy': 'All'}))
    t.wait_running('j-ps-0', 'j-worker-0', 'j-worker-1')
    t.exit('j-worker-0')
    t.wait_for('Succeeded')
    t.wait_pods('j-worker-0')
    t.wait_services()


@case()
def evaluator_in_the_cluster_spec_is_the_jobs_choice(t):
    t.create(tfjob(PS=1, Worker=1, Evaluator=1))
    t.create(tfjob('out', PS=1, Worker=1, Evaluator=replicas(1, inClusterSpec=False)))
    t.wait_running('j-evaluator-0', 'j-ps-0', 'j-worker-0', 'out-evaluator-0', 'out-ps-0', 'out-worker-0')
    t.expect('inside', sorted(json.loads(t.env('j-worker-0'))['cluster']), ['evaluator', 'ps', 'worker'])
    for name in ('out-worker-0', 'out-evaluator-0'):
        t.expect('outside', sorted(json.loads(t.env(name))['cluster']), ['ps', 'worker'])


def ready(t):
    return t.status().get('replicaStatuses', {}).get('Worker', {}).get('ready')


@case()
def status_tells_who_is_ready_and_which_spec_it_is_about(t):
    t.create(tfjob(Worker=2))
    t.wait_running('j-worker-0', 'j-worker-1')
    t.wait('two that are ready', lambda: ready(t) == 2)
    t.expect('first generation', t.status()['observedGeneration'], 1)
    t.patch('j', {'tfReplicaSpecs': {'Worker': {'replicas': 1}}})
    t.wait('the second generation', lambda: t.status()['observedGeneration'] == 2)
    t.wait('one that is ready', lambda: ready(t) == 1)


@case(flags=['--lost-pod-timeout=2s'])
def pod_of_a_lost_node_makes_room(t):
    t.create(tfjob(Worker=(2, 'ExitCode'), pod=template(terminationGracePeriodSeconds=1)))
    t.wait_running('j-worker-0', 'j-worker-1')
    first = t.pod('j-worker-1')['metadata']['uid']
    t.world.kubelet.lose_node(t.ns, 'j-worker-1')
    t.wait('another pod that runs', lambda: t.pods('Running') == ['j-worker-0', 'j-worker-1'] and
           t.pod('j-worker-1')['metadata']['uid'] != first, 60)
    t.expect('restarts', t.status().get('restarts', 0), 0)


@case()
def shapes_that_make_no_sense_are_refused(t):
    t.refused(tfjob(Worker=replicas(1, minReplicas=2)), 'at least minReplicas and at most maxReplicas')
    t.refused(tfjob(Worker=replicas(2, minReplicas=2, maxReplicas=1)), 'must not be below minReplicas')
    t.refused(tfjob(PS=replicas(1, minReplicas=1), Worker=1), 'only Worker can be elastic')
    t.refused(tfjob(Worker=replicas(1, inClusterSpec=False)), 'only Evaluator and types of your own')
    t.refused(tfjob(Worker=1, spec={'startupPolicy': {'startupPolicyOrder': 'Sorted'}}), 'startupPolicyOrder')
    t.refused(tfjob(Worker=1, spec={'progress': {'port': 1, 'stallAction': 'RestartJob'}}), 'stallAction')
    rules = [{'action': 'Ignore', 'onPodPending': {'timeoutSeconds': 5}}]
    t.refused(tfjob(Worker=1, policy={'failurePolicy': {'rules': rules}}), 'Ignore means nothing')
