"""Pods and services of a job: defaults (B), identity (C), TF_CONFIG (D), and creating, repairing, scaling (E)."""
import json

from harness import LABEL, case, template, tfjob

STATIC = ('{"cluster":{%s},"task":{"type":"%s","index":%d},"environment":"cloud"}')


def hosts(t, kind, count, domain='', job='j'):
    return '"%s":[%s]' % (kind, ','.join('"%s-%s-%d.%s.svc%s:2222"' % (job, kind, i, t.ns, domain)
                                         for i in range(count)))


def replica(count=None, restart=None, **pod):
    out = {'template': template(**pod)}
    if count is not None:
        out['replicas'] = count
    if restart:
        out['restartPolicy'] = restart
    return out


# B. Defaults

@case('B1')
def missing_replicas_mean_one(t):
    t.create(tfjob(Worker=replica()))
    t.wait_pods('j-worker-0')
    t.stays('one pod', lambda: t.pods() == ['j-worker-0'], 0.5)


@case('B2')
def missing_restart_policy_means_never_and_a_given_one_is_kept(t):
    t.create(tfjob(Worker=replica(), PS=replica(restart='Always')))
    t.wait_pods('j-ps-0', 'j-worker-0')
    t.expect('worker', t.pod('j-worker-0')['spec']['restartPolicy'], 'Never')
    t.expect('ps', t.pod('j-ps-0')['spec']['restartPolicy'], 'Always')


@case('B3')
def missing_ports_mean_tfjob_port(t):
    t.create(tfjob(Worker=1))
    t.wait_pods('j-worker-0')
    ports = t.pod('j-worker-0')['spec']['containers'][0]['ports']
    t.expect('ports', [(p['name'], p['containerPort']) for p in ports], [('tfjob-port', 2222)])


@case('B4')
def other_ports_stay_before_tfjob_port(t):
    t.create(tfjob(Worker=replica(container={'ports': [{'name': 'http', 'containerPort': 8080}]})))
    t.wait_pods('j-worker-0')
    ports = t.pod('j-worker-0')['spec']['containers'][0]['ports']
    t.expect('ports', [(p['name'], p['containerPort']) for p in ports], [('http', 8080), ('tfjob-port', 2222)])


@case('B5')
def clean_pod_policy_is_none_unless_given(t):
    t.create(tfjob('none', Worker=2))
    t.create(tfjob('all', PS=1, Worker=1, policy={'cleanPodPolicy': 'All'}))
    t.wait_running('none-worker-0', 'none-worker-1', 'all-ps-0', 'all-worker-0')
    t.exit('none-worker-0')
    t.exit('all-worker-0')
    t.wait_for('Succeeded', 'none')
    t.wait_for('Succeeded', 'all')
    t.wait_pods('none-worker-0', 'none-worker-1')
    t.stays('the pods of none', lambda: t.pods() == ['none-worker-0', 'none-worker-1'])


@case('B6')
def success_policy_is_worker_0_unless_given(t):
    t.create(tfjob(Worker=2))
    t.wait_running('j-worker-0', 'j-worker-1')
    t.exit('j-worker-0')
    t.wait_for('Succeeded')


@case('B7')
def replica_types_are_respelled(t):
    t.create(tfjob(WORKER=2, pS=1))
    t.wait_running('j-ps-0', 'j-worker-0', 'j-worker-1')
    t.wait_counts('Worker', active=2)
    t.wait_counts('PS', active=1)
    t.expect('types in the status', sorted(t.status()['replicaStatuses']), ['PS', 'Worker'])
    t.expect('TF_CONFIG', sorted(json.loads(t.env('j-worker-1'))['cluster']), ['ps', 'worker'])


@case('B8')
def chief_and_master_have_the_master_role_and_workers_only_without_them(t):
    t.create(tfjob('c', Chief=1, Worker=1))
    t.create(tfjob('m', Master=1, Worker=1))
    t.create(tfjob('w', Worker=2))
    t.wait_pods('c-chief-0', 'c-worker-0', 'm-master-0', 'm-worker-0', 'w-worker-0', 'w-worker-1')
    masters = [name for name in t.pods() if t.pod(name)['metadata']['labels'].get(LABEL + 'job-role') == 'master']
    t.expect('masters', masters, ['c-chief-0', 'm-master-0', 'w-worker-0'])


# C. Identity

