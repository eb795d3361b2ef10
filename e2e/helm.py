"""Helm as a process, with the chart: rendered, linted, packaged and released. Keeps its state in a folder of the test."""
import os
import subprocess

import binaries
from control_plane import ROOT
from harness import Failure

CHART = os.path.join(ROOT, 'charts', 'trainyard')
KUBE_VERSION = '1.34.0'  # of the cluster that templates are told of where there is none


def values(name):
    return os.path.join(CHART, 'testdata', name + '.values.yaml')


class Helm:
    """`kubeconfig` may come later: linting and rendering need none."""

    def __init__(self, folder):
        self.program = binaries.build_helm()
        self.folder = folder
        self.kubeconfig = os.path.join(folder, 'none')

    def call(self, *args):
        """(exit status, output); Helm writes what is wrong to stderr, and warnings too."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith(('HELM_', 'KUBE'))}
        for kind in ('CACHE', 'CONFIG', 'DATA'):
            environment['HELM_%s_HOME' % kind] = os.path.join(self.folder, 'helm')
        try:
            done = subprocess.run([self.program, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300,
                                  env=dict(environment, KUBECONFIG=self.kubeconfig), cwd=self.folder, check=False)
        except subprocess.TimeoutExpired:
            raise Failure('helm %s did not end in 300 s' % ' '.join(args)) from None
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def run(self, *args):
        code, out, err = self.call(*args)
        if code != 0:
            raise Failure('helm %s: %s' % (' '.join(args), (out + err)[-2000:]))
        return out

    def refused(self, *args):
        """Its message on failing, which it must."""
        code, out, err = self.call(*args)
        if code == 0:
            raise Failure('helm %s was to fail and did not:\n%s' % (' '.join(args), out[-2000:]))
        return err

    def render(self, name, *args):
        return self.run(*self.template(), '-f', values(name), *args)

    @staticmethod
    def template():
        return ['template', 'trainyard', CHART, '--namespace', 'trainyard-system', '--kube-version', KUBE_VERSION]
