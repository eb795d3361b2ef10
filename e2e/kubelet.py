"""A fake kubelet for all nodes: binds the pods of TFJobs, plays their lives as tests say, and honours graceful
deletion. What it writes is what a real kubelet writes: phases, container states, exit codes, restart counts.

Unless told otherwise a pod is bound and runs at once, and ends with 143 when it is deleted."""
import collections
import fnmatch
import http.server
import queue
import ssl
import threading
import time

import kube

NODE = 'trainyard-e2e'
TERMINAL = ('Succeeded', 'Failed')


def now():
    return time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())


class Rule:
    """How pods live whose names match. The last matching rule counts, taken when the kubelet meets the pod.

    hold: it stays Pending. waiting: the reason of a container that does not start (ImagePullBackOff …).
    exits: exit codes of the container's consecutive runs, each after `after` seconds; then it keeps running.
    lives: exits of the first, second … pod of that name, instead. ignore_delete: its node is lost, deletion never ends. term_code: exit code on deletion.
    ip: its pods' IP, where a test serves something."""

    def __init__(self, pattern, hold=False, waiting=None, exits=(), after=0.0, lives=(), ignore_delete=False,
                 term_code=143, ip=None):
        self.pattern = pattern
        self.hold = hold
        self.waiting = waiting
        self.exits = list(exits)
        self.after = after
        self.lives = lives
        self.ignore_delete = ignore_delete
        self.term_code = term_code
        self.ip = ip


class _Pod:
    """What the kubelet knows of one pod beyond what it wrote. Guarded by its lock."""

    def __init__(self, rule):
        self.lock = threading.RLock()
        self.rule = rule
        self.exits = list(rule.exits)
        self.bound = False
        self.running = False
        self.gone = False


