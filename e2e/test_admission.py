"""What the API server refuses by itself, by the CRD's schema and rules; with messages that say what to do."""
import copy
import os
import re
import subprocess

import control_plane
import kube
from harness import case, template, tfjob

BASE = tfjob(Worker=1)


def changed(path, value, base=None):
    """A copy with the field at 'a/b/0/c' set, or removed where value is None."""
    job = copy.deepcopy(base or BASE)
    at = job
    keys = [int(k) if k.isdigit() else k for k in path.split('/')]
    for key in keys[:-1]:
        if isinstance(at, dict) and key not in at:
            at[key] = {}
        at = at[key]
    if value is None:
        del at[keys[-1]]
    else:
        at[keys[-1]] = value
    return job


WORKER = 'spec/tfReplicaSpecs/Worker'
RULE = 'spec/runPolicy/failurePolicy/rules'
POLICY = 'spec/runPolicy'
SUCCESS = 'spec/runPolicy/successPolicy/rules'
CONTAINERS = 'spec.tfReplicaSpecs[Worker].template.spec.containers'

# (what the rule is about, a job that breaks it, what the message must contain, a near job that does not)
RULES = [
    ('name is a DNS-1035 label', changed('metadata/name', '00test'), ['metadata.name', 'DNS-1035'],
     changed('metadata/name', 'test00')),
    ('name without a dash at its end', changed('metadata/name', 'j-'), ['Invalid value'], changed('metadata/name', 'j-1')),
    ('name without dots', changed('metadata/name', 'a.b'), ['DNS-1035'], changed('metadata/name', 'a-b')),
    ('names of pods have 63 characters at most', changed('metadata/name', 'j' * 55), ['metadata.name is too long', '63'],
     changed('metadata/name', 'j' * 54)),
    ('names of the last pods, too', tfjob('j' * 54, Worker=11), ['metadata.name is too long'], tfjob('j' * 54, Worker=10)),
    ('the longest type counts', tfjob('j' * 52, Worker=1, Evaluator=1), ['metadata.name is too long'],
     tfjob('j' * 51, Worker=1, Evaluator=1)),
    ('spec must be there', changed('spec', None), ['spec: Required value'], BASE),
    ('tfReplicaSpecs must be there', changed('spec', {'tfReplicaSpec': {}}), ['spec.tfReplicaSpecs: Required value'], BASE),
    ('at least one replica type', changed('spec/tfReplicaSpecs', {}), ['must have at least one replica type'], BASE),
    ('a null replica type is none', changed('spec/tfReplicaSpecs', {'Worker': None}),
     ['must have at least one replica type'], BASE),
    ('a replica type has a template', changed(WORKER, {'replicas': 1}), [CONTAINERS, 'must be specified'], BASE),
    ('containers are there', changed(WORKER + '/template', {'spec': {}}),
     [CONTAINERS + ': Required value: must be specified',
      CONTAINERS + ': Required value: must have at least one container with name tensorflow'], BASE),
    ('a container called tensorflow', changed(WORKER + '/template', template('main')),
     [CONTAINERS + ': Required value: must have at least one container with name tensorflow'],
     changed(WORKER + '/template/spec/containers', [{'name': 'a', 'image': 'i'}, {'name': 'tensorflow', 'image': 'i'}])),
    ('images are not empty', changed(WORKER + '/template', template(image='')),
     [CONTAINERS + '[0].image: Required value: must be required'], BASE),
    ('images are there', changed(WORKER + '/template/spec/containers/0', {'name': 'tensorflow'}),
     [CONTAINERS + '[0].image: Required value'], BASE),
    ('images of other containers, too', changed(WORKER + '/template/spec/containers', [
        {'name': 'tensorflow', 'image': 'i'}, {'name': 'side'}]), [CONTAINERS + '[1].image: Required value'],
     changed(WORKER + '/template/spec/containers', [{'name': 'tensorflow', 'image': 'i'}, {'name': 'side', 'image': 'i'}])),
    ('Chief and Master exclude each other', tfjob(Chief=1, Master=1, Worker=1),
     ['spec.tfReplicaSpecs: Forbidden: must not have more than 1 Chief or Master role'], tfjob(Chief=1, Worker=1)),
    ('in any case of letters', tfjob(chief=1, MASTER=1), ['must not have more than 1 Chief or Master role'], tfjob(MASTER=1)),
    ('a type in two spellings', tfjob(Worker=1, WORKER=1), ['twice'], tfjob(WORKER=1, Ps=1)),
    ('replicas are not negative', tfjob(Worker=-1), ['spec.tfReplicaSpecs[Worker].replicas'.replace('[Worker]', '.Worker'),
                                                     'greater than or equal to 0'], tfjob(Worker=0)),
    ('replicas are not a typing error', tfjob(Worker=1000001), ['less than or equal to 100000'], tfjob(Worker=1000)),
    ('replicas are a number', changed(WORKER + '/replicas', '2'), ['must be of type integer'], BASE),
    ('restartPolicy', changed(WORKER + '/restartPolicy', 'onFailure'), ['Unsupported value: "onFailure"', '"OnFailure"'],
     changed(WORKER + '/restartPolicy', 'OnFailure')),
    ('cleanPodPolicy', changed(POLICY + '/cleanPodPolicy', 'Everything'), ['Unsupported value', '"Running"'],
     changed(POLICY + '/cleanPodPolicy', 'Running')),
    ('successPolicy', changed('spec/successPolicy', 'allWorkers'), ['Unsupported value', '"AllWorkers"'],
     changed('spec/successPolicy', '')),
    ('managedBy', changed(POLICY + '/managedBy', 'other-job-controller'),
     ['spec.runPolicy.managedBy: Unsupported value: "other-job-controller"'],
     changed(POLICY + '/managedBy', 'kueue.x-k8s.io/multikueue')),
    ('managedBy is not empty', changed(POLICY + '/managedBy', ''), ['Unsupported value'],
     changed(POLICY + '/managedBy', 'kubeflow.org/training-operator')),
    ('ttlSecondsAfterFinished', changed(POLICY + '/ttlSecondsAfterFinished', -1), ['greater than or equal to 0'],
     changed(POLICY + '/ttlSecondsAfterFinished', 0)),
    ('activeDeadlineSeconds', changed(POLICY + '/activeDeadlineSeconds', 0), ['greater than or equal to 1'],
     changed(POLICY + '/activeDeadlineSeconds', 1)),
    ('backoffLimit', changed(POLICY + '/backoffLimit', -1), ['greater than or equal to 0'],
     changed(POLICY + '/backoffLimit', 0)),
    ('minAvailable', changed(POLICY + '/schedulingPolicy', {'minAvailable': -1}), ['greater than or equal to 0'],
     changed(POLICY + '/schedulingPolicy', {'minAvailable': 3, 'minResources': {'cpu': 4, 'memory': '1.5Gi'}})),
    ('scheduleTimeoutSeconds', changed(POLICY + '/schedulingPolicy', {'scheduleTimeoutSeconds': -1}),
     ['greater than or equal to 0'], changed(POLICY + '/schedulingPolicy', {'scheduleTimeoutSeconds': 60})),
    ('minResources are quantities', changed(POLICY + '/schedulingPolicy', {'minResources': {'cpu': 'many'}}),
     ['minResources.cpu'], changed(POLICY + '/schedulingPolicy', {'minResources': {'cpu': '500m'}})),
    ('labels of pods are strings', changed(WORKER + '/template', template(metadata={'labels': {'a': 1}})),
     ['must be of type string'], changed(WORKER + '/template', template(metadata={'labels': {'a': '1'}}))),
    ('flat cleanPodPolicy of old manifests', changed('spec/cleanPodPolicy', 'Everything'), ['Unsupported value'],
     changed('spec/cleanPodPolicy', 'All')),
    ('flat backoffLimit of old manifests', changed('spec/backoffLimit', -1), ['greater than or equal to 0'],
     changed('spec/backoffLimit', 6)),
    ('backoffLimit of a type', changed(WORKER + '/backoffLimit', -1), ['greater than or equal to 0'],
     changed(WORKER + '/backoffLimit', 0)),
    ('failurePolicy does what there is', changed(RULE, [{'action': 'Restart'}]), ['Unsupported value: "Restart"', '"RestartJob"'],
     changed(RULE, [{'action': 'RestartJob', 'replicaTypes': ['Worker'], 'onPodConditions': [{'type': 'DisruptionTarget'}]}])),
    ('codes or conditions', changed(RULE, [{'action': 'FailJob', 'onExitCodes': {'operator': 'In', 'values': [1]},
                                            'onPodConditions': [{'type': 'DisruptionTarget'}]}]),
     ['must have one of onExitCodes, onPodConditions and onPodPending'],
     changed(RULE, [{'action': 'FailJob', 'onExitCodes': {'operator': 'NotIn', 'values': [0, 1]}}])),
    ('exit code 0 is no failure', changed(RULE, [{'action': 'Ignore', 'onExitCodes': {'operator': 'In', 'values': [0]}}]),
     ['0 is the exit code of success'],
     changed(RULE, [{'action': 'Ignore', 'onExitCodes': {'operator': 'In', 'values': [255]}}])),
    ('what counts', changed(RULE, [{'action': 'Ignore', 'countTowardsBackoffLimit': False}]),
     ['RestartReplica and RestartJob only'], changed(RULE, [{'action': 'RestartJob', 'countTowardsBackoffLimit': False}])),
    ('ports are ports', changed('spec/progress', {'port': 0}), ['spec.progress.port: Invalid value', 'must be from 1 to 65535'],
     changed('spec/progress', {'port': 65535})),
    ('numbers of ports are no strings', changed('spec/progress', {'port': '9100'}),
     ['spec.progress.port: Invalid value', 'must be a port number without quotes'], changed('spec/progress', {'port': 'p-9100'})),
    ('names of ports', changed('spec/progress', {'port': 'a--b'}), ['the name of a container port'],
     changed('spec/progress', {'port': 'progress'})),
    ('progress.intervalSeconds', changed('spec/progress', {'intervalSeconds': 9}), ['greater than or equal to 10'],
     changed('spec/progress', {'intervalSeconds': 10})),
    ('progress.stallSeconds', changed('spec/progress', {'stallSeconds': 59}), ['greater than or equal to 60'],
     changed('spec/progress', {'stallSeconds': 60})),
    ('subdomains are labels', changed('spec/network', {'subdomain': 'a.b'}), ['spec.network.subdomain'],
     changed('spec/network', {'subdomain': 'a-b'})),
    ('ports for all replicas', tfjob(PS=1, Worker=3, spec={'network': {'hostPorts': {'min': 20000, 'max': 20004}}}),
     ['spec.network.hostPorts: Invalid value', 'too few ports'],
     tfjob(PS=1, Worker=3, spec={'network': {'hostPorts': {'min': 20000, 'max': 20005}}})),
    ('claims have names', changed(WORKER + '/volumeClaimTemplates', [{'metadata': {}, 'spec': {}}]),
     ['metadata.name: Required value'], changed(WORKER + '/volumeClaimTemplates', [{'metadata': {'name': 'a'}, 'spec': {}}])),
    ('of their own', changed(WORKER + '/volumeClaimTemplates', [{'metadata': {'name': 'a'}, 'spec': {}}] * 2),
     ['must have different names'], changed(WORKER + '/volumeClaimTemplates', [
         {'metadata': {'name': 'a'}, 'spec': {}}, {'metadata': {'name': 'b'}, 'spec': {}}])),
    ('what becomes of claims', changed(WORKER + '/persistentVolumeClaimRetentionPolicy', {'whenScaled': 'Keep'}),
     ['Unsupported value: "Keep"'], changed(WORKER + '/persistentVolumeClaimRetentionPolicy', {'whenScaled': 'Delete'})),
    ('rules of success ask for something', changed(SUCCESS, [{'replicaTypes': ['Worker']}]),
     ['must have succeededIndexes, succeededCount or both'],
     changed(SUCCESS, [{'replicaTypes': ['Worker'], 'succeededCount': 1}])),
    ('indexes are indexes', changed(SUCCESS, [{'replicaTypes': ['Worker'], 'succeededIndexes': '1-x'}]),
     ['succeededIndexes'], changed(SUCCESS, [{'replicaTypes': ['Worker'], 'succeededIndexes': '0'}])),
    ('stalls are longer than questions are apart', changed('spec/progress', {'stallSeconds': 60, 'intervalSeconds': 31}),
     ['spec.progress.stallSeconds: Invalid value', 'at least twice intervalSeconds'],
     changed('spec/progress', {'stallSeconds': 60, 'intervalSeconds': 30})),
]


