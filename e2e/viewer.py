"""Service accounts that look at the operator's page: what they may list, their tokens, and the page's answers to them."""
import http.client
import json
import time
import urllib.parse

import kube
from control_plane import PATIENCE
from harness import Failure

RULES = {'tfjobs': {'apiGroups': ['kubeflow.org'], 'resources': ['tfjobs'], 'verbs': ['list']},
         'pods': {'apiGroups': [''], 'resources': ['pods'], 'verbs': ['list']},
         'events': {'apiGroups': [''], 'resources': ['events'], 'verbs': ['list']}}


class Viewer:
    """An account in `home` that may list `kinds` in the namespace `where` (None: in all)."""

    def __init__(self, client, home, name, kinds=(), where=None):
        self.client = client
        self.where = where
        self.unique = '%s-%s' % (home, name)
        self.user = 'system:serviceaccount:%s:%s' % (home, name)
        client.create('serviceaccounts', home, {'metadata': {'name': name}})
        role, binding = ('roles', 'rolebindings') if where else ('clusterroles', 'clusterrolebindings')
        self.made = [(binding, where), (role, where)]
        client.create(role, where, {'metadata': {'name': self.unique}, 'rules': [RULES[kind] for kind in kinds]})
        client.create(binding, where, {
            'metadata': {'name': self.unique},
            'roleRef': {'apiGroup': 'rbac.authorization.k8s.io', 'kind': 'Role' if where else 'ClusterRole', 'name': self.unique},
            'subjects': [{'kind': 'ServiceAccount', 'name': name, 'namespace': home}]})
        self._in_force(kinds)
        answer = client.request('POST', kube.path_of('serviceaccounts', home, name, 'token'), {
            'apiVersion': 'authentication.k8s.io/v1', 'kind': 'TokenRequest', 'spec': {'expirationSeconds': 3600}})
        self.token = answer['status']['token']

    def _in_force(self, kinds):
        """The API server's authoriser follows roles with a delay."""
        deadline = time.monotonic() + 20 * PATIENCE
        for kind in kinds:
            attributes = {'verb': 'list', 'resource': kind, 'group': RULES[kind]['apiGroups'][0], 'namespace': self.where or ''}
            while not self.client.request('POST', '/apis/authorization.k8s.io/v1/subjectaccessreviews', {
                    'spec': {'user': self.user, 'groups': ['system:serviceaccounts', 'system:authenticated'],
                             'resourceAttributes': attributes}})['status']['allowed']:
                if time.monotonic() > deadline:
                    raise Failure('%s may not list %s after %d s' % (self.user, kind, 20 * PATIENCE))
                time.sleep(0.05)

    def remove_rights(self):
        for kind, where in self.made:
            self.client.delete(kind, where, self.unique)


def ask(port, path, token=None, **parameters):
    """(code, headers, answer) of the page; the answer as JSON where it is."""
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=30 * PATIENCE)
    try:
        query = '?' + urllib.parse.urlencode(parameters) if parameters else ''
        connection.request('GET', path + query, headers={'Authorization': 'Bearer ' + token} if token else {})
        answer = connection.getresponse()
        text = answer.read().decode()
        is_json = answer.getheader('Content-Type') == 'application/json'
        return answer.status, dict(answer.getheaders()), json.loads(text) if is_json else text
    finally:
        connection.close()
