"""Mistakes of users: said once and clearly, never retried hot, and over by themselves when the cause goes. And the
manifests that people have: all of them end well."""
import os
import re

import control_plane
import kube
from harness import case, template, tfjob
from test_faults import through_proxy


def tries(t, proxy, seconds=5):
    """Creates of pods within that time."""
    before = proxy.count('POST', 'pods')
    t.mirror.wait(t.ns, lambda: False, seconds)
    return proxy.count('POST', 'pods') - before


def blocked(t, *texts):
    """The condition that says what stands in the way, and an event that says the same."""
    message = t.wait('a condition about it', lambda: t.is_true('Blocked') and t.condition('Blocked'))['message']
    event = t.wait('an event about it', lambda: [e for e in t.events() if e['type'] == 'Warning'])[0]
    for text in texts:
        t.expect('%r in the condition: %s' % (text, message), text in message)
        t.expect('%r in the event: %s' % (text, event['message']), text in event['message'])


def not_hot(t, proxy):
    count = tries(t, proxy)
    t.expect('%d tries in 5 s are at most 5' % count, count <= 5)
    warnings = sum(e.get('count', 1) for e in t.events() if e['type'] == 'Warning')
    t.expect('%d warnings are at most 3' % warnings, warnings <= 3)


def recovers(t, proxy, *pods):
    t.wait_running(*pods, seconds=60)
    t.wait('no obstacle any more', lambda: not t.is_true('Blocked'), 20)
    proxy.stop()


@case(operator='none')
def template_that_the_api_server_refuses(t):
    proxy = through_proxy(t)
    pod = template(container={'volumeMounts': [{'name': 'nowhere', 'mountPath': '/x'}]})
    t.create(tfjob(Worker=1, pod=pod))
    blocked(t, 'nowhere')
    not_hot(t, proxy)
    pod['spec']['volumes'] = [{'name': 'nowhere', 'emptyDir': {}}]
    t.patch('j', {'tfReplicaSpecs': {'Worker': {'template': pod}}})
    recovers(t, proxy, 'j-worker-0')


@case(operator='none')
def priority_class_that_does_not_exist(t):
    proxy = through_proxy(t)
    name = 'p-' + t.ns[-12:].strip('-')
    t.create(tfjob(Worker=1, pod=template(priorityClassName=name)))
    blocked(t, name)
    not_hot(t, proxy)
    t.client.request('POST', '/apis/scheduling.k8s.io/v1/priorityclasses', {'metadata': {'name': name}, 'value': 5})
    recovers(t, proxy, 'j-worker-0')
    t.client.request('DELETE', '/apis/scheduling.k8s.io/v1/priorityclasses/' + name)


@case(operator='none')
def quota_that_is_used_up(t):
    proxy = through_proxy(t)
    t.quota(pods='2')
    t.create(tfjob(PS=1, Worker=3))
    blocked(t, 'quota')
    t.wait('two pods', lambda: len(t.pods('Running')) == 2)
    not_hot(t, proxy)
    t.quota(pods='9')
    recovers(t, proxy, 'j-ps-0', 'j-worker-0', 'j-worker-1', 'j-worker-2')


@case()
def image_that_cannot_be_pulled_is_told(t):
    t.rule('*', waiting='ImagePullBackOff')
    t.create(tfjob(Worker=1))
    t.wait('a word about it', lambda: any('ImagePullBackOff' in e['message'] + e['reason'] for e in t.events()) or
           'ImagePullBackOff' in str(t.conditions()) + str((t.condition('Blocked') or {}).get('message')))
    t.stays('neither failed nor hot', lambda: not t.is_true('Failed') and len(t.made('pods')) == 1, 1)


@case()
def every_example_ends_well(t):
    folder = os.path.join(control_plane.ROOT, 'examples')
    t.rule('*-ps-*')
    t.rule('*-worker-*', exits=[0], after=0.5)
    t.rule('*-chief-*', exits=[0], after=0.5)
    t.rule('*-master-*', exits=[0], after=0.5)
    names = []
    for name in sorted(os.listdir(folder)):
        if not name.endswith('.yaml'):
            continue
        with open(os.path.join(folder, name)) as f:
            documents = [d for d in re.split(r'(?m)^---\s*$', f.read()) if re.search(r'(?m)^kind: TFJob', d)]
        for document in documents:
            made = t.client.request('POST', kube.path_of('tfjobs', t.ns), document.encode(), 'application/yaml')
            names.append(made['metadata']['name'])
    t.expect('examples', len(names) >= 10)
    for name in names:
        t.wait_for('Succeeded', name, 40)


FORMS = {
    'the documentation\'s GPU sample: nulls, a restartPolicy inside the template, its own port': '''
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {generateName: tfjob-, creationTimestamp: null}
spec:
  tfReplicaSpecs:
    PS:
      replicas: 1
      template:
        metadata: {creationTimestamp: null, annotations: {sidecar.istio.io/inject: "false"}}
        spec:
          restartPolicy: OnFailure
          containers:
          - {name: tensorflow, image: train:1, workingDir: /opt, command: [sh, -c, "true"], ports: [{name: tfjob-port, containerPort: 2222}], resources: {limits: {cpu: "1"}}}
    Worker:
      replicas: 1
      template:
        metadata: {creationTimestamp: null}
        spec:
          restartPolicy: OnFailure
          containers:
          - {name: tensorflow, image: train:1, ports: [{name: tfjob-port, containerPort: 2222}], resources: {limits: {nvidia.com/gpu: 1}}}
status: {conditions: null, replicaStatuses: null}
''',
    'keys in other cases, flat run policy': '''
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {generateName: flat-}
spec:
  cleanPodPolicy: All
  ttlSecondsAfterFinished: 3600
  backoffLimit: 6
  tfReplicaSpecs:
    MASTER: {replicas: 1, restartPolicy: OnFailure, template: {spec: {containers: [{name: tensorflow, image: train:1}]}}}
    Ps: {template: {spec: {containers: [{name: tensorflow, image: train:1}]}}}
    worker: {replicas: 2, template: {spec: {containers: [{name: tensorflow, image: train:1}]}}}
''',
    'a queue of Kueue and requests': '''
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {generateName: queued-, labels: {kueue.x-k8s.io/queue-name: user-queue}}
spec:
  runPolicy: {suspend: false, schedulingPolicy: {queue: q, minAvailable: 3, minResources: {cpu: 3}}}
  tfReplicaSpecs:
    PS: {replicas: 1, restartPolicy: Never, template: {spec: {containers: [{name: tensorflow, image: train:1, resources: {requests: {cpu: 1, memory: 200Mi}}}]}}}
    Worker: {replicas: 2, restartPolicy: Never, template: {spec: {containers: [{name: tensorflow, image: train:1, resources: {requests: {cpu: 1}}}]}}}
'''}


@case()
def forms_of_manifests_in_circulation_end_well(t):
    t.rule('*-worker-*', exits=[0], after=0.5)
    t.rule('*-master-*', exits=[0], after=0.8)
    for what, text in FORMS.items():
        try:
            made = t.client.request('POST', kube.path_of('tfjobs', t.ns), text.encode(), 'application/yaml')
        except kube.ApiError as e:
            t.expect(what, e.message, 'admitted')
        t.wait_for('Succeeded', made['metadata']['name'], 30)