@case()
def every_rule_refuses_with_a_message_and_spares_its_neighbour(t):
    problems = []
    for rule, bad, texts, good in RULES:
        try:
            t.refused(bad, *texts)
        except Exception as e:  # pylint: disable=broad-except
            problems.append('%s: %s' % (rule, e))
        try:
            t.client.create('tfjobs', t.ns, good, dryRun='All')
        except kube.ApiError as e:
            problems.append('%s: the good job was refused: %s' % (rule, e))
    t.expect('rules that hold', problems, [])


@case('A1')
def job_of_one_worker_managed_by_us_is_admitted(t):
    t.create(tfjob(Worker=1, policy={'managedBy': 'kubeflow.org/training-operator'}))
    t.wait_pods('j-worker-0')


@case('A2')
def name_that_is_no_label_is_refused(t):
    t.refused(tfjob('00test', Worker=1), 'metadata.name', 'DNS-1035')


@case('A3')
def no_containers_are_two_errors_at_the_same_path(t):
    message = t.refused(tfjob(Worker=1, pod={'spec': {'containers': []}}), 'must be specified', 'name tensorflow')
    t.expect('errors at ' + CONTAINERS, message.count(CONTAINERS + ': Required value'), 2)


@case('A4')
def empty_image_is_refused(t):
    t.refused(tfjob(Worker=1, pod=template(image='')), CONTAINERS + '[0].image: Required value')


