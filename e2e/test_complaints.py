"""What users of the old operator complained about and no other case shows (docs/features.md has the whole list): with
training-operator v1.9 in our operator's place these fail."""
import json
import re

from harness import LABEL, case, tfjob

LINE = re.compile(r'^\d{4}-\d\d-\d\dT[\d:.]+Z\s+(DEBUG|INFO|WARNING|ERROR)\s+\S.*$')


@case()
def succeeded_pod_that_is_collected_at_once_is_not_run_again(t):
    """trainer#1186, trainer#1997: it ended, and was gone before anybody looked."""
    t.create(tfjob(PS=1, Worker=2, spec={'successPolicy': 'AllWorkers'}))
    t.wait_running('j-ps-0', 'j-worker-0', 'j-worker-1')
    t.exit('j-worker-1')
    t.client.delete('pods', t.ns, 'j-worker-1', gracePeriodSeconds=0)
    t.wait('worker 1 to be gone', lambda: not t.pod('j-worker-1'))
    t.stays('worker 1 does not run again', lambda: len(t.made('pods', 'j-worker-1')) == 1)
    t.exit('j-worker-0')
    t.wait_for('Succeeded')
    t.wait_counts('Worker', succeeded=2)


@case()
def pod_that_hangs_in_its_deletion_is_not_failed(t):
    """trainer#2124: one of many workers is being deleted, and all others run."""
    t.create(tfjob(PS=1, Worker=(3, 'OnFailure'), policy={'backoffLimit': 5}))
    t.wait_running('j-ps-0', 'j-worker-0', 'j-worker-1', 'j-worker-2')
    t.wait_for('Running')
    t.world.kubelet.lose_node(t.ns, 'j-worker-2')
    t.wait('its deletion', lambda: t.pod('j-worker-2')['metadata'].get('deletionTimestamp'))
    t.stays('the job goes on', lambda: t.is_true('Running') and not t.ever('Failed'))
    t.exit('j-worker-0')
    t.wait_for('Succeeded')


@case()
def evicted_pod_is_replaced_under_every_restart_policy(t):
    """trainer#999: a spot node is taken away."""
    for policy in ('OnFailure', 'Always', 'ExitCode'):
        name = 'j-' + policy.lower()
        t.create(tfjob(name, PS=1, Worker=(2, policy)))
        pods = [name + '-ps-0', name + '-worker-0', name + '-worker-1']
        t.wait_running(*pods)
        t.world.kubelet.evict(t.ns, pods[2])
        t.wait('another worker 1 of ' + name, lambda: len(t.made('pods', pods[2])) == 2)  # pylint: disable=cell-var-from-loop
        t.wait_running(*pods)
        t.expect('Failed', t.ever('Failed', name), False)


@case()
def deleted_pod_is_replaced_whatever_its_exit_code(t):
    """trainer#1560, common#186: deleting a pod is no failure of its program."""
    t.rule('j-worker-1', term_code=1)
    t.create(tfjob(PS=1, Worker=(2, 'ExitCode')))
    t.wait_running('j-ps-0', 'j-worker-0', 'j-worker-1')
    t.client.delete('pods', t.ns, 'j-worker-1')
    t.wait('a second worker 1', lambda: len(t.made('pods', 'j-worker-1')) == 2)
    t.wait_running('j-worker-1')
    t.expect('Failed', t.ever('Failed'), False)


@case()
def job_ends_though_the_sidecar_of_a_mesh_runs_on(t):
    """kubeflow#3935, trainer#1148: the proxy that Istio puts into each pod never ends by itself."""
    job = tfjob(PS=1, Worker=(2, 'ExitCode'), spec={'successPolicy': 'AllWorkers'}, policy={'cleanPodPolicy': 'Running'})
    for replica in job['spec']['tfReplicaSpecs'].values():
        replica['template']['spec']['containers'].append({'name': 'istio-proxy', 'image': 'istio/proxyv2:1'})
    t.create(job)
    t.wait_running('j-ps-0', 'j-worker-0', 'j-worker-1')
    t.exit('j-worker-0', 137, others=None)
    t.wait('another worker 0', lambda: len(t.made('pods', 'j-worker-0')) == 2)
    t.wait_running('j-worker-0')
    t.exit('j-worker-0', 0, others=None)
    t.wait_counts('Worker', succeeded=1, active=1)
    t.exit('j-worker-1', 0, others=None)
    t.wait_for('Succeeded')
    t.wait_pods()  # their proxies ran


