"""A stand-in for gang schedulers, for one namespace: admits PodGroups that fit into the cluster, and lets the pods of
a gang that is complete start. Knows no TFJob."""
import os
import queue
import threading
import time

import kube
from control_plane import PATIENCE
from harness import Failure
from mirror import Mirror

VOLCANO = 'podgroups.scheduling.volcano.sh'
PLUGINS = 'podgroups.scheduling.x-k8s.io'
POD_LABEL = 'scheduling.x-k8s.io/pod-group'
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'podgroups')


def install(client, kind, seconds=30):
    """The CRD of this kind, unless the cluster has one."""
    if client.serves(kind):
        return
    with open(os.path.join(FOLDER, kind.partition('.')[2] + '.yaml')) as f:
        client.apply('customresourcedefinitions', None, kind, f.read())
    deadline = time.monotonic() + seconds * PATIENCE
    while not client.serves(kind):
        if time.monotonic() > deadline:
            raise Failure('the API server does not serve %s' % kind)
        time.sleep(0.05)


class Scheduler:
    """Has room for gangs of at most `room` pods. Volcano's PodGroups become Inqueue or stay Pending and say why;
    pods with the label of scheduler-plugins start once their gang is complete (hold them back by a rule).
    A context manager."""

    def __init__(self, test, kind, room):
        self.test = test
        self.kind = kind
        self.room = room
        self.mirror = Mirror(test.client, kinds=[kind])
        self.queue = queue.Queue()
        self.started = set()

    def __enter__(self):
        self.mirror.listeners.append(self._seen)
        self.mirror.start()
        self.test.mirror.listeners.append(self._seen)
        threading.Thread(target=self._work, daemon=True, name='gang-scheduler').start()
        return self

    def __exit__(self, *_):
        self.test.mirror.listeners.remove(self._seen)
        self.mirror.stop()
        self.queue.put(None)

    def group(self, name='j'):
        return self.mirror.get(self.kind, self.test.ns, name)

    def wait(self, what, predicate, seconds=15):
        """As Test.wait, for what is asked of PodGroups."""
        value = self.mirror.wait(self.test.ns, predicate, seconds * PATIENCE)
        if not value:
            raise Failure('waited %g s in vain for: %s\n  PodGroups %s\n%s' % (
                seconds * PATIENCE, what, self.mirror.all(self.kind, self.test.ns), self.test.picture()))
        return value

    def made(self, name='j'):
        """Uids of every PodGroup of this name that ever was."""
        return {item['metadata']['uid'] for _, _, item in self.mirror.past(self.test.ns)
                if item['metadata']['name'] == name}

    def _seen(self, kind, what, item):
        if item['metadata'].get('namespace') == self.test.ns and what != 'DELETED':
            if kind == self.kind:
                self.queue.put((self._admit, item))
            elif kind == 'pods' and POD_LABEL in item['metadata'].get('labels', {}):
                self.queue.put((self._place, item))

    def _work(self):
        while (job := self.queue.get()) is not None:
            act, item = job
            try:
                act(item)
            except (kube.ApiError, OSError, kube.http.client.HTTPException) as e:
                if getattr(e, 'code', 0) not in (404, 409):  # gone, or changed: seen again
                    print('gang scheduler: %s: %s' % (item['metadata']['name'], e), flush=True)

    def _admit(self, group):
        wanted = group['spec']['minMember']
        fits = wanted <= self.room
        if self.kind != VOLCANO or group.get('status', {}).get('phase') == ('Inqueue' if fits else 'Pending'):
            return
        status = {'phase': 'Inqueue' if fits else 'Pending', 'conditions': [{
            'type': 'Unschedulable', 'status': 'False' if fits else 'True', 'reason': 'NotEnoughResources',
            'message': 'room for %d pods, %d wanted' % (self.room, wanted)}]}
        self.test.client.patch(self.kind, self.test.ns, group['metadata']['name'], {'status': status}, 'status')

    def _place(self, pod):
        name = pod['metadata']['labels'][POD_LABEL]
        gang = [p for p in self.test.mirror.all('pods', self.test.ns)
                if p['metadata'].get('labels', {}).get(POD_LABEL) == name]
        wanted = self.test.client.get(self.kind, self.test.ns, name)['spec']['minMember']
        if wanted > self.room or len(gang) < wanted:
            return
        for each in gang:
            meta = each['metadata']
            if meta['uid'] in self.started or 'deletionTimestamp' in meta:
                continue
            try:
                self.test.start(meta['name'])
                self.started.add(meta['uid'])
            except kube.ApiError as e:
                if e.code != 404:
                    print('gang scheduler: %s: %s; once more' % (meta['name'], e), flush=True)
                    time.sleep(0.2)
                    self.queue.put((self._place, pod))
