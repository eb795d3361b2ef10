"""Whose objects are whose, the program itself, and Kubeflow's client (K)."""
import os
import subprocess

import control_plane
from harness import LABEL, Failure, case, template, tfjob
from kubelet import NODE


def labels(job='j', kind='worker', index='0'):
    """index=None: without that label."""
    found = {LABEL + 'operator-name': 'tfjob-controller', LABEL + 'job-name': job, LABEL + 'replica-type': kind,
             LABEL + 'replica-index': index}
    return {key: value for key, value in found.items() if value is not None}


def stray_pod(t, name, owners=(), **which):
    return t.client.create('pods', t.ns, {
        'apiVersion': 'v1', 'kind': 'Pod', 'spec': dict(template()['spec'], nodeName=NODE),
        'metadata': {'name': name, 'labels': labels(**which), 'ownerReferences': list(owners)}})


def stray_service(t, name, owners=(), **which):
    return t.client.create('services', t.ns, {
        'apiVersion': 'v1', 'kind': 'Service',
        'spec': {'clusterIP': 'None', 'selector': labels(**which), 'ports': [{'name': 'tfjob-port', 'port': 2222}]},
        'metadata': {'name': name, 'labels': labels(**which), 'ownerReferences': list(owners)}})


def owners(t, kind, name):
    item = t.mirror.get(kind, t.ns, name)
    return [o['uid'] for o in (item or {'metadata': {}})['metadata'].get('ownerReferences', [])]


@case('K4')
def pod_without_owner_is_not_taken_and_does_not_loop_hot(t):
    """v1.9 repeats the create for ever."""
    t.rule('*', hold=True)
    stray_pod(t, 'j-worker-0')
    t.create(tfjob(Worker=1))
    t.wait('an event that says so', lambda: any('j-worker-0' in e['message'] for e in t.events() if e['type'] == 'Warning'))
    t.stays('the pod has no owner', lambda: not owners(t, 'pods', 'j-worker-0'), 1)
    t.expect('warnings', len([e for e in t.events() if e['type'] == 'Warning']) <= 2)
    t.client.delete('pods', t.ns, 'j-worker-0', gracePeriodSeconds=0)
    t.wait('a pod of its own', lambda: owners(t, 'pods', 'j-worker-0') == [t.job()['metadata']['uid']], 30)


@case('K4')
def service_without_owner_is_adopted(t):
    stray_service(t, 'j-worker-0')
    job = t.create(tfjob(Worker=1))
    t.wait('the service to be owned', lambda: owners(t, 'services', 'j-worker-0') == [job['metadata']['uid']])
    t.expect('services made', len(t.made('services')), 1)
    t.wait_running('j-worker-0')


@case('K4')
def children_of_another_owner_are_left_alone(t):
    made = t.client.request('POST', '/api/v1/namespaces/%s/configmaps' % t.ns, {'metadata': {'name': 'other'}})
    other = {'apiVersion': 'v1', 'kind': 'ConfigMap', 'name': 'other', 'uid': made['metadata']['uid'], 'controller': True}
    pod, service = stray_pod(t, 'j-worker-1', [other], index='1'), stray_service(t, 'j-worker-1', [other], index='1')
    t.create(tfjob(Worker=3))
    t.wait('a warning about each', lambda: {'PodNameTaken', 'ServiceNameTaken'} <= {e['reason'] for e in t.events()})
    t.stays('they stay as they are', lambda: owners(t, 'pods', 'j-worker-1') == [other['uid']] and
            owners(t, 'services', 'j-worker-1') == [other['uid']], 1)
    t.expect('the same pod', t.pod('j-worker-1')['metadata']['uid'], pod['metadata']['uid'])
    t.wait_running('j-worker-0', 'j-worker-2')
    t.wait_counts('Worker', active=2)
    t.client.delete('services', t.ns, 'j-worker-1', preconditions={'uid': service['metadata']['uid']})
    t.client.delete('pods', t.ns, 'j-worker-1', gracePeriodSeconds=0, preconditions={'uid': pod['metadata']['uid']})
    t.wait_running('j-worker-0', 'j-worker-1', 'j-worker-2', seconds=60)


@case('K4')
def job_that_is_being_deleted_claims_and_makes_nothing(t):
    t.create(tfjob(Worker=1, metadata={'finalizers': ['trainyard.test/hold']}))
    t.wait_running('j-worker-0')
    t.client.delete('tfjobs', t.ns, 'j')
    t.wait('the deletion', lambda: t.job()['metadata'].get('deletionTimestamp'))
    t.mirror.wait(t.ns, lambda: False, 0.5)  # the operator sees it too
    stray_service(t, 'j-worker-5', index='5')
    t.client.delete('pods', t.ns, 'j-worker-0', gracePeriodSeconds=0)
    t.stays('nothing is claimed or made', lambda: not owners(t, 'services', 'j-worker-5') and
            len(t.made('pods')) == 1, 1.5)
    t.client.patch('tfjobs', t.ns, 'j', {'metadata': {'finalizers': None}})
    t.wait('its end', lambda: t.job() is None)


