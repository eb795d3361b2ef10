"""Limits and cleaning (H): back-off, deadline, time to live, and what is left of a finished job."""
from datetime import datetime

from control_plane import PATIENCE
from harness import case, tfjob

ALL6 = ['j-ps-0', 'j-ps-1', 'j-worker-0', 'j-worker-1', 'j-worker-2', 'j-worker-3']
BACKOFF = 'Job %s has failed because it has reached the specified backoff limit'
DEADLINE = 'Job %s has failed because it was active longer than specified deadline'


def gone(t, name='j'):
    return t.job(name) is None


# (H1, H2, H11: back-off)

@case('H1')
def four_restarts_reach_a_limit_of_four(t):
    t.rule('*', exits=[1], after=0.3)
    t.create(tfjob(Worker=(4, 'OnFailure'), policy={'backoffLimit': 4, 'cleanPodPolicy': 'All'}))
    t.expect('message', t.wait_for('Failed')['message'], BACKOFF % 'j')
    t.wait_pods()
    t.wait_services()


@case('H2')
def limit_0_is_reached_by_the_first_restart_and_limit_3_by_the_third(t):
    t.create(tfjob('zero', Worker=(1, 'OnFailure'), policy={'backoffLimit': 0}))
    t.create(tfjob('three', Worker=(1, 'OnFailure'), policy={'backoffLimit': 3}))
    t.wait_running('zero-worker-0', 'three-worker-0')
    t.stays('nothing fails', lambda: not t.ever('Failed', 'zero') and not t.ever('Failed', 'three'), 0.7)
    for restart in range(3):
        t.exit('three-worker-0', 1)
        if restart < 2:
            t.wait('restarts', lambda n=restart: t.pod('three-worker-0')['status']['containerStatuses'][0]['restartCount']
                   == n + 1)
            t.stays('three goes on', lambda: not t.ever('Failed', 'three'), 0.5)
    t.expect('message', t.wait_for('Failed', 'three')['message'], BACKOFF % 'three')
    t.exit('zero-worker-0', 1)
    t.wait_for('Failed', 'zero')


@case('H11')
def clean_pod_policy_counts_after_the_limit_too(t):
    t.rule('*-worker-*', exits=[1], after=0.3)
    for name, policy in (('none', 'None'), ('running', 'Running'), ('all', 'All')):
        t.create(tfjob(name, PS=1, Worker=(1, 'OnFailure'), policy={'backoffLimit': 1, 'cleanPodPolicy': policy}))
    for name in ('none', 'running', 'all'):
        t.wait_for('Failed', name)
    t.wait_pods('none-ps-0', 'none-worker-0')
    t.stays('the pods of none', lambda: t.pods() == ['none-ps-0', 'none-worker-0'])


# (H3, H13: deadline)

@case('H3')
def job_without_deadline_goes_on(t):
    t.create(tfjob(PS=2, Worker=4, policy={'cleanPodPolicy': 'All'}))
    t.wait_running(*ALL6)
    t.stays('6 pods', lambda: t.pods() == ALL6, 2.5)


@case('H3', 'H13')
def deadline_fires_by_itself_and_on_time(t):
    t.create(tfjob(PS=2, Worker=4, policy={'cleanPodPolicy': 'All', 'activeDeadlineSeconds': 4}))
    t.wait_running(*ALL6)
    t.expect('message', t.wait_for('Failed', seconds=20)['message'], DEADLINE % 'j')
    started, ended = (datetime.fromisoformat(t.job()['status'][key]) for key in ('startTime', 'completionTime'))
    took = (ended - started).total_seconds()
    t.expect('%g s are at least 4 and less than %g' % (took, 6 * PATIENCE), 4 <= took < 6 * PATIENCE)
    t.wait_pods()
    t.wait_services()


@case('H3', operator='none')
def deadline_that_passed_without_an_operator_is_noticed_at_its_start(t):
    t.create(tfjob(Worker=1, policy={'activeDeadlineSeconds': 60}))
    t.client.patch('tfjobs', t.ns, 'j', {'status': {
        'startTime': '2026-01-01T00:00:00Z', 'conditions': [
            {'type': 'Created', 'status': 'True', 'reason': 'TFJobCreated', 'message': 'TFJob j is created.'}]}}, 'status')
    t.start_operator()
    t.expect('message', t.wait_for('Failed')['message'], DEADLINE % 'j')


# (H4 to H7: time to live)

@case('H4')
def finished_jobs_vanish_after_their_time(t):
    t.create(tfjob('good', Worker=1, policy={'ttlSecondsAfterFinished': 3}))
    t.create(tfjob('bad', Worker=1, policy={'ttlSecondsAfterFinished': 3}))
    t.wait_running('good-worker-0', 'bad-worker-0')
    t.exit('good-worker-0')
    t.exit('bad-worker-0', 1)
    t.wait_for('Succeeded', 'good')
    t.wait_for('Failed', 'bad')
    t.wait('both to vanish', lambda: gone(t, 'good') and gone(t, 'bad'), 12)
    t.wait('their pods, too', lambda: not t.mirror.all('pods', t.ns), 30)


