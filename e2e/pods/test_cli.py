"""`trainyard` on a cluster with real nodes: logs of real containers, and the words of a real scheduler and kubelet."""
import subprocess

import manifests
from space import PATIENCE

LOADER = ['/lib64/ld-linux-x86-64.so.2']  # the one program but the trainer in its image


def ended(process, seconds=60, code=0):
    try:
        text = process.communicate(timeout=seconds * PATIENCE)[0].decode()
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError('trainyard did not end: ' + process.communicate()[0].decode()[-4000:]) from None
    assert process.returncode == code, text[-4000:]
    return text


def test_logs_follow_a_job_over_a_killed_task(space, cli):
    name = space.apply(manifests.small('followed', cleanPodPolicy='None'))
    following = cli('logs', name, '-f')
    try:
        pod = name + '-worker-1'
        space.wait_step(pod, 1000)
        before = space.uid(pod)
        space.kill(pod)
        space.wait('%s to be replaced' % pod, lambda: space.uid(pod) not in (before, None))
        ended(cli('wait', name, '--timeout=240s'), 250)
        text = ended(following)
    finally:
        following.kill()
    lines = text.splitlines()
    for task in ('ps-0', 'worker-0', 'worker-1'):
        own = [line.partition('| ')[2] for line in lines if line.startswith(task + ' ')]
        last = space.logs('%s-%s' % (name, task)).splitlines()
        assert own[-len(last):] == last, (task, own[-5:], last[-5:])
        # Of the pod that was killed, too.
        assert (len(own) > len(last)) == (task == 'worker-1'), (task, len(own), len(last))
    assert lines[-1].startswith('trainyard | TFJob %s: Succeeded' % name), lines[-1]


def faulty(name, pod=None, container=None, flags=(), restart=None, alone=True, steps=300):
    """A job whose one worker has this fault; alone: without a parameter server."""
    made = manifests.with_flags(manifests.small(name, steps, workers=1, cpu=None), *flags, kinds=('Worker',))
    types = made['spec']['tfReplicaSpecs']
    types['Worker']['template']['spec'].update(pod or {})
    for item in manifests.containers(made, 'Worker'):
        item.update(container or {})
    if restart:
        types['Worker']['restartPolicy'] = restart
    if alone:
        del types['PS']
    return made


def wait_told(space, cli, name, cause, *words, seconds=90):
    seen = []

    def told():
        seen[:] = [ended(cli('describe', name))]
        return all(word in seen[0] for word in (cause + ': ', name + '-worker-0', *words))
    try:
        space.wait('%s in what is said of %s' % (cause, name), told, seconds, every=1)
    except AssertionError as e:
        raise AssertionError('%s\n%s' % (e, seen[0])) from None


def mounts(claim):
    return {'volumes': [{'name': 'checkpoints', 'persistentVolumeClaim': {'claimName': claim}}]}


def test_describe_names_the_cause(space, cli):
    """Faults side by side, each in a job of its own."""
    space.core.create_namespaced_persistent_volume_claim(space.name, {'metadata': {'name': 'unbound'}, 'spec': {
        'storageClassName': '', 'accessModes': ['ReadWriteMany'], 'resources': {'requests': {'storage': '1Gi'}}}})
    faults = [
        (faulty('flags', flags=('--no_such_flag=1',)), 'BadArguments', '--no_such_flag', 'correct args'),
        (faulty('image', container={'image': 'docker.io/no/such:1'}), 'ImageMissing', 'no/such:1'),
        (faulty('claim', pod=mounts('missing')), 'VolumeClaim', 'missing', 'create the claim'),
        (faulty('unbound', pod=mounts('unbound')), 'VolumeClaim', 'claim unbound is not bound', 'no storage class is set'),
        (faulty('selector', pod={'nodeSelector': {'no-such-label': 'x'}}), 'NodeSelector', 'label a node'),
        (faulty('gpus', container={'resources': {'limits': {'nvidia.com/gpu': 99}}}), 'GpuShortage', 'nvidia.com/gpu'),
        (faulty('account', pod={'serviceAccountName': 'robot'}), 'ServiceAccountMissing', 'robot',
         'create that service account'),
        (faulty('settings', container={'envFrom': [{'configMapRef': {'name': 'no-such-map'}}]}), 'ConfigMissing',
         'no-such-map'),
        (faulty('command', container={'command': ['/no-such-program']}), 'CannotStart', 'no-such-program'),
        (faulty('crash', container={'command': LOADER, 'args': ['--verify', '/etc/passwd']}, restart='OnFailure'),
         'CrashLoop', 'exit code 1', 'was started again'),
        (faulty('evicted', container={'resources': {'limits': {'ephemeral-storage': '1Ki'}}}, restart='Never',
                flags=('--steps_to_validate=10',), alone=False, steps=10000000), 'Evicted', 'ephemeral'),
        (faulty('names', pod={'dnsPolicy': 'None', 'dnsConfig': {'nameservers': ['127.0.0.1']}}, restart='ExitCode',
                flags=('--wait_timeout=5',), alone=False), 'Dns', 'names-ps-0'),
    ]
    for job, *_ in faults:
        space.apply(job)
    for job, cause, *words in faults:
        wait_told(space, cli, job['metadata']['name'], cause, *words)


def test_describe_names_a_taint(space, cli):
    """Of the one node that the pod may go to, for as long as it takes to be told."""
    chosen = max(space.core.list_node().items, key=lambda item: item.metadata.name)
    node, before = chosen.metadata.name, [taint.to_dict() for taint in chosen.spec.taints or []]
    taint = {'key': 'trainyard.dev/e2e', 'value': 'infra', 'effect': 'NoSchedule'}
    space.core.patch_node(node, {'spec': {'taints': before + [taint]}})
    try:
        name = space.apply(faulty('tainted', pod={'nodeSelector': {'kubernetes.io/hostname': node}}))
        wait_told(space, cli, name, 'Taint', 'trainyard.dev/e2e', 'add a toleration')
    finally:
        space.core.patch_node(node, {'spec': {'taints': before or None}})
    ended(cli('wait', name, '--timeout=120s'), 130)
