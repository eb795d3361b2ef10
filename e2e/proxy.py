"""A proxy between the operator and the API server that does what networks and API servers do on bad days: delays,
cut connections, lost replies, 409/410/429/500, watches that lag or show old events again, lists of an old state.

Counts and records every call. Plain HTTP towards the operator; the proxy's own credentials towards the server."""
import collections
import http.client
import http.server
import json
import re
import socket
import threading
import time
import urllib.parse

from control_plane import write_kubeconfig

WRITES = ('POST', 'PUT', 'PATCH', 'DELETE')
PATH = re.compile(r'^/api(?:s/[^/]+)?/v[^/]+(?:/namespaces/(?P<ns>[^/?]+))?(?:/(?P<kind>[^/?]+))?(?:/(?P<name>[^/?]+))?'
                  r'(?:/(?P<sub>[^/?]+))?$')


class Call:
    """One request of the operator; `code` is what it was answered, 0 where the reply was cut off."""

    def __init__(self, method, path, body):
        self.method = method
        self.path = path
        self.body = body
        self.url = urllib.parse.urlsplit(path)
        match = PATH.match(self.url.path)
        self.kind, self.name, self.sub = (match.group('kind'), match.group('name'), match.group('sub')) if match else (
            None, None, None)
        query = urllib.parse.parse_qs(self.url.query)
        self.watch = query.get('watch', ['0'])[0] in ('1', 'true')
        self.list = method == 'GET' and self.kind is not None and self.name is None and not self.watch
        self.write = method in WRITES
        self.code = 0

    def json(self):
        return json.loads(self.body or b'{}')

    def __repr__(self):
        return '%s %s %d' % (self.method, self.url.path, self.code)


class Fault:
    """What happens to a call. before: seconds of delay. answer: (code, headers), the server never sees the call.
    cut: 'before' the server sees it, or 'after': it is done, but the reply is lost. after: called once it is done,
    before the reply goes out."""

    def __init__(self, before=0, answer=None, cut=None, after=None):
        self.before = before
        self.answer = answer
        self.cut = cut
        self.after = after