@case('A5')
def no_container_called_tensorflow_is_refused(t):
    t.refused(tfjob(Worker=1, pod=template('main')), CONTAINERS + ': Required value', 'tensorflow')


@case('A6')
def chief_and_master_together_are_refused(t):
    t.refused(tfjob(Chief=1, Master=1), 'spec.tfReplicaSpecs: Forbidden')


@case('A7')
def unknown_manager_is_refused(t):
    t.refused(tfjob(Worker=1, policy={'managedBy': 'other-job-controller'}), 'spec.runPolicy.managedBy',
              'Unsupported value')


@case('A8')
def job_without_replica_specs_is_refused_and_nothing_is_made(t):
    t.refused(changed('spec', {'tfReplicaSpec': BASE['spec']['tfReplicaSpecs']}), 'spec.tfReplicaSpecs: Required')
    t.stays('nothing is there', lambda: not t.pods() and not t.services() and not t.job(), 0.5)


@case('A9')
def job_without_any_replica_type_is_refused(t):
    for types in ({}, {'Worker': None}):
        t.refused(changed('spec/tfReplicaSpecs', types), 'must have at least one replica type')


@case()
def manager_and_queue_cannot_be_changed(t):
    t.create(tfjob('a', Worker=1, policy={'managedBy': 'kueue.x-k8s.io/multikueue', 'schedulingPolicy': {'queue': 'q'}}))
    t.create(tfjob('b', Worker=1, policy={'suspend': True}))
    for name, policy, text in [
            ('a', {'managedBy': 'kubeflow.org/training-operator'}, 'spec.runPolicy.managedBy: Invalid value'),
            ('a', {'managedBy': None}, 'spec.runPolicy.managedBy'),
            ('b', {'managedBy': 'kueue.x-k8s.io/multikueue'}, 'field is immutable'),
            ('a', {'schedulingPolicy': {'queue': 'r'}}, 'spec.runPolicy.schedulingPolicy.queue is immutable')]:
        try:
            t.patch(name, {'runPolicy': policy})
            t.expect('refusal of %s on %s' % (policy, name), 'changed', 'refused')
        except kube.ApiError as e:
            t.expect('%r in %s' % (text, e.message), text in e.message)
    t.patch('b', {'runPolicy': {'suspend': True, 'backoffLimit': 3}})


