#!/usr/bin/env python3
"""Tests of charts/: what can be judged of their files (chart_files.py), and a release in a real API server, with the
operator running under the ServiceAccount that the chart makes.

  chart.py --operator PROGRAM --trainer PROGRAM [--rewrite]

--rewrite: first writes charts/trainyard/testdata/*.golden.yaml and charts/kustomize/operator.yaml anew; look at their
difference before a commit."""
import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import time
import traceback

import yaml

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
# pylint: disable=wrong-import-position
import binaries  # noqa: E402
import chart_files  # noqa: E402
import chart_rights  # noqa: E402
import control_plane  # noqa: E402
import docs  # noqa: E402
import gang  # noqa: E402
import harness  # noqa: E402
import helm  # noqa: E402
import helm_test  # noqa: E402
import kube  # noqa: E402
import kustomize  # noqa: E402
import monitoring  # noqa: E402
from chart_files import SETS, expect  # noqa: E402
from chart_rights import until  # noqa: E402
from harness import Failure  # noqa: E402
from kubelet import Kubelet  # noqa: E402
from mirror import Mirror  # noqa: E402

HOME = 'trainyard-system'
MADE = ('clusterroles', 'clusterrolebindings', 'roles', 'rolebindings', 'serviceaccounts', 'deployments', 'services',
        'poddisruptionbudgets', 'networkpolicies', 'configmaps', 'servicemonitors', 'prometheusrules')