@case('C1')
def pods_are_named_by_job_type_and_index(t):
    t.create(tfjob(Chief=1, PS=2, Worker=3, Evaluator=1))
    names = ['j-chief-0', 'j-ps-0', 'j-ps-1', 'j-worker-0', 'j-worker-1', 'j-worker-2', 'j-evaluator-0']
    t.wait_pods(*names)
    t.wait_services(*names)


@case('C2')
def labels_and_annotations_of_the_template_reach_the_pod(t):
    job = t.create(tfjob(Worker=1, metadata={'labels': {'of': 'job'}}, pod=template(metadata={
        'labels': {'team': 'a', LABEL + 'replica-index': '7'}, 'annotations': {'note': 'b'}})))
    t.wait_pods('j-worker-0')
    meta = t.pod('j-worker-0')['metadata']
    t.expect('labels', meta['labels'], {
        'team': 'a', LABEL + 'operator-name': 'tfjob-controller', LABEL + 'job-name': 'j', LABEL + 'replica-type': 'worker',
        LABEL + 'replica-index': '0', LABEL + 'job-role': 'master', LABEL + 'job-uid': job['metadata']['uid']})
    t.expect('annotation', meta['annotations'].get('note'), 'b')


@case('C3')
def every_child_is_owned_by_the_job(t):
    owner = t.owner(t.create(tfjob(PS=1, Worker=2)))
    t.wait_pods('j-ps-0', 'j-worker-0', 'j-worker-1')
    t.wait_services('j-ps-0', 'j-worker-0', 'j-worker-1')
    for kind in ('pods', 'services'):
        for item in t.mirror.all(kind, t.ns):
            t.expect('owners', item['metadata']['ownerReferences'], [owner])


@case()
def deleted_job_takes_its_children_along(t):
    t.create(tfjob(PS=1, Worker=1))
    t.wait_running('j-ps-0', 'j-worker-0')
    t.client.delete('tfjobs', t.ns, 'j')
    t.wait('no children', lambda: not t.mirror.all('pods', t.ns) and not t.services(), 30)
    t.stays('none comes back', lambda: not t.mirror.all('pods', t.ns) and not t.services(), 1)


@case('C4')
def labels_name_job_and_operator(t):
    job = t.create(tfjob('a-job', Worker=1))
    t.wait_services('a-job-worker-0')
    labels = t.mirror.all('services', t.ns)[0]['metadata']['labels']
    t.expect('labels', labels, {LABEL + 'operator-name': 'tfjob-controller', LABEL + 'job-name': 'a-job',
                                LABEL + 'replica-type': 'worker', LABEL + 'replica-index': '0',
                                LABEL + 'job-uid': job['metadata']['uid']})


@case(flags=['--legacy-labels'])
def labels_of_before_v16_by_flag(t):
    """Children are found by the labels of tf-operator and of training-operator up to v1.5; those of a template give way."""
    t.create(tfjob(Worker=2, pod=template(metadata={'labels': {'job-name': 'mine', 'team': 'a'}})))
    t.wait_running('j-worker-0', 'j-worker-1')
    t.wait_services('j-worker-0', 'j-worker-1')
    for selector, names in (('tf-job-name=j,tf-replica-type=worker', ['j-worker-0', 'j-worker-1']),
                            ('group-name=kubeflow.org,job-name=j,replica-index=1', ['j-worker-1'])):
        for kind in ('pods', 'services'):
            found = t.client.list(kind, t.ns, labelSelector=selector)['items']
            t.expect('%s of %s' % (kind, selector), sorted(i['metadata']['name'] for i in found), names)
    found = t.client.list('pods', t.ns, labelSelector='job-role=master,tf-job-role=master,team=a')['items']
    t.expect('masters', [i['metadata']['name'] for i in found], ['j-worker-0'])
    selector = t.mirror.get('services', t.ns, 'j-worker-1')['spec']['selector']
    t.expect('what the service selects by', all(key.startswith(LABEL) for key in selector))


