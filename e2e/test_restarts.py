"""Restart policies (G): what becomes of a parameter server, of 1 beside 2 workers, that ends."""
from harness import case, tfjob

PODS = ['j-ps-0', 'j-worker-0', 'j-worker-1']


def ended(t, policy, code):
    """Ends the ps; (uid of the pod, start of its container) before."""
    t.create(tfjob(PS=(1, policy), Worker=(2, policy)))
    t.wait_running(*PODS)
    t.wait_for('Running')
    before = identity(t)
    t.exit('j-ps-0', code)
    return before


def identity(t, name='j-ps-0'):
    pod = t.pod(name)
    statuses = pod['status'].get('containerStatuses') or [{}]
    return pod['metadata']['uid'], statuses[0].get('restartCount')


def restarted_in_place(t, before):
    t.wait('the container to have restarted', lambda: identity(t) == (before[0], 1))
    t.stays('the job runs, the pod stays', lambda: t.is_true('Running') and identity(t)[0] == before[0], 1)
    t.expect('Failed', t.ever('Failed'), False)


@case('G1')
def always_restarts_after_0(t):
    restarted_in_place(t, ended(t, 'Always', 0))


@case('G2')
def always_restarts_after_1(t):
    restarted_in_place(t, ended(t, 'Always', 1))


@case('G3')
def on_failure_restarts_after_1(t):
    restarted_in_place(t, ended(t, 'OnFailure', 1))


@case('G4')
def on_failure_does_not_restart_after_0(t):
    before = ended(t, 'OnFailure', 0)
    t.wait_counts('PS', succeeded=1)
    t.stays('the pod stays ended', lambda: identity(t) == before and t.pod('j-ps-0')['status']['phase'] == 'Succeeded', 1)
    t.expect('Running', t.is_true('Running'))


@case('G5')
def never_does_not_restart(t):
    before = ended(t, 'Never', 1)
    t.wait_for('Failed')
    t.stays('the pod stays ended', lambda: identity(t) == before and len(t.made('pods')) == 3, 1)


@case('G5')
def never_does_not_restart_after_0_either(t):
    before = ended(t, 'Never', 0)
    t.wait_counts('PS', succeeded=1)
    t.stays('the pod stays ended, the job runs', lambda: identity(t) == before and t.is_true('Running'), 1)


@case('G6')
def exit_code_1_is_failure(t):
    before = ended(t, 'ExitCode', 1)
    t.wait_for('Failed')
    t.stays('the pod is not replaced', lambda: identity(t) == before and len(t.made('pods')) == 3, 1)


@case('G7')
def exit_code_130_restarts(t):
    before = ended(t, 'ExitCode', 130)
    t.wait('a new pod that runs', lambda: t.pod('j-ps-0') and identity(t)[0] != before[0] and
           t.pods('Running') == PODS)
    t.wait('Running again', lambda: t.is_true('Running'))
    t.expect('Restarting was there', t.ever('Restarting'))
    t.expect('Failed', t.ever('Failed'), False)


@case('G8')
def exit_code_130_deletes_the_pod(t):
    t.create(tfjob(Worker=(1, 'ExitCode')))
    t.wait_running('j-worker-0')
    first = t.pod('j-worker-0')['metadata']['uid']
    t.exit('j-worker-0', 130)
    t.wait('the first pod to be deleted', lambda: any(
        kind == 'pods' and what == 'DELETED' and item['metadata']['uid'] == first
        for kind, what, item in t.mirror.past(t.ns)))
    t.wait('restarts in the status',
           lambda: t.status().get('replicaStatuses', {}).get('Worker', {}).get('restarts') == 1)


@case('G9')
def exit_code_1_says_so(t):
    t.create(tfjob(Worker=(2, 'ExitCode')))
    t.wait_running('j-worker-0', 'j-worker-1')
    t.exit('j-worker-1', 1)
    condition = t.wait_for('Failed')
    t.expect('reason', condition['reason'], 'TFJobFailed')
    t.expect('message', condition['message'], 'job "j" is failing because "Worker" replica(s) failed.')
    t.wait('the event', lambda: t.events('ExitedWithCode'))


def retried(t, codes):
    """By code: how often a worker that always ends with it is tried again, where backoffLimit allows once."""
    for code in codes:
        t.rule('c%d-*' % code, exits=[code], after=0.1)
        t.create(tfjob('c%d' % code, Worker=(1, 'ExitCode'), policy={'backoffLimit': 1}))
    for code in codes:
        t.wait_for('Failed', 'c%d' % code, 25)
    return {code: len(t.made('pods', 'c%d-worker-0' % code)) - 1 for code in codes}


@case('G10')
def which_exit_codes_are_retried(t):
    codes = {1: 0, 2: 0, 3: 0, 127: 0, 128: 1, 130: 1, 138: 1, 137: 1}
    t.expect('tries by code', retried(t, codes), codes)


@case(flags=['--retryable-exit-codes=v1.4'])
def exit_codes_of_v14_by_flag(t):
    """Of the codes from 128 on only 130, 137, 138 and 143."""
    codes = {128: 0, 139: 0, 1: 0, 130: 1, 143: 1}
    t.expect('tries by code', retried(t, codes), codes)


@case()
def exit_code_restarts_count_against_the_limit(t):
    """v1.9 restarted for ever."""
    t.rule('*', exits=[137], after=0.05)
    t.create(tfjob(Worker=(1, 'ExitCode'), policy={'backoffLimit': 2}))
    condition = t.wait_for('Failed', seconds=40)
    t.expect('message', condition['message'], 'Job j has failed because it has reached the specified backoff limit')
    t.expect('pods made', len(t.made('pods')), 3)


@case()
def evicted_pod_is_replaced_and_not_charged(t):
    t.create(tfjob(PS=1, Worker=(2, 'ExitCode'), policy={'backoffLimit': 1}))
    t.wait_running(*PODS)
    for _ in range(3):
        first = t.pod('j-worker-1')['metadata']['uid']
        t.world.kubelet.evict(t.ns, 'j-worker-1')
        t.wait('a new worker 1', lambda u=first: t.pod('j-worker-1') and t.pod('j-worker-1')['metadata']['uid'] != u and
               t.pods('Running') == PODS, 30)
    t.expect('Failed', t.ever('Failed'), False)
    t.expect('restarts', t.status()['replicaStatuses']['Worker'].get('restarts', 0), 0)


@case()
def restarts_wait_longer_each_time(t):
    t.rule('*', exits=[137], after=0.0)
    t.create(tfjob(Worker=(1, 'ExitCode'), policy={'backoffLimit': 100}))
    t.wait('the first restart', lambda: len(t.made('pods')) >= 2)
    t.mirror.wait(t.ns, lambda: False, 4)
    t.expect('pods in 4 s are below 12', len(t.made('pods')) < 12)
