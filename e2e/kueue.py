"""A stand-in for Kueue, for one namespace: it treats TFJobs as Kueue's own integration does, on Workloads that are real
objects of the API server, and admits by a quota of pods. Reads a TFJob only where Kueue reads it."""
import copy
import os
import queue
import re
import threading
import time

import kube
from control_plane import PATIENCE
from harness import Failure
from kubelet import now
from mirror import Mirror

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'queues')
QUEUE = 'kueue.x-k8s.io/queue-name'
POD_SET = 'kueue.x-k8s.io/podset'
MULTIKUEUE = 'kueue.x-k8s.io/multikueue'
# The spellings and the order in which Kueue looks for replica types.
TYPES = ('Chief', 'Master', 'PS', 'Worker', 'Evaluator')
KINDS = ('workloads', 'localqueues', 'clusterqueues', 'resourceflavors')


def install(client, seconds=30):
    """Kueue's CRDs, as far as we use them, unless the cluster has Kueue's own."""
    if all(client.serves(kind) for kind in KINDS):
        return
    with open(os.path.join(FOLDER, 'kueue.x-k8s.io.yaml')) as f:
        for text in f.read().split('\n---\n'):
            name = re.search(r'^  name: (\S+)$', text, re.M).group(1)
            client.apply('customresourcedefinitions', None, name, text)
    deadline = time.monotonic() + seconds * PATIENCE
    while not all(client.serves(kind) for kind in KINDS):
        if time.monotonic() > deadline:
            raise Failure('the API server does not serve Kueue\'s kinds')
        time.sleep(0.05)


def in_queue(job, suspend=True):
    """The job with the label of the queue. Kueue's webhook suspends what is made unsuspended; this one has none."""
    job = copy.deepcopy(job)
    job['metadata'].setdefault('labels', {})[QUEUE] = 'queue'
    if suspend:
        job['spec'].setdefault('runPolicy', {})['suspend'] = True
    return job


def merge_patch(old, new):
    """The JSON merge patch that makes `new` of `old`."""
    out = {key: None for key in old if key not in new}
    for key, value in new.items():
        if key in old and isinstance(value, dict) and isinstance(old[key], dict):
            inner = merge_patch(old[key], value)
            if inner:
                out[key] = inner
        elif key not in old or old[key] != value:
            out[key] = value
    return out


def pod_sets(job):
    specs = job['spec']['tfReplicaSpecs']
    return [{'name': kind.lower(), 'count': specs[kind].get('replicas', 1), 'template': specs[kind]['template']}
            for kind in TYPES if kind in specs]


def finished(job):
    """(reason, message) of a job that has ended, else None."""
    for condition in job.get('status', {}).get('conditions', []):
        if condition['type'] in ('Succeeded', 'Failed') and condition['status'] == 'True':
            return condition['type'], condition.get('message', '')
    return None


def is_true(item, kind):
    return any(c['type'] == kind and c['status'] == 'True' for c in item.get('status', {}).get('conditions', []))


def is_active(job):
    return any(status.get('active', 0) for status in job.get('status', {}).get('replicaStatuses', {}).values())


def _compared(sets):
    """What Kueue compares of pod sets; tolerations are not, once a workload is admitted."""
    return [(one['name'], one['count'], one['template']['spec'].get('initContainers'),
             one['template']['spec']['containers']) for one in sets]