@case('C5')
def service_is_headless_and_selects_its_pod(t):
    owner = t.owner(t.create(tfjob(Worker=1)))
    t.wait_services('j-worker-0')
    service = t.mirror.get('services', t.ns, 'j-worker-0')
    spec = service['spec']
    t.expect('clusterIP', (spec['clusterIP'], spec['type'], spec['ipFamilyPolicy']), ('None', 'ClusterIP', 'SingleStack'))
    t.expect('ports', [(p['name'], p['port'], p['protocol'], p['targetPort']) for p in spec['ports']],
             [('tfjob-port', 2222, 'TCP', 2222)])
    t.expect('selector', spec['selector'], {
        LABEL + 'operator-name': 'tfjob-controller', LABEL + 'job-name': 'j', LABEL + 'replica-type': 'worker',
        LABEL + 'replica-index': '0'})
    t.expect('owner', service['metadata']['ownerReferences'], [owner])
    t.expect('names of pods that are not ready', spec.get('publishNotReadyAddresses'), True)


@case('C6')
def service_that_is_refused_is_reported_and_made_later(t):
    t.quota(services='0')
    t.create(tfjob(Worker=1))
    event = t.wait('an event about the service', lambda: t.events('FailedCreateService'))[0]
    t.expect('the cause in: ' + event['message'], 'quota' in event['message'])
    t.expect('type', event['type'], 'Warning')
    t.client.delete('resourcequotas', t.ns, 'quota')
    t.wait_services('j-worker-0', seconds=40)
    t.wait_running('j-worker-0')


@case('C7')
def another_job_does_not_disturb(t):
    t.create(tfjob('decoy', Worker=2))
    t.create(tfjob(Worker=2))
    t.wait_running('decoy-worker-0', 'decoy-worker-1', 'j-worker-0', 'j-worker-1')
    t.exit('decoy-worker-0', 1)
    t.wait_for('Failed', 'decoy')
    t.stays('j runs', lambda: t.is_true('Running') and t.counts('Worker') == (2, 0, 0))


@case('C8')
def exit_code_policy_is_never_for_the_kubelet(t):
    t.create(tfjob(Chief=(1, 'Always'), PS=(1, 'OnFailure'), Worker=(1, 'Never'), Evaluator=(1, 'ExitCode')))
    t.wait_pods('j-chief-0', 'j-evaluator-0', 'j-ps-0', 'j-worker-0')
    t.expect('policies', [t.pod(name)['spec']['restartPolicy'] for name in t.pods()],
             ['Always', 'Never', 'OnFailure', 'Never'])


@case('C9')
def restart_policy_of_a_template_is_overridden_with_a_warning(t):
    t.create(tfjob(Worker=replica(1, 'ExitCode', restartPolicy='OnFailure')))
    t.wait_pods('j-worker-0')
    t.expect('policy', t.pod('j-worker-0')['spec']['restartPolicy'], 'Never')
    event = t.wait('the warning', lambda: t.events('SetPodTemplateRestartPolicy'))[0]
    t.expect('type', event['type'], 'Warning')


# D. TF_CONFIG

@case('D1')
def one_worker_needs_no_tf_config(t):
    t.create(tfjob(Worker=1))
    t.wait_pods('j-worker-0')
    t.expect('TF_CONFIG', t.env('j-worker-0'), None)


@case('D1', environment={'CUSTOM_CLUSTER_DOMAIN': 'tf.training.org'})
def one_worker_needs_no_tf_config_with_a_cluster_domain_either(t):
    t.create(tfjob(Worker=1))
    t.wait_pods('j-worker-0')
    t.expect('TF_CONFIG', t.env('j-worker-0'), None)


@case('D2', 'D3', environment={'CUSTOM_CLUSTER_DOMAIN': 'tf.training.org'})
def tf_config_with_a_cluster_domain(t):
    t.create(tfjob(Worker=1, PS=1))
    t.create(tfjob('k', Worker=1, PS=1, Evaluator=1))
    t.wait_pods('j-ps-0', 'j-worker-0', 'k-evaluator-0', 'k-ps-0', 'k-worker-0')
    domain = '.tf.training.org'
    t.expect('TF_CONFIG', t.env('j-worker-0'), STATIC % (
        hosts(t, 'ps', 1, domain) + ',' + hosts(t, 'worker', 1, domain), 'worker', 0))
    t.expect('TF_CONFIG', t.env('k-worker-0'), STATIC % (
        ','.join(hosts(t, kind, 1, domain, 'k') for kind in ('evaluator', 'ps', 'worker')), 'worker', 0))


