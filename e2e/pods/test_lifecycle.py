"""What users do to a job in its life: suspend, scale, let it expire; and images that are not there yet."""
import manifests


def test_suspended_job_frees_its_pods_and_resumes(space):
    name = space.apply(manifests.small('pausing'))
    space.wait_step(name + '-worker-0', 1000)
    space.patch(name, {'runPolicy': {'suspend': True}})
    space.wait_for(name, 'Suspended')
    space.wait('the pods to go', lambda: not space.pods(name))
    space.patch(name, {'runPolicy': {'suspend': False}})
    space.wait_for(name, 'Succeeded', 240)
    assert space.step(name + '-worker-0') == 10000


def test_scaled_job_gets_and_loses_workers(space):
    """Through the scale subresource, as `kubectl scale` and autoscalers do."""
    job = manifests.small('scaled', 20000, workers=1)
    job['spec']['enableDynamicWorker'] = True
    name = space.apply(job)
    space.wait_step(name + '-worker-0', 300)
    for replicas in (3, 1):
        space.custom.patch_namespaced_custom_object_scale('kubeflow.org', 'v1', space.name, 'tfjobs', name,
                                                          {'spec': {'replicas': replicas}})
        wanted = {'%s-worker-%d' % (name, i) for i in range(replicas)} | {name + '-ps-0'}
        space.wait('%d workers' % replicas, lambda wanted=wanted: {
            n for n, pod in space.pods(name).items() if not pod.metadata.deletion_timestamp} == wanted)
        if replicas == 3:
            space.wait_step(name + '-worker-2', 100)  # it joined a cluster that did not know it
    space.wait_for(name, 'Succeeded', 240)
    assert space.step(name + '-worker-0') == 20000


def test_workers_wait_for_ready_parameter_servers_and_not_for_ever_for_room(space):
    job = manifests.with_limits(manifests.small('ordered'), ('Worker',), **{'example.com/none': '1'})
    job = manifests.with_policy(job, failurePolicy={'rules': [
        {'action': 'FailJob', 'replicaTypes': ['Worker'], 'onPodPending': {'timeoutSeconds': 5}}]})
    job['spec']['startupPolicy'] = {'startupPolicyOrder': 'InOrder'}
    manifests.containers(job, 'PS')[0]['readinessProbe'] = {
        'tcpSocket': {'port': 2222}, 'initialDelaySeconds': 4, 'periodSeconds': 1}
    name = space.apply(job)
    worker = name + '-worker-0'
    space.wait('a worker', lambda: worker in space.pods(name))
    ready, = (c for c in space.pod(name + '-ps-0').status.conditions if c.type == 'Ready')
    assert ready.status == 'True'
    assert ready.last_transition_time <= space.pod(worker).metadata.creation_timestamp
    space.wait_for(name, 'Failed')
    message = space.conditions(name)['Failed']['message']
    assert 'was pending for 5 s (Unschedulable' in message and 'example.com/none' in message, message


def test_sidecar_of_kubernetes_ends_with_its_pod(space):
    """A proxy that never ends by itself, as service meshes put it beside each container: an init container that is
    restarted always. It holds no job up."""
    job = manifests.small('meshed', 200, workers=1, cpu=None)
    job['spec']['tfReplicaSpecs']['Worker']['template']['spec']['initContainers'] = [{
        'name': 'proxy', 'image': space.stage.trainer_image, 'restartPolicy': 'Always',
        'args': ['--job_name=ps', '--task_index=0', '--ps_hosts=localhost:2300', '--worker_hosts=localhost:2301']}]
    name = space.apply(job)
    space.wait_for(name, 'Succeeded')
    pod = space.pod(name + '-worker-0')
    assert pod.status.phase == 'Succeeded'
    proxy, = pod.status.init_container_statuses
    assert proxy.state.terminated, proxy.state


def test_sidecar_that_never_ends_holds_no_job_up(space):
    """The same as an ordinary container, as Istio puts it into pods where sidecars of Kubernetes' own kind are off."""
    job = manifests.small('proxied', 200, workers=1, cpu=None, cleanPodPolicy='Running')
    job['spec']['tfReplicaSpecs']['Worker']['template']['spec']['containers'].append({
        'name': 'istio-proxy', 'image': space.stage.trainer_image,
        'args': ['--job_name=ps', '--task_index=0', '--ps_hosts=localhost:2300', '--worker_hosts=localhost:2301']})
    name = space.apply(job)
    space.wait_for(name, 'Succeeded')
    space.wait('the pods to be gone: one of a proxy that runs, too', lambda: not space.pods(name))


def test_finished_job_expires(space):
    name = space.apply(manifests.small('brief', 200, cpu=None, ttlSecondsAfterFinished=3))
    space.wait('the job to run', lambda: 'Running' in space.conditions(name) or not space.job(name))
    space.wait('the job to be gone with its pods', lambda: not space.job(name) and not space.pods(name))


def test_missing_image_is_told_and_the_job_starts_when_it_appears(space):
    job = manifests.small('pulling', 300, cpu=None)
    missing = 'docker.io/trainyard/%s:1' % space.name
    for container in manifests.containers(job, 'Worker'):
        container['image'] = missing
    name = space.apply(job)
    worker = name + '-worker-0'

    def waits():
        states = [s.state.waiting for s in space.pod(worker).status.container_statuses or []] if space.pod(worker) else []
        return any(state and state.reason in ('ErrImagePull', 'ImagePullBackOff') for state in states)
    space.wait('kubelet to say that the image is missing', waits)
    assert any(missing in message for message in space.events(worker, 'Failed')), space.events(worker)
    assert not {'Succeeded', 'Failed'} & set(space.conditions(name))
    space.stage.provider.name_image('docker.io/' + space.stage.trainer_image, missing)
    space.wait_for(name, 'Succeeded', 240)
    assert space.step(worker) == 300
