"""GPUs and volumes: what a job may have is counted, and it says so when there is no more."""
import manifests


def environment(space, pod):
    """Variables and device paths of the pod's container, as the runtime was told."""
    found = space.pod(pod)
    spec = space.stage.provider.container(
        found.spec.node_name, found.status.container_statuses[0].container_id.partition('//')[2])
    return (dict(variable.split('=', 1) for variable in spec['process']['env']),
            [device['path'] for device in spec['linux'].get('devices') or []])


def test_workers_get_gpus_of_their_own_and_wait_for_free_ones(space):
    """The device plugin hands out what is no GPU: this shows placement, counting and hand-over, not computing."""
    nodes = sorted(node.metadata.name for node in space.core.list_node().items)
    place = nodes[-1]
    space.stage.provider.gpus(place, 2)
    space.wait('%s to have 2 GPUs' % place, lambda: (
        space.core.read_node(place).status.allocatable or {}).get('nvidia.com/gpu') == '2')
    job = manifests.with_limits(manifests.small('first'), ('Worker',), **{'nvidia.com/gpu': '1'})
    first = space.apply(job)
    workers = [first + '-worker-0', first + '-worker-1']
    for worker in workers:
        space.wait_step(worker, 100)
        assert space.pod(worker).spec.node_name == place
    given = [environment(space, worker) for worker in workers]
    assert {variables['CUDA_VISIBLE_DEVICES'] for variables, _ in given} == {'0', '1'}
    assert all('/dev/nvidia' + variables['CUDA_VISIBLE_DEVICES'] in devices for variables, devices in given)
    assert 'CUDA_VISIBLE_DEVICES' not in environment(space, first + '-ps-0')[0]

    second = space.apply(manifests.with_limits(
        manifests.small('second', 200, workers=1), ('Worker',), **{'nvidia.com/gpu': '2'}))
    waiting = second + '-worker-0'
    space.wait('the scheduler to say that no GPU is free', lambda: any(
        'nvidia.com/gpu' in message for message in space.events(waiting, 'FailedScheduling')))
    space.wait_for(first, 'Succeeded', 240)
    space.wait_for(second, 'Succeeded', 240)
    assert environment(space, waiting)[0]['CUDA_VISIBLE_DEVICES'] in ('0,1', '1,0')


def test_full_volume_is_told_and_the_last_checkpoint_stays(space):
    """6 MiB hold one checkpoint of 3 MiB; when the volume has grown, the same job goes on from it."""
    space.need_digits()
    node = min(node.metadata.name for node in space.core.list_node().items)
    space.claim('small', space.stage.provider.small_volume(node, 6), node)
    job = manifests.with_flags(manifests.named(manifests.example('mnist-async'), 'full'), '--save_checkpoint_steps=100')
    job = manifests.with_flags(job, '--train_steps=300', kinds=('Worker',))
    for replica in job['spec']['tfReplicaSpecs'].values():
        for volume in replica['template']['spec']['volumes']:
            if volume['name'] == 'checkpoints':
                volume['persistentVolumeClaim']['claimName'] = 'small'
    job = manifests.with_policy(job, cleanPodPolicy='None')
    name = space.apply(job)
    space.wait_for(name, 'Failed')
    told = ''.join(space.logs(pod) for pod in space.pods(name))
    assert 'No space left on device' in told and '/checkpoints/full' in told, told[-3000:]
    space.delete(name)

    space.stage.provider.small_volume(node, 64)
    space.apply(job)
    space.wait_for(name, 'Succeeded')
    log = space.logs(name + '-worker-0')
    assert 'restored a shard from a checkpoint' in log and 'done global_step=300' in log