@case('D3')
def evaluator_is_in_the_cluster(t):
    t.create(tfjob(Worker=1, PS=1, Evaluator=1))
    t.wait_pods('j-evaluator-0', 'j-ps-0', 'j-worker-0')
    cluster = ','.join(hosts(t, kind, 1) for kind in ('evaluator', 'ps', 'worker'))
    for kind in ('evaluator', 'ps', 'worker'):
        t.expect('TF_CONFIG of ' + kind, t.env('j-%s-0' % kind), STATIC % (cluster, kind, 0))


@case('D4')
def tf_config_is_for_jobs_of_more_than_one_task(t):
    t.create(tfjob('w', Worker=1))
    t.create(tfjob('wp', Worker=1, PS=1))
    t.create(tfjob('p', PS=1))
    t.create(tfjob('cw', Chief=1, Worker=1))
    t.wait_pods('w-worker-0', 'wp-worker-0', 'wp-ps-0', 'p-ps-0', 'cw-chief-0', 'cw-worker-0')
    t.expect('pods with TF_CONFIG', [name for name in t.pods() if t.env(name)],
             ['cw-chief-0', 'cw-worker-0', 'wp-ps-0', 'wp-worker-0'])


@case('D5')
def sparse_cluster_of_dynamic_workers(t):
    t.create(tfjob(Worker=2, PS=2, spec={'enableDynamicWorker': True}))
    t.wait_pods('j-ps-0', 'j-ps-1', 'j-worker-0', 'j-worker-1')
    t.expect('worker', t.env('j-worker-0'),
             '{"cluster":{"worker":{"0":"j-worker-0.%s.svc:2222"},%s},"task":{"type":"worker","index":0}}' % (
                 t.ns, hosts(t, 'ps', 2)))
    t.expect('ps', t.env('j-ps-0'), '{"cluster":{"worker":{},%s},"task":{"type":"ps","index":0}}' % hosts(t, 'ps', 1))


def run_config(text):
    """What TensorFlow's Estimator made of TF_CONFIG: its RunConfig."""
    config = json.loads(text)
    cluster, task = config['cluster'], config['task']
    if task['type'] == 'evaluator':
        cluster = {}
    own = config['cluster'][task['type']][task['index']]
    return {'task_type': task['type'], 'task_id': task['index'], 'is_chief': task['type'] in ('chief', 'master'),
            'num_worker_replicas': len(cluster.get('worker', [])) + len(cluster.get('chief', [])) if cluster else 0,
            'num_ps_replicas': len(cluster.get('ps', [])), 'master': 'grpc://' + own if cluster else '',
            'evaluation_master': '', 'cluster': cluster}


@case('D6')
def run_configs_of_all_tasks(t):
    t.create(tfjob(Chief=1, PS=2, Worker=3, Evaluator=1))
    names = [('chief', 0), ('ps', 0), ('ps', 1), ('worker', 0), ('worker', 1), ('worker', 2), ('evaluator', 0)]
    t.wait_pods(*['j-%s-%d' % name for name in names])
    for kind, index in names:
        config = run_config(t.env('j-%s-%d' % (kind, index)))
        t.expect('task', (config['task_type'], config['task_id']), (kind, index))
        t.expect('is_chief', config['is_chief'], kind == 'chief')
        if kind == 'evaluator':
            t.expect('cluster of the evaluator', config['cluster'], {})
            continue
        t.expect('workers', config['num_worker_replicas'], 4)
        t.expect('ps', config['num_ps_replicas'], 2)
        t.expect('master', config['master'], 'grpc://j-%s-%d.%s.svc:2222' % (kind, index, t.ns))


@case()
def flags_style_hosts_are_in_the_environment_too(t):
    t.create(tfjob(PS=1, Worker=2))
    t.wait_pods('j-ps-0', 'j-worker-0', 'j-worker-1')
    t.expect('environment', [t.env('j-worker-1', name) for name in ('PS_HOSTS', 'WORKER_HOSTS', 'JOB_NAME', 'TASK_INDEX')],
             ['j-ps-0.%s.svc:2222' % t.ns, 'j-worker-0.%s.svc:2222,j-worker-1.%s.svc:2222' % (t.ns, t.ns), 'worker', '1'])
    names = [e['name'] for e in t.pod('j-worker-1')['spec']['containers'][0]['env']]
    t.expect('the last variable', names[-1], 'TF_CONFIG')


# E. Creating, repairing, scaling

ALL6 = ['j-ps-0', 'j-ps-1', 'j-worker-0', 'j-worker-1', 'j-worker-2', 'j-worker-3']


