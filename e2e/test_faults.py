"""The three fault patterns of controllers: a state that is old (stale), a state that was never seen (unobserved),
a state between two writes (intermediate). And servers that refuse, stall and hang up."""
import collections
import concurrent.futures
import os
import threading
import time

from harness import LABEL, Failure, case, template, tfjob
from proxy import Proxy

PODS = ['j-ps-0', 'j-worker-0', 'j-worker-1']


def through_proxy(t, *flags, start=True):
    """A proxy and, unless told otherwise, an operator behind it."""
    proxy = Proxy(t.client)
    proxy.config = proxy.kubeconfig(os.path.join(t.world.logs, t.ns + '.kubeconfig'))
    proxy.flags = flags
    if start:
        t.start_operator(*flags, kubeconfig=proxy.config)
    return proxy


def again(t, proxy):
    t.operators[-1].kill()
    return t.start_operator(*proxy.flags, kubeconfig=proxy.config)


def restarts(t, name='j'):
    return t.status(name).get('replicaStatuses', {}).get('Worker', {}).get('restarts', 0)


def pause(t, seconds):
    t.mirror.wait(t.ns, lambda: False, seconds)


# Stale

@case('K3', operator='none')
def children_are_made_once_though_the_watch_lags(t):
    proxy = through_proxy(t)
    proxy.freeze('pods', 'services')
    t.create(tfjob(PS=1, Worker=2))
    t.wait_running(*PODS)
    t.patch('j', {'tfReplicaSpecs': {'Worker': {'replicas': 3}}})  # looks at the job again
    t.wait_running('j-worker-2')
    pause(t, 1.5)
    t.expect('creates of pods', proxy.count('POST', 'pods'), 4)
    t.expect('creates of services', proxy.count('POST', 'services'), 4)
    proxy.thaw()
    t.wait_counts('Worker', active=3)
    pause(t, 0.5)
    t.expect('creates of pods', proxy.count('POST', 'pods'), 4)
    proxy.stop()


@case(operator='none')
def deletions_happen_once_though_the_watch_lags(t):
    proxy = through_proxy(t)
    t.create(tfjob(PS=1, Worker=(2, 'ExitCode')))
    t.wait_running(*PODS)
    t.wait_counts('Worker', active=2)
    first = t.pod('j-worker-1')['metadata']['uid']
    t.exit('j-worker-1', 137)
    t.wait('the replacement', lambda: t.pod('j-worker-1') and t.pod('j-worker-1')['metadata']['uid'] != first, 20)
    proxy.freeze('pods')
    t.exit('j-worker-0', 137)
    pause(t, 0.5)
    t.patch('j', {'tfReplicaSpecs': {'PS': {'replicas': 2}}})
    t.wait_running('j-ps-1')
    proxy.thaw()
    t.wait('both to have restarted', lambda: restarts(t) == 2 and len(t.made('pods', 'j-worker-0')) == 2 and
           t.pods('Running') == ['j-ps-0', 'j-ps-1', 'j-worker-0', 'j-worker-1'], 30)
    pause(t, 1)
    t.expect('pods made', len(t.made('pods')), 6)
    proxy.stop()


@case(operator='none')
def old_lists_after_a_restart_do_no_harm(t):
    """The operator dies and comes back to an API server that shows it the past."""
    proxy = through_proxy(t)
    t.create(tfjob(PS=1, Worker=(2, 'ExitCode')))
    t.wait_running(*PODS)
    t.wait_for('Running')
    past = t.client.list('pods', limit=1)['metadata']['resourceVersion']
    first = t.pod('j-worker-1')['metadata']['uid']
    t.exit('j-worker-1', 137)
    t.wait('the replacement to run', lambda: t.pod('j-worker-1') and t.pod('j-worker-1')['metadata']['uid'] != first and
           t.pods('Running') == PODS and restarts(t) == 1 and t.is_true('Running'), 20)
    t.operators[-1].kill()
    with proxy.lock:
        proxy.frozen.update(pods=past, tfjobs=past, services=past)
    t.start_operator(*proxy.flags, kubeconfig=proxy.config)
    t.stays('nothing is made or deleted', lambda: len(t.made('pods')) == 4 and t.pods('Running') == PODS and
            restarts(t) == 1, 3)
    proxy.thaw('tfjobs')  # pods lag behind: one that failed and is long gone is shown with a status of later
    pause(t, 0.5)
    proxy.thaw()
    t.stays('nor when it sees the present', lambda: len(t.made('pods')) == 4 and restarts(t) == 1 and
            t.is_true('Running'), 1.5)
    t.exit('j-worker-0')
    t.wait_for('Succeeded')
    proxy.stop()


