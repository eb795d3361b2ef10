"""Who may write: leader election by a Lease, and the rights that the operator needs."""
import os
import time

from control_plane import PATIENCE
from harness import case, tfjob
from test_faults import through_proxy

LEASE = ['--leader-election-lease-duration=3s', '--leader-election-renew-deadline=2s', '--leader-election-retry-period=500ms']
# As docs/operator.md states them.
RULES = [
    {'apiGroups': ['kubeflow.org'], 'resources': ['tfjobs'], 'verbs': ['list', 'watch', 'delete']},
    {'apiGroups': ['kubeflow.org'], 'resources': ['tfjobs/status'], 'verbs': ['update']},
    {'apiGroups': [''], 'resources': ['pods'], 'verbs': ['get', 'list', 'watch', 'create', 'delete']},
    {'apiGroups': [''], 'resources': ['services'], 'verbs': ['get', 'list', 'watch', 'create', 'delete', 'patch']},
    {'apiGroups': [''], 'resources': ['events'], 'verbs': ['get', 'create', 'patch']},
    {'apiGroups': ['coordination.k8s.io'], 'resources': ['leases'], 'verbs': ['get', 'create', 'update']}]


def candidate(t, *flags, **how):
    return t.start_operator('--leader-election-namespace=' + t.ns, *LEASE, *flags, leader_elect=True,
                            wait=False, **how)


def holder(t):
    leases = t.client.list('leases', t.ns)['items']
    return leases[0]['spec'].get('holderIdentity') if leases else None


def wait_holder(t, other_than=None, seconds=10):
    deadline = time.monotonic() + seconds * PATIENCE
    while holder(t) in (None, '', other_than):
        t.expect('a new holder within %d s' % seconds, time.monotonic() < deadline)
        t.mirror.wait(t.ns, lambda: False, 0.05)
    return holder(t)


def two_with_a_job(t):
    first = candidate(t)
    identity = wait_holder(t)
    second = candidate(t)
    t.create(tfjob(PS=1, Worker=(2, 'ExitCode')))
    t.wait_running('j-ps-0', 'j-worker-0', 'j-worker-1')
    t.wait_for('Running')
    return first, second, identity


def ends_well(t):
    t.exit('j-worker-1', 137)
    t.wait('the replacement', lambda: len(t.made('pods')) == 4 and
           t.pods('Running') == ['j-ps-0', 'j-worker-0', 'j-worker-1'], 30)
    t.exit('j-worker-0')
    t.wait_for('Succeeded')
    t.expect('pods made', len(t.made('pods')), 4)
    t.expect('restarts', t.status()['replicaStatuses']['Worker'].get('restarts'), 1)


@case(operator='none')
def killed_leader_is_followed_within_the_lease_and_two_seconds(t):
    first, _, identity = two_with_a_job(t)
    first.kill()
    began = time.monotonic()
    wait_holder(t, identity)
    took = time.monotonic() - began
    t.expect('%.1f s are at most %g' % (took, 5 * PATIENCE), took <= 5 * PATIENCE)
    ends_well(t)


@case(operator='none')
def leader_that_is_asked_to_end_hands_over_at_once(t):
    first, _, identity = two_with_a_job(t)
    began = time.monotonic()
    t.expect('exit status', first.stop(), 0)
    wait_holder(t, identity)
    took = time.monotonic() - began
    t.expect('%.1f s are at most %g' % (took, 2.5 * PATIENCE), took <= 2.5 * PATIENCE)
    ends_well(t)


@case(operator='none')
def leader_that_lost_its_lease_writes_no_more(t):
    proxy = through_proxy(t, start=False)
    first = candidate(t, kubeconfig=proxy.config)
    identity = wait_holder(t)
    t.create(tfjob(PS=1, Worker=(2, 'ExitCode')))
    t.wait_running('j-ps-0', 'j-worker-0', 'j-worker-1')
    t.wait_for('Running')
    t.mirror.wait(t.ns, lambda: False, 2.5)  # the events of the start are out
    candidate(t)
    proxy.fault(lambda call: call.kind == 'leases', cut='before')
    wait_holder(t, identity, 15)
    before = len([c for c in proxy.writes() if c.kind != 'leases'])
    ends_well(t)
    after = [c for c in proxy.writes() if c.kind != 'leases'][before:]
    t.expect('writes of the old leader', after, [])
    del first
    proxy.stop()


@case(operator='none')
def documented_rights_are_enough(t):
    if not t.world.cluster:
        print('       documented_rights_are_enough: SKIPPED, users of a given cluster are not ours to make')
        return
    certificates = t.world.cluster.certificates
    certificates.issue('limited', '/CN=limited', 'clientAuth')
    config = os.path.join(t.world.logs, 'limited.kubeconfig')
    certificates.kubeconfig('limited', t.client.server, config)
    t.client.create('clusterroles', None, {'metadata': {'name': 'limited'}, 'rules': RULES})
    t.client.create('clusterrolebindings', None, {
        'metadata': {'name': 'limited'}, 'subjects': [{'kind': 'User', 'name': 'limited', 'apiGroup': 'rbac.authorization.k8s.io'}],
        'roleRef': {'kind': 'ClusterRole', 'name': 'limited', 'apiGroup': 'rbac.authorization.k8s.io'}})
    operator = candidate(t, kubeconfig=config)
    t.create(tfjob(PS=1, Worker=(2, 'ExitCode'), policy={'cleanPodPolicy': 'All', 'ttlSecondsAfterFinished': 4}))
    t.wait_running('j-ps-0', 'j-worker-0', 'j-worker-1')
    t.wait_for('Running')
    ends_well(t)
    t.wait('the job to be deleted', lambda: t.job() is None)
    t.expect('refusals in its log', 'PERMISSION_DENIED' in operator.tail(100000), False)
    t.expect('events', len(t.events()) > 0)
