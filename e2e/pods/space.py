"""Space: a case's own namespace, with volumes, and waits that have deadlines and say what they waited for.

Talks to the API server with the official client only, so that no client of ours judges itself."""
import os
import re
import time

from kubernetes import client
from kubernetes.client.rest import ApiException

import providers

PATIENCE = float(os.environ.get('TEST_PATIENCE', '1'))
TFJOBS = ('kubeflow.org', 'v1')
STEP = re.compile(r'\((\d+) global steps\)|^step: (\d+),|global_step=(\d+)', re.M)
JOB_NAME = 'training.kubeflow.org/job-name'


def absent(call, *args, **more):
    """The call's answer, or None where the object is not there."""
    try:
        return call(*args, **more)
    except ApiException as e:
        if e.status == 404:
            return None
        raise


class Space:
    """Namespace `name` in the cluster of `stage`."""

    def __init__(self, stage, name):
        self.stage = stage
        self.name = name
        self.core = client.CoreV1Api(stage.api)
        self.custom = client.CustomObjectsApi(stage.api)
        self.policy = client.PolicyV1Api(stage.api)
        self.volumes = []

    # Making the namespace and taking it away.

    def create(self):
        self.core.create_namespace({'metadata': {'name': self.name, 'labels': {'trainyard-e2e': self.stage.mark}}})
        self.wait('the namespace to have its service account', lambda: absent(
            self.core.read_namespaced_service_account, 'default', self.name))
        for claim in ('checkpoints', 'digits'):
            self.claim(claim, self.stage.provider.volume('digits' if claim == 'digits' else self.name))
        return self

    def claim(self, name, source, node=None):
        """A PersistentVolumeClaim that is bound: to a volume of `source`, on `node` alone where one is named."""
        spec = {'accessModes': ['ReadWriteMany'], 'resources': {'requests': {'storage': '1Gi'}}}
        if source is None:
            if self.stage.options['storage_class']:
                spec['storageClassName'] = self.stage.options['storage_class']
        else:
            volume = '%s-%s' % (self.name, name)
            spec.update(storageClassName='', volumeName=volume)
            body = {'capacity': {'storage': '1Gi'}, 'accessModes': ['ReadWriteMany'], 'storageClassName': '',
                    'persistentVolumeReclaimPolicy': 'Retain', 'claimRef': {'namespace': self.name, 'name': name}, **source}
            if node:
                body['nodeAffinity'] = {'required': {'nodeSelectorTerms': [{'matchExpressions': [
                    {'key': 'kubernetes.io/hostname', 'operator': 'In', 'values': [node]}]}]}}
            self.core.create_persistent_volume({'metadata': {
                'name': volume, 'labels': {'trainyard-e2e': self.stage.mark}}, 'spec': body})
            self.volumes.append(volume)
        self.core.create_namespaced_persistent_volume_claim(self.name, {'metadata': {'name': name}, 'spec': spec})
        if source is not None:
            self.wait('claim %s to be bound' % name, lambda: self.core.read_namespaced_persistent_volume_claim(
                name, self.name).status.phase == 'Bound')

    def remove(self):
        """Asks for the end of all that is here; does not wait for it. Pods go at once: a namespace that waits for their
        grace looks again only after half of it."""
        self.custom.delete_collection_namespaced_custom_object(*TFJOBS, self.name, 'tfjobs')
        self.core.delete_collection_namespaced_pod(self.name, grace_period_seconds=0)
        absent(self.core.delete_namespace, self.name)
        for volume in self.volumes:
            absent(self.core.delete_persistent_volume, volume)

    # Acting.

    def apply(self, job):
        """Creates the TFJob; its name."""
        for replica in job['spec']['tfReplicaSpecs'].values():
            for container in replica['template']['spec']['containers']:
                if container['image'].startswith('trainyard/trainer:'):
                    container['image'] = self.stage.trainer_image
        self.custom.create_namespaced_custom_object(*TFJOBS, self.name, 'tfjobs', job)
        return job['metadata']['name']

    def patch(self, job, spec):
        self.custom.patch_namespaced_custom_object(*TFJOBS, self.name, 'tfjobs', job, {'spec': spec})

    def delete(self, job):
        """Deletes the job and waits until it and its pods are gone."""
        self.custom.delete_namespaced_custom_object(*TFJOBS, self.name, 'tfjobs', job)
        self.wait('%s and its pods to be gone' % job, lambda: not self.job(job) and not self.pods(job))

    def delete_pod(self, name, grace=None):
        self.core.delete_namespaced_pod(name, self.name, grace_period_seconds=grace)

    def kill(self, pod):
        """Kills the process of the pod's first container."""
        status = self.pod(pod)
        self.stage.provider.kill(status.spec.node_name, status.status.container_statuses[0].container_id.partition('//')[2])

    def run(self, name, *args, mounts=(), labels=None):
        """Runs the trainer once, as a pod of its own with `mounts` ({path: volume}), to its end; its exit code and what it
        printed."""
        mounts = {'v%d' % i: mount for i, mount in enumerate(dict(mounts).items())}
        self.core.create_namespaced_pod(self.name, {'metadata': {'name': name, 'labels': labels}, 'spec': {
            'restartPolicy': 'Never',
            'containers': [{'name': 'trainer', 'image': self.stage.trainer_image, 'args': list(args),
                            'volumeMounts': [{'name': n, 'mountPath': path} for n, (path, _) in mounts.items()]}],
            'volumes': [{'name': n, **volume} for n, (_, volume) in mounts.items()]}})
        self.wait('pod %s to end' % name, lambda: self.pod(name).status.phase in ('Succeeded', 'Failed'), 300)
        return self.pod(name).status.container_statuses[0].state.terminated.exit_code, self.logs(name)

    def trainer(self, name, *args):
        """Runs the trainer with both volumes, to its good end; what it printed."""
        code, output = self.run(name, *args, mounts={
            '/' + path: {'persistentVolumeClaim': {'claimName': claim}}
            for path, claim in (('checkpoints', 'checkpoints'), ('data', 'digits'))})
        assert code == 0, 'trainer %s failed: %s' % (' '.join(args), output)
        return output

    def need_digits(self):
        """For cases that read claim `digits`: fills it where the namespace has one of its own."""
        if not self.stage.provider.shares_folders:
            self.trainer('synthesize', 'data', 'synthesize', '--data_dir=/data')

    def need_nodes(self, count):
        """For cases that want pods to go elsewhere."""
        found = len(self.core.list_node().items)
        if found < count:
            raise providers.Unsupported('it takes %d nodes, and the cluster of provider %s has %d' % (
                count, self.stage.provider.name, found))

    def evaluate(self, job):
        """(global step, accuracy) of the newest checkpoint of this job, read from the volume by a pod of its own."""
        printed = self.trainer('eval-' + job, 'eval', '--checkpoint_dir=/checkpoints/' + job, '--data_dir=/data')
        found = re.search(r'eval global_step=(\d+) test_accuracy=([\d.]+)', printed)
        assert found, printed
        return int(found.group(1)), float(found.group(2))

    # Looking.

    def job(self, name):
        return absent(self.custom.get_namespaced_custom_object, *TFJOBS, self.name, 'tfjobs', name)

    def conditions(self, name):
        """{type: condition} of those that are true."""
        status = (self.job(name) or {}).get('status', {})
        return {c['type']: c for c in status.get('conditions', []) if c['status'] == 'True'}

    def pods(self, job):
        """{name: pod} of this job."""
        listed = self.core.list_namespaced_pod(self.name, label_selector='%s=%s' % (JOB_NAME, job)).items
        return {pod.metadata.name: pod for pod in listed}

    def phases(self, job):
        return {name: pod.status.phase for name, pod in self.pods(job).items()}

    def pod(self, name):
        return absent(self.core.read_namespaced_pod, name, self.name)

    def uid(self, pod):
        found = self.pod(pod)
        return found.metadata.uid if found else None

    def logs(self, pod, **how):
        try:
            return self.core.read_namespaced_pod_log(pod, self.name, **how) or ''
        except ApiException as e:
            if e.status in (400, 404):  # not started, or gone
                return ''
            raise

    def step(self, pod):
        """The newest global step that this pod has printed; 0 before the first."""
        return max((int(next(filter(None, groups))) for groups in STEP.findall(self.logs(pod))), default=0)

    def events(self, name, reason=None):
        """Messages of the events about the object of this name."""
        listed = self.core.list_namespaced_event(self.name, field_selector='involvedObject.name=' + name).items
        return [e.message for e in listed if reason in (None, e.reason)]

    # Waiting.

    def wait(self, what, done, seconds=120, every=0.2):
        deadline = time.monotonic() + seconds * PATIENCE
        while True:
            answer = done()
            if answer:
                return answer
            assert time.monotonic() < deadline, 'waited %d s in vain for %s; now there are: %s' % (
                seconds * PATIENCE, what, self.summary())
            time.sleep(every)

    def wait_for(self, job, condition, seconds=180):
        def reached():
            true = self.conditions(job)
            ended = {'Succeeded', 'Failed'} & set(true) - {condition}
            assert not ended, '%s was to become %s and is %s: %s; %s' % (
                job, condition, ended, [true[e].get('message') for e in ended], self.summary())
            return true.get(condition)
        return self.wait('%s to be %s' % (job, condition), reached, seconds)

    def wait_step(self, pod, step, seconds=180):
        self.wait('%s to reach step %d' % (pod, step), lambda: self.step(pod) >= step, seconds)

    def summary(self):
        """One line on all jobs and pods here."""
        jobs = self.custom.list_namespaced_custom_object(*TFJOBS, self.name, 'tfjobs')['items']
        parts = ['%s %s' % (j['metadata']['name'], sorted(self.conditions(j['metadata']['name']))) for j in jobs[:10]]
        for pod in self.core.list_namespaced_pod(self.name).items[:30]:
            parts.append('%s %s%s' % (pod.metadata.name, pod.status.phase, ''.join(
                ' (%s)' % (state.waiting or state.terminated).reason
                for state in (c.state for c in pod.status.container_statuses or []) if state.waiting or state.terminated)))
        return '; '.join(parts)