@case('H5')
def time_to_live_none_or_zero(t):
    t.create(tfjob('stays', Worker=1))
    t.create(tfjob('goes', Worker=1, policy={'ttlSecondsAfterFinished': 0}))
    t.wait_running('stays-worker-0', 'goes-worker-0')
    t.exit('stays-worker-0')
    t.exit('goes-worker-0')
    t.wait('goes to vanish', lambda: gone(t, 'goes'), 5)
    t.wait_for('Succeeded', 'stays')
    t.stays('stays stays', lambda: not gone(t, 'stays'), 2)


def finished_long_ago(t, name, completion='2026-01-01T00:00:00Z', **policy):
    t.create(tfjob(name, Worker=1, policy=policy))
    status = {'conditions': [{'type': 'Succeeded', 'status': 'True', 'reason': 'TFJobSucceeded', 'message': 'm',
                              'lastTransitionTime': '2026-01-01T00:00:00Z'}]}
    if completion:
        status['completionTime'] = completion
    t.client.patch('tfjobs', t.ns, name, {'status': status}, 'status')


@case('H5', operator='none')
def time_to_live_that_is_long_over_ends_at_once(t):
    finished_long_ago(t, 'j', ttlSecondsAfterFinished=60)
    t.start_operator()
    t.wait('it to vanish', lambda: gone(t), 5)


@case('H6', operator='none')
def without_a_completion_time_nothing_is_deleted(t):
    finished_long_ago(t, 'j', completion=None, ttlSecondsAfterFinished=3600)
    t.create(tfjob('suspended', Worker=1, policy={'suspend': True, 'ttlSecondsAfterFinished': 0}))
    operator = t.start_operator()
    t.wait_for('Suspended', 'suspended')
    t.stays('both stay', lambda: not gone(t) and not gone(t, 'suspended'), 2)
    t.expect('the operator runs', operator.running())


@case('H7')
def time_to_live_is_neither_early_nor_late(t):
    t.create(tfjob('j', Worker=1, policy={'ttlSecondsAfterFinished': 3}))
    t.create(tfjob('runs', Worker=1, policy={'ttlSecondsAfterFinished': 0}))
    t.wait_running('j-worker-0', 'runs-worker-0')
    t.exit('j-worker-0')
    t.wait_for('Succeeded')
    t.stays('not early', lambda: not gone(t), 1.5)
    t.wait('not late', lambda: gone(t), 4)
    t.expect('the running job', gone(t, 'runs'), False)


# (H8 to H10, H12: cleaning)

@case('H8')
def cleaning_all_or_running_takes_running_pods(t):
    for name, policy in (('all', 'All'), ('running', 'Running')):
        t.create(tfjob(name, Chief=1, PS=2, Worker=4, policy={'cleanPodPolicy': policy}))
    names = ['%s-%s' % (job, pod) for job in ('all', 'running') for pod in
             ['chief-0', 'ps-0', 'ps-1', 'worker-0', 'worker-1', 'worker-2', 'worker-3']]
    t.wait_running(*names)
    t.exit('all-chief-0')
    t.exit('running-chief-0')
    t.wait_pods('running-chief-0')
    t.wait('no services of pods that are gone', lambda: set(t.services()) <= {'running-chief-0'})


@case('H9')
def cleaning_running_or_none_leaves_what_has_ended(t):
    for name, policy in (('none', 'None'), ('running', 'Running')):
        t.create(tfjob(name, PS=1, Worker=2, policy={'cleanPodPolicy': policy}))
    names = ['%s-%s' % (job, pod) for job in ('none', 'running') for pod in ('ps-0', 'worker-0', 'worker-1')]
    t.wait_running(*names)
    for name in names:
        if not name.endswith('worker-0'):
            t.exit(name)
    for job in ('none', 'running'):
        t.wait_counts('Worker', active=1, succeeded=1, name=job)
        t.exit(job + '-worker-0')
    t.wait_for('Succeeded', 'none')
    t.wait_for('Succeeded', 'running')
    t.stays('all pods stay', lambda: t.pods() == sorted(names))


@case('H10')
def suspension_takes_everything_whatever_the_policy(t):
    t.create(tfjob(PS=2, Worker=4, policy={'cleanPodPolicy': 'None'}))
    t.wait_running(*ALL6)
    t.patch('j', {'runPolicy': {'suspend': True}})
    t.wait_pods()
    t.wait_services()


@case('H12')
def parameter_servers_after_the_end(t):
    chief_and_workers = ['chief-0', 'worker-0', 'worker-1', 'worker-2', 'worker-3']
    jobs = {'all': 'All', 'running': 'Running', 'none': 'None'}
    for job, policy in jobs.items():
        t.create(tfjob(job, Chief=1, PS=2, Worker=4, policy={'cleanPodPolicy': policy}))
    t.wait_running(*['%s-%s' % (job, pod) for job in jobs for pod in chief_and_workers + ['ps-0', 'ps-1']], seconds=25)
    for job in jobs:
        for pod in reversed(chief_and_workers):
            t.exit('%s-%s' % (job, pod))
    for job in jobs:
        t.wait_for('Succeeded', job)
    left = ['running-' + pod for pod in chief_and_workers] + ['none-' + pod for pod in chief_and_workers + ['ps-0', 'ps-1']]
    t.wait_pods(*left)
    # The operator may have seen the last exits before this test's own watch does.
    t.wait('only the parameter servers of "none" to run', lambda: t.pods('Running') == ['none-ps-0', 'none-ps-1'])