@case('E1')
def one_worker_gets_one_pod_and_one_service(t):
    t.create(tfjob(Worker=1))
    t.wait_pods('j-worker-0')
    t.wait_services('j-worker-0')


@case('E2')
def six_replicas_get_six_pods_and_six_services(t):
    t.create(tfjob(Worker=4, PS=2))
    t.wait_pods(*ALL6)
    t.wait_services(*ALL6)
    t.expect('pods ever made', len(t.made('pods')), 6)
    first_pod = next(i for i, (kind, _, _) in enumerate(t.mirror.past(t.ns)) if kind == 'pods')
    t.expect('services seen', len(t.made('services')), 6)
    t.expect('history', first_pod >= 0)


@case('E3')
def pending_pods_are_left_alone(t):
    t.rule('*', hold=True)
    t.create(tfjob(Worker=4, PS=2))
    t.wait_pods(*ALL6)
    t.stays('nothing is made, the job does not run', lambda: len(t.made('pods')) == 6 and not t.ever('Running'))


@case('E4')
def all_running_makes_the_job_running(t):
    t.create(tfjob(Worker=4, PS=2))
    t.wait_running(*ALL6)
    t.wait_for('Running')
    t.wait_counts('Worker', active=4)
    t.wait_counts('PS', active=2)
    t.expect('startTime', 'startTime' in t.status())
    t.expect('conditions', t.conditions(), [('Created', 'True', 'TFJobCreated'), ('Running', 'True', 'TFJobRunning')])
    t.expect('message', t.condition('Running')['message'], 'TFJob %s/j is running.' % t.ns)


def repaired(t, given):
    """A job of 4 workers and 2 ps whose given pods exist when the operator starts."""
    t.rule('*', hold=True)
    job = t.create(tfjob(Worker=4, PS=2))
    for kind, index, phase, code in given:
        t.put_pod(job, kind, index, phase, code)
    uids = {name: t.client.get('pods', t.ns, name)['metadata']['uid'] for name in
            ['j-%s-%d' % (kind, index) for kind, index, _, _ in given]}
    t.start_operator()
    t.wait_pods(*ALL6)
    t.wait_services(*ALL6)
    for name, uid in uids.items():
        t.expect('the same ' + name, t.pod(name)['metadata']['uid'], uid)
    t.expect('pods made', len(t.made('pods')), 6)


@case('E5', operator='none')
def missing_pods_are_made_beside_pending_ones(t):
    repaired(t, [('worker', 0, 'Pending', None), ('worker', 1, 'Pending', None), ('ps', 0, 'Pending', None)])


@case('E6', operator='none')
def missing_pods_are_made_beside_a_running_one(t):
    repaired(t, [('worker', 0, 'Pending', None), ('worker', 1, 'Pending', None), ('worker', 2, 'Running', None),
                 ('ps', 0, 'Pending', None)])
    t.wait_for('Running')
    t.wait_counts('Worker', active=1)


@case('E7', operator='none')
def missing_pods_are_made_beside_a_succeeded_one(t):
    repaired(t, [('worker', 0, 'Pending', None), ('worker', 1, 'Pending', None), ('worker', 2, 'Succeeded', 0),
                 ('ps', 0, 'Pending', None)])
    t.wait_counts('Worker', succeeded=1)
    t.stays('not Running', lambda: not t.ever('Running'), 1)


@case('E8')
def all_succeeded_is_success(t):
    t.create(tfjob(Worker=4, PS=2))
    t.wait_running(*ALL6)
    for name in reversed(ALL6):  # worker 0 last
        if name != 'j-worker-0':
            t.exit(name)
    t.exit('j-worker-0')
    t.wait_for('Succeeded')
    t.wait_counts('Worker', succeeded=4)
    t.wait_counts('PS', succeeded=2)
    t.expect('message', t.condition('Succeeded')['message'], 'TFJob %s/j successfully completed.' % t.ns)
    t.expect('Running', t.condition('Running')['status'], 'False')
    t.expect('completionTime', 'completionTime' in t.status())


@case('E9')
def scaling_down_removes_the_last_pods_and_their_services(t):
    t.create(tfjob(Worker=3, spec={'enableDynamicWorker': True}))
    t.wait_running('j-worker-0', 'j-worker-1', 'j-worker-2')
    t.client.request('PATCH', '/apis/kubeflow.org/v1/namespaces/%s/tfjobs/j/scale' % t.ns, {'spec': {'replicas': 2}},
                     'application/merge-patch+json')
    t.wait_pods('j-worker-0', 'j-worker-1')
    t.wait_services('j-worker-0', 'j-worker-1')
    t.expect('Failed', t.is_true('Failed'), False)