@case(operator='none')
def old_events_shown_again_do_no_harm(t):
    proxy = through_proxy(t)
    t.create(tfjob(PS=1, Worker=(2, 'ExitCode')))
    t.wait_running(*PODS)
    t.exit('j-worker-1', 137)
    t.wait('the replacement to run', lambda: restarts(t) == 1 and len(t.made('pods')) == 4 and t.pods('Running') == PODS, 20)
    t.wait_for('Running')
    for kind in ('pods', 'services', 'tfjobs'):
        proxy.replay(kind)
    t.stays('nothing changes', lambda: len(t.made('pods')) == 4 and restarts(t) == 1 and not t.is_true('Failed'), 1.5)
    proxy.cut_watches()
    t.exit('j-worker-0')
    t.wait_for('Succeeded', seconds=25)
    proxy.stop()


# Unobserved

@case(operator='none')
def job_replaced_by_a_namesake_while_nobody_looked(t):
    proxy = through_proxy(t)
    t.create(tfjob(PS=1, Worker=2))
    t.wait_running(*PODS)
    t.wait_for('Running')
    proxy.freeze('tfjobs', 'pods', 'services')
    t.client.delete('tfjobs', t.ns, 'j', propagationPolicy='Background')
    t.wait('the first job to be gone', lambda: t.job() is None)
    second = t.create(tfjob(Worker=1))
    proxy.cut_watches()
    pause(t, 0.5)
    proxy.thaw()
    t.wait('the pod of the second job', lambda: t.pod('j-worker-0') and t.pods() == ['j-worker-0'] and
           t.pod('j-worker-0')['metadata']['ownerReferences'][0]['uid'] == second['metadata']['uid'], 40)
    t.wait_for('Running', seconds=30)
    t.expect('Failed', t.ever('Failed'), False)
    proxy.stop()


@case(operator='none')
def suspension_that_came_and_went_unseen(t):
    proxy = through_proxy(t)
    t.create(tfjob(PS=1, Worker=2))
    t.wait_running(*PODS)
    t.wait_for('Running')
    proxy.freeze('tfjobs')
    t.patch('j', {'runPolicy': {'suspend': True}})
    t.patch('j', {'runPolicy': {'suspend': False}})
    proxy.cut_watches('tfjobs')
    proxy.thaw()
    pause(t, 1)
    t.wait_running(*PODS)
    t.wait('Running', lambda: t.is_true('Running') and not t.is_true('Suspended'))
    proxy.stop()


@case(operator='none')
def pod_that_failed_and_went_unseen_is_replaced(t):
    proxy = through_proxy(t)
    t.create(tfjob(PS=1, Worker=(2, 'ExitCode')))
    t.wait_running(*PODS)
    t.wait_for('Running')
    proxy.freeze('pods')
    t.exit('j-worker-1', 137)
    t.client.delete('pods', t.ns, 'j-worker-1', gracePeriodSeconds=0)
    proxy.cut_watches('pods')
    pause(t, 0.3)
    proxy.thaw()
    t.wait('the replacement', lambda: t.pods('Running') == PODS and len(t.made('pods')) == 4, 20)
    t.expect('Failed', t.ever('Failed'), False)
    proxy.stop()


@case(operator='none')
def watches_that_expire_are_opened_anew(t):
    proxy = through_proxy(t)
    t.create(tfjob(Worker=1))
    t.wait_running('j-worker-0')
    expired = {'pods': 0, 'tfjobs': 0}

    def once(call):
        if call.watch and call.kind in expired and not expired[call.kind]:
            expired[call.kind] = 1
            return True
        return False
    proxy.fault(once, answer=(410, None))
    proxy.cut_watches()
    t.exit('j-worker-0')
    t.wait_for('Succeeded', seconds=25)
    t.create(tfjob('k', Worker=1))
    t.wait_running('k-worker-0', seconds=25)
    t.expect('watches expired', expired, {'pods': 1, 'tfjobs': 1})
    proxy.stop()