@case()
def dynamic_worker_may_go(t):
    """trainer#1452."""
    t.create(tfjob(PS=1, Worker=3, spec={'enableDynamicWorker': True}))
    t.wait_running('j-ps-0', 'j-worker-0', 'j-worker-1', 'j-worker-2')
    t.client.delete('pods', t.ns, 'j-worker-2')
    t.wait('another worker 2', lambda: len(t.made('pods', 'j-worker-2')) == 2)
    t.wait_counts('Worker', active=3)
    t.stays('the job goes on', lambda: t.is_true('Running') and not t.ever('Failed'), 1)
    t.exit('j-worker-0')
    t.wait_for('Succeeded')


@case()
def chief_of_dynamic_workers_knows_the_parameter_servers(t):
    """trainer#1763."""
    t.create(tfjob(Chief=1, PS=1, Worker=1, spec={'enableDynamicWorker': True}))
    t.wait_running('j-chief-0', 'j-ps-0', 'j-worker-0')
    cluster = json.loads(t.env('j-chief-0'))['cluster']
    t.expect('parameter servers', cluster.get('ps'), ['j-ps-0.%s.svc:2222' % t.ns])
    t.expect('itself', bool(cluster.get('chief')))


@case()
def services_are_there_before_their_pods_and_resolve_at_once(t):
    """trainer#1458: names of peers that do not resolve yet end a worker at its start."""
    t.create(tfjob(PS=2, Worker=3))
    t.wait('five pods and their services', lambda: len(t.pods()) == len(t.services()) == 5)
    first = {}
    for kind, what, item in t.mirror.past(t.ns):
        if what == 'ADDED' and kind in ('pods', 'services'):
            first.setdefault((kind, item['metadata']['name']), int(item['metadata']['resourceVersion']))
    for name in t.pods():
        t.expect('service of %s is older than it' % name, first[('services', name)] < first[('pods', name)])
        service = t.client.get('services', t.ns, name)
        t.expect('resolves before it is ready', service['spec'].get('publishNotReadyAddresses'))


@case()
def type_of_ones_own_gets_pods_and_services(t):
    """trainer#1529: dispatcher and workers of tf.data's service."""
    t.create(tfjob(Worker=1, Dispatcher=1, policy={'cleanPodPolicy': 'All'}))
    t.wait_running('j-dispatcher-0', 'j-worker-0')
    t.wait_services('j-dispatcher-0', 'j-worker-0')
    t.expect('its type', t.pod('j-dispatcher-0')['metadata']['labels'][LABEL + 'replica-type'], 'dispatcher')
    t.exit('j-worker-0')
    t.wait_for('Succeeded')
    t.wait_pods()


@case()
def status_tells_which_pod_failed_and_why(t):
    """trainer#1749, trainer#2220, trainer#869."""
    t.create(tfjob(PS=1, Worker=2))
    t.wait_running('j-ps-0', 'j-worker-0', 'j-worker-1')
    t.exit('j-worker-1', 137, reason='OOMKilled', message='the last words')
    t.wait_for('Failed')
    failure = t.wait('a failure in the status', lambda: t.status().get('failures'))[0]
    t.expect('failure', [failure.get(key) for key in ('pod', 'exitCode', 'reason')], ['j-worker-1', 137, 'OOMKilled'])
    t.expect('its words are there', 'the last words' in json.dumps(failure))


@case(operator='own')
def log_has_one_format(t):
    """trainer#1703: each line has its time, its level and the job that it is about."""
    t.create(tfjob(PS=1, Worker=2))
    t.wait_running('j-ps-0', 'j-worker-0', 'j-worker-1')
    t.exit('j-worker-0')
    t.wait_for('Succeeded')
    lines = t.operator.tail(100000).splitlines()
    t.expect('lines of another form', [line for line in lines if not LINE.match(line)], [])
    t.expect('lines about the job', any('job=%s/j' % t.ns in line for line in lines))