@case('K4')
def service_that_is_being_deleted_is_not_claimed(t):
    stray_service(t, 'j-worker-0')
    t.client.patch('services', t.ns, 'j-worker-0', {'metadata': {'finalizers': ['trainyard.test/hold']}})
    t.client.delete('services', t.ns, 'j-worker-0')
    t.mirror.wait(t.ns, lambda: False, 0.5)  # the operator sees it too
    job = t.create(tfjob(Worker=1))
    t.stays('it is not claimed', lambda: not owners(t, 'services', 'j-worker-0'), 1.5)
    t.client.patch('services', t.ns, 'j-worker-0', {'metadata': {'finalizers': None}})
    t.wait('a service of its own', lambda: owners(t, 'services', 'j-worker-0') == [job['metadata']['uid']], 30)


@case('K4')
def pod_whose_labels_no_longer_match_is_not_counted(t):
    t.create(tfjob(PS=1, Worker=1))
    t.wait_counts('Worker', active=1)
    t.client.patch('pods', t.ns, 'j-worker-0', {'metadata': {'labels': {LABEL + 'operator-name': 'someone'}}})
    t.wait('it to be counted no more', lambda: t.counts('Worker')[0] == 0, 10)
    t.client.delete('pods', t.ns, 'j-worker-0', gracePeriodSeconds=0)
    t.wait_counts('Worker', active=1)


@case('K6')
def pod_with_a_senseless_index_is_ignored(t):
    job = t.create(tfjob(Worker=1))
    t.wait_for('Running')
    stray_pod(t, 'j-worker-x', [t.owner(job)], index='x')
    stray_pod(t, 'j-worker-y', [t.owner(job)], index=None)
    t.stays('the job runs with one worker', lambda: t.is_true('Running') and t.counts('Worker')[0] <= 1, 1)
    t.exit('j-worker-0')
    t.wait_for('Succeeded')


@case('K7', operator='none')
def enable_scheme_as_in_v19(t):
    def ends_with(*flags):
        done = subprocess.run([t.world.args.operator, '--kubeconfig=/nowhere', *flags], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=20, check=False)
        return done.returncode, done.stdout.decode()
    code, text = ends_with('--enable-scheme=nojob')
    t.expect('refusal of an unknown kind: ' + text, code != 0 and 'nojob' in text)
    t.start_operator('--enable-scheme=TFJOB', '--enable-scheme=pytorchjob')
    t.create(tfjob(Worker=1))
    t.wait_running('j-worker-0')


@case(operator='none')
def unknown_flag_and_missing_server_are_said_clearly(t):
    done = subprocess.run([t.world.args.operator, '--kube-api-qqs=5'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=20, check=False)
    t.expect('unknown flag', done.returncode != 0 and b'kube-api-qqs' in done.stdout)
    done = subprocess.run([t.world.args.operator, '--kubeconfig=/nowhere/at/all'], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=20, check=False)
    t.expect('missing kubeconfig', done.returncode != 0 and b'/nowhere/at/all' in done.stdout)


@case('K8', operator='own')
def kubeflows_client_works_unchanged(t):
    venv = os.path.join(control_plane.ROOT, 'build', 'venv-sdk')
    done = subprocess.run(['sh', os.path.join(control_plane.ROOT, 'cmake', 'python_deps.sh'), venv,
                           os.path.join(control_plane.ROOT, 'e2e', 'requirements-sdk.txt')],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False)
    if done.returncode != 0:
        raise Failure('the client could not be installed: %s' % done.stdout.decode()[-500:])
    t.rule('*-chief-*', exits=[0], after=4)
    flow = subprocess.run([os.path.join(venv, 'bin', 'python'), os.path.join(control_plane.ROOT, 'e2e', 'sdk_flow.py'),
                           t.world.kubeconfig, t.ns], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
                          check=False)
    t.expect('what the client says:\n' + flow.stdout.decode(), flow.returncode, 0)
    t.wait('the job to be gone', lambda: t.job('sdk') is None)


@case()
def end_is_told_once(t):
    t.create(tfjob(Chief=1, Worker=2))
    t.wait_running('j-chief-0', 'j-worker-0', 'j-worker-1')
    t.exit('j-chief-0')
    t.wait_for('Succeeded')
    t.wait('the event', lambda: t.events('TFJobSucceeded'))
    t.mirror.wait(t.ns, lambda: False, 1)
    t.expect('events of the end', [(e['type'], e.get('count', 1)) for e in t.events('TFJobSucceeded')], [('Normal', 1)])
    writes = [item['metadata']['resourceVersion'] for kind, what, item in t.mirror.past(t.ns)
              if kind == 'tfjobs' and what == 'MODIFIED']
    t.expect('status writes %d are at most 4' % len(writes), len(writes) <= 4)


@case(flags=['--leader-elect=false'])
def metrics_count_jobs_once(t):
    t.create(tfjob('good', Worker=1))
    t.create(tfjob('bad', Worker=1))
    t.wait_running('good-worker-0', 'bad-worker-0')
    t.exit('good-worker-0')
    t.exit('bad-worker-0', 1)
    t.wait_for('Succeeded', 'good')
    t.wait_for('Failed', 'bad')
    counted = {}

    def complete():
        counted.clear()
        counted.update(t.operator.metrics())
        return all(value(kind) == wanted for kind, wanted in (('created', 2), ('successful', 1), ('failed', 1)))

    def value(kind):
        return sum(v for k, v in counted.items() if k.startswith('training_operator_jobs_%s_total' % kind) and
                   'job_namespace="%s"' % t.ns in k and 'framework="tensorflow"' in k)
    for _ in range(50):
        if complete():
            return
        t.mirror.wait(t.ns, lambda: False, 0.1)
    t.expect('counters', {k: v for k, v in counted.items() if k.startswith('training_operator_jobs')}, 'created 2, …')