# Servers that refuse, stall and hang up

def hurt(t, what, **fault):
    """A job's whole life while every second write suffers."""
    proxy = through_proxy(t)
    counter = collections.Counter()

    def every_second(call):
        if not call.write or call.kind == 'events':
            return False
        counter[call.kind] += 1
        return counter[call.kind] % 2 == 1
    proxy.fault(every_second, **fault)
    t.create(tfjob(PS=1, Worker=(2, 'ExitCode'), policy={'cleanPodPolicy': 'All'}))
    t.wait_running(*PODS, seconds=40)
    t.exit('j-worker-1', 137)
    t.wait('the replacement after ' + what, lambda: len(t.made('pods')) == 4 and t.pods('Running') == PODS, 40)
    t.exit('j-worker-0')
    t.wait_for('Succeeded', seconds=40)
    t.wait('no pods', lambda: not t.mirror.all('pods', t.ns), 40)
    t.expect('pods made', len(t.made('pods')), 4)
    t.expect('services made', len(t.made('services')), 3)
    t.expect('restarts', restarts(t), 1)
    t.expect('the operator runs', t.operators[-1].running())
    proxy.stop()


@case(operator='none')
def writes_refused_with_409(t):
    hurt(t, '409', answer=(409, None))


@case(operator='none')
def writes_refused_with_429(t):
    hurt(t, '429', answer=(429, {'Retry-After': '1'}))


@case(operator='none')
def writes_refused_with_500(t):
    hurt(t, '500', answer=(500, None))


@case(operator='none')
def connections_cut_before_the_write(t):
    hurt(t, 'a cut', cut='before')


@case(operator='none')
def replies_lost_after_the_write(t):
    hurt(t, 'a lost reply', cut='after')


@case(operator='none')
def slow_server(t):
    proxy = through_proxy(t)
    proxy.fault(lambda call: call.write, before=0.3)
    t.create(tfjob(PS=2, Worker=6))
    t.wait_counts('Worker', active=6)
    t.exit('j-worker-0')
    t.wait_for('Succeeded')
    proxy.stop()


@case(operator='none')
def retry_after_is_honoured(t):
    proxy = through_proxy(t)
    proxy.fault(lambda call: call.method == 'POST' and call.kind == 'pods', answer=(429, {'Retry-After': '2'}))
    t.create(tfjob(Worker=1))
    pause(t, 3)
    t.expect('tries in 3 s %d are at most 3' % proxy.count('POST', 'pods'), proxy.count('POST', 'pods') <= 3)
    proxy.calm()
    t.wait_running('j-worker-0', seconds=20)
    proxy.stop()


@case('K5', operator='none')
def children_are_posted_whole(t):
    proxy = through_proxy(t)
    pod = template(container={'env': [{'name': 'A', 'value': 'b'}]}, metadata={'labels': {'x': 'y'}})
    job = t.create(tfjob(Worker=1, pod=pod))
    t.wait_running('j-worker-0')
    for kind in ('pods', 'services'):
        posted = [c.json() for c in proxy.writes(kind) if c.method == 'POST']
        t.expect('posts of ' + kind, len(posted), 1)
        meta = posted[0]['metadata']
        t.expect('name', meta['name'], 'j-worker-0')
        t.expect('owner', meta['ownerReferences'], [t.owner(job)])
        t.expect('label', meta['labels'][LABEL + 'job-name'], 'j')
    body = next(c.json() for c in proxy.writes('pods'))
    t.expect('template label', body['metadata']['labels']['x'], 'y')
    t.expect('env', {'name': 'A', 'value': 'b'} in body['spec']['containers'][0]['env'])
    proxy.stop()


