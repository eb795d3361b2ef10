"""A small client of the Kubernetes API on the standard library: JSON over HTTPS, one kept connection a thread.

Knows paths, verbs and errors; nothing of TFJobs."""
import base64
import http.client
import json
import os
import ssl
import tempfile
import threading
import urllib.parse

GROUPS = {
    'pods': '/api/v1', 'services': '/api/v1', 'events': '/api/v1', 'namespaces': '/api/v1', 'nodes': '/api/v1',
    'resourcequotas': '/api/v1', 'serviceaccounts': '/api/v1', 'secrets': '/api/v1', 'configmaps': '/api/v1',
    'persistentvolumes': '/api/v1', 'persistentvolumeclaims': '/api/v1', 'jobs': '/apis/batch/v1',
    'tfjobs': '/apis/kubeflow.org/v1',
    'leases': '/apis/coordination.k8s.io/v1',
    'customresourcedefinitions': '/apis/apiextensions.k8s.io/v1',
    'clusterroles': '/apis/rbac.authorization.k8s.io/v1',
    'clusterrolebindings': '/apis/rbac.authorization.k8s.io/v1',
    'roles': '/apis/rbac.authorization.k8s.io/v1',
    'rolebindings': '/apis/rbac.authorization.k8s.io/v1',
    'deployments': '/apis/apps/v1',
    'networkpolicies': '/apis/networking.k8s.io/v1',
    'servicemonitors': '/apis/monitoring.coreos.com/v1', 'podmonitors': '/apis/monitoring.coreos.com/v1',
    'prometheusrules': '/apis/monitoring.coreos.com/v1',
    'poddisruptionbudgets': '/apis/policy/v1',
    'podgroups.scheduling.volcano.sh': '/apis/scheduling.volcano.sh/v1beta1',
    'podgroups.scheduling.x-k8s.io': '/apis/scheduling.x-k8s.io/v1alpha1',
    'workloads': '/apis/kueue.x-k8s.io/v1beta2', 'localqueues': '/apis/kueue.x-k8s.io/v1beta2',
    'clusterqueues': '/apis/kueue.x-k8s.io/v1beta2', 'resourceflavors': '/apis/kueue.x-k8s.io/v1beta2',
}
MERGE = 'application/merge-patch+json'
APPLY = 'application/apply-patch+yaml'


class ApiError(Exception):
    """What the API server refused; `code` is HTTP's, `message` the server's own."""

    def __init__(self, code, message, reason=''):
        super().__init__('%d %s: %s' % (code, reason, message))
        self.code = code
        self.message = message
        self.reason = reason


def path_of(kind, namespace=None, name=None, sub=None):
    """`kind`: a plural; with its group where another group has the same one."""
    parts = [GROUPS[kind]]
    if namespace:
        parts += ['namespaces', namespace]
    parts.append(kind.partition('.')[0])
    for part in (name, sub):
        if part:
            parts.append(part)
    return '/'.join(parts)