@case()
def scaling_up_cannot_make_names_too_long(t):
    name = 'j' * 54
    t.create(tfjob(name, Worker=10, policy={'suspend': True}))
    try:
        t.patch(name, {'tfReplicaSpecs': {'Worker': {'replicas': 11}}})
        t.expect('refusal', 'changed', 'refused')
    except kube.ApiError as e:
        t.expect('too long in ' + e.message, 'metadata.name is too long' in e.message)
    t.patch(name, {'tfReplicaSpecs': {'Worker': {'replicas': 2}}})


@case()
def flat_fields_of_old_manifests_are_kept_and_obeyed(t):
    t.create(tfjob(Worker=1, PS=1, spec={'cleanPodPolicy': 'All', 'backoffLimit': 6}))
    t.wait_running('j-worker-0', 'j-ps-0')
    t.expect('the flat field', t.job()['spec'].get('cleanPodPolicy'), 'All')
    warning = t.wait('the warning', lambda: t.events('TFJobSpecWarning'))[0]['message']
    for field in ('cleanPodPolicy', 'backoffLimit'):
        t.expect('%s in: %s' % (field, warning), 'belongs in spec.runPolicy.%s;' % field in warning)
    t.exit('j-worker-0')
    t.wait_for('Succeeded')
    t.wait_pods()


