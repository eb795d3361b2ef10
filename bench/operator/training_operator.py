#!/usr/bin/env python3
"""Starts training-operator v1.9 outside of a cluster, for `run.py --peer`:

  training_operator.py KUBECONFIG PROGRAM FLAG...   prepare what it insists on, and become PROGRAM

It waits for a webhook configuration, a secret and mounted certificate files before it looks at any job; here the
webhook is one for a kind that nobody creates, so admission stays the API server's own in both cases."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', '..', 'e2e'))
# pylint: disable=wrong-import-position
import kube  # noqa: E402

CERTIFICATES = '/tmp/k8s-webhook-server/serving-certs'  # compiled into it
WEBHOOK = 'validator.training-operator.kubeflow.org'


def prepare(config):
    client = kube.Client.from_kubeconfig(config)
    client.create('namespaces', None, {'metadata': {'name': 'kubeflow'}})
    client.create('secrets', 'kubeflow', {'metadata': {'name': 'training-operator-webhook-cert'}})
    client.request('POST', '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations', {
        'metadata': {'name': WEBHOOK}, 'webhooks': [{
            'name': 'nobody.' + WEBHOOK, 'admissionReviewVersions': ['v1'], 'sideEffects': 'None', 'failurePolicy': 'Ignore',
            'clientConfig': {'service': {'name': 'training-operator', 'namespace': 'kubeflow', 'path': '/nobody'}},
            'rules': [{'apiGroups': ['nobody.test'], 'apiVersions': ['v1'], 'operations': ['CREATE'],
                       'resources': ['nobodies']}]}]})
    os.makedirs(CERTIFICATES, exist_ok=True)
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-subj', '/CN=localhost', '-days', '1',
                    '-keyout', 'tls.key', '-out', 'tls.crt'], cwd=CERTIFICATES, check=True, stderr=subprocess.DEVNULL)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    config, program = sys.argv[1:3]
    prepare(config)
    os.execv(program, [program, '--kubeconfig=' + config, *sys.argv[3:]])


if __name__ == '__main__':
    main()