class Release:
    """One release, from install to uninstall, in a cluster that knows no TFJobs before."""

    def __init__(self, tools, cluster, args, folder):
        self.tools = tools
        self.cluster = cluster
        self.args = args
        self.folder = folder
        self.client = cluster.client()
        self.world = None
        self.series = set()  # of the metrics of operators that have run jobs
        self.tools.kubeconfig = cluster.kubeconfig
        self.test_of_helm = helm_test.HelmTest(tools, self.client, args.operator, HOME, 'operator-check')

    def prepare(self):
        self.client.delete('customresourcedefinitions', None, 'tfjobs.kubeflow.org')
        until('the CRD to go', lambda: not self.client.serves('tfjobs'))
        for name in ('research', 'team-a', 'team-b'):
            self.client.create('namespaces', None, {'metadata': {'name': name}})
        self.client.create('namespaces', None, {'metadata': {'name': HOME, 'labels': {
            'pod-security.kubernetes.io/enforce': 'restricted'}}})
        for kind in (gang.VOLCANO, gang.PLUGINS):
            gang.install(self.client, kind)
        for crd in monitoring.prometheus_operator_kinds(self.folder):
            self.client.create('customresourcedefinitions', None, crd)
        for kind in monitoring.KINDS:
            until(kind + ' to be served', lambda kind=kind: self.client.serves(kind))

    def helm(self, verb, name):
        return self.tools.run(verb, 'trainyard', helm.CHART, '--namespace', HOME, '-f', helm.values(name),
                              '--set', 'metrics.prometheusRule.enabled=true,metrics.dashboards.enabled=true')

    def server_takes_every_object_strictly(self):
        """Those of each set of values, of the Kustomize base and of the docs; a field that the API server does not know
        would be refused."""
        renders = [yaml.safe_load_all(self.tools.render(name)) for name in SETS]
        items = [item for render in (*renders, kustomize.build(self.tools)) for item in render]
        shown = [item for _, item in docs.objects() if item['kind'] not in ('TFJob', 'Cluster')]
        count = 0
        for item in items + [dict(item, metadata=dict(item['metadata'], namespace='research')) for item in shown]:
            if item['kind'] != 'Namespace':  # is there already
                plural = re.sub('ys$', 'ies', item['kind'].lower() + 's')
                namespace = None if plural == 'persistentvolumes' else item['metadata'].get('namespace')
                self.client.create(plural, namespace, item, dryRun='All', fieldValidation='Strict')
                count += 1
        print('       %d objects taken' % count)

    def installs_in_a_cluster_without_tfjobs(self):
        expect('NOTES in the output', 'serves TFJobs in all namespaces' in self.helm('install', 'full'))
        until('TFJobs to be served', lambda: self.client.serves('tfjobs'))
        mirror = Mirror(self.client).start()
        self.world = harness.World(self.client, mirror, Kubelet(self.client, mirror), self.cluster.kubeconfig, self.args,
                                   self.folder)
        self.world.cluster = self.cluster

    def pods_are_restricted(self):
        """The namespace enforces Pod Security's restricted profile, and would refuse these pods otherwise."""
        templates = {item['metadata']['name']: item['spec']['template']
                     for item in self.client.list('deployments', HOME)['items']}
        expect('deployments', sorted(templates), ['curves', 'operator'])
        for template in templates.values():
            pod = {'metadata': {'name': 'p', 'labels': template['metadata']['labels']}, 'spec': template['spec']}
            self.client.create('pods', HOME, pod, dryRun='All')
        del pod['spec']['containers'][0]['securityContext']['allowPrivilegeEscalation']
        try:
            self.client.create('pods', HOME, pod, dryRun='All')
        except kube.ApiError as e:
            expect('the reason of the refusal: ' + e.message, 'allowPrivilegeEscalation' in e.message)
            return
        raise Failure('Pod Security admission is off, so that this test proves nothing')

    def helm_test_checks_the_installation(self):
        """It asks for all the rights that the chart grants, and passes where an operator leads."""
        account = chart_rights.Account(self.cluster, self.client, HOME, 'operator')
        rights = account.granted()
        account.in_force(rights)
        config = self.kubeconfig('operator')
        said = self.test_of_helm.run(config)
        expect('what helm test says without an operator: ' + said, re.findall('^FAIL .* — (nobody has made it)', said, re.M),
               ['nobody has made it'])
        asked = {(resource, name, verb) for resource, name, verbs in re.findall(
            r'^ok    (\S+) (?:(\S+) )?in .*: (.*)$', said, re.M) for verb in verbs.split(', ')}
        expect('the rights that --check asks for', asked,
               {(resource, name, verb) for _, _, resource, name, verb in rights})
        test = self.test('research')
        lives = chart_rights.Lives(test, config, self.client.get('deployments', HOME, 'operator'))
        try:
            lives.operator()
            expect('what helm test says', self.test_of_helm.run(config), '')
        finally:
            for operator in test.operators:
                operator.kill()
        until('the pod of helm test to be gone', lambda: self.test_of_helm.pod() is None)
        self.client.delete('leases', HOME, lives.flag('--leader-election-id'))  # the next operators are the first again

    def cluster_rights_are_enough_and_all_used(self):
        with gang.Scheduler(self.test('research'), gang.VOLCANO, room=8):
            self.rights('operator', 'research')

    def queries_name_metrics_that_exist(self):
        boards = monitoring.dashboards()
        alerts = [rule['expr'] for rule in monitoring.rules()]
        monitoring.queries_are_sound(alerts + monitoring.queries(boards.pop('operator.json')), self.series)
        trainer = monitoring.trainer_series(self.args.trainer)
        monitoring.queries_are_sound(monitoring.queries(boards.pop('training.json')), trainer)
        expect('dashboards that nothing is compared with', sorted(boards), [])
        expect('the metrics of docs/monitoring.md', monitoring.documented(), monitoring.families(self.series | trainer))

    def upgrade_to_namespaces_narrows_the_rights(self):
        self.helm('upgrade', 'namespaces')
        expect('what is left of the cluster\'s rights', self.ours('clusterroles', 'clusterrolebindings'), [])
        account = self.rights('trainyard', 'team-a')
        _, said = self.test_of_helm.check(self.kubeconfig('trainyard'), '--leader-elect=false')
        for resource in ('tfjobs', 'tfjobs/status', 'pods', 'services', 'events'):
            expect('a line of --check on %s: %s' % (resource, said), 'FAIL  %s in all namespaces' % resource in said)
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
        until('everything to be gone', lambda: not self.ours(*MADE) and not self.client.list('deployments')['items'])
        expect('TFJobs are served', self.client.serves('tfjobs'))

    def children(self):
        """Uids of the job that runs in `research`, and of its pod and service, as the API server has them."""
        return [self.client.get(kind, 'research', name)['metadata']['uid'] for kind, name in (
            ('tfjobs', 'keep'), ('pods', 'keep-worker-0'), ('services', 'keep-worker-0'))]

    def ours(self, *kinds):
        return sorted('%s %s' % (kind, item['metadata']['name']) for kind in kinds for item in self.client.list(
            kind, labelSelector='app.kubernetes.io/instance=trainyard')['items'])

    def kubeconfig(self, name):
        account = chart_rights.Account(self.cluster, self.client, HOME, name)
        return account.kubeconfig(self.cluster, os.path.join(self.folder, name + '.kubeconfig'))

    def test(self, namespace):
        return chart_rights.Patient(self.world, namespace)

    def rights(self, name, namespace):
        """Runs operators as the account `name` and jobs in this namespace, and judges the rights by the calls."""
        account = chart_rights.Account(self.cluster, self.client, HOME, name)
        rights = account.granted()
        account.in_force(rights)
        test = self.test(namespace)
        lives = chart_rights.Lives(test, self.kubeconfig(name), self.client.get('deployments', HOME, name))
        try:
            lives.live()
        except (Failure, kube.ApiError, OSError) as e:
            logs = '\n'.join(operator.tail() for operator in test.operators)
            raise Failure('%s\n  refused: %s\n%s' % (e, [c for c in account.calls() if c[0] == 403][:10], logs)) from e
        finally:
            for operator in test.operators:
                operator.kill()
        calls = account.prove(rights)
        self.series |= set(lives.series)
        print('       %d calls by %s, none refused; all of its %d rights used' % (calls, account.user, len(rights)))
        return account

    def checks(self):
        yield self.server_takes_every_object_strictly
        yield self.installs_in_a_cluster_without_tfjobs
        yield self.pods_are_restricted
        yield self.helm_test_checks_the_installation
        yield self.cluster_rights_are_enough_and_all_used
        yield self.queries_name_metrics_that_exist
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
    check('lints', chart_files.lints, tools)
    check('renders_as_recorded', chart_files.renders_as_recorded, tools, args.rewrite)
    check('kustomize_base_is_the_chart', chart_files.kustomize_base_is_the_chart, tools, args.rewrite)
    check('schema_refuses_wrong_values', chart_files.schema_refuses_wrong_values, tools)
    check('package_has_the_crd_and_the_version', chart_files.package_has_the_crd_and_the_version, tools)
    check('carries_alerts_and_dashboards', chart_files.carries_alerts_and_dashboards, tools)
    check('takes_the_values_that_docs_show', chart_files.takes_the_values_that_docs_show, tools)
    check('alerts_fire_where_they_should', monitoring.alerts_fire_where_they_should)
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
    parser.add_argument('--trainer', required=True)
    parser.add_argument('--rewrite', action='store_true', help='record what the chart renders now')
    args = parser.parse_args()
    args.operator, args.trainer = os.path.abspath(args.operator), os.path.abspath(args.trainer)
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
