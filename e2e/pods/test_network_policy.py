"""NetworkPolicies in force: those that docs/security.md proposes for tasks, and the chart's own around the operator, with which
the whole suite runs."""
import itertools

import providers
from kubernetes import client

import manifests
from stage import HOME, SCRAPER
from test_security import as_worker, long_job, stranger

PROGRESS = 9100
SILENT = 'handshaker shutdown'  # what gRPC says where nobody answers at all


def policy(space, name, selector, *ingress):
    client.NetworkingV1Api(space.stage.api).create_namespaced_network_policy(space.name, {
        'metadata': {'name': name}, 'spec': {'podSelector': {'matchLabels': selector}, 'policyTypes': ['Ingress'],
                                             'ingress': list(ingress)}})


def knocks(space, name, address, labels=None):
    """What a pod of the trainer hears that takes this address for a parameter server."""
    return as_worker(space, name, address, 'check', labels=labels)[1]


def wait_until_in_force(space, denied):
    """Until denied() says so; where the provider's network enforces nothing, the case ends here."""
    if space.stage.provider.enforces_policies:
        space.wait('the policy to be in force', denied, 60)
    elif not denied():
        raise providers.Unsupported('the network of provider %s enforces no NetworkPolicy' % space.stage.provider.name)


def test_policies_keep_strangers_from_tasks_and_let_the_operator_in(space):
    name = long_job(space, 'closed', **{'trainyard.dev/task-tls': 'false'})
    assert stranger(space, 'before', name, 'check')[0] == 0, 'without a policy anybody is let in'
    own = {'training.kubeflow.org/job-name': name}
    policy(space, 'tasks', own, {'from': [{'podSelector': {'matchLabels': own}}]})
    policy(space, 'progress', own, {
        'from': [{'namespaceSelector': {'matchLabels': {'kubernetes.io/metadata.name': HOME}}}],
        'ports': [{'port': PROGRESS}]})
    tries = itertools.count()
    wait_until_in_force(space, lambda: stranger(space, 'try-%d' % next(tries), name, 'check')[0] != 0)
    first = space.uid(name + '-worker-1')
    space.delete_pod(name + '-worker-1', grace=0)
    space.wait('another worker 1', lambda: space.uid(name + '-worker-1') not in (None, first))
    space.wait_step(name + '-worker-1', 100)
    def step():
        return space.job(name)['status'].get('progress', {}).get('globalStep', 0)
    seen = step()
    space.wait('progress that the operator has asked for', lambda: step() > seen)
    assert stranger(space, 'after', name, 'check')[0] != 0


def test_operator_shows_its_metrics_to_whom_the_chart_names(space, stage):
    address = stage.operator_pods()[0].status.pod_ip
    tries = itertools.count()
    wait_until_in_force(space, lambda: SILENT in knocks(space, 'stranger-%d' % next(tries), address + ':8080'))
    for name, port, labels in (('scraper', 8080, SCRAPER), ('probe', 8081, None)):
        said = knocks(space, name, '%s:%d' % (address, port), labels)
        assert SILENT not in said, said
    space.wait_for(space.apply(manifests.small('beside', 200, cpu=None)), 'Succeeded')
