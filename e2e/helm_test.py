"""`helm test` where no kubelet runs: its pod is played by the program that it names, as a process."""
import subprocess
import threading

import chart_rights
from chart_rights import until
from control_plane import PATIENCE
from harness import Failure


class HelmTest:
    """Of the release `trainyard` in `namespace`, whose pod for it is called `pod`."""

    def __init__(self, tools, client, program, namespace, pod):
        self.tools = tools
        self.client = client
        self.program = program
        self.namespace = namespace
        self.name = pod

    def run(self, kubeconfig):
        """"", or what the pod said where `helm test` failed."""
        ended = []
        thread = threading.Thread(daemon=True, target=lambda: ended.append(self.tools.call(
            'test', 'trainyard', '--namespace', self.namespace, '--timeout', '5m')))
        before = self.pod()
        thread.start()
        pod = until('the pod of helm test', lambda: self.pod(before and before['metadata']['uid']))
        container = pod['spec']['containers'][0]
        if container['command'] != ['trainyard-operator', '--check']:
            raise Failure('helm test runs %s' % container['command'])
        code, said = self.check(kubeconfig, *container['args'], *chart_rights.LEASE_TIMES)
        status = {'phase': 'Failed' if code else 'Succeeded'}
        self.client.patch('pods', self.namespace, self.name, {'status': status}, 'status')
        thread.join(120 * PATIENCE)
        if not ended or (ended[0][0] == 0) != (code == 0):
            raise Failure('the pod of helm test ended with %d, and helm test with %s' % (code, ended))
        return said if code else ''

    def pod(self, but=None):
        """It, if it is there and has not this uid."""
        for pod in self.client.list('pods', self.namespace)['items']:
            if pod['metadata']['name'] == self.name and pod['metadata']['uid'] != but:
                return pod
        return None

    def check(self, kubeconfig, *flags):
        """(exit status, what it says) of `trainyard-operator --check`."""
        done = subprocess.run([self.program, '--check', '--kubeconfig=' + kubeconfig, *flags], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=120 * PATIENCE, check=False)
        return done.returncode, done.stdout.decode()