class Kubelet:
    """Thread-safe. Acts on pods with the operator's label only."""

    def __init__(self, client, mirror, threads=3):
        self.client = client
        self.mirror = mirror
        self.rules = {}
        self.pods = {}
        self.incarnations = collections.Counter()
        self.lock = threading.Lock()
        self.queue = queue.Queue()
        self.started = 0
        mirror.listeners.append(self._seen)
        for _ in range(threads):
            threading.Thread(target=self._work, daemon=True, name='kubelet').start()

    # What tests say.

    def rule(self, namespace, pattern, **how):
        with self.lock:
            self.rules.setdefault(namespace, []).append(Rule(pattern, **how))

    def start(self, namespace, name):
        """Runs a pod that was held back."""
        pod = self.mirror.wait(namespace, lambda: self.mirror.get('pods', namespace, name), 60)
        if not pod:
            raise KeyError('no pod %s/%s to start' % (namespace, name))
        state = self._state(pod)
        with state.lock:
            state.rule = Rule(name)
            self._bind(pod, state)
            self._run(pod, state)

    def exit(self, namespace, name, code, reason='', message='', container='tensorflow', others=0):
        """The container ends; others=None leaves the pod's other containers running. Restarts it as the pod's
        restartPolicy says."""
        pod = self._current(namespace, name)
        state = self._state(pod)
        with state.lock:
            self._exit(pod, state, {container: code}, others, reason, message)

    def evict(self, namespace, name, reason='Evicted', message='The node was low on resource: memory.'):
        self._patch(self._current(namespace, name), {
            'phase': 'Failed', 'reason': reason, 'message': message, 'conditions': [
                {'type': 'DisruptionTarget', 'status': 'True', 'reason': 'TerminationByKubelet',
                 'lastTransitionTime': now(), 'message': message}]})

    def lose_node(self, namespace, name):
        """The pod's node goes away: the pod is marked and deleted, and its deletion never ends by itself."""
        pod = self._current(namespace, name)
        self._state(pod).rule.ignore_delete = True
        self._patch(pod, {'reason': 'NodeLost', 'conditions': [
            {'type': 'Ready', 'status': 'False', 'reason': 'NodeNotReady', 'lastTransitionTime': now()},
            {'type': 'DisruptionTarget', 'status': 'True', 'reason': 'DeletionByTaintManager',
             'lastTransitionTime': now()}]})
        self.client.delete('pods', namespace, name)

    # How pods live.

    def _seen(self, kind, what, item):
        if kind == 'pods' and item['metadata'].get('labels', {}).get('training.kubeflow.org/operator-name'):
            self.queue.put((what, item))

    def _state(self, pod):
        with self.lock:
            uid = pod['metadata']['uid']
            if uid not in self.pods:
                rules = [rule for rule in self.rules.get(pod['metadata']['namespace'], [])
                         if fnmatch.fnmatch(pod['metadata']['name'], rule.pattern)]
                rule = rules[-1] if rules else Rule('*')
                key = (pod['metadata']['namespace'], pod['metadata']['name'])
                self.incarnations[key] += 1
                if rule.lives:
                    exits = rule.lives[self.incarnations[key] - 1] if self.incarnations[key] <= len(rule.lives) else []
                    rule = Rule(rule.pattern, exits=exits, after=rule.after)
                self.pods[uid] = _Pod(Rule('', **{k: v for k, v in vars(rule).items() if k != 'pattern'}))
            return self.pods[uid]

    def _current(self, namespace, name):
        return self.client.get('pods', namespace, name)

    def _work(self):
        while True:
            what, pod = self.queue.get()
            state = self._state(pod)
            try:
                with state.lock:
                    if what == 'DELETED':
                        state.gone = True
                    else:
                        self._live(pod, state)
            except (kube.ApiError, OSError, kube.http.client.HTTPException) as e:
                if getattr(e, 'code', 0) not in (404, 409) and 'metadata.uid' not in str(e):  # gone, or another by now
                    print('kubelet: %s: %s' % (pod['metadata']['name'], e), flush=True)

    def _live(self, pod, state):
        if state.gone:
            return
        if pod['metadata'].get('deletionTimestamp'):
            if not state.rule.ignore_delete:
                state.gone = True
                self._finish(pod, state)
        elif not state.bound and not state.rule.hold:
            self._bind(pod, state)
            self._run(pod, state)

    def _bind(self, pod, state):
        meta = pod['metadata']
        state.bound = True
        if pod['spec'].get('nodeName'):
            return
        self.client.request('POST', kube.path_of('pods', meta['namespace'], meta['name'], 'binding'), {
            'apiVersion': 'v1', 'kind': 'Binding', 'metadata': {'name': meta['name']},
            'target': {'apiVersion': 'v1', 'kind': 'Node', 'name': NODE}})

    def _run(self, pod, state):
        if state.rule.waiting:
            self._patch(pod, {'phase': 'Pending', 'containerStatuses': [
                _status(c, {'waiting': {'reason': state.rule.waiting, 'message': 'as the test says'}}, 0)
                for c in pod['spec']['containers']]})
            return
        state.running = True
        self.started += 1
        self._patch(pod, {
            'phase': 'Running', 'startTime': now(), 'hostIP': '127.0.0.1',
            'podIP': state.rule.ip or '10.0.%d.%d' % (self.started // 250 % 250, self.started % 250 + 1),
            'conditions': [{'type': t, 'status': 'True', 'lastTransitionTime': now()}
                           for t in ('PodScheduled', 'Initialized', 'ContainersReady', 'Ready')],
            'containerStatuses': [_status(c, {'running': {'startedAt': now()}}, 0)
                                  for c in pod['spec']['containers']]})
        self._plan_exit(pod, state)

    def _plan_exit(self, pod, state):
        if not state.exits:
            return
        code = state.exits.pop(0)
        meta = pod['metadata']

        def end():
            try:
                self.exit(meta['namespace'], meta['name'], code)
            except kube.ApiError:
                pass  # deleted meanwhile
        timer = threading.Timer(state.rule.after, end)
        timer.daemon = True
        timer.start()

    def _exit(self, pod, state, codes, others, reason, message):
        if pod['status'].get('phase') in TERMINAL:
            return
        policy = pod['spec']['restartPolicy']
        statuses, restarted = [], False
        for container in pod['status'].get('containerStatuses', []):
            code = codes.get(container['name'], others)
            if code is None or 'terminated' in container['state']:
                statuses.append(container)
                continue
            ended = {'terminated': {'exitCode': code, 'reason': reason or ('Completed' if code == 0 else 'Error'),
                                    'message': message, 'startedAt': now(), 'finishedAt': now()}}
            again = container['name'] in codes and (policy == 'Always' or (policy == 'OnFailure' and code != 0))
            restarted = restarted or again
            container = dict(container, ready=again, started=again)
            if again:
                container.update(restartCount=container['restartCount'] + 1, lastState=ended,
                                 state={'running': {'startedAt': now()}})
            else:
                container['state'] = ended
            statuses.append(container)
        patch = {'containerStatuses': statuses}
        if not restarted and all('terminated' in c['state'] for c in statuses):
            failed = any(c['state']['terminated']['exitCode'] != 0 for c in statuses)
            patch['phase'] = 'Failed' if failed else 'Succeeded'
        elif restarted:  # the other containers never ended
            patch['containerStatuses'] = [s if s['name'] in codes else old for s, old in
                                          zip(statuses, pod['status']['containerStatuses'])]
        self._patch(pod, patch)
        if restarted:
            self._plan_exit(pod, state)

    def _finish(self, pod, state):
        meta = pod['metadata']
        if state.running and pod['status'].get('phase') not in TERMINAL:
            code = state.rule.term_code
            self._patch(pod, {'phase': 'Failed' if code else 'Succeeded', 'containerStatuses': [
                _status(c, {'terminated': {'exitCode': code, 'reason': 'Error' if code else 'Completed',
                                           'startedAt': now(), 'finishedAt': now()}}, 0)
                for c in pod['spec']['containers']]})
        self.client.delete('pods', meta['namespace'], meta['name'], gracePeriodSeconds=0,
                           preconditions={'uid': meta['uid']})

    def _patch(self, pod, status):
        meta = pod['metadata']
        self.client.patch('pods', meta['namespace'], meta['name'],
                          {'metadata': {'uid': meta['uid']}, 'status': status}, 'status')


def _status(container, state, restarts):
    running = 'running' in state
    return {'name': container['name'], 'image': container['image'], 'imageID': '', 'ready': running,
            'started': running, 'restartCount': restarts, 'state': state, 'lastState': {}}


class LogServer:
    """The kubelet's HTTPS endpoint, as far as `kubectl logs` needs it, behind a Node of its own: every container
    has one line of log, its pod's name."""

    def __init__(self, client, certificate, key):
        handler = type('Handler', (http.server.BaseHTTPRequestHandler,), {
            'do_GET': self._answer, 'log_message': lambda *_: None})
        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True, name='kubelet-logs').start()
        client.create('nodes', None, {'apiVersion': 'v1', 'kind': 'Node', 'metadata': {'name': NODE}})
        client.patch('nodes', None, NODE, {'status': {
            'addresses': [{'type': 'InternalIP', 'address': '127.0.0.1'}],
            'daemonEndpoints': {'kubeletEndpoint': {'Port': self.server.server_address[1]}}}}, 'status')

    @staticmethod
    def _answer(handler):
        parts = handler.path.partition('?')[0].split('/')  # /containerLogs/NAMESPACE/POD/CONTAINER
        text = ('%s says hello\n' % parts[3]).encode() if len(parts) == 5 else b''
        handler.send_response(200 if text else 404)
        handler.send_header('Content-Length', str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)
