#!/usr/bin/env python3
"""Tests of charts/trainyard: lint, golden renders, what the schema refuses, and a release in a real API server, with the
operator running under the ServiceAccount that the chart makes.

  chart.py --operator PROGRAM [--rewrite]

--rewrite: first writes charts/trainyard/testdata/*.golden.yaml anew; look at their difference before a commit."""
import argparse
import difflib
import json
import os
import re
import shutil
import sys
import tarfile
import tempfile
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
# pylint: disable=wrong-import-position
import binaries  # noqa: E402
import chart_rights  # noqa: E402
import control_plane  # noqa: E402
import gang  # noqa: E402
import harness  # noqa: E402
import helm  # noqa: E402
import kube  # noqa: E402
from chart_rights import until  # noqa: E402
from harness import Failure  # noqa: E402
from kubelet import Kubelet  # noqa: E402
from mirror import Mirror  # noqa: E402

SETS = ('least', 'namespaces', 'full')
HOME = 'trainyard-system'
MADE = ('clusterroles', 'clusterrolebindings', 'roles', 'rolebindings', 'serviceaccounts', 'deployments', 'services',
        'poddisruptionbudgets', 'networkpolicies')
# (flags of helm, what its message must name)
WRONG = (
    ((), 'image.repository: name an image'),
    (('--set', 'replicas=two'), '/replicas'),
    (('--set', 'namespaces={Team_A}'), '/namespaces/0'),
    (('--set', 'log.format=xml'), '/log/format'),
    (('--set', 'image.pulPolicy=Always'), 'pulPolicy'),
    (('--set', 'gangScheduler=a b'), '/gangScheduler'),
    (('--set', 'extraArgs={leader-elect}'), '/extraArgs/0'),
    (('-f', helm.values('least'), '--set', 'serviceAccount.create=false'), 'serviceAccount.name: name the one'))


def expect(what, got, wanted=True):
    if got != wanted:
        raise Failure('%s: wanted %r, got %r' % (what, wanted, got))


def read(*path):
    with open(os.path.join(control_plane.ROOT, *path)) as f:
        return f.read()


def lints(tools):
    for name in SETS:
        tools.run('lint', '--strict', helm.CHART, '--kube-version', helm.KUBE_VERSION, '-f', helm.values(name))


def renders_as_recorded(tools, rewrite):
    for name in SETS:
        path = os.path.join(helm.CHART, 'testdata', name + '.golden.yaml')
        rendered = tools.render(name)
        if rewrite:
            with open(path, 'w') as f:
                f.write(rendered)
        lines = [text.splitlines(keepends=True) for text in (read(path), rendered)]
        difference = ''.join(difflib.unified_diff(*lines, path, 'rendered now'))
        if difference:
            raise Failure('e2e/chart.py --rewrite records what the chart renders now:\n' + difference)


def schema_refuses_wrong_values(tools):
    for flags, text in WRONG:
        message = tools.refused(*tools.template(), *flags)
        expect('%r in helm\'s message on %s: %s' % (text, flags, message), text in message)


def package_has_the_crd_and_the_version(tools):
    """The chart's CRD is a link; Helm packs what it leads to."""
    tools.run('package', helm.CHART, '--destination', tools.folder)
    version = re.search(r'^project\(trainyard VERSION (\S+)', read('CMakeLists.txt'), re.M).group(1)
    expect('appVersion', re.findall(r'^appVersion: (\S+)$', read(helm.CHART, 'Chart.yaml'), re.M), [version])
    with tarfile.open(os.path.join(tools.folder, 'trainyard-%s.tgz' % version)) as package:
        member = package.getmember('trainyard/crds/tfjob.yaml')
        expect('the packaged CRD is a file', member.isfile())
        expect('the packaged CRD is ours', package.extractfile(member).read().decode() == read('crds', 'tfjob.yaml'))
        expect('test data in the package', [name for name in package.getnames() if 'testdata' in name], [])


