"""Jobs of examples/ as users start them, to their accuracy, with checkpoints on a shared volume."""
import datetime
import re

import pytest

import manifests


def stamps(log, text):
    """The times at which lines with this text were printed."""
    return [datetime.datetime.fromisoformat(line.partition(' ')[0][:26] + '+00:00')
            for line in log.splitlines() if text in line]


def now():
    return datetime.datetime.now(datetime.timezone.utc)


@pytest.mark.alone
def test_async_example_trains_to_its_accuracy_and_cleans_up(space, record_property):
    space.need_digits()
    job = manifests.with_flags(manifests.example('mnist-async'), '--log_every=1', kinds=('Worker',))
    applied = now()
    name = space.apply(job)
    space.wait_for(name, 'Succeeded', 300)
    succeeded = now()
    space.wait('no pod to run any more', lambda: set(space.phases(name).values()) <= {'Succeeded'}, 60)
    cleaned = now()
    log = space.logs(name + '-worker-0', timestamps=True)
    steps = stamps(log, 'After 1 training steps')
    assert steps, 'no first step in the log:\n' + log[:2000]
    last = stamps(log, ' training steps (')[-1]
    step, accuracy = space.evaluate(name)
    assert step == 3000
    assert accuracy > 0.95
    record_property('apply to first training step, s', '%.1f' % (steps[0] - applied).total_seconds())
    record_property('last step to Succeeded, s', '%.1f' % (succeeded - last).total_seconds())
    record_property('last step to all pods ended, s', '%.1f' % (cleaned - last).total_seconds())


def test_sync_example_averages_and_drops_stale_gradients(space):
    space.need_digits()
    job = manifests.with_flags(manifests.example('mnist-sync-backup'), '--train_steps=600', kinds=('Worker',))
    name = space.apply(manifests.with_policy(job, cleanPodPolicy='None'))
    space.wait_for(name, 'Succeeded', 300)
    step, accuracy = space.evaluate(name)
    assert step == 600
    assert accuracy > 0.9
    space.wait('the ps to end', lambda: space.phases(name)[name + '-ps-0'] == 'Succeeded', 60)
    dropped = re.search(r'stale_dropped=(\d+)', space.logs(name + '-ps-0'))
    assert dropped and int(dropped.group(1)) > 0, 'three workers, two gradients a step: some must have been dropped'


def test_parameter_servers_end_by_themselves(space):
    """Nobody deletes them (cleanPodPolicy None): both exit 0 once training is over."""
    job = manifests.small('ends', steps=1000, cpu=None, cleanPodPolicy='None')
    job['spec']['tfReplicaSpecs']['PS']['replicas'] = 2
    name = space.apply(job)
    space.wait_for(name, 'Succeeded')
    servers = [name + '-ps-0', name + '-ps-1']
    space.wait('both ps to end', lambda: all(space.phases(name)[s] == 'Succeeded' for s in servers), 60)
    for server in servers:
        assert space.pod(server).status.container_statuses[0].state.terminated.exit_code == 0
        assert 'training is over' in space.logs(server)


def test_progress_is_told_while_it_trains(space):
    """As `kubectl get tfjobs -w` shows it; what was last read stays."""
    name = space.apply(manifests.small('tells', steps=40000))

    def told():
        return space.job(name).get('status', {}).get('progress', {})
    first = space.wait('its progress', told)
    assert first['lastStep'] == 40000
    assert re.fullmatch(r'\d+/40000 \d+%', first['summary']), first
    later = space.wait('further progress', lambda: told() if told()['globalStep'] > first['globalStep'] else None)
    assert later['lastUpdateTime'] > first['lastUpdateTime']
    space.wait_for(name, 'Succeeded')
    assert later['globalStep'] <= told()['globalStep'] <= 40000


def test_two_jobs_side_by_side_do_not_meet(space):
    names = [space.apply(manifests.small(name, steps=steps, cpu=None, cleanPodPolicy='None'))
             for name, steps in (('left', 1500), ('right', 2500))]
    for name, steps in zip(names, (1500, 2500)):
        space.wait_for(name, 'Succeeded')
        assert space.step(name + '-worker-0') == steps
        assert set(space.pods(name)) == {name + '-ps-0', name + '-worker-0', name + '-worker-1'}


@pytest.mark.alone
def test_twenty_jobs_at_once(space, record_property):
    applied = now()
    names = [space.apply(manifests.small('many-%d' % i, steps=300, cpu=None)) for i in range(20)]
    for name in names:
        space.wait_for(name, 'Succeeded', 420)
    record_property('20 jobs of 1 ps and 2 workers, apply to Succeeded, s', '%.1f' % (now() - applied).total_seconds())
    for name in names:
        assert space.step(name + '-worker-0') == 300