class Proxy:
    """`faults`: functions Call → Fault or None, asked in order; the first answer counts. Thread-safe."""

    def __init__(self, client):
        self.client = client
        self.lock = threading.Condition()
        self.calls = []
        self.faults = []
        self.frozen = {}  # kind → resourceVersion of what lists show
        self.streams = collections.defaultdict(set)
        self.seen = collections.defaultdict(lambda: collections.deque(maxlen=200))  # kind → past watch lines
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def handle_one_request(self):
                try:
                    super().handle_one_request()
                except (OSError, http.client.HTTPException):
                    self.close_connection = True

            def log_message(self, *args):  # pylint: disable=arguments-differ
                pass

        for method in ('GET', *WRITES):
            setattr(Handler, 'do_' + method, lambda handler: outer._serve(handler))  # pylint: disable=protected-access
        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True, name='proxy').start()

    def kubeconfig(self, path):
        write_kubeconfig(path, 'http://127.0.0.1:%d' % self.server.server_address[1], {}, {})
        return path

    def stop(self):
        self.thaw()
        self.cut_watches()
        self.server.shutdown()
        self.server.server_close()

    # What tests ask for.

    def fault(self, chooses, **what):
        """Every call for which chooses(call) is true suffers this."""
        with self.lock:
            self.faults.append(lambda call: Fault(**what) if chooses(call) else None)

    def calm(self):
        with self.lock:
            self.faults.clear()

    def freeze(self, *kinds):
        """From now on the operator sees these kinds as they are now."""
        for kind in kinds:
            version = self.client.list(kind, limit=1)['metadata']['resourceVersion']
            with self.lock:
                self.frozen[kind] = version

    def thaw(self, *kinds):
        with self.lock:
            for kind in kinds or list(self.frozen):
                self.frozen.pop(kind, None)
            self.lock.notify_all()

    def cut_watches(self, *kinds):
        with self.lock:
            streams = [s for kind in kinds or list(self.streams) for s in self.streams[kind]]
        for stream in streams:
            for end in stream:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def replay(self, kind):
        """Sends every past watch event of this kind once more, in the middle of the stream."""
        with self.lock:
            lines = list(self.seen[kind])
            streams = list(self.streams[kind])
        for stream in streams:
            for line in lines:
                stream.send(line)

    def writes(self, *kinds):
        with self.lock:
            return [c for c in self.calls if c.write and (not kinds or c.kind in kinds)]

    def count(self, method, kind, code=None):
        with self.lock:
            return sum(1 for c in self.calls if c.method == method and c.kind == kind and code in (None, c.code))

    def wait(self, what, predicate, seconds=10):
        deadline = time.monotonic() + seconds
        with self.lock:
            while not predicate():
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError('waited %g s in vain for %s' % (seconds, what))
                self.lock.wait(left)

    # How calls are served.

    def _serve(self, handler):
        size = int(handler.headers.get('Content-Length') or 0)
        if 'chunked' in handler.headers.get('Transfer-Encoding', ''):
            body = _read_chunks(handler.rfile)
        else:
            body = handler.rfile.read(size)
        call = Call(handler.command, handler.path, body)
        with self.lock:
            fault = next((f for f in (choose(call) for choose in self.faults) if f), Fault())
        if fault.before:
            time.sleep(fault.before)
        if fault.cut == 'before':
            self._record(call)
            self._cut(handler)
        elif fault.answer:
            self._refuse(handler, call, *fault.answer)
        elif call.watch:
            self._record(call)
            self._stream(handler, call)
        else:
            self._forward(handler, call, fault)

    def _record(self, call):
        with self.lock:
            self.calls.append(call)
            self.lock.notify_all()

    @staticmethod
    def _cut(handler):
        handler.close_connection = True
        handler.connection.shutdown(socket.SHUT_RDWR)

    def _refuse(self, handler, call, code, headers=None):
        call.code = code
        self._record(call)
        reasons = {409: 'Conflict', 410: 'Expired', 429: 'TooManyRequests', 500: 'InternalError', 503: 'ServiceUnavailable'}
        body = json.dumps({'kind': 'Status', 'apiVersion': 'v1', 'status': 'Failure', 'code': code,
                           'reason': reasons.get(code, ''), 'message': 'a fault that the test asked for'}).encode()
        self._reply(handler, code, body, headers or {})

    @staticmethod
    def _reply(handler, code, body, headers):
        handler.send_response(code)
        handler.send_header('Content-Type', 'application/json')
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header('Content-Length', str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def _headers(self, handler):
        headers = self.client.headers()
        for name in ('Content-Type', 'Accept', 'User-Agent'):
            if handler.headers.get(name):
                headers[name] = handler.headers[name]
        if 'protobuf' in headers.get('Accept', ''):
            headers['Accept'] = 'application/json'  # what tests read, and _reply says that it is
        return headers

    def _forward(self, handler, call, fault):
        connection = self.client.connect()
        try:
            connection.request(call.method, self._path(call), body=call.body or None, headers=self._headers(handler))
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        call.code = response.status
        self._record(call)
        if fault.after:
            fault.after()
        if fault.cut == 'after':
            self._cut(handler)
        else:
            extra = {k: v for k, v in response.getheaders() if k.lower() in ('retry-after', 'warning')}
            self._reply(handler, response.status, body, extra)

    def _path(self, call):
        version = self.frozen.get(call.kind)
        if not call.list or not version:
            return call.path
        query = dict(urllib.parse.parse_qsl(call.url.query))
        if 'continue' not in query:
            query.update(resourceVersion=version, resourceVersionMatch='Exact')
        return call.url.path + '?' + urllib.parse.urlencode(query)

    def _stream(self, handler, call):
        connection = self.client.connect(timeout=400)
        connection.request('GET', call.path, headers=self._headers(handler))
        stream = Stream(handler, connection.sock)
        response = connection.getresponse()
        call.code = response.status
        try:
            if response.status != 200:
                self._reply(handler, response.status, response.read(), {})
                return
            with self.lock:
                self.streams[call.kind].add(stream)
            handler.send_response(200)
            handler.send_header('Content-Type', 'application/json')
            handler.send_header('Transfer-Encoding', 'chunked')
            handler.end_headers()
            for line in response:
                with self.lock:
                    while call.kind in self.frozen:
                        self.lock.wait(1)
                    self.seen[call.kind].append(line)
                stream.send(line)
            handler.wfile.write(b'0\r\n\r\n')
        except (OSError, http.client.HTTPException, ValueError, AttributeError):
            handler.close_connection = True
        finally:
            with self.lock:
                self.streams[call.kind].discard(stream)
            connection.close()


class Stream:
    """A watch under way: iterating gives the sockets of both of its ends."""

    def __init__(self, handler, upstream):
        self.handler = handler
        self.ends = (handler.connection, upstream)
        self.lock = threading.Lock()

    def __iter__(self):
        return iter(self.ends)

    def send(self, line):
        with self.lock:
            self.handler.wfile.write(b'%x\r\n%s\r\n' % (len(line), line))
            self.handler.wfile.flush()


def _read_chunks(file):
    body = b''
    while True:
        size = int(file.readline().split(b';')[0], 16)
        body += file.read(size)
        file.readline()
        if size == 0:
            return body
