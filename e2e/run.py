#!/usr/bin/env python3
"""Runs the integration suite: a control plane, the operator, a fake kubelet, and every case of test_*.py.

  run.py --operator PROGRAM [--gtests FOLDER] [--report FILE] [CASE or ID...]

Starts the control plane once. TRAINYARD_KUBECONFIG names another cluster to use, in namespaces of its own: one
without a scheduler, because the fake kubelet binds and plays all pods of TFJobs. Another operator must not run.
Cases run beside each other, each in a namespace; those that need other flags get an operator of their own.
--gtests: also runs the unit tests that the conformance table names; --report writes that table."""
import argparse
import concurrent.futures
import glob
import importlib
import os
import shutil
import sys
import tempfile
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
# pylint: disable=wrong-import-position
import binaries  # noqa: E402
import conformance  # noqa: E402
import control_plane  # noqa: E402
import harness  # noqa: E402
import kube  # noqa: E402
import operator_process  # noqa: E402
from kubelet import Kubelet, LogServer  # noqa: E402
from mirror import Mirror  # noqa: E402


class Run:
    """Results by case name: '' for passed, else why not."""

    def __init__(self, world, args, logs):
        self.world = world
        self.args = args
        self.logs = logs
        self.results = {}
        self.lock = threading.Lock()

    def one(self, case):
        started = time.monotonic()
        test = said = None
        try:
            test = harness.Test(self.world, self.world.namespace(case.name))
            if case.operator == 'own':
                test.operator = test.start_operator(*case.flags, environment=case.environment)
            said = case.function(test)
            for operator in test.operators:
                if operator.running():
                    operator.stop()
            problem = ''
        except harness.Failure as e:
            problem = str(e)
        except Exception:  # pylint: disable=broad-except
            problem = traceback.format_exc()
        for operator in test.operators if test else []:
            if operator.running():
                operator.kill()
            if problem:
                problem += '\n  log of its operator:\n' + operator.tail()
        with self.lock:
            self.results[case.name] = problem
            print('%-4s %5.1f s  %s%s' % ('FAIL' if problem else 'ok', time.monotonic() - started, case.name,
                                          ' (%s)' % ', '.join(case.ids) if case.ids else ''), flush=True)
            if said:
                print('  ' + said, flush=True)
            if problem:
                print('  ' + problem.replace('\n', '\n  '), flush=True)

    def all(self, cases, threads):
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            for future in [pool.submit(self.one, case) for case in cases]:
                future.result()


def load_cases(wanted):
    for path in sorted(glob.glob(os.path.join(HERE, 'test_*.py'))):
        importlib.import_module(os.path.basename(path)[:-3])
    cases = [c for c in harness.CASES if not wanted or c.name in wanted or set(c.ids) & set(wanted) or
             c.file in wanted]
    if not cases:
        sys.exit('no case is called %s' % ', '.join(wanted))
    return cases


def run_cases(run, cases):
    """First those that share one operator over all namespaces, then, when it is gone, the others; at last those that
    need the machine for themselves."""
    shared = [c for c in cases if not c.own()]
    log = os.path.join(run.logs, 'operator.log')
    if shared:
        operator = operator_process.Operator(run.args.operator, run.world.kubeconfig, log, run.args.flag)
        operator.start()
        run.world.operator = operator
        run.all(shared, run.args.jobs)
        if not operator.running():
            run.results['the shared operator'] = 'ended: ' + operator.tail()
            print('FAIL the shared operator ended:\n' + operator.tail())
        else:
            print('the shared operator used %.1f s of CPU and %.0f MiB' % operator.used())
            operator.stop()
    run.all([c for c in cases if c.own() and c.operator != 'alone'], max(2, run.args.jobs // 2))
    run.all([c for c in cases if c.operator == 'alone'], 1)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--operator', required=True)
    parser.add_argument('--gtests', help='folder with the unit test programs')
    parser.add_argument('--report', help='write the conformance table here')
    parser.add_argument('--check-report', help='fail where this table names other tests than there are')
    parser.add_argument('--jobs', type=int, default=8, help='cases beside each other')
    parser.add_argument('--flag', action='append', default=[], help='flag for the shared operator')
    parser.add_argument('--keep', action='store_true', help='leave logs and state behind')
    parser.add_argument('wanted', nargs='*', metavar='CASE')
    args = parser.parse_args()
    args.operator = os.path.abspath(args.operator)
    if not os.access(args.operator, os.X_OK):
        sys.exit('%s is no program; build it: make build' % args.operator)
    return args


def start_cluster(folder):
    given = os.environ.get('TRAINYARD_KUBECONFIG')
    if not given:
        return control_plane.ControlPlane(folder).up()
    with open(control_plane.CRD) as f:
        kube.Client.from_kubeconfig(given).apply('customresourcedefinitions', None, 'tfjobs.kubeflow.org', f.read())
    return None


def run_suite(args, cases, folder):
    cluster = start_cluster(os.path.join(folder, 'cluster'))
    kubeconfig = cluster.kubeconfig if cluster else os.environ['TRAINYARD_KUBECONFIG']
    try:
        client = kube.Client.from_kubeconfig(kubeconfig)
        mirror = Mirror(client).start()
        world = harness.World(client, mirror, Kubelet(client, mirror), kubeconfig, args, folder)
        if cluster:
            LogServer(client, cluster.certificates.path('apiserver.crt'), cluster.certificates.path('apiserver.key'))
        world.cluster = cluster
        run = Run(world, args, folder)
        run_cases(run, cases)
        mirror.stop()
        if not cluster:
            for item in client.list('namespaces', labelSelector='trainyard-e2e=' + world.mark)['items']:
                client.delete('namespaces', None, item['metadata']['name'])
        return run.results
    finally:
        if cluster:
            cluster.down(wipe=not args.keep)


def main():
    args = arguments()
    cases = load_cases(args.wanted)
    folder = tempfile.mkdtemp(prefix='trainyard-e2e-')
    started = time.monotonic()
    results = None
    try:
        results = run_suite(args, cases, folder)
    except (binaries.BuildError, control_plane.ClusterError, operator_process.OperatorError) as e:
        sys.exit('operator_integration: ' + str(e))
    finally:
        if args.keep or results is None:
            print('logs are in ' + folder)
        else:
            shutil.rmtree(folder)
    failed = [name for name, problem in results.items() if problem]
    if not args.wanted:
        failed += conformance.conclude(harness.CASES, results, args)
    print('%d cases, %d failed, %.0f s%s' % (len(results), len(failed), time.monotonic() - started,
                                             ': ' + ', '.join(failed) if failed else ''))
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
