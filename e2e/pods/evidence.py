"""On a failure: everything that tells why, in one folder."""
import json
import os

import urllib3
from kubernetes import client
from kubernetes.client.rest import ApiException

from stage import HOME


def _write(folder, name, text):
    with open(os.path.join(folder, name), 'w') as f:
        f.write(text)


def _logs(core, pod, folder):
    for container in (pod.spec.init_containers or []) + pod.spec.containers:
        for previous in (False, True):
            try:
                text = core.read_namespaced_pod_log(pod.metadata.name, pod.metadata.namespace, container=container.name,
                                                    previous=previous, timestamps=True)
            except ApiException:
                continue  # it never ran
            _write(folder, '%s.%s%s.log' % (pod.metadata.name, container.name, '.previous' if previous else ''), text or '')


def collect(stage, namespace, folder):
    """Objects, events and logs of the namespace (None: there is none yet) and of the operator's, and the logs of nodes and
    control plane; the folder. Where the cluster does not answer, what it cannot tell is left out."""
    machines = os.path.join(folder, 'machines')
    os.makedirs(machines, exist_ok=True)
    stage.provider.collect(machines)
    try:
        if stage.api:
            _ask(stage, [name for name in (namespace, HOME) if name], folder)
    except (ApiException, urllib3.exceptions.HTTPError) as e:
        _write(folder, 'unanswered.txt', str(e))
    return folder


def _ask(stage, namespaces, folder):
    core = client.CoreV1Api(stage.api)
    plain = stage.api.sanitize_for_serialization
    for name in namespaces:
        inner = os.path.join(folder, name)
        os.makedirs(inner, exist_ok=True)
        pods = core.list_namespaced_pod(name)
        jobs = client.CustomObjectsApi(stage.api).list_namespaced_custom_object('kubeflow.org', 'v1', name, 'tfjobs')
        for kind, found in (('pods', pods), ('tfjobs', jobs), ('services', core.list_namespaced_service(name)),
                            ('events', core.list_namespaced_event(name)),
                            ('claims', core.list_namespaced_persistent_volume_claim(name))):
            _write(inner, kind + '.json', json.dumps(plain(found), indent=1))
        for pod in pods.items:
            _logs(core, pod, inner)
    _write(folder, 'nodes.json', json.dumps(plain(core.list_node()), indent=1))
