"""What tests are written with: a registry of cases, a builder of TFJobs, and Test, one case's namespace with
deadlines on every wait. A case passes when its function returns; what it returns is printed."""
import json
import os
import threading
import time

import kube
import operator_process
from control_plane import PATIENCE
from kubelet import NODE

LABEL = 'training.kubeflow.org/'
CASES = []


class Failure(Exception):
    """What was expected and what was there."""


class Case:
    def __init__(self, function, ids, flags, environment, operator):
        self.function = function
        self.ids = ids
        self.flags = flags
        self.environment = environment
        self.operator = operator
        self.name = function.__name__
        self.file = os.path.basename(function.__code__.co_filename)

    def own(self):
        return self.operator != 'shared'


def case(*ids, flags=None, environment=None, operator='shared'):
    """Registers a test of these behaviours. `flags`, `environment`: it gets an operator of its own with them, which
    follows its namespace alone. operator='none': it gets none, and starts what it needs; 'alone': so, after all others,
    with none beside it."""
    if (flags or environment) and operator == 'shared':
        operator = 'own'

    def register(function):
        CASES.append(Case(function, ids, flags or [], environment or {}, operator))
        return function
    return register


def template(name='tensorflow', image='train:1', **spec):
    container = {'name': name, 'image': image}
    container.update(spec.pop('container', {}))
    meta = spec.pop('metadata', None)
    out = {'spec': dict({'containers': [container]}, **spec)}
    if meta:
        out['metadata'] = meta
    return out


def tfjob(name='j', restart='Never', policy=None, spec=None, pod=None, metadata=None, **replicas):
    """tfjob(PS=1, Worker=2): replica types are numbers, or whole replica specs, or (number, restartPolicy)."""
    types = {}
    for kind, value in replicas.items():
        if isinstance(value, dict):
            types[kind] = value
            continue
        count, restart_policy = value if isinstance(value, tuple) else (value, restart)
        types[kind] = {'replicas': count, 'restartPolicy': restart_policy, 'template': pod or template()}
    body = dict({'tfReplicaSpecs': types}, **(spec or {}))
    if policy is not None:
        body['runPolicy'] = policy
    return {'apiVersion': 'kubeflow.org/v1', 'kind': 'TFJob', 'metadata': dict({'name': name}, **(metadata or {})),
            'spec': body}