@case()
def only_suspend_gets_a_default_and_unknown_pod_fields_stay(t):
    pod = template(container={'someFieldOfTomorrow': {'x': [1]}}, metadata={'labels': {'a': 'b'}, 'creationTimestamp': None})
    made = t.client.create('tfjobs', t.ns, tfjob(Worker=1, pod=pod, policy={}), dryRun='All')
    t.expect('runPolicy', made['spec']['runPolicy'], {'suspend': False})
    worker = made['spec']['tfReplicaSpecs']['Worker']
    t.expect('container', worker['template']['spec']['containers'][0]['someFieldOfTomorrow'], {'x': [1]})
    t.expect('template metadata', worker['template']['metadata'], {'labels': {'a': 'b'}})
    bare = t.client.create('tfjobs', t.ns, {'apiVersion': 'kubeflow.org/v1', 'kind': 'TFJob', 'metadata': {'name': 'k'},
                                            'spec': {'tfReplicaSpecs': {'Worker': {'template': template()}}}}, dryRun='All')
    t.expect('spec', bare['spec'], {'tfReplicaSpecs': {'Worker': {'template': template()}}})


@case()
def every_example_is_admitted(t):
    folder = os.path.join(control_plane.ROOT, 'examples')
    for name in sorted(os.listdir(folder)):
        if not name.endswith('.yaml'):
            continue
        with open(os.path.join(folder, name)) as f:
            documents = [d for d in re.split(r'(?m)^---\s*$', f.read()) if re.search(r'(?m)^kind: TFJob', d)]
        for document in documents:
            t.client.request('POST', kube.path_of('tfjobs', t.ns), document.encode(), 'application/yaml',
                             {'dryRun': 'All', 'fieldValidation': 'Strict'})


@case()
def crd_is_small_enough_for_plain_apply(t):
    with open(control_plane.CRD) as f:
        size = len(f.read())
    t.expect('%d bytes are below 32 KiB' % size, size < 32768)


