"""Progress of training in a job's status: asked of its chief over HTTP, written seldom, kept at the end."""
import contextlib
import http.server
import json
import threading

from control_plane import PATIENCE
from harness import case, template, tfjob

INTERVAL = 10  # seconds between questions that were answered


class Chief:
    """Serves /progress on loopback as a training program does. `answer` is what it says next: a body, or an HTTP code."""

    def __init__(self):
        chief = self
        self.answer = 503
        self.asked = []  # paths
        self.condition = threading.Condition()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                with chief.condition:
                    chief.asked.append(self.path)
                    chief.condition.notify_all()
                body = json.dumps(chief.answer).encode() if isinstance(chief.answer, dict) else b''
                self.send_response(200 if body else chief.answer)
                if chief.answer == 302:
                    self.send_header('Location', 'http://127.0.0.1:%d/elsewhere' % chief.port)
                self.send_header('Content-Length', str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True, name='chief').start()

    def says(self, step, **more):
        self.answer = dict({'global_step': step, 'last_step': 1000}, **more)

    def await_question(self, seconds):
        """Whether another one comes within that time."""
        with self.condition:
            asked = len(self.asked)
            return self.condition.wait_for(lambda: len(self.asked) > asked, seconds * PATIENCE)

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@contextlib.contextmanager
def serving():
    chief = Chief()
    try:
        yield chief
    finally:
        chief.close()


def progress(t):
    return t.status().get('progress', {})


def writes(t):
    """How often the job was written since it was made."""
    return len({item['metadata']['resourceVersion'] for kind, what, item in t.mirror.past(t.ns)
                if kind == 'tfjobs' and what != 'DELETED'})


def shown(t):
    """What `kubectl get` shows of the job in its column Progress."""
    connection = t.client.connect()
    connection.request('GET', '/apis/kubeflow.org/v1/namespaces/%s/tfjobs' % t.ns,
                       headers=dict(t.client.headers(), Accept='application/json;as=Table;v=v1;g=meta.k8s.io'))
    table = json.loads(connection.getresponse().read())
    connection.close()
    return dict(zip([c['name'] for c in table['columnDefinitions']], table['rows'][0]['cells']))['Progress']


@case()
def progress_of_the_chief_is_in_the_status(t):
    t.rule('*-worker-0', ip='127.0.0.1')
    with serving() as chief:
        chief.says(500, loss=0.25, examples_per_sec=12000, eta_seconds=41.7)
        port = {'name': 'progress', 'containerPort': chief.port}
        t.create(tfjob(PS=1, Worker=2, pod=template(container={'ports': [port]})))
        t.wait('the progress', lambda: progress(t).get('summary') == '500/1000 50%')
        t.expect('its numbers', {k: v for k, v in progress(t).items() if not k.endswith('Time')}, {
            'summary': '500/1000 50%', 'globalStep': 500, 'lastStep': 1000, 'loss': 0.25, 'examplesPerSecond': 12000,
            'etaSeconds': 42})
        t.expect('the column of kubectl get', shown(t), '500/1000 50%')
        t.wait('all pods to be counted', lambda: (t.counts('PS'), t.counts('Worker')) == ((1, 0, 0), (2, 0, 0)))
        before = writes(t)
        t.expect('a question without news', chief.await_question(2 * INTERVAL))
        t.stays('no write without news', lambda: writes(t) == before, 1)
        chief.says(990)
        t.wait('the news', lambda: progress(t).get('globalStep') == 990, 2 * INTERVAL)
        t.expect('writes for it', writes(t), before + 1)
        t.exit('j-worker-0')
        t.wait_for('Succeeded')
        asked = len(chief.asked)
        chief.says(1000)
        t.stays('what was last read', lambda: progress(t)['summary'] == '990/1000 99%', 1)
        t.expect('questions to a finished job', len(chief.asked), asked)
        t.expect('what was asked', set(chief.asked), {'/progress'})


@case()
def chief_that_answers_badly_harms_nobody(t):
    """A redirect, which is not followed: the job goes on as if it had not been asked; a later answer counts."""
    t.rule('*-chief-0', ip='127.0.0.1')
    with serving() as chief:
        chief.answer = 302
        t.create(tfjob(Chief=1, Worker=1, spec={'progress': {'port': chief.port, 'intervalSeconds': 60}}))
        t.wait_for('Running')
        t.expect('another question', chief.await_question(INTERVAL))
        t.expect('progress', progress(t), {})
        t.expect('what was asked', set(chief.asked), {'/progress'})
        t.expect('events about it', [e['reason'] for e in t.events() if e['type'] == 'Warning'], [])
        chief.answer = {'global_step': 7}
        t.wait('the progress', lambda: progress(t).get('summary') == 'step 7', 2 * INTERVAL)


@case()
def job_that_names_no_port_is_not_asked(t):
    t.create(tfjob(Worker=1))
    t.wait_for('Running')
    t.expect('progress', progress(t), {})


@case()
def progress_that_nobody_can_tell_is_an_event(t):
    t.create(tfjob(Worker=1, spec={'progress': {'intervalSeconds': 30}}))
    t.wait('the warning', lambda: any('no port named "progress"' in e['message'] for e in t.events('TFJobSpecWarning')))
    t.wait_for('Running')
