"""The operator's page: what it tells whom, as the real API server authenticates and authorises its callers."""
from control_plane import free_port
from harness import case, template, tfjob
from test_leader import candidate, wait_holder
from test_progress import INTERVAL, serving
from viewer import Viewer, ask


def names(answer):
    return sorted((job['namespace'], job['name']) for job in answer['jobs'])


def serve(start, *more):
    """The port of the page of an operator that is ready."""
    port = free_port()
    start('--page-bind-address=127.0.0.1:%d' % port, *more).wait_ready()
    return port


@case(operator='none')
def page_shows_what_the_caller_may_list(t):
    other = t.world.namespace('page-other')
    port = serve(t.start_operator, '--namespace=' + other)
    t.create(tfjob(Worker=1))
    t.client.create('tfjobs', other, tfjob('k', Worker=1))
    t.wait_for('Running')
    viewers = [Viewer(t.client, t.ns, 'all', ['tfjobs', 'pods', 'events']), Viewer(t.client, t.ns, 'none'),
               Viewer(t.client, t.ns, 'jobs', ['tfjobs'], t.ns), Viewer(t.client, t.ns, 'pods', ['pods', 'events'], t.ns)]
    try:
        everybody, nobody, jobs, pods = viewers
        t.wait('both jobs', lambda: names(ask(port, '/api/jobs', everybody.token)[2]) == sorted([(t.ns, 'j'), (other, 'k')]))
        t.expect('without a token', ask(port, '/api/jobs')[0], 401)
        code, _, answer = ask(port, '/api/jobs', everybody.token[:-10] + 'AAAAAAAAAA')
        t.expect('a wrong token', (code, 'does not know this token' in answer['error']), (401, True))
        for viewer, where, wanted in ((nobody, '', 403), (nobody, t.ns, 403), (jobs, '', 403), (jobs, other, 403), (jobs, t.ns, 200),
                                      (pods, t.ns, 403), (everybody, other, 200), (everybody, 'default', 404)):
            code, _, answer = ask(port, '/api/jobs', viewer.token, namespace=where)
            t.expect('the answer to %s on namespace %r: %s' % (viewer.user, where, answer), code, wanted)
        t.expect('jobs of one namespace', names(ask(port, '/api/jobs', jobs.token, namespace=t.ns)[2]), [(t.ns, 'j')])
        who = {'namespace': t.ns, 'name': 'j'}
        t.wait('its running pod', lambda: [
            (pod['name'], pod['phase']) for pod in ask(port, '/api/job', everybody.token, **who)[2]['pods']['rows']] ==
            [('j-worker-0', 'Running')])
        job = ask(port, '/api/job', everybody.token, **who)[2]
        t.expect('state and waits', (job['state'], job['waits']), ('Running', []))
        t.wait('its events', lambda: 'SuccessfulCreatePod' in [
            event['reason'] for event in ask(port, '/api/events', everybody.token, **who)[2]['events']])
        job = ask(port, '/api/job', jobs.token, **who)[2]
        t.expect('what is told of pods: %s' % job, ('pods' in job, 'may not list pods' in job['podsRefused']), (False, True))
        code, _, answer = ask(port, '/api/events', jobs.token, **who)
        t.expect('events without the right: %s' % answer, (code, 'forbidden' in answer['error']), (403, True))
        code, headers, _ = ask(port, '/')
        t.expect('the file', (code, "default-src 'none'" in headers['Content-Security-Policy']), (200, True))
    finally:
        for viewer in viewers:
            viewer.remove_rights()


@case(operator='none')
def page_of_each_replica_shows_the_same(t):
    """The one that leads and the one that waits: a user is sent to either."""
    t.rule('*-worker-0', ip='127.0.0.1')
    ports = [serve(lambda *flags: candidate(t, *flags))]
    wait_holder(t)
    ports.append(serve(lambda *flags: candidate(t, *flags)))
    viewer = Viewer(t.client, t.ns, 'viewer', ['tfjobs', 'pods', 'events'], t.ns)
    who = {'namespace': t.ns, 'name': 'j'}
    try:
        with serving() as chief:
            chief.says(500, loss=0.25)
            t.create(tfjob(Worker=1, pod=template(container={'ports': [{'name': 'progress', 'containerPort': chief.port}]})))

            def curves():
                answers = [ask(port, '/api/job', viewer.token, **who) for port in ports]
                return [[row[1:] for row in answer['curve']] for code, _, answer in answers if code == 200]
            t.wait('one point', lambda: curves() == [[[500, 0.25, None]]] * 2, 2 * INTERVAL)
            chief.says(600, loss=0.125)
            t.wait('two points', lambda: curves() == [[[500, 0.25, None], [600, 0.125, None]]] * 2, 3 * INTERVAL)
        t.quota(pods='0')
        t.create(tfjob('poor', Worker=1))
        t.wait_for('Blocked', 'poor')
        for port in ports:
            t.wait('why it waits', lambda port=port: 'exceeded quota' in ' '.join(
                ask(port, '/api/job', viewer.token, namespace=t.ns, name='poor')[2]['waits']))
    finally:
        viewer.remove_rights()