class Client:
    """Thread-safe. `user`: a dict as in a kubeconfig; certificates as base64 data or files."""

    def __init__(self, server, cluster=None, user=None, timeout=60):
        cluster, user = cluster or {}, user or {}
        self.server = server
        self.url = urllib.parse.urlsplit(server)
        self.timeout = timeout
        self.token = user.get('token')
        self.local = threading.local()
        self.tls = None
        if self.url.scheme == 'https':
            self.tls = ssl.create_default_context()
            if cluster.get('insecure-skip-tls-verify'):
                self.tls.check_hostname = False
                self.tls.verify_mode = ssl.CERT_NONE
            elif 'certificate-authority-data' in cluster:
                self.tls = ssl.create_default_context(
                    cadata=base64.b64decode(cluster['certificate-authority-data']).decode())
            elif 'certificate-authority' in cluster:
                self.tls = ssl.create_default_context(cafile=cluster['certificate-authority'])
            _load_certificate(self.tls, user)

    @staticmethod
    def from_kubeconfig(path):
        config = read_kubeconfig(path)
        return Client(config['server'], config['cluster'], config['user'])

    def connect(self, timeout=None):
        address = (self.url.hostname, self.url.port or (443 if self.tls else 80))
        if self.tls:
            return http.client.HTTPSConnection(*address, timeout=timeout or self.timeout, context=self.tls)
        return http.client.HTTPConnection(*address, timeout=timeout or self.timeout)

    def headers(self, content_type=None):
        headers = {'Accept': 'application/json'}
        if content_type:
            headers['Content-Type'] = content_type
        if self.token:
            headers['Authorization'] = 'Bearer ' + self.token
        return headers

    def request(self, method, path, body=None, content_type='application/json', params=None):
        """The answer as a dict. A kept connection that the server has closed is opened again once."""
        if params:
            path += '?' + urllib.parse.urlencode(params)
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        for attempt in (1, 2):
            fresh = getattr(self.local, 'connection', None) is None
            if fresh:
                self.local.connection = self.connect()
            try:
                self.local.connection.request(method, path, body=data, headers=self.headers(data and content_type))
                response = self.local.connection.getresponse()
                text = response.read()
                break
            except (http.client.HTTPException, OSError):
                self.local.connection.close()
                self.local.connection = None
                if fresh or attempt == 2:
                    raise
        answer = _decode(text)
        if response.status >= 400:
            raise ApiError(response.status, answer.get('message', text.decode('utf-8', 'replace')),
                           answer.get('reason', ''))
        return answer

    def get(self, kind, namespace, name, sub=None):
        return self.request('GET', path_of(kind, namespace, name, sub))

    def list(self, kind, namespace=None, **params):
        return self.request('GET', path_of(kind, namespace), params=params)

    def serves(self, kind):
        """Whether the API server knows this kind."""
        try:
            self.list(kind, limit=1)
            return True
        except ApiError:
            return False

    def create(self, kind, namespace, body, **params):
        return self.request('POST', path_of(kind, namespace), body, params=params)

    def replace(self, kind, namespace, name, body, sub=None):
        return self.request('PUT', path_of(kind, namespace, name, sub), body)

    def patch(self, kind, namespace, name, body, sub=None):
        return self.request('PATCH', path_of(kind, namespace, name, sub), body, MERGE)

    def apply(self, kind, namespace, name, yaml_text, manager='e2e'):
        """Server-side apply of a manifest as it stands in its file."""
        return self.request('PATCH', path_of(kind, namespace, name), yaml_text.encode(), APPLY,
                            {'fieldManager': manager, 'force': 'true'})

    def delete(self, kind, namespace, name, **options):
        body = dict({'kind': 'DeleteOptions', 'apiVersion': 'v1'}, **options)
        return self.request('DELETE', path_of(kind, namespace, name), body)

    def watch(self, kind, version, timeout=300, on_open=None):
        """Yields (type, object) from that resourceVersion on until the server or `on_open`'s caller ends it."""
        connection = self.connect(timeout + 30)
        if on_open:
            on_open(connection)
        try:
            query = urllib.parse.urlencode({'watch': '1', 'resourceVersion': version, 'timeoutSeconds': timeout,
                                            'allowWatchBookmarks': 'true'})
            connection.request('GET', path_of(kind) + '?' + query, headers=self.headers())
            response = connection.getresponse()
            if response.status != 200:
                raise ApiError(response.status, response.read().decode('utf-8', 'replace'))
            for line in response:
                event = json.loads(line)
                yield event['type'], event['object']
        finally:
            connection.close()


def _decode(text):
    try:
        answer = json.loads(text or b'{}')
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _load_certificate(tls, user):
    if 'client-certificate' in user:
        tls.load_cert_chain(user['client-certificate'], user['client-key'])
    elif 'client-certificate-data' in user:
        with tempfile.NamedTemporaryFile() as pem:  # the ssl module reads files only
            pem.write(base64.b64decode(user['client-certificate-data']) + b'\n' +
                      base64.b64decode(user['client-key-data']))
            pem.flush()
            tls.load_cert_chain(pem.name)


def read_kubeconfig(path):
    """{server, cluster, user} of the current context. Ours are JSON; others need Debian's python3-yaml."""
    with open(path) as f:
        text = f.read()
    try:
        config = json.loads(text)
    except ValueError:
        import yaml  # pylint: disable=import-outside-toplevel
        config = yaml.safe_load(text)
    folder = os.path.dirname(os.path.abspath(path))
    context = _named(config, 'context', config['current-context'])
    cluster = _named(config, 'cluster', context['cluster'])
    user = _named(config, 'user', context['user'])
    for entry in (cluster, user):
        for key in ('certificate-authority', 'client-certificate', 'client-key'):
            if key in entry:
                entry[key] = os.path.join(folder, entry[key])
    return {'server': cluster['server'], 'cluster': cluster, 'user': user}


def _named(config, kind, name):
    return next(entry[kind] for entry in config[kind + 's'] if entry['name'] == name)
