"""How tasks reach each other in ways of the job's own; with TLS between them, as all jobs of the trainer have it."""
import manifests


def test_one_service_names_all_tasks(space):
    job = manifests.small('networked', 1000, cpu=None)
    job['spec']['network'] = {'subdomain': 'net'}
    name = space.apply(job)
    space.wait_step(name + '-worker-1', 100)
    assert [s.metadata.name for s in space.core.list_namespaced_service(space.name).items] == ['net']
    space.wait_for(name, 'Succeeded')
    space.wait('no service', lambda: not space.core.list_namespaced_service(space.name).items)


def test_tasks_on_the_network_of_one_node_have_ports_of_their_own(space):
    job = manifests.small('hosted', 1000, cpu=None)
    job['spec']['network'] = {'hostPorts': {'min': 21000, 'max': 21999}}
    for container in manifests.containers(job):  # its other port would be the same one for all workers
        container.pop('ports', None)
        container['args'] = [flag for flag in container['args'] if not flag.startswith('--metrics_port')]
    nodes = sorted(node.metadata.name for node in space.core.list_node().items)
    for replica in job['spec']['tfReplicaSpecs'].values():
        replica['template']['spec'].update(hostNetwork=True, dnsPolicy='ClusterFirstWithHostNet', nodeName=nodes[0])
    name = space.apply(job)
    space.wait_for(name, 'Succeeded')
    ports = {port.host_port for pod in space.pods(name).values() for port in pod.spec.containers[0].ports
             if port.name == 'tfjob-port'}
    assert len(ports) == len(space.pods(name)) and min(ports) >= 21000, ports


def test_worker_keeps_its_claim_over_a_restart(space):
    """Claims that are there already, because nothing in the clusters of all providers would make their volumes."""
    job = manifests.small('claiming', 10000)
    worker = job['spec']['tfReplicaSpecs']['Worker']
    worker['volumeClaimTemplates'] = [{'metadata': {'name': 'own'}, 'spec': {
        'accessModes': ['ReadWriteMany'], 'resources': {'requests': {'storage': '1Gi'}}}}]
    for container in worker['template']['spec']['containers']:
        container['volumeMounts'] = container.get('volumeMounts', []) + [{'name': 'own', 'mountPath': '/own'}]
    name = job['metadata']['name']
    for index in range(worker['replicas']):
        space.claim('own-%s-worker-%d' % (name, index), space.stage.provider.volume(space.name))
    space.apply(job)
    space.wait_step(name + '-worker-1', 300)
    before = space.uid(name + '-worker-1')
    space.kill(name + '-worker-1')
    space.wait('another worker 1', lambda: space.pods(name).get(name + '-worker-1') and
               space.uid(name + '-worker-1') != before)
    space.wait_step(name + '-worker-1', 300)
    assert space.events(name, 'ExistingClaim')