class Release:
    """One release, from install to uninstall, in a cluster that knows no TFJobs before."""

    def __init__(self, tools, cluster, args, folder):
        self.tools = tools
        self.cluster = cluster
        self.args = args
        self.folder = folder
        self.client = cluster.client()
        self.world = None
        self.tools.kubeconfig = cluster.kubeconfig

    def prepare(self):
        self.client.delete('customresourcedefinitions', None, 'tfjobs.kubeflow.org')
        until('the CRD to go', lambda: not self.client.serves('tfjobs'))
        for name in ('research', 'team-a', 'team-b'):
            self.client.create('namespaces', None, {'metadata': {'name': name}})
        self.client.create('namespaces', None, {'metadata': {'name': HOME, 'labels': {
            'pod-security.kubernetes.io/enforce': 'restricted'}}})
        for kind in (gang.VOLCANO, gang.PLUGINS):
            gang.install(self.client, kind)

    def helm(self, verb, name):
        # No kind of the Prometheus operator is here.
        return self.tools.run(verb, 'trainyard', helm.CHART, '--namespace', HOME, '-f', helm.values(name),
                              '--set', 'metrics.serviceMonitor.enabled=false')

    def installs_in_a_cluster_without_tfjobs(self):
        expect('NOTES in the output', 'serves TFJobs in all namespaces' in self.helm('install', 'full'))
        until('TFJobs to be served', lambda: self.client.serves('tfjobs'))
        mirror = Mirror(self.client).start()
        self.world = harness.World(self.client, mirror, Kubelet(self.client, mirror), self.cluster.kubeconfig, self.args,
                                   self.folder)
        self.world.cluster = self.cluster

    def pods_are_restricted(self):
        """The namespace enforces Pod Security's restricted profile, and would refuse this pod otherwise."""
        template = self.client.get('deployments', HOME, 'operator')['spec']['template']
        pod = {'metadata': {'name': 'p', 'labels': template['metadata']['labels']}, 'spec': template['spec']}
        self.client.create('pods', HOME, pod, dryRun='All')
        del pod['spec']['containers'][0]['securityContext']['allowPrivilegeEscalation']
        try:
            self.client.create('pods', HOME, pod, dryRun='All')
        except kube.ApiError as e:
            expect('the reason of the refusal: ' + e.message, 'allowPrivilegeEscalation' in e.message)
            return
        raise Failure('Pod Security admission is off, so that this test proves nothing')

    def cluster_rights_are_enough_and_all_used(self):
        with gang.Scheduler(self.test('research'), gang.VOLCANO, room=8):
            self.rights('operator', 'research')

    def upgrade_to_namespaces_narrows_the_rights(self):
        self.helm('upgrade', 'namespaces')
        expect('what is left of the cluster\'s rights', self.ours('clusterroles', 'clusterrolebindings'), [])
        account = self.rights('trainyard', 'team-a')
        for namespace, group, resource, name, verb in account.granted():
            if namespace == 'team-a':
                expect('%s in team-b' % verb, account.may('team-b', group, resource, name, verb))
                expect('%s %s in research' % (verb, resource), account.may('research', group, resource, name, verb), False)

    def rollback_brings_the_first_back(self):
        self.tools.run('rollback', 'trainyard', '1', '--namespace', HOME)
        expect('deployments', self.ours('deployments'), ['deployments operator'])
        expect('roles', self.ours('roles', 'clusterroles'), [
            'clusterroles %s-operator' % HOME, *('clusterroles %s-operator-tfjobs-%s' % (HOME, user)
                                                 for user in ('admin', 'edit', 'view')),
            'roles operator-leader-election'])

    def uninstall_leaves_no_trace_but_every_job(self):
        self.tools.run('uninstall', 'trainyard', '--namespace', HOME)
        until('everything to be gone', lambda: not self.ours(*MADE))
        expect('TFJobs are served', self.client.serves('tfjobs'))

    def children(self):
        """Uids of the job that runs in `research`, and of its pod and service, as the API server has them."""
        return [self.client.get(kind, 'research', name)['metadata']['uid'] for kind, name in (
            ('tfjobs', 'keep'), ('pods', 'keep-worker-0'), ('services', 'keep-worker-0'))]

    def ours(self, *kinds):
        return sorted('%s %s' % (kind, item['metadata']['name']) for kind in kinds for item in self.client.list(
            kind, labelSelector='app.kubernetes.io/instance=trainyard')['items'])

    def test(self, namespace):
        return chart_rights.Patient(self.world, namespace)

    def rights(self, name, namespace):
        """Runs operators as the account `name` and jobs in this namespace, and judges the rights by the calls."""
        account = chart_rights.Account(self.cluster, self.client, HOME, name)
        rights = account.granted()
        account.in_force(rights)
        test = self.test(namespace)
        config = account.kubeconfig(self.cluster, os.path.join(self.folder, name + '.kubeconfig'))
        lives = chart_rights.Lives(test, config, self.client.get('deployments', HOME, name))
        try:
            lives.live()
        except (Failure, kube.ApiError, OSError) as e:
            logs = '\n'.join(operator.tail() for operator in test.operators)
            raise Failure('%s\n  refused: %s\n%s' % (e, [c for c in account.calls() if c[0] == 403][:10], logs)) from e
        finally:
            for operator in test.operators:
                operator.kill()
        calls = account.prove(rights)
        print('       %d calls by %s, none refused; all of its %d rights used' % (calls, account.user, len(rights)))
        return account

    def checks(self):
        yield self.installs_in_a_cluster_without_tfjobs
        yield self.pods_are_restricted
        yield self.cluster_rights_are_enough_and_all_used
        before = self.children()
        for step in (self.upgrade_to_namespaces_narrows_the_rights, self.rollback_brings_the_first_back,
                     self.uninstall_leaves_no_trace_but_every_job):
            yield step
            expect('the job, its pod and its service after it', self.children(), before)


