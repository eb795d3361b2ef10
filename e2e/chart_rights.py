"""The rights that the chart grants: what its ServiceAccount may do, read from the cluster's roles, and what the operator
did with them, read from the API server's audit log. Neither may lack what the other has."""
import base64
import json
import os
import time

import gang
import harness
import kube
from control_plane import PATIENCE, free_port, write_kubeconfig
from harness import LABEL, Failure, tfjob
from operator_process import Operator

# Metadata of what service accounts do, and of nobody else.
AUDIT_POLICY = {'apiVersion': 'audit.k8s.io/v1', 'kind': 'Policy', 'omitStages': ['RequestReceived'], 'rules': [
    {'level': 'Metadata', 'userGroups': ['system:serviceaccounts']}, {'level': 'None'}]}
LEASE_TIMES = ['--leader-election-lease-duration=3s', '--leader-election-renew-deadline=2s',
               '--leader-election-retry-period=500ms']
POD_GROUPS = {'volcano': gang.VOLCANO, 'coscheduler': gang.PLUGINS}
PODS = ('j-ps-0', 'j-worker-0', 'j-worker-1')
SECONDS = 60


def until(what, predicate, seconds=SECONDS):
    """The first true value of predicate()."""
    deadline = time.monotonic() + seconds * PATIENCE
    while not (value := predicate()):
        if time.monotonic() > deadline:
            raise Failure('waited %g s in vain for: %s' % (seconds * PATIENCE, what))
        time.sleep(0.1)
    return value


class Patient(harness.Test):
    """A case's namespace, with deadlines for a busy machine."""

    def wait(self, what, predicate, seconds=SECONDS):
        return super().wait(what, predicate, max(seconds, SECONDS))


class Account:
    """A ServiceAccount of the cluster: its token, its rights and its calls from now on."""

    def __init__(self, cluster, client, namespace, name):
        self.client = client
        self.namespace = namespace
        self.name = name
        self.user = 'system:serviceaccount:%s:%s' % (namespace, name)
        self.audit_log = cluster.path('audit.log')
        self.seen = os.path.getsize(self.audit_log) if os.path.exists(self.audit_log) else 0

    def kubeconfig(self, cluster, path):
        """Written to `path`: the account's token, as a pod would have it."""
        answer = self.client.request('POST', kube.path_of('serviceaccounts', self.namespace, self.name, 'token'), {
            'apiVersion': 'authentication.k8s.io/v1', 'kind': 'TokenRequest', 'spec': {'expirationSeconds': 3600}})
        with open(cluster.certificates.path('ca.crt'), 'rb') as f:
            authority = base64.b64encode(f.read()).decode()
        write_kubeconfig(path, self.client.server, {'certificate-authority-data': authority},
                         {'token': answer['status']['token']})
        return path

    def granted(self):
        """{(namespace, API group, resource, name, verb)} of every role bound to it; "" is any namespace, any name."""
        out = set()
        us = {'kind': 'ServiceAccount', 'namespace': self.namespace, 'name': self.name}
        for bindings, roles in (('clusterrolebindings', 'clusterroles'), ('rolebindings', 'roles')):
            for binding in self.client.list(bindings)['items']:
                if us in binding.get('subjects', []):
                    namespace = binding['metadata'].get('namespace', '')
                    role = self.client.get(roles, namespace, binding['roleRef']['name'])
                    out |= {(namespace, group, resource, name, verb) for rule in role['rules']
                            for group in rule['apiGroups'] for resource in rule['resources']
                            for name in rule.get('resourceNames', ['']) for verb in rule['verbs']}
        return out

    def may(self, namespace, group, resource, name, verb):
        plural, _, sub = resource.partition('/')
        answer = self.client.request('POST', '/apis/authorization.k8s.io/v1/subjectaccessreviews', {
            'spec': {'user': self.user, 'groups': ['system:serviceaccounts', 'system:authenticated'], 'resourceAttributes': {
                'namespace': namespace, 'group': group, 'resource': plural, 'subresource': sub, 'name': name, 'verb': verb}}})
        return answer['status']['allowed']

    def in_force(self, rights):
        """Waits until the API server's authoriser knows them: it follows roles with a delay."""
        for right in sorted(rights):
            until('%s to be allowed %s' % (self.user, right), lambda right=right: self.may(*right))

    def calls(self):
        """[(status, namespace, API group, resource, verb, URI)] of all that it asked of the API server."""
        with open(self.audit_log, 'rb') as f:
            f.seek(self.seen)
            events = [json.loads(line) for line in f.read().splitlines() if line.endswith(b'}')]
        out = []
        for event in events:
            if event['user']['username'] == self.user:
                target = event.get('objectRef', {})
                resource = '/'.join(filter(None, (target.get('resource'), target.get('subresource'))))
                out.append((event.get('responseStatus', {}).get('code', 0), target.get('namespace', ''),
                            target.get('apiGroup', ''), resource, event['verb'], event['requestURI']))
        return out

    def prove(self, rights):
        """Nothing was refused, and nothing is granted that was not needed."""
        calls = self.calls()
        refused = sorted({call for call in calls if call[0] in (401, 403)})
        if refused:
            raise Failure('the chart grants too little; refused were:\n  %s' % '\n  '.join(map(str, refused)))
        used = {call[2:5] for call in calls}
        idle = sorted({(group, resource, verb) for _, group, resource, _, verb in rights} - used)
        if idle:
            raise Failure('the chart grants what a whole life of jobs never used: %s' % idle)
        return len(calls)