@case(operator='none')
def jobs_that_v19_let_in_stay_writable(t):
    """The same schema in a group of its own: first as lax as the old one was, then ours."""
    with open(control_plane.CRD) as f:
        strict = f.read().replace('kubeflow.org\n', 'stored.trainyard.test\n')
    lax = {'apiVersion': 'apiextensions.k8s.io/v1', 'kind': 'CustomResourceDefinition',
           'metadata': {'name': 'tfjobs.stored.trainyard.test'}, 'spec': {
               'group': 'stored.trainyard.test', 'scope': 'Namespaced',
               'names': {'kind': 'TFJob', 'listKind': 'TFJobList', 'plural': 'tfjobs', 'singular': 'tfjob'},
               'versions': [{'name': 'v1', 'served': True, 'storage': True, 'subresources': {'status': {}}, 'schema': {
                   'openAPIV3Schema': {'type': 'object', 'x-kubernetes-preserve-unknown-fields': True}}}]}}
    t.client.create('customresourcedefinitions', None, lax)
    root = '/apis/stored.trainyard.test/v1/namespaces/%s/tfjobs' % t.ns
    stored = [tfjob('j' * 60, Worker=1), changed(WORKER + '/restartPolicy', 'onfailure'), tfjob('none'),
              changed(POLICY + '/activeDeadlineSeconds', 0, tfjob('now', Worker=1)),
              changed(POLICY + '/managedBy', '', tfjob('nobody', Worker=1)), tfjob('both', Chief=1, MASTER=1)]
    for job in stored:
        job = dict(job, apiVersion='stored.trainyard.test/v1', status={'conditions': [{'type': 'Created', 'status': 'True'}]})
        retried(t, 'POST', root, job)
    t.client.apply('customresourcedefinitions', None, 'tfjobs.stored.trainyard.test', strict)
    t.expect('our schema in force', any(refused_now(t, root) for _ in range(200)))
    for job in stored:
        at = root + '/' + job['metadata']['name']
        t.client.request('PATCH', at + '/status', {'status': {'startTime': '2026-01-01T00:00:00Z', 'conditions': [
            {'type': 'Failed', 'status': 'True', 'reason': 'r'}]}}, kube.MERGE)
        t.client.request('PATCH', at, {'metadata': {'labels': {'a': 'b'}}}, kube.MERGE)
        t.client.request('DELETE', at)
    t.client.delete('customresourcedefinitions', None, 'tfjobs.stored.trainyard.test')


def retried(t, method, path, body):
    """A new resource is served a moment after its definition was taken."""
    for _ in range(100):
        try:
            return t.client.request(method, path, body)
        except kube.ApiError as e:
            if e.code != 404:
                raise
            t.mirror.wait(t.ns, lambda: False, 0.1)
    return t.client.request(method, path, body)


def refused_now(t, root):
    try:
        t.client.request('POST', root, dict(tfjob('probe', Worker=-1), apiVersion='stored.trainyard.test/v1'),
                         params={'dryRun': 'All'})
    except kube.ApiError as e:
        return e.code == 422
    return t.mirror.wait(t.ns, lambda: False, 0.05)


@case()
def what_slips_past_the_schema_is_what_the_validator_refuses_too(t):
    """`trainyard validate` and the CRD agree on every row of the table."""
    program = os.path.join(os.path.dirname(t.world.args.operator), 'trainyard')
    if not os.path.exists(program):
        return
    problems = []
    for rule, bad, _, good in RULES:
        for job, wanted in ((bad, False), (good, True)):
            path = os.path.join(t.world.logs, 'validate.yaml')
            with open(path, 'w') as f:
                f.write(kube.json.dumps(job))
            done = subprocess.run([program, 'validate', path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=20, check=False)
            if (done.returncode == 0) != wanted:
                problems.append('%s: %s: %s' % (rule, 'good job refused' if wanted else 'bad job passed',
                                                done.stdout.decode()[-200:]))
    t.expect('rules on which both agree', problems, [])
