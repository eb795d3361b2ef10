"""`trainyard describe` on faults that only the API server has to show: a webhook that denies or is away, a gang that does
not fit. The others are in test_cli.py and, on real nodes, in pods/test_cli.py; docs/cli.md lists all."""
import base64
import contextlib
import http.server
import json
import ssl
import threading

import gang
from control_plane import free_port
from harness import case, tfjob
from test_cli import cli, says

WEBHOOKS = '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations'


class _Reviewer(http.server.BaseHTTPRequestHandler):
    """Denies every object with one message."""

    def do_POST(self):  # pylint: disable=invalid-name
        review = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        body = json.dumps({'apiVersion': 'admission.k8s.io/v1', 'kind': 'AdmissionReview', 'response': {
            'uid': review['request']['uid'], 'allowed': False,
            'status': {'message': 'only images of our registry'}}}).encode()
        self.send_response(200)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def reviewer(t):
    """The port of a webhook on loopback, with the API server's own certificate."""
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), _Reviewer)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificates = t.world.cluster.certificates
    context.load_cert_chain(certificates.path('apiserver.crt'), certificates.path('apiserver.key'))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True, name='reviewer').start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def webhook(t, port):
    """Pods of the case's namespace need the word of the webhook on this port."""
    name = 'describe-%d.trainyard.test' % port
    with open(t.world.cluster.certificates.path('ca.crt'), 'rb') as f:
        authority = base64.b64encode(f.read()).decode()
    t.client.request('POST', WEBHOOKS, {'metadata': {'name': name}, 'webhooks': [{
        'name': name, 'failurePolicy': 'Fail', 'sideEffects': 'None', 'admissionReviewVersions': ['v1'],
        'timeoutSeconds': 5, 'clientConfig': {'url': 'https://127.0.0.1:%d/review' % port, 'caBundle': authority},
        'namespaceSelector': {'matchLabels': {'kubernetes.io/metadata.name': t.ns}},
        'rules': [{'apiGroups': [''], 'apiVersions': ['v1'], 'operations': ['CREATE'], 'resources': ['pods']}]}]})
    try:
        yield name
    finally:
        t.client.request('DELETE', WEBHOOKS + '/' + name)


def blocked(t, prefix):
    """A job that the webhook stands in the way of: it is in force some time after it was made."""
    for attempt in range(20):
        name = '%s-%d' % (prefix, attempt)
        t.create(tfjob(name, Worker=1))
        t.wait('a word on %s' % name, lambda n=name: t.is_true('Blocked', n) or t.is_true('Running', n) or
               t.events('FailedCreatePod', n))
        if not t.is_true('Running', name):
            return name
    return t.expect('a job that the webhook stops', None, 'one')


@case()
def describe_names_a_webhook_that_denies_or_is_away(t):
    if not t.world.cluster:
        print('describe_names_a_webhook_that_denies_or_is_away: SKIPPED: this cluster may not reach loopback')
        return
    with reviewer(t) as port, webhook(t, port) as name:
        job = blocked(t, 'denied')
        t.wait_for('Blocked', job)
        says(t, cli(t, 'describe', job), 'WebhookDenied: ', name, 'only images of our registry', 'whoever keeps that policy')
    with webhook(t, free_port()) as name:
        job = blocked(t, 'away')
        says(t, cli(t, 'describe', job), 'WebhookDown: ', name, 'let whoever keeps that webhook repair it')
    t.wait_running(job + '-worker-0', seconds=60)  # by itself, when the webhook has gone


@case(operator='none')
def describe_names_a_gang_that_is_not_admitted(t):
    gang.install(t.client, gang.VOLCANO)
    with gang.Scheduler(t, gang.VOLCANO, room=2) as scheduler:
        t.start_operator('--gang-scheduler-name=volcano')
        t.create(tfjob(PS=1, Worker=2))
        scheduler.wait('the scheduler to say no', lambda: (scheduler.group() or {}).get('status', {}).get(
            'phase') == 'Pending')
        t.wait_for('Queued')
        says(t, cli(t, 'describe', 'j'), 'GangNotAdmitted: TFJob j', 'volcano', 'minAvailable')