class Lives:
    """Operators with the flags of the Deployment and the account's token, and jobs that need every right of theirs."""

    def __init__(self, test, kubeconfig, deployment):
        self.test = test
        self.kubeconfig = kubeconfig
        self.home = deployment['metadata']['namespace']
        self.container = deployment['spec']['template']['spec']['containers'][0]
        self.flags = self.container['args']
        self.series = {}  # of an operator's metrics, once jobs have lived
        self.pod_groups = POD_GROUPS[self.flag('--gang-scheduler-name')]

    def flag(self, name):
        return next(flag.partition('=')[2] for flag in self.flags if flag.startswith(name + '='))

    def operator(self):
        t = self.test
        log = os.path.join(t.world.logs, '%s-%d.log' % (t.ns, len(t.operators)))
        page = '--page-bind-address=127.0.0.1:%d' % free_port()  # the Deployment's port is that of each pod
        operator = Operator(t.world.args.operator, self.kubeconfig, log, [*self.flags, *LEASE_TIMES, page], leader_elect=True)
        t.operators.append(operator)
        operator.start(wait=False)
        operator.wait_ready(SECONDS)
        return operator

    def holder(self):
        try:
            return self.test.client.get('leases', self.home, self.flag('--leader-election-id'))['spec'].get('holderIdentity')
        except kube.ApiError:
            return None

    def live(self):
        """Leaves a job `keep` that runs."""
        t = self.test
        first = self.operator()
        for probe in ('livenessProbe', 'readinessProbe'):
            t.expect('an answer to the ' + probe, bool(first.page(self.container[probe]['httpGet']['path'])))
        leader = until('a leader', self.holder)
        second = self.operator()
        self.take_names()
        self.start_job()
        first.kill()
        until('another leader', lambda: self.holder() not in (None, '', leader))
        self.end_job()
        t.create(tfjob('keep', Worker=1))
        t.wait_running('keep-worker-0')
        t.wait_for('Running', 'keep')
        self.series = second.metrics()
        t.expect('exit status', second.stop(SECONDS), 0)

    def take_names(self):
        """Jobs whose pod, service and PodGroup are there already: the operator has to look at them."""
        t = self.test
        t.client.create('pods', t.ns, {'metadata': {'name': 'k-worker-0'}, 'spec': harness.template()['spec']})
        t.client.create('services', t.ns, {'metadata': {'name': 's-worker-0'}, 'spec': {'ports': [{'port': 1}]}})
        t.client.create(self.pod_groups, t.ns, {
            'apiVersion': kube.GROUPS[self.pod_groups].partition('/apis/')[2], 'kind': 'PodGroup',
            'metadata': {'name': 'k'}, 'spec': {'minMember': 1}})
        for name, reason in (('k', 'PodNameTaken'), ('s', 'ServiceNameTaken')):
            t.create(tfjob(name, Worker=1))
            t.wait('the event %s' % reason, lambda name=name, reason=reason: t.events(reason, name))

    def start_job(self):
        """With a service that lost its owner and is taken back; and through a suspension, after which its Secret is there
        already."""
        t = self.test
        labels = {LABEL + 'operator-name': 'tfjob-controller', LABEL + 'job-name': 'j',
                  LABEL + 'replica-type': 'worker', LABEL + 'replica-index': '0'}
        t.client.create('services', t.ns, {
            'metadata': {'name': 'j-worker-0', 'labels': labels},
            'spec': {'clusterIP': 'None', 'selector': labels, 'ports': [{'name': 'tfjob-port', 'port': 2222}]}})
        self.make_and_scale_away_claims()
        t.create(tfjob(PS=1, Worker=(2, 'ExitCode'), policy={'cleanPodPolicy': 'All', 'ttlSecondsAfterFinished': 1},
                       metadata={'annotations': {'trainyard.dev/task-tls': 'true'}}))
        t.wait_running(*PODS)
        t.wait_for('Running')
        self.suspend_and_resume()

    def make_and_scale_away_claims(self):
        """Of two workers, one of whose claims is there already."""
        t = self.test
        spec = {'accessModes': ['ReadWriteOnce'], 'resources': {'requests': {'storage': '1Gi'}}}
        t.client.create('persistentvolumeclaims', t.ns, {'metadata': {'name': 'own-c-worker-0'}, 'spec': spec})
        t.create(tfjob('c', Worker={
            'replicas': 2, 'template': harness.template(), 'persistentVolumeClaimRetentionPolicy': {'whenScaled': 'Delete'},
            'volumeClaimTemplates': [{'metadata': {'name': 'own'}, 'spec': spec}]}))
        t.wait_running('c-worker-0', 'c-worker-1')
        t.patch('c', {'tfReplicaSpecs': {'Worker': {'replicas': 1}}})
        t.wait('the claim to go', lambda: any(
            claim['metadata'].get('deletionTimestamp') for claim in t.client.list('persistentvolumeclaims', t.ns)['items'])
            or len(t.client.list('persistentvolumeclaims', t.ns)['items']) == 1)
        t.client.delete('tfjobs', t.ns, 'c')

    def suspend_and_resume(self):
        t = self.test
        t.patch('j', {'runPolicy': {'suspend': True}})
        t.wait_for('Suspended')
        t.wait('no pods of it', lambda: not set(PODS) & {p['metadata']['name'] for p in t.mirror.all('pods', t.ns)})
        t.wait('the event', lambda: t.events('TFJobSuspended'))
        t.patch('j', {'runPolicy': {'suspend': False}})
        t.wait_running(*PODS)
        t.wait_for('Running')

    def end_job(self):
        """Through a restart, a suspension whose event the operator before has sent already, success, the clean-up and
        the TTL."""
        t = self.test
        failed = t.pod('j-worker-1')['metadata']['uid']
        t.exit('j-worker-1', 137)
        t.wait('the replacement to run', lambda: (t.pod('j-worker-1') or {'metadata': {'uid': failed}})['metadata']['uid'] !=
               failed and set(PODS) <= set(t.pods('Running')))
        self.suspend_and_resume()
        t.wait('its event to be counted', lambda: t.events('TFJobSuspended')[0].get('count') == 2)
        t.exit('j-worker-0')
        t.wait('success', lambda: t.ever('Succeeded'))
        t.wait('the job to be deleted by its TTL', lambda: t.job() is None)