class Test:
    """One case's view of the cluster: its namespace."""

    def __init__(self, world, namespace, operator=None):
        self.world = world
        self.ns = namespace
        self.client = world.client
        self.mirror = world.mirror
        self.operator = operator
        self.operators = []

    def start_operator(self, *flags, namespaced=True, kubeconfig=None, wait=True, **how):
        """An operator for this case, which ends with it; for cases with operator='none'."""
        log = os.path.join(self.world.logs, '%s-%d.log' % (self.ns, len(self.operators)))
        if namespaced:
            flags = ('--namespace=' + self.ns, *flags)
        operator = operator_process.Operator(self.world.args.operator, kubeconfig or self.world.kubeconfig, log, flags,
                                             **how)
        self.operators.append(operator)
        return operator.start(wait)

    # Acting.

    def create(self, job):
        return self.client.create('tfjobs', self.ns, job)

    def patch(self, name, spec, **more):
        return self.client.patch('tfjobs', self.ns, name, dict({'spec': spec}, **more))

    def rule(self, pattern, **how):
        self.world.kubelet.rule(self.ns, pattern, **how)

    def start(self, *names):
        for name in names:
            self.world.kubelet.start(self.ns, name)

    def exit(self, name, code=0, **how):
        self.world.kubelet.exit(self.ns, name, code, **how)

    def put_pod(self, job, kind, index, phase, code=None):
        """A pod of the job that was there before: as v1.9 names and labels it, in this phase."""
        name = '%s-%s-%d' % (job['metadata']['name'], kind, index)
        labels = {LABEL + 'operator-name': 'tfjob-controller', LABEL + 'job-name': job['metadata']['name'],
                  LABEL + 'replica-type': kind, LABEL + 'replica-index': str(index)}
        self.rule(name, hold=True)
        self.client.create('pods', self.ns, {
            'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': name, 'labels': labels,
                                                            'ownerReferences': [self.owner(job)]},
            'spec': dict(template()['spec'], nodeName=NODE, restartPolicy='Never')})
        if phase != 'Pending':
            status = {'phase': phase, 'startTime': '2026-01-01T00:00:00Z'}
            if code is not None:
                status['containerStatuses'] = [{
                    'name': 'tensorflow', 'image': 'train:1', 'imageID': '', 'ready': False, 'restartCount': 0,
                    'state': {'terminated': {'exitCode': code, 'reason': 'Completed' if code == 0 else 'Error'}}}]
            self.client.patch('pods', self.ns, name, {'status': status}, 'status')

    def quota(self, **hard):
        """A quota that is in force at once: the controller that would write its status may be busy elsewhere."""
        try:
            self.client.create('resourcequotas', self.ns, {'metadata': {'name': 'quota'}, 'spec': {'hard': hard}})
        except kube.ApiError:
            self.client.patch('resourcequotas', self.ns, 'quota', {'spec': {'hard': hard}})
        used = self.client.get('resourcequotas', self.ns, 'quota').get('status', {}).get('used', {})
        self.client.patch('resourcequotas', self.ns, 'quota', {
            'status': {'hard': hard, 'used': dict({key: '0' for key in hard}, **used)}}, 'status')

    @staticmethod
    def owner(job):
        return {'apiVersion': 'kubeflow.org/v1', 'kind': 'TFJob', 'name': job['metadata']['name'],
                'uid': job['metadata']['uid'], 'controller': True, 'blockOwnerDeletion': True}

    # Looking.

    def job(self, name='j'):
        return self.mirror.get('tfjobs', self.ns, name)

    def status(self, name='j'):
        return (self.job(name) or {}).get('status', {})

    def pod(self, name):
        return self.mirror.get('pods', self.ns, name)

    def pods(self, phase=None):
        """Names of the pods that are there and not being deleted."""
        return [p['metadata']['name'] for p in self.mirror.all('pods', self.ns)
                if not p['metadata'].get('deletionTimestamp') and phase in (None, p['status'].get('phase'))]

    def services(self):
        return [s['metadata']['name'] for s in self.mirror.all('services', self.ns)]

    def conditions(self, name='j'):
        """[(type, status, reason)] in their order."""
        return [(c['type'], c['status'], c.get('reason')) for c in self.status(name).get('conditions', [])]

    def condition(self, kind, name='j'):
        return next((c for c in self.status(name).get('conditions', []) if c['type'] == kind), None)

    def is_true(self, kind, name='j'):
        condition = self.condition(kind, name)
        return condition is not None and condition['status'] == 'True'

    def counts(self, kind, name='j'):
        """(active, succeeded, failed) of a replica type."""
        entry = self.status(name).get('replicaStatuses', {}).get(kind, {})
        return tuple(entry.get(key, 0) for key in ('active', 'succeeded', 'failed'))

    def events(self, reason=None, name='j'):
        return [e for e in self.mirror.all('events', self.ns) if e['involvedObject'].get('name') == name and
                e['involvedObject'].get('kind') == 'TFJob' and reason in (None, e['reason'])]

    def env(self, pod, name='TF_CONFIG', container=0):
        variables = {e['name']: e.get('value') for e in self.pod(pod)['spec']['containers'][container].get('env', [])}
        return variables.get(name)

    def made(self, kind, name=None):
        """Uids of every object of this kind that ever was, in order."""
        uids = []
        for seen, _, item in self.mirror.past(self.ns):
            if seen == kind and name in (None, item['metadata']['name']) and item['metadata']['uid'] not in uids:
                uids.append(item['metadata']['uid'])
        return uids

    def ever(self, kind, name='j'):
        """Whether the job's condition was ever True."""
        return any(c['type'] == kind and c['status'] == 'True' for seen, _, item in self.mirror.past(self.ns)
                   if seen == 'tfjobs' and item['metadata']['name'] == name
                   for c in item.get('status', {}).get('conditions', []))

    # Waiting.

    def wait(self, what, predicate, seconds=15):
        """The first true value of predicate(); fails with what there was instead."""
        value = self.mirror.wait(self.ns, predicate, seconds * PATIENCE)
        if not value:
            raise Failure('waited %g s in vain for: %s\n%s' % (seconds * PATIENCE, what, self.picture()))
        return value

    def wait_for(self, kind, name='j', seconds=15):
        self.wait('%s to be True on %s' % (kind, name), lambda: self.is_true(kind, name), seconds)
        return self.condition(kind, name)

    def wait_pods(self, *names, seconds=15):
        self.wait('exactly the pods %s' % (names,), lambda: self.pods() == sorted(names), seconds)

    def wait_running(self, *names, seconds=15):
        self.wait('the pods %s to run' % (names,), lambda: set(names) <= set(self.pods('Running')), seconds)

    def wait_services(self, *names, seconds=15):
        self.wait('exactly the services %s' % (names,), lambda: self.services() == sorted(names), seconds)

    def wait_counts(self, kind, active=0, succeeded=0, failed=0, name='j'):
        self.wait('%s to count %s' % (kind, (active, succeeded, failed)),
                  lambda: self.counts(kind, name) == (active, succeeded, failed))

    def stays(self, what, predicate, seconds=1.5):
        """Fails when predicate() turns false within that time."""
        if self.mirror.wait(self.ns, lambda: not predicate(), seconds):
            raise Failure('did not stay so: %s\n%s' % (what, self.picture()))

    def expect(self, what, got, wanted=True):
        if got != wanted:
            raise Failure('%s: wanted %r, got %r\n%s' % (what, wanted, got, self.picture()))

    def refused(self, job, *texts, kind='tfjobs'):
        """The API server's message on refusing this object, which must contain each text."""
        try:
            self.client.create(kind, self.ns, job, dryRun='All')
        except kube.ApiError as e:
            for text in texts:
                if text not in e.message:
                    raise Failure('refused, but without %r: %s' % (text, e.message)) from None
            return e.message
        raise Failure('admitted: %s' % json.dumps(job)[:2000])

    def picture(self):
        """The namespace in few lines, for failures."""
        lines = ['  namespace ' + self.ns]
        for job in self.mirror.all('tfjobs', self.ns):
            lines.append('  job %s %s' % (job['metadata']['name'], json.dumps(job.get('status', {}))[:1500]))
        for pod in self.mirror.all('pods', self.ns):
            states = [list(c['state'].items()) for c in pod['status'].get('containerStatuses', [])]
            lines.append('  pod %s %s%s %s' % (
                pod['metadata']['name'], pod['status'].get('phase'),
                ' (being deleted)' if pod['metadata'].get('deletionTimestamp') else '', str(states)[:200]))
        lines.append('  services %s' % self.services())
        for event in self.mirror.all('events', self.ns)[-8:]:
            lines.append('  event %s: %s' % (event.get('reason'), event.get('message', '')[:200]))
        return '\n'.join(lines)


class World:
    """What all cases share."""

    def __init__(self, client, mirror, kubelet, kubeconfig, args, logs):
        self.client = client
        self.mirror = mirror
        self.kubelet = kubelet
        self.kubeconfig = kubeconfig
        self.args = args
        self.logs = logs
        self.lock = threading.Lock()
        self.count = 0
        self.mark = '%x' % (int(time.time()) & 0xffffff)

    def namespace(self, case_name):
        with self.lock:
            self.count += 1
            name = 'e2e-%s-%d-%s' % (self.mark, self.count, case_name.replace('_', '-'))
        name = name[:50].rstrip('-')
        self.client.create('namespaces', None, {'metadata': {'name': name, 'labels': {'trainyard-e2e': self.mark}}})
        return name
