"""What docs/features.md claims and no other case shows."""
import time

from harness import case, tfjob
from test_faults import pause, through_proxy


@case()
def two_evaluators_get_pods_and_end_with_the_job(t):
    t.create(tfjob(Chief=1, Evaluator=2, policy={'cleanPodPolicy': 'Running'}))
    t.wait_running('j-chief-0', 'j-evaluator-0', 'j-evaluator-1')
    t.exit('j-chief-0')
    t.wait_for('Succeeded')
    t.wait_pods('j-chief-0')


@case(operator='own')
def metrics_tell_how_long_jobs_wait_and_start(t):
    t.create(tfjob(PS=1, Worker=2))
    t.wait_running('j-ps-0', 'j-worker-0', 'j-worker-1')
    t.wait_for('Running')
    wanted = ('trainyard_job_create_to_all_pods_seconds_count', 'trainyard_job_create_to_running_seconds_count')
    found = {}
    deadline = time.monotonic() + 15
    while not all(found.get(name) == 1 for name in wanted) and time.monotonic() < deadline:
        found = {key.partition('{')[0]: value for key, value in t.operator.metrics().items()}
        pause(t, 0.1)
    t.expect('histograms', [found.get(name) for name in wanted], [1, 1])
    for name in ('workqueue_depth', 'workqueue_queue_duration_seconds_count', 'rest_client_requests_total'):
        t.expect('%s in %s' % (name, sorted(found)), name in found)


@case(operator='none')
def only_children_of_jobs_are_watched(t):
    """Memory goes by them, not by all pods of the cluster."""
    proxy = through_proxy(t)
    pause(t, 0.5)
    looks = [c for c in proxy.calls if c.method == 'GET' and c.kind in ('pods', 'services')]
    t.expect('it looks at pods and services', sorted({c.kind for c in looks}), ['pods', 'services'])
    t.expect('looks without the selector', [
        c.path for c in looks if 'labelSelector=training.kubeflow.org%2Foperator-name%3Dtfjob-controller' not in c.path], [])
    proxy.stop()


@case(operator='none')
def replicas_are_made_side_by_side(t):
    """One after the other would take 12 s: 24 pods and 24 services, a quarter of a second each."""
    proxy = through_proxy(t)
    proxy.fault(lambda call: call.write and call.kind in ('pods', 'services'), before=0.25)
    began = time.monotonic()
    t.create(tfjob(PS=4, Worker=20))
    t.wait('all pods', lambda: len(t.pods()) == 24)
    took = time.monotonic() - began
    t.expect('%.1f s are less than 6' % took, took < 6)
    proxy.stop()
