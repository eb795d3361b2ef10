"""The operator and the nodes are disturbed while jobs train. Each case has the cluster to itself."""
import pytest
from kubernetes import client
from kubernetes.client.rest import ApiException

import manifests
from stage import HOME

pytestmark = pytest.mark.alone


def uids(space, name):
    return {pod.metadata.name: pod.metadata.uid for pod in space.pods(name).values()}


def test_killed_operator_is_followed_and_pods_stay(space, stage):
    name = space.apply(manifests.small('orphan', 10000, cleanPodPolicy='None'))
    space.wait_step(name + '-worker-0', 300)
    before = uids(space, name)
    leader = space.wait('an operator to lead', stage.leader)
    space.core.delete_namespaced_pod(leader, HOME, grace_period_seconds=0)
    space.wait('another operator to lead', lambda: stage.leader() not in (leader, None))
    space.wait_for(name, 'Succeeded', 240)
    assert uids(space, name) == before
    assert space.step(name + '-worker-0') == 10000
    stage.wait_for_operator()


def test_upgraded_operator_goes_on_with_running_jobs(space, stage):
    name = space.apply(manifests.small('upgraded', 10000, cleanPodPolicy='None'))
    space.wait_step(name + '-worker-0', 300)
    before = uids(space, name)
    old = {pod.metadata.uid for pod in stage.operator_pods()}
    stage.install('--set', 'log.level=debug')
    assert not old & {pod.metadata.uid for pod in stage.operator_pods() if not pod.metadata.deletion_timestamp}
    space.wait_for(name, 'Succeeded', 240)
    assert uids(space, name) == before
    stage.helm.run('rollback', 'trainyard', '--namespace', HOME)
    stage.wait_for_operator()
    later = space.apply(manifests.small('after-rollback', 200, cpu=None))
    space.wait_for(later, 'Succeeded')


def test_drained_node_loses_no_job(space):
    """As `kubectl drain` does: no new pods there, and an eviction for each that is."""
    space.need_nodes(2)
    name = space.apply(manifests.small('drained'))
    space.wait_step(name + '-worker-0', 1000)
    pods = space.pods(name)
    node = pods[name + '-worker-0'].spec.node_name
    there = {n: pod.metadata.uid for n, pod in pods.items() if pod.spec.node_name == node}
    space.core.patch_node(node, {'spec': {'unschedulable': True}})
    try:
        for pod in there:
            space.wait('the eviction of %s' % pod, lambda pod=pod: _evict(space, pod))
        space.wait('replacements elsewhere', lambda: all(
            found and found.metadata.uid != uid and found.spec.node_name and found.spec.node_name != node
            for found, uid in ((space.pod(n), uid) for n, uid in there.items())))
        space.wait_for(name, 'Succeeded', 240)
    finally:
        space.core.patch_node(node, {'spec': {'unschedulable': None}})
    assert space.step(name + '-worker-0') == 10000
    replicas = space.job(name)['status']['replicaStatuses']
    assert not any(replica.get('restarts') for replica in replicas.values()), 'an eviction is not the job\'s fault'


def _evict(space, pod):
    try:
        space.core.create_namespaced_pod_eviction(pod, space.name, client.V1Eviction(
            metadata=client.V1ObjectMeta(name=pod, namespace=space.name)))
        return True
    except ApiException as e:
        assert e.status == 429, e  # a disruption budget says: later
        return False
