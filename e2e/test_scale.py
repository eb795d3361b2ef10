"""Many jobs at once: what the operator may keep and ask for, by numbers that do not depend on the machine's speed.
Times are measured by bench/operator, where nothing else runs."""
import concurrent.futures
import time

from control_plane import PATIENCE
from harness import Failure, case, template, tfjob
from kubelet import NODE
from operator_process import resident_mib

JOBS = 1000
PODS = ('ps-0', 'worker-0', 'worker-1')
MEMORY_MIB = 34  # resident while all of them run; the goal is 30 (docs/benchmarks.md), the rest is what allocators vary by
CALLS = 16       # API calls a job, from its creation to the end of its pods


class Count:
    """What became of the jobs, counted as it arrives."""

    def __init__(self, t):
        self.ns = t.ns
        self.pods = {}
        self.made = 0
        self.true = {'Running': set(), 'Succeeded': set(), 'Failed': set()}
        t.mirror.listeners.append(self.take)

    def take(self, kind, what, item):
        if item['metadata'].get('namespace') != self.ns:
            return
        name, uid = item['metadata']['name'], item['metadata']['uid']
        if kind == 'pods' and what == 'DELETED':
            self.pods.pop(name, None)
        elif kind == 'pods' and self.pods.get(name) != uid:
            self.pods[name] = uid
            self.made += 1
        elif kind == 'tfjobs':
            for condition in item.get('status', {}).get('conditions', []):
                if condition['status'] == 'True' and condition['type'] in self.true:
                    self.true[condition['type']].add(name)


def until(what, done, seconds=300):
    deadline = time.monotonic() + seconds * PATIENCE
    while not done():
        if time.monotonic() > deadline:
            raise Failure('waited %g s in vain for %s' % (seconds * PATIENCE, what))
        time.sleep(0.2)


def in_parallel(action):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(action, range(JOBS)))


def calls(operator):
    return sum(value for key, value in operator.metrics().items() if key.startswith('rest_client_requests_total'))


@case(operator='alone')
def thousand_jobs_fit_into_memory_and_calls(t):
    count = Count(t)
    operator = t.start_operator()
    before = calls(operator)
    pod = template(nodeName=NODE, terminationGracePeriodSeconds=0)
    started = time.monotonic()
    in_parallel(lambda i: t.create(tfjob('job-%04d' % i, 'ExitCode', {'cleanPodPolicy': 'All'}, pod=pod, PS=1, Worker=2)))
    until('all jobs to run', lambda: len(count.true['Running']) == JOBS)
    running = time.monotonic() - started
    t.expect('pods', len(count.pods), JOBS * len(PODS))
    until('%d MiB' % MEMORY_MIB, lambda: resident_mib(operator.process.pid) <= MEMORY_MIB * PATIENCE, 30)
    memory = resident_mib(operator.process.pid)
    in_parallel(lambda i: t.exit('job-%04d-worker-0' % i))
    until('all jobs to be done', lambda: len(count.true['Succeeded']) == JOBS and not count.pods)
    made = (calls(operator) - before) / JOBS
    t.expect('failed', sorted(count.true['Failed']), [])
    t.expect('pods made, none twice', count.made, JOBS * len(PODS))
    text = '%d jobs of 3 pods: all running after %.0f s, %.1f MiB resident, %.1f API calls a job, %.1f s of CPU' % (
        JOBS, running, memory, made, operator.used()[0])
    t.expect('%s: at most %d calls' % (text, CALLS), made <= CALLS)
    return text
