"""`trainyard` on a cluster with real nodes: logs of real containers, and the words of a real scheduler and kubelet."""
import subprocess

import manifests
from space import PATIENCE


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


def test_describe_names_the_cause(space, cli):
    def job(name, cause, *words, pod=None, container=None, flags=()):
        made = manifests.with_flags(manifests.small(name, 300, workers=1, cpu=None), *flags, kinds=('Worker',))
        made['spec']['tfReplicaSpecs']['Worker']['template']['spec'].update(pod or {})
        for item in manifests.containers(made, 'Worker'):
            item.update(container or {})
        space.apply(made)
        seen = []

        def told():
            seen[:] = [ended(cli('describe', name))]
            return all(word in seen[0] for word in (cause + ': ', name + '-worker-0', *words))
        try:
            space.wait('%s in what is said of %s' % (cause, name), told, 60, every=1)
        except AssertionError as e:
            raise AssertionError('%s\n%s' % (e, seen[0])) from None

    job('flags', 'BadArguments', '--no_such_flag', 'correct args', flags=('--no_such_flag=1',))
    job('image', 'ImageMissing', 'no/such:1', container={'image': 'docker.io/no/such:1'})
    job('claim', 'VolumeClaim', 'missing', 'create the claim', pod={
        'volumes': [{'name': 'checkpoints', 'persistentVolumeClaim': {'claimName': 'missing'}}]})
    job('selector', 'NodeSelector', 'label a node', pod={'nodeSelector': {'no-such-label': 'x'}})
    job('gpus', 'GpuShortage', 'nvidia.com/gpu', container={'resources': {'limits': {'nvidia.com/gpu': 99}}})
    job('account', 'ServiceAccountMissing', 'robot', 'create that service account', pod={'serviceAccountName': 'robot'})
    job('settings', 'ConfigMissing', 'no-such-map', container={
        'envFrom': [{'configMapRef': {'name': 'no-such-map'}}]})
    job('command', 'CannotStart', 'no-such-program', container={'command': ['/no-such-program']})
