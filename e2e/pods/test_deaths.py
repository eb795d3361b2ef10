"""Tasks die in mid-job, in every way that pods die; the job ends at its last step all the same."""
import pytest

import manifests
from space import STEP

STEPS = 10000
AT = 1000  # when the task dies: there are checkpoints, and much is left to do


def reach(space, name, task):
    """Waits until there is something to lose, in this task too; the task's pod."""
    pod = '%s-%s' % (name, task)
    space.wait_step(name + '-worker-0', AT)
    if not task.startswith('ps'):
        space.wait_step(pod, AT)
    return pod


def finish(space, name):
    space.wait_for(name, 'Succeeded', 240)
    assert space.step(name + '-worker-0') == STEPS


def replaced(space, pod, end):
    """Ends the pod by `end` and waits for the one that takes its place."""
    before = space.uid(pod)
    end(pod)
    space.wait('%s to be replaced' % pod, lambda: space.uid(pod) not in (before, None))


@pytest.mark.parametrize('task', ['worker-1', 'worker-0', 'ps-0'])
def test_deleted_pod_is_replaced(space, task):
    name = space.apply(manifests.small('deleted', STEPS))
    replaced(space, reach(space, name, task), space.delete_pod)
    finish(space, name)


@pytest.mark.parametrize('task', ['worker-1', 'worker-0', 'ps-0'])
def test_killed_process_is_started_again(space, task):
    """137 is worth a restart under ExitCode: a new pod, and one more in `restarts`."""
    name = space.apply(manifests.small('killed', STEPS))
    replaced(space, reach(space, name, task), space.kill)
    finish(space, name)
    kind = 'PS' if task == 'ps-0' else 'Worker'
    assert space.job(name)['status']['replicaStatuses'][kind]['restarts'] == 1


def test_chief_that_dies_goes_on_from_its_checkpoint(space):
    """A job with a chief of its own (lenet5.yaml)."""
    job = manifests.with_flags(manifests.example('lenet5'), '--preset=linear-regression', '--train_steps=%d' % STEPS,
                               '--save_checkpoint_steps=200', '--steps_to_validate=100', '--learning_rate=0.001')
    name = space.apply(manifests.with_limits(job, ('Chief', 'Worker'), cpu='100m'))
    chief = name + '-chief-0'
    space.wait_step(chief, AT)
    replaced(space, chief, lambda pod: space.delete_pod(pod, grace=0))
    space.wait_for(name, 'Succeeded', 240)
    assert space.step(chief) == STEPS


def test_job_that_is_made_again_resumes(space):
    name = space.apply(manifests.small('again', STEPS))
    space.wait_step(name + '-worker-0', AT)
    space.delete(name)
    assert space.apply(manifests.small('again', STEPS)) == name
    finish(space, name)
    log = space.logs(name + '-worker-0')
    assert 'restored a shard from a checkpoint' in log
    assert int(STEP.search(log).group(2)) > AT, 'it began before its checkpoint: ' + log[:2000]


def test_out_of_memory_is_told_and_charged(space, cli):
    """A worker that may have less memory than its data takes is killed (137) each time, until backoffLimit."""
    space.need_digits()
    job = manifests.with_limits(manifests.example('mnist-async'), ('Worker',), memory='40Mi')
    name = space.apply(manifests.with_policy(job, backoffLimit=1, cleanPodPolicy='None'))
    failed = space.wait_for(name, 'Failed')
    ends = [s.state.terminated for pod in space.pods(name).values() for s in pod.status.container_statuses or []
            if s.state.terminated]
    assert ('OOMKilled', 137) in [(end.reason, end.exit_code) for end in ends], space.summary()
    assert 'backoff' in failed['message'].lower(), failed
    assert space.job(name)['status']['replicaStatuses']['Worker']['restarts'] >= 1
    said = cli('describe', name).communicate(timeout=60)[0].decode()
    assert 'OutOfMemory: pod %s-worker-' % name in said and 'raise resources.limits.memory' in said, said