class Kueue:
    """Has quota for `pods` pods. A context manager."""

    def __init__(self, test, pods, flavor=None):
        self.test = test
        self.pods = pods
        self.flavor = flavor or {}
        self.mirror = None
        self.queue = queue.Queue()

    def __enter__(self):
        client, ns = self.test.client, self.test.ns
        install(client)
        client.create('resourceflavors', None, {
            'apiVersion': 'kueue.x-k8s.io/v1beta2', 'kind': 'ResourceFlavor', 'metadata': {'name': ns},
            'spec': self.flavor})
        client.create('clusterqueues', None, {
            'apiVersion': 'kueue.x-k8s.io/v1beta2', 'kind': 'ClusterQueue', 'metadata': {'name': ns},
            'spec': self._queue_spec(self.pods)})
        client.create('localqueues', ns, {
            'apiVersion': 'kueue.x-k8s.io/v1beta2', 'kind': 'LocalQueue', 'metadata': {'name': 'queue'},
            'spec': {'clusterQueue': ns}})
        self.mirror = Mirror(client, kinds=['workloads'])
        self.mirror.listeners.append(self._seen)
        self.mirror.start()
        self.test.mirror.listeners.append(self._seen)
        threading.Thread(target=self._work, daemon=True, name='kueue').start()
        return self

    def __exit__(self, *_):
        self.test.mirror.listeners.remove(self._seen)
        self.mirror.stop()
        self.queue.put(None)
        for kind in ('clusterqueues', 'resourceflavors'):
            self.test.client.delete(kind, None, self.test.ns)

    # What tests say and see.

    def quota(self, pods):
        self.test.client.patch('clusterqueues', None, self.test.ns, {'spec': self._queue_spec(pods)})
        self._again()

    def change_flavor(self, **spec):
        self.test.client.patch('resourceflavors', None, self.test.ns, {'spec': spec})

    def evict(self, job='j', reason='Preempted', message='Preempted to accommodate a higher priority Workload'):
        self.queue.put(lambda: self._condition(self._read(job), 'Evicted', 'True', reason, message))

    def workload(self, job='j'):
        return self.mirror.get('workloads', self.test.ns, 'tfjob-' + job)

    def is_true(self, kind, job='j'):
        return is_true(self.workload(job) or {}, kind)

    def condition(self, kind, job='j'):
        found = (self.workload(job) or {}).get('status', {}).get('conditions', [])
        return next((c for c in found if c['type'] == kind), {})

    def wait(self, what, predicate, seconds=15):
        """As Test.wait, for what is asked of Workloads."""
        value = self.mirror.wait(self.test.ns, predicate, seconds * PATIENCE)
        if not value:
            raise Failure('waited %g s in vain for: %s\n  Workloads %s\n%s' % (
                seconds * PATIENCE, what, [(w['metadata']['name'], w.get('status')) for w in
                                           self.mirror.all('workloads', self.test.ns)], self.test.picture()))
        return value

    def wait_for(self, kind, job='j'):
        self.wait('%s of the Workload of %s' % (kind, job), lambda: self.is_true(kind, job))

    # What Kueue does.

    def _queue_spec(self, pods):
        return {'resourceGroups': [{'coveredResources': ['pods'], 'flavors': [
            {'name': self.test.ns, 'resources': [{'name': 'pods', 'nominalQuota': pods}]}]}]}

    def _seen(self, kind, _, item):
        if item['metadata'].get('namespace') == self.test.ns and kind in ('tfjobs', 'workloads'):
            self._again()

    def _again(self):
        self.queue.put(self._reconcile_all)

    def _work(self):
        while (act := self.queue.get()) is not None:
            try:
                act()
            except (kube.ApiError, OSError, kube.http.client.HTTPException) as e:
                if getattr(e, 'code', 0) not in (404, 409):  # gone, or changed: seen again
                    print('kueue: %s' % e, flush=True)
                elif e.code == 409:
                    time.sleep(0.02)
                    self._again()

    def _reconcile_all(self):
        for job in self.test.client.list('tfjobs', self.test.ns)['items']:
            if QUEUE in job['metadata'].get('labels', {}):
                self._reconcile(job)
        self._admit()

    def _reconcile(self, job):
        name = job['metadata']['name']
        workload = self._read(name)
        ended = finished(job)
        if ended:
            if workload and not is_true(workload, 'Finished'):
                self._condition(workload, 'Finished', 'True', *ended)
        elif workload and not self._fits(job, workload):
            self._replace(job, workload)
        elif not workload:
            self._begin(job)
        elif self._tell_of_pods(job, workload):
            pass
        elif is_true(workload, 'Evicted'):
            self._stop(job, workload)
            if workload['status'].get('admission') and not is_active(self._job(name)):
                self._release(workload)
        elif job['spec'].get('runPolicy', {}).get('suspend'):
            if is_true(workload, 'Admitted'):
                self._start(job, workload)
        elif not is_true(workload, 'Admitted'):
            self._stop(job, workload)

    def _job(self, name):
        return self.test.client.get('tfjobs', self.test.ns, name)

    def _read(self, job):
        try:
            return self.test.client.get('workloads', self.test.ns, 'tfjob-' + job)
        except kube.ApiError as e:
            if e.code == 404:
                return None
            raise

    @staticmethod
    def _fits(job, workload):
        return _compared(pod_sets(job)) == _compared(workload['spec']['podSets'])

    def _begin(self, job):
        if not job['spec'].get('runPolicy', {}).get('suspend'):
            self._stop(job, None)
        elif not is_active(job):
            self.test.client.create('workloads', self.test.ns, {
                'apiVersion': 'kueue.x-k8s.io/v1beta2', 'kind': 'Workload',
                'metadata': {'name': 'tfjob-' + job['metadata']['name'], 'ownerReferences': [self.test.owner(job)]},
                'spec': {'queueName': job['metadata']['labels'][QUEUE], 'podSets': pod_sets(job)}})

    def _replace(self, job, workload):
        """The job is no more what was admitted."""
        name = workload['metadata']['name']
        if job['spec'].get('runPolicy', {}).get('suspend') and not workload.get('status', {}).get('admission'):
            self.test.client.replace('workloads', self.test.ns, name, dict(
                workload, spec=dict(workload['spec'], podSets=pod_sets(job))))
            return
        self._stop(job, workload)
        self.test.client.delete('workloads', self.test.ns, name)

    def _tell_of_pods(self, job, workload):
        """Whether the condition had to be changed."""
        found = next((c for c in workload.get('status', {}).get('conditions', []) if c['type'] == 'PodsReady'), {})
        recovers = found.get('reason') in ('WaitForRecovery', 'Recovered')
        if not is_true(workload, 'Admitted'):
            wanted = ('False', 'WaitForStart')
        elif is_true(job, 'Running'):
            wanted = ('True', 'Recovered' if recovers else 'Started')
        else:
            wanted = ('False', 'WaitForRecovery' if recovers or found.get('status') == 'True' else 'WaitForStart')
        if (found.get('status'), found.get('reason')) == wanted:
            return False
        self._condition(workload, 'PodsReady', *wanted, 'as the condition Running says')
        return True

    def _start(self, job, workload):
        """Flavors into the templates and suspend: false, in one patch."""
        flavor = self.test.client.get('resourceflavors', None, self.test.ns).get('spec', {})
        changed = copy.deepcopy(job)
        changed['spec']['runPolicy']['suspend'] = False
        for kind, template in self._templates(changed):
            spec, meta = template['spec'], template.setdefault('metadata', {})
            meta['labels'] = dict(meta.get('labels', {}), **{POD_SET: kind.lower()})
            meta['annotations'] = dict(meta.get('annotations', {}), **{
                'kueue.x-k8s.io/workload': workload['metadata']['name']})
            spec['nodeSelector'] = dict(spec.get('nodeSelector', {}), **flavor.get('nodeLabels', {}))
            spec['tolerations'] = spec.get('tolerations', []) + flavor.get('tolerations', [])
        self._patch(job, changed)

    def _stop(self, job, workload):
        """suspend: true and the templates as they were, in one patch; nothing where it is suspended already."""
        if job['spec'].get('runPolicy', {}).get('suspend'):
            return
        changed = copy.deepcopy(job)
        changed['spec'].setdefault('runPolicy', {})['suspend'] = True
        before = {one['name']: one['template'] for one in workload['spec']['podSets']} if workload else {}
        for kind, template in self._templates(changed):
            old = before.get(kind.lower())
            if old is None:
                continue
            for part, keys in (('metadata', ('labels', 'annotations')), ('spec', ('nodeSelector', 'tolerations'))):
                for key in keys:
                    template.setdefault(part, {}).pop(key, None)
                    if key in old.get(part, {}):
                        template[part][key] = old[part][key]
        self._patch(job, changed)

    @staticmethod
    def _templates(job):
        specs = job['spec']['tfReplicaSpecs']
        return [(kind, specs[kind]['template']) for kind in TYPES if kind in specs]

    def _patch(self, job, changed):
        patch = merge_patch(job, changed)
        if patch:
            patch['metadata'] = {'resourceVersion': job['metadata']['resourceVersion']}
            self.test.client.patch('tfjobs', self.test.ns, job['metadata']['name'], patch)

    def _admit(self):
        """Whom the quota has room for, the oldest first."""
        found = self.test.client.get('clusterqueues', None, self.test.ns)['spec']['resourceGroups'][0]
        room = found['flavors'][0]['resources'][0]['nominalQuota']
        workloads = [w for w in self.test.client.list('workloads', self.test.ns)['items']
                     if not is_true(w, 'Finished') and not w['metadata'].get('deletionTimestamp')]
        count = {w['metadata']['name']: sum(one['count'] for one in w['spec']['podSets']) for w in workloads}
        room -= sum(count[w['metadata']['name']] for w in workloads if w.get('status', {}).get('admission'))
        for workload in sorted(workloads, key=lambda w: (w['metadata']['creationTimestamp'], w['metadata']['name'])):
            if workload.get('status', {}).get('admission'):
                continue
            name = workload['metadata']['name']
            if count[name] > room:
                continue
            room -= count[name]
            self._write(workload, {'admission': {'clusterQueue': self.test.ns, 'podSetAssignments': [
                {'name': one['name'], 'count': one['count'], 'flavors': {'pods': self.test.ns}}
                for one in workload['spec']['podSets']]}}, {
                    'QuotaReserved': ('True', 'QuotaReserved', ''), 'Admitted': ('True', 'Admitted', ''),
                    'Evicted': ('False', 'QuotaReserved', 'admitted again')})

    def _release(self, workload):
        self._write(workload, {'admission': None}, {
            'QuotaReserved': ('False', 'PendingEvaluation', 'evicted'), 'Admitted': ('False', 'NoReservation', 'evicted')})

    def _condition(self, workload, kind, status, reason, message):
        self._write(workload, {}, {kind: (status, reason, message)})

    def _write(self, workload, status, conditions):
        kept = [c for c in workload.get('status', {}).get('conditions', []) if c['type'] not in conditions]
        kept += [{'type': kind, 'status': value[0], 'reason': value[1], 'message': value[2], 'lastTransitionTime': now()}
                 for kind, value in conditions.items()]
        self.test.client.patch('workloads', self.test.ns, workload['metadata']['name'], {
            'metadata': {'resourceVersion': workload['metadata']['resourceVersion']},
            'status': dict(status, conditions=kept)}, 'status')
