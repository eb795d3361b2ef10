"""The failure policy, limits by replica type, and what the status says of failed pods."""
from harness import case, tfjob

PODS = ['j-ps-0', 'j-worker-0', 'j-worker-1']


def rules(*given, **more):
    return dict({'failurePolicy': {'rules': list(given)}}, **more)


def on(codes, action, **more):
    return dict({'action': action, 'onExitCodes': {'operator': 'In', 'values': codes}}, **more)


def uids(t):
    return {name: t.pod(name)['metadata']['uid'] for name in t.pods()}


def restarts(t, kind):
    return t.status().get('replicaStatuses', {}).get(kind, {}).get('restarts', 0)


@case()
def rule_fails_the_job_at_once(t):
    t.create(tfjob(PS=(1, 'ExitCode'), Worker=(2, 'ExitCode'), policy=rules(on([138], 'FailJob', replicaTypes=['worker']))))
    t.wait_running(*PODS)
    t.exit('j-worker-1', 138)
    message = t.wait_for('Failed')['message']
    t.expect('message', 'pod j-worker-1 failed: rule 0 of spec.runPolicy.failurePolicy' in message)
    failure, = t.status()['failures']
    t.expect('failure', (failure['pod'], failure['exitCode']), ('j-worker-1', 138))


@case()
def whole_job_restarts_with_its_parameter_server(t):
    t.create(tfjob(PS=(1, 'ExitCode'), Worker=(2, 'ExitCode'),
                   policy=rules({'action': 'RestartJob', 'replicaTypes': ['PS']}, backoffLimit=1)))
    t.wait_running(*PODS)
    before = uids(t)
    t.exit('j-ps-0', 137)
    t.wait('three new pods that run', lambda: t.pods('Running') == PODS and not set(uids(t).values()) & set(before.values()))
    t.wait('Running again', lambda: t.is_true('Running'))
    t.expect('restarts', (restarts(t, 'PS'), restarts(t, 'Worker'), t.status()['restarts']), (1, 0, 1))
    t.exit('j-ps-0', 137)
    t.wait_for('Failed')
    t.expect('pods made', len(t.made('pods')), 6)


@case()
def ignored_failures_do_not_count(t):
    t.create(tfjob(Worker=(2, 'ExitCode'), policy=rules(on([3], 'Ignore'), backoffLimit=0)))
    t.wait_running('j-worker-0', 'j-worker-1')
    before = uids(t)
    t.exit('j-worker-1', 3)
    t.wait('a new pod that runs', lambda: t.pods('Running') == ['j-worker-0', 'j-worker-1'] and
           uids(t)['j-worker-1'] != before['j-worker-1'])
    t.expect('restarts', restarts(t, 'Worker'), 0)
    t.expect('the other stayed', uids(t)['j-worker-0'], before['j-worker-0'])
    t.exit('j-worker-1', 137)
    t.wait_for('Failed')


@case()
def type_with_a_limit_of_its_own(t):
    t.create(tfjob(PS=(1, 'ExitCode'), Worker={'replicas': 1, 'restartPolicy': 'ExitCode', 'backoffLimit': 0,
                                               'template': tfjob(Worker=1)['spec']['tfReplicaSpecs']['Worker']['template']}))
    t.wait_running('j-ps-0', 'j-worker-0')
    t.exit('j-ps-0', 137)
    t.wait('a restart', lambda: restarts(t, 'PS') == 1 and t.pods('Running') == ['j-ps-0', 'j-worker-0'])
    t.exit('j-worker-0', 137)
    t.expect('message', 'its Worker replicas have reached their backoff limit' in t.wait_for('Failed')['message'])
