"""`trainyard` on a cluster: what it says of jobs is what the API server has, and what it changes the operator follows."""
import json
import os
import re
import subprocess

from control_plane import PATIENCE, free_port
from harness import Failure, case, template, tfjob


def start_cli(t, *words, kubeconfig=None, namespace=True):
    program = os.path.join(os.path.dirname(t.world.args.operator), 'trainyard')
    if not os.access(program, os.X_OK):
        raise Failure('%s is no program; it must lie beside the operator: make build' % program)
    more = ('-n', t.ns) if namespace else ()
    return subprocess.Popen(
        [program, *words, '--kubeconfig', kubeconfig or t.world.kubeconfig, *more], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def ended(t, process, code=0, seconds=30):
    """What the command has printed; fails unless it ends so in time."""
    try:
        text = process.communicate(timeout=seconds * PATIENCE)[0].decode()
    except subprocess.TimeoutExpired:
        process.kill()
        raise Failure('trainyard did not end: %s' % process.communicate()[0].decode()) from None
    t.expect('the exit code of %s, which said: %s' % (process.args[1:3], text), process.returncode, code)
    return text


def cli(t, *words, code=0, seconds=30, **how):
    return ended(t, start_cli(t, *words, **how), code, seconds)


def says(t, text, *parts):
    for part in parts:
        t.expect('%r in: %s' % (part, text), part in text)


@case()
def cli_lists_jobs(t):
    says(t, cli(t, 'list'), 'no TFJobs in namespace ' + t.ns)
    t.rule('j-worker-1', hold=True)
    t.create(tfjob(PS=1, Worker=2))
    t.wait_running('j-ps-0', 'j-worker-0')
    t.wait_for('Running')
    t.wait_counts('PS', active=1)
    t.wait_counts('Worker', active=1)
    table = cli(t, 'list')
    t.expect('a row as it stands in: ' + table, bool(re.search(
        r'^j +Running +- +ps 1/1 worker 1/2 +0 +\d+s$', table, re.M)))
    says(t, cli(t, 'list', '-o', 'wide'), 'REASON', 'is running.')
    listed = json.loads(cli(t, 'list', '-o', 'json'))['items']
    t.expect('the listed jobs', [job['metadata']['name'] for job in listed], ['j'])
    says(t, cli(t, 'list', '-A', namespace=False), 'NAMESPACE', t.ns)
    says(t, cli(t, 'describe', 'j'), 'worker: 2 wanted, 1 running', 'j-worker-1')
    says(t, cli(t, 'describe', 'i', code=1), 'there is no TFJob i')


@case()
def cli_describes_refusals(t):
    """What stands in the way before there are pods, as the real API server words it."""
    policy = 'cli-' + t.ns[-20:].strip('-')
    t.client.request('POST', '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies', {
        'metadata': {'name': policy}, 'spec': {
            'failurePolicy': 'Fail', 'matchConstraints': {
                'namespaceSelector': {'matchLabels': {'kubernetes.io/metadata.name': t.ns}},
                'resourceRules': [{'apiGroups': [''], 'apiVersions': ['v1'], 'operations': ['CREATE'],
                                   'resources': ['pods']}]},
            'validations': [{'expression': "!object.metadata.name.startsWith('denied')",
                             'message': 'no such pods here'}]}})
    t.client.request('POST', '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings', {
        'metadata': {'name': policy}, 'spec': {'policyName': policy, 'validationActions': ['Deny']}})
    t.client.create('pods', t.ns, {'metadata': {'name': 'foreign-worker-0'}, 'spec': template()['spec']})
    t.create(tfjob('priority', Worker=1, pod=template(priorityClassName='no-such-class')))
    t.create(tfjob('foreign', Worker=1))
    t.create(tfjob('asleep', Worker=1, policy={'suspend': True}))
    for name, cause, *parts in (
            ('priority', 'PriorityClassMissing', 'no-such-class', 'create that PriorityClass'),
            ('foreign', 'NameTaken', 'foreign-worker-0 belongs to another owner', 'delete or rename'),
            ('asleep', 'Suspended', 'trainyard resume asleep')):
        t.wait('the condition of ' + name, lambda n=name: t.is_true('Suspended' if n == 'asleep' else 'Blocked', n))
        says(t, cli(t, 'describe', name), cause + ': ', *parts)

    def denied():  # a policy is in force some time after it was made
        name = 'denied-%d' % len(t.mirror.all('tfjobs', t.ns))
        t.create(tfjob(name, Worker=1))
        t.mirror.wait(t.ns, lambda: t.is_true('Blocked', name) or t.is_true('Running', name), 15 * PATIENCE)
        return name if t.is_true('Blocked', name) else None
    name = next(filter(None, (denied() for _ in range(20))), None)
    t.expect('a job that the policy denies', bool(name))
    says(t, cli(t, 'describe', name), 'WebhookDenied: ', 'no such pods here', 'whoever keeps that policy')
    for kind in ('validatingadmissionpolicybindings', 'validatingadmissionpolicies'):
        t.client.request('DELETE', '/apis/admissionregistration.k8s.io/v1/%s/%s' % (kind, policy))
    t.quota(pods='0')
    t.create(tfjob('poor', Worker=1))
    t.wait_for('Blocked', 'poor')
    says(t, cli(t, 'describe', 'poor'), 'Quota: ', 'exceeded quota', 'raise the quota')


@case()
def cli_describes_pods_that_fail(t):
    t.rule('image-*', waiting='ImagePullBackOff')
    t.rule('wrong-*', exits=[2])
    t.rule('again-*', lives=[[1], [1], [1]])
    t.create(tfjob('image', Worker=1))
    t.create(tfjob('wrong', Worker=(1, 'ExitCode')))
    t.create(tfjob('again', Worker=(1, 'OnFailure'), policy={'backoffLimit': 1}))
    t.create(tfjob('late', Worker=1, policy={'activeDeadlineSeconds': 1}))
    t.create(tfjob('memory', Worker=(1, 'ExitCode'), policy={'backoffLimit': 0}))
    t.create(tfjob('evicted', Worker=(1, 'Never')))
    t.wait_running('memory-worker-0', 'evicted-worker-0')
    t.exit('memory-worker-0', 137, reason='OOMKilled')
    t.world.kubelet.evict(t.ns, 'evicted-worker-0')
    t.wait('the image that cannot be pulled', lambda: 'waiting' in str((t.pod('image-worker-0') or {}).get('status')))
    for name in ('wrong', 'again', 'late', 'memory', 'evicted'):
        t.wait_for('Failed', name, seconds=30)
    for name, *parts in (('image', 'ImageMissing: pod image-worker-0', 'load it onto the nodes'),
                         ('wrong', 'BadArguments: pod wrong-worker-0', 'exit code 2', 'correct args'),
                         ('again', 'BackoffLimit: TFJob again', 'raise runPolicy.backoffLimit'),
                         ('late', 'Deadline: TFJob late', 'activeDeadlineSeconds'),
                         ('memory', 'OutOfMemory: pod memory-worker-0', 'limits.memory'),
                         ('evicted', 'Evicted: pod evicted-worker-0', 'low on resource: memory')):
        says(t, cli(t, 'describe', name), *parts)


@case()
def cli_waits_suspends_scales_and_deletes(t):
    t.create(tfjob(PS=1, Worker=1))
    says(t, cli(t, 'wait', 'j', '--for=Running', '--timeout=60s', seconds=60), 'j: Running')
    says(t, cli(t, 'wait', 'j', '--timeout=2s', code=124), 'was not Succeeded within 2s', 'Running')
    says(t, cli(t, 'scale', 'j', '--type', 'worker', '3'), 'Worker 1 -> 3')
    t.wait_running('j-ps-0', 'j-worker-0', 'j-worker-1', 'j-worker-2')
    says(t, cli(t, 'scale', 'j', '--type', 'Chief', '1', code=2), 'it has PS, Worker')
    says(t, cli(t, 'scale', 'j', '--type', 'Worker', '200000', code=2), 'not between 0 and')
    cli(t, 'suspend', 'j')
    t.wait_for('Suspended')
    t.wait_pods()
    says(t, cli(t, 'suspend', 'j'), 'is suspended already')
    cli(t, 'resume', 'j')
    t.wait_running('j-ps-0', 'j-worker-0', 'j-worker-1', 'j-worker-2')
    waiting = start_cli(t, 'wait', 'j', '--for=finished', '--timeout=60s')
    t.exit('j-worker-0', 0)
    says(t, ended(t, waiting, seconds=60), 'j: Succeeded')
    says(t, cli(t, 'suspend', 'j', code=1), 'has succeeded')
    says(t, cli(t, 'wait', 'j', '--for=Failed', code=1), 'j: Succeeded')
    says(t, cli(t, 'delete', 'j', '--wait', '--timeout=60s', seconds=70), 'is gone, and its pods are')
    t.expect('what is left', (t.job(), t.pods()), (None, []))
    says(t, cli(t, 'delete', 'j', code=1), 'there is no TFJob j')


@case()
def cli_shows_logs(t):
    if not t.world.cluster:
        print('cli_shows_logs: SKIPPED: the nodes of this cluster give no logs')
        return
    t.create(tfjob(PS=1, Worker=2, policy={'cleanPodPolicy': 'None'}))
    t.wait_running('j-ps-0', 'j-worker-0', 'j-worker-1')
    t.expect('all logs', cli(t, 'logs', 'j'), 'ps-0      | j-ps-0 says hello\nworker-0  | j-worker-0 says hello\n'
                                              'worker-1  | j-worker-1 says hello\n')
    t.expect('one log', cli(t, 'logs', 'j', '--type=Worker', '--index=1'), 'worker-1  | j-worker-1 says hello\n')
    following = start_cli(t, 'logs', 'j', '-f', 'worker-0')
    t.exit('j-worker-0', 0)
    t.wait_for('Succeeded')
    says(t, ended(t, following), 'worker-0  | j-worker-0 says hello', 'trainyard | TFJob j: Succeeded')
    says(t, cli(t, 'logs', 'j', 'worker-9', code=1), 'there are j-ps-0, j-worker-0, j-worker-1')


@case()
def cli_tells_of_a_cluster_that_does_not_answer(t):
    with open(t.world.kubeconfig) as f:
        text = f.read()
    dead = os.path.join(t.world.logs, 'dead-kubeconfig')
    port = free_port()
    with open(dead, 'w') as f:
        f.write(re.sub(r'(server"?: *"?https://[^:"]*:)\d+', r'\g<1>%d' % port, text))
    said = cli(t, 'list', kubeconfig=dead, code=138, seconds=20)
    says(t, said, ':%d' % port, 'does not answer', dead, 'to do: ')
    says(t, cli(t, 'list', '--context', 'no-such', code=2), 'no-such')
    says(t, cli(t, 'list', '-o', 'xml', code=2), 'xml')