def check(name, function, *args):
    started = time.monotonic()
    try:
        function(*args)
    except BaseException:
        print('FAIL %5.1f s  %s' % (time.monotonic() - started, name), flush=True)
        raise
    print('ok   %5.1f s  %s' % (time.monotonic() - started, name), flush=True)


def run(args, folder):
    tools = helm.Helm(folder)
    check('lints', lints, tools)
    check('renders_as_recorded', renders_as_recorded, tools, args.rewrite)
    check('schema_refuses_wrong_values', schema_refuses_wrong_values, tools)
    check('package_has_the_crd_and_the_version', package_has_the_crd_and_the_version, tools)
    policy = os.path.join(folder, 'audit-policy.json')
    with open(policy, 'w') as f:
        json.dump(chart_rights.AUDIT_POLICY, f)
    home = os.path.join(folder, 'cluster')
    cluster = control_plane.ControlPlane(home, apiserver_flags=[
        '--audit-policy-file=' + policy, '--audit-log-path=' + os.path.join(home, 'audit.log')])
    try:
        cluster.up()
        release = Release(tools, cluster, args, folder)
        release.prepare()
        for step in release.checks():
            check(step.__name__, step)
        release.world.mirror.stop()
    finally:
        cluster.down(wipe=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--operator', required=True)
    parser.add_argument('--rewrite', action='store_true', help='record what the chart renders now')
    args = parser.parse_args()
    args.operator = os.path.abspath(args.operator)
    folder = tempfile.mkdtemp(prefix='trainyard-chart-')
    started = time.monotonic()
    try:
        run(args, folder)
    except Failure as e:
        print('chart: %s\nlogs are in %s' % (e, folder))
        return 1
    except (binaries.BuildError, control_plane.ClusterError) as e:
        sys.exit('chart: %s' % e)
    except Exception:  # pylint: disable=broad-except
        print('chart: %s\nlogs are in %s' % (traceback.format_exc(), folder))
        return 1
    shutil.rmtree(folder)
    print('the chart holds, %.0f s' % (time.monotonic() - started))
    return 0


if __name__ == '__main__':
    sys.exit(main())
