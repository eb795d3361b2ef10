"""What the API server holds, followed by watches, so that tests wait for changes and never poll.

Thread-safe. Objects handed out are shared: never change them."""
import collections
import threading
import time

import kube

KINDS = ('tfjobs', 'pods', 'services', 'events')


class Mirror:
    """`listeners` are called with (kind, type, object) on the watching thread; they must not block."""

    def __init__(self, client, kinds=KINDS):
        self.client = client
        self.kinds = kinds
        self.lock = threading.RLock()
        self.objects = {kind: {} for kind in kinds}
        self.history = collections.defaultdict(list)  # namespace → [(kind, type, object)], in order of arrival
        self.conditions = {}
        self.listeners = []
        self.stopping = False
        self.connections = {}
        self.threads = []

    def start(self):
        for kind in self.kinds:
            version = self._list(kind)
            thread = threading.Thread(target=self._follow, args=(kind, version), daemon=True, name='mirror-' + kind)
            self.threads.append(thread)
            thread.start()
        return self

    def stop(self):
        self.stopping = True
        for connection in list(self.connections.values()):
            try:
                if connection.sock:
                    connection.sock.shutdown(2)
            except OSError:
                pass

    def _list(self, kind):
        answer = self._first_list(kind)
        with self.lock:
            fresh = {self._key(item): item for item in answer['items']}
            for key in set(self.objects[kind]) - set(fresh):
                self._take(kind, 'DELETED', self.objects[kind][key])
            for item in fresh.values():
                self._take(kind, 'ADDED', item)
        return answer['metadata']['resourceVersion']

    def _first_list(self, kind, seconds=60):
        deadline = time.monotonic() + seconds
        while True:
            try:
                return self.client.list(kind)
            except kube.ApiError as error:
                # 429: the API server is still setting up the storage of a new kind.
                if error.code != 429 or time.monotonic() > deadline:
                    raise
            time.sleep(0.2)

    def _follow(self, kind, version):
        while not self.stopping:
            try:
                for what, item in self.client.watch(kind, version,
                                                    on_open=lambda c: self.connections.update({kind: c})):
                    if what == 'ERROR':
                        version = self._list(kind)
                        break
                    version = item['metadata']['resourceVersion']
                    if what != 'BOOKMARK':
                        with self.lock:
                            self._take(kind, what, item)
            except (OSError, ValueError, kube.ApiError, kube.http.client.HTTPException, AttributeError):
                if not self.stopping:
                    time.sleep(0.1)
                    try:
                        version = self._list(kind)
                    except (OSError, kube.ApiError, kube.http.client.HTTPException):
                        pass

    @staticmethod
    def _key(item):
        return item['metadata'].get('namespace'), item['metadata']['name']

    def _take(self, kind, what, item):
        key = self._key(item)
        old = self.objects[kind].get(key)
        if what == 'DELETED':
            self.objects[kind].pop(key, None)
        elif old and old['metadata']['resourceVersion'] == item['metadata']['resourceVersion']:
            return
        else:
            self.objects[kind][key] = item
        self.history[key[0]].append((kind, what, item))
        for listener in self.listeners:
            listener(kind, what, item)
        self._condition(key[0]).notify_all()

    def _condition(self, namespace):
        if namespace not in self.conditions:
            self.conditions[namespace] = threading.Condition(self.lock)
        return self.conditions[namespace]

    def get(self, kind, namespace, name):
        with self.lock:
            return self.objects[kind].get((namespace, name))

    def all(self, kind, namespace):
        with self.lock:
            return [item for key, item in sorted(self.objects[kind].items()) if key[0] == namespace]

    def wait(self, namespace, predicate, seconds):
        """The first true value of predicate(), asked anew after each change in the namespace; None when too late."""
        deadline = time.monotonic() + seconds
        with self.lock:
            condition = self._condition(namespace)
            while True:
                value = predicate()
                left = deadline - time.monotonic()
                if value or left <= 0:
                    return value or None
                condition.wait(left)

    def past(self, namespace):
        with self.lock:
            return list(self.history[namespace])