@case('E10')
def scaling_up_makes_more(t):
    t.create(tfjob(Worker=1))
    t.wait_running('j-worker-0')
    t.patch('j', {'tfReplicaSpecs': {'Worker': {'replicas': 3}}})
    t.wait_running('j-worker-0', 'j-worker-1', 'j-worker-2')
    t.wait_counts('Worker', active=3)
    t.expect('pods made', len(t.made('pods')), 3)


@case('E11', operator='none')
def gaps_between_indexes_are_filled_and_what_is_beyond_goes(t):
    t.rule('*', hold=True)
    job = t.create(tfjob(Worker=3))
    for index in (0, 2, 4):
        t.put_pod(job, 'worker', index, 'Pending')
    t.start_operator()
    t.wait_pods('j-worker-0', 'j-worker-1', 'j-worker-2')


@case('E12')
def pods_are_counted_by_their_type(t):
    t.create(tfjob(Chief=1, PS=2, Worker=3, Evaluator=1))
    t.wait_counts('Chief', active=1)
    t.wait_counts('PS', active=2)
    t.wait_counts('Worker', active=3)
    t.wait_counts('Evaluator', active=1)


@case(operator='none')
def jobs_of_v19_are_taken_over_untouched(t):
    """Names, labels and owners as v1.9 left them: pods go on, nothing is made anew, and the end is ours."""
    job = t.create(tfjob(PS=1, Worker=2))
    for kind, index in (('ps', 0), ('worker', 0), ('worker', 1)):
        t.put_pod(job, kind, index, 'Running')
        name = 'j-%s-%d' % (kind, index)
        labels = t.client.get('pods', t.ns, name)['metadata']['labels']
        t.client.create('services', t.ns, {'metadata': {'name': name, 'labels': labels, 'ownerReferences': [t.owner(job)]},
                                           'spec': {'clusterIP': 'None', 'selector': labels,
                                                    'ports': [{'name': 'tfjob-port', 'port': 2222}]}})
    t.client.patch('tfjobs', t.ns, 'j', {'status': {
        'startTime': '2026-01-01T00:00:00Z', 'replicaStatuses': {'PS': {'active': 1}, 'Worker': {'active': 2}},
        'conditions': [{'type': 'Created', 'status': 'True', 'reason': 'TFJobCreated', 'message': 'TFJob j is created.'},
                       {'type': 'Running', 'status': 'True', 'reason': 'TFJobRunning', 'message': 'm'}]}}, 'status')
    t.start_operator()
    t.stays('pods and services are the same', lambda: len(t.made('pods')) == 3 and len(t.made('services')) == 3)
    t.expect('startTime', t.status()['startTime'], '2026-01-01T00:00:00Z')
    t.client.patch('pods', t.ns, 'j-worker-0', {'status': {'phase': 'Succeeded', 'containerStatuses': [{
        'name': 'tensorflow', 'image': 'train:1', 'imageID': '', 'ready': False, 'restartCount': 0,
        'state': {'terminated': {'exitCode': 0}}}]}}, 'status')
    t.wait_for('Succeeded')


@case()
def pod_that_vanishes_comes_back_and_a_succeeded_one_does_not(t):
    t.create(tfjob(PS=1, Worker=3, spec={'successPolicy': 'AllWorkers'}))
    t.wait_running('j-ps-0', 'j-worker-0', 'j-worker-1', 'j-worker-2')
    t.exit('j-worker-1')
    t.wait_counts('Worker', active=2, succeeded=1)
    first = t.pod('j-ps-0')['metadata']['uid']
    for name in ('j-worker-1', 'j-ps-0'):
        t.client.delete('pods', t.ns, name, gracePeriodSeconds=0)
    t.wait('a new ps', lambda: t.pod('j-ps-0') and t.pod('j-ps-0')['metadata']['uid'] != first)
    t.stays('worker 1 does not run again', lambda: len(t.made('pods', 'j-worker-1')) == 1)
    t.expect('counts', t.counts('Worker')[1], 1)
    t.exit('j-worker-0')
    t.exit('j-worker-2')
    t.wait_for('Succeeded')