@case(operator='none')
def few_calls_from_creation_to_cleaned_success(t):
    proxy = through_proxy(t)
    pause(t, 0.5)
    before = len(proxy.calls)
    t.create(tfjob(PS=1, Worker=2, policy={'cleanPodPolicy': 'All'}))
    t.wait_running(*PODS)
    t.wait_for('Running')
    t.exit('j-worker-1')
    t.exit('j-worker-0')
    t.wait_for('Succeeded')
    t.wait('no children', lambda: not t.mirror.all('pods', t.ns) and not t.services())
    pause(t, 2)
    calls = [c for c in proxy.calls[before:] if not c.watch]
    counts = collections.Counter('%s %s' % (c.method, c.kind + ('/' + c.sub if c.sub else '')) for c in calls)
    t.expect('%d calls (%s) are at most 22' % (len(calls), dict(counts)), len(calls) <= 22)
    t.expect('reads', [c for c in calls if c.method == 'GET' and c.kind != 'leases'], [])
    t.expect('services before pods', [c.kind for c in calls if c.method == 'POST' and c.kind != 'events'],
             ['services'] * 3 + ['pods'] * 3)
    t.expect('refused calls', [c for c in calls if c.code >= 400], [])
    proxy.stop()


# Intermediate

def life(t, ns, kill_at):
    """A scripted life: worker 1 fails once with 137, then all workers end well. kill_at: the operator dies by
    SIGKILL once its n-th write has been done, before it has the reply; and is started again. Returns (what is left
    and what was counted, number of writes)."""
    t = type(t)(t.world, ns)
    proxy = Proxy(t.client)
    config = proxy.kubeconfig(os.path.join(t.world.logs, ns + '.kubeconfig'))
    for name, lives in (('j-worker-0', [[0]]), ('j-worker-1', [[137], [0]])):
        t.rule(name, lives=lives, after=0.3)
    operator = t.start_operator(kubeconfig=config)
    killed = threading.Event()
    seen = collections.Counter()

    def nth(call):
        if not call.write or call.kind == 'leases' or killed.is_set():
            return False
        seen['writes'] += 1
        return seen['writes'] == kill_at

    def kill():
        operator.process.kill()
        killed.set()
    proxy.fault(nth, after=kill)
    try:
        t.create(tfjob(PS=1, Worker=(2, 'ExitCode'), spec={'successPolicy': 'AllWorkers'},
                       policy={'cleanPodPolicy': 'All', 'backoffLimit': 3}))
        if kill_at:
            if not killed.wait(40):
                return None, seen['writes']
            operator.process.wait(10)
            t.start_operator(kubeconfig=config)
        t.wait_for('Succeeded', seconds=60)
        t.wait('no children', lambda: not t.mirror.all('pods', ns) and not t.services(), 30)
        pause(t, 2.5 if not kill_at else 1)
        return outcome(t), seen['writes']
    finally:
        for one in t.operators:
            if one.running():
                one.kill()
        proxy.stop()


def outcome(t):
    """What must not depend on when the operator died."""
    status = t.status()
    return {'conditions': [c[:2] for c in t.conditions()],
            'replicas': {kind: entry for kind, entry in status['replicaStatuses'].items()},
            'charged': status.get('chargedPods', []),
            'pods made': {name: len(t.made('pods', name)) for name in PODS},
            'services made': {name: len(t.made('services', name)) for name in PODS},
            'told twice': [e['reason'] for e in t.events() if e['reason'] in ('TFJobSucceeded', 'TFJobRestarting') and
                           e.get('count', 1) > 1]}


@case(operator='none')
def killed_after_any_single_write_it_ends_the_same(t):
    undisturbed, writes = life(t, t.ns, 0)
    problems = []

    def one(n):
        try:
            got, seen = life(t, t.world.namespace('kill-%d' % n), n)
        except Failure as e:
            return 'killed after write %d: %s' % (n, e)
        if got is None and seen < n:
            return ''  # events were fewer this time: the life was over before
        return '' if got == undisturbed else 'killed after write %d: wanted %s, got %s' % (n, undisturbed, got)
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        problems = [p for p in pool.map(one, range(1, writes + 1)) if p]
    print('       %d lives, one killed after each write, in %.0f s' % (writes, time.monotonic() - began))
    t.expect('differences', problems, [])
