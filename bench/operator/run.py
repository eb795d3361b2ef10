#!/usr/bin/env python3
"""Measures a TFJob operator on a real API server: N jobs of 1 ps and 2 workers in a burst, on simulated nodes.

  run.py --operator PROGRAM [--jobs 100 --jobs 1000] [--peer "NAME=COMMAND"]... [--json FILE]

COMMAND is any TFJob operator's command line; {kubeconfig} and {crd} are replaced. All figures come from the API
server's audit log (creation → last pod, → Running, → Succeeded and cleaned; calls by verb) and from /proc (CPU,
peak memory). Each operator gets a fresh control plane; its CRD is ours, which v1.9's objects fit."""
import argparse
import collections
import concurrent.futures
import datetime
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, 'e2e'))
# pylint: disable=wrong-import-position
import binaries  # noqa: E402
import control_plane  # noqa: E402
from mirror import Mirror  # noqa: E402
from operator_process import cpu_and_peak  # noqa: E402

NODE = 'simulated'
NAMESPACE = 'bench'
OURS = '{program} --kubeconfig={kubeconfig} --metrics-bind-address=127.0.0.1:{port} ' \
       '--health-probe-bind-address=127.0.0.1:{port2}'


def job(index, run_for):
    def replica(count, annotations):
        return {'replicas': count, 'restartPolicy': 'ExitCode', 'template': {
            'metadata': {'annotations': annotations},
            'spec': {'nodeName': NODE, 'terminationGracePeriodSeconds': 0,
                     'containers': [{'name': 'tensorflow', 'image': 'train:1'}]}}}
    return {'apiVersion': 'kubeflow.org/v1', 'kind': 'TFJob', 'metadata': {'name': 'job-%05d' % index}, 'spec': {
        'runPolicy': {'cleanPodPolicy': 'All'}, 'successPolicy': 'AllWorkers',
        'tfReplicaSpecs': {'PS': replica(1, {}), 'Worker': replica(2, {'bench/run-for': run_for})}}}


class Bench:
    """One operator, one burst."""

    def __init__(self, command, jobs, run_for, folder):
        self.command = command
        self.jobs = jobs
        self.run_for = run_for
        self.folder = folder
        self.log = os.path.join(folder, 'audit.log')
        self.cluster = control_plane.ControlPlane(os.path.join(folder, 'cluster'), apiserver_flags=[
            '--audit-policy-file=' + os.path.join(HERE, 'audit-policy.yaml'), '--audit-log-path=' + self.log,
            '--audit-log-mode=batch', '--audit-log-batch-buffer-size=100000', '--audit-log-batch-max-wait=1s'])
        self.children = []

    def run(self):
        self.cluster.up()
        try:
            client = self.cluster.client()
            client.create('namespaces', None, {'metadata': {'name': NAMESPACE}})
            self._start_nodes(client)
            self.cluster.certificates.issue('operator', '/O=system:masters/CN=operator', 'clientAuth')
            config = os.path.join(self.folder, 'operator.kubeconfig')
            self.cluster.certificates.kubeconfig('operator', client.server, config)
            operator = self._spawn('operator', shlex.split(self.command.format(
                kubeconfig=config, crd=control_plane.CRD, port=control_plane.free_port(),
                port2=control_plane.free_port())))
            time.sleep(5)  # elections and first lists of any operator
            idle_from = cpu_and_peak(operator.pid)[0]
            time.sleep(3)
            idle = cpu_and_peak(operator.pid)[0] - idle_from
            before = self._cpu()
            seconds = self._burst(client)
            after = self._cpu()
            peak = cpu_and_peak(operator.pid)[1]
            time.sleep(2)  # the audit log is written in batches
            result = summary(self.log, self.jobs)
            used = {name: after[name] - before[name] for name in after}
            result.update(total_s=seconds, cpu_s=used['operator'], cpu_share=used['operator'] / sum(used.values()),
                          cpu_all_s=sum(used.values()), peak_mib=peak, idle_cpu=idle / 3)
            return result
        finally:
            for _, process in self.children:
                process.send_signal(signal.SIGKILL)
                process.wait(10)
            self.cluster.down()

    def _start_nodes(self, client):
        kwok = os.path.join(binaries.build(binaries.KWOK, os.path.join(ROOT, 'e2e', 'tools', 'kwok')), 'kwok')
        self._spawn('kwok', [kwok, '--kubeconfig=' + self.cluster.kubeconfig, '--config=' + os.path.join(HERE, 'kwok.yaml'),
                             '--manage-all-nodes=true', '--node-lease-duration-seconds=0'])
        client.create('nodes', None, {'metadata': {'name': NODE}})

    def _spawn(self, name, command):
        with open(os.path.join(self.folder, name + '.log'), 'wb') as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                       preexec_fn=control_plane.die_with_parent)
        self.children.append((name, process))
        return process

    def _cpu(self):
        processes = self.children + list(self.cluster.children.items())
        return {name: cpu_and_peak(process.pid)[0] for name, process in processes}

    def _burst(self, client):
        mirror = Mirror(client, ('tfjobs', 'pods')).start()
        started = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda i: client.create('tfjobs', NAMESPACE, job(i, self.run_for)), range(self.jobs)))

        def finished():
            done = sum(1 for item in mirror.all('tfjobs', NAMESPACE)
                       if any(c['type'] == 'Succeeded' and c['status'] == 'True'
                              for c in item.get('status', {}).get('conditions', [])))
            return done == self.jobs and not mirror.all('pods', NAMESPACE)
        deadline = time.monotonic() + 120 + self.jobs
        while not finished():
            if self.children[1][1].poll() is not None:
                raise SystemExit('the operator ended; its log: %s/operator.log' % self.folder)
            if time.monotonic() > deadline:
                raise SystemExit('jobs did not end in time; logs are in ' + self.folder)
            time.sleep(0.5)
        mirror.stop()
        return time.monotonic() - started


def quantiles(values):
    values = sorted(values)
    if not values:
        return None
    return {'p50': values[len(values) // 2], 'p99': values[min(len(values) - 1, int(len(values) * 0.99))]}


def summary(log, jobs):
    """Times by job and the operator's calls, from the audit log."""
    created, last_pod, running, succeeded, cleaned = {}, {}, {}, {}, {}
    uids, swept = {}, {}  # jobs by uid; when all pods of a uid were deleted by one call
    pods_run = collections.defaultdict(dict)  # by job: when the node first said of a pod how it is
    calls = collections.Counter()
    errors = collections.Counter()
    for entry in read_audit(log):
        ref, verb, code = entry['objectRef'], entry['verb'], entry['responseStatus'].get('code', 0)
        resource = ref['resource'] + ('/' + ref['subresource'] if ref.get('subresource') else '')
        at = datetime.datetime.fromisoformat(entry['stageTimestamp'].replace('Z', '+00:00')).timestamp()
        name = ref.get('name', '')
        owner = name[:9]
        if entry['user']['username'] == 'operator' and verb != 'watch' and resource != 'leases':
            calls[verb + ' ' + resource] += 1
            if code >= 400:
                errors['%d %s %s' % (code, verb, resource)] += 1
        if ref.get('namespace') != NAMESPACE or code >= 400:
            continue
        if resource == 'tfjobs' and verb == 'create':
            created[name] = at
        elif resource == 'pods' and verb == 'create':
            last_pod[owner] = max(at, last_pod.get(owner, 0))
        elif resource == 'pods' and verb == 'delete':
            cleaned[owner] = max(at, cleaned.get(owner, 0))
        elif resource == 'pods' and verb == 'deletecollection':
            swept[entry['requestURI'].rpartition('job-uid%3D')[2]] = at
        elif resource == 'pods/status':
            pods_run[owner].setdefault(name, at)
        elif resource == 'tfjobs/status':
            uids[(entry.get('requestObject') or {}).get('metadata', {}).get('uid')] = name
            true = {c['type'] for c in (entry.get('requestObject') or {}).get('status', {}).get('conditions', [])
                    if c.get('status') == 'True'}
            if 'Running' in true:
                running.setdefault(name, at)
            if 'Succeeded' in true:
                succeeded.setdefault(name, at)

    for uid, at in swept.items():
        if uid in uids:
            cleaned[uids[uid]] = max(at, cleaned.get(uids[uid], 0))

    def since(times):
        return quantiles([times[name] - created[name] for name in created if name in times])
    return {'jobs': jobs, 'created_to_last_pod_s': since(last_pod), 'created_to_running_s': since(running),
            'pods_run_to_running_s': quantiles([max(0, running[name] - max(pods.values()))
                                                for name, pods in pods_run.items() if name in running]),
            'created_to_succeeded_s': since(succeeded), 'created_to_cleaned_s': since(cleaned),
            'burst_s': max(created.values()) - min(created.values()),
            'calls_per_job': {call: count / jobs for call, count in sorted(calls.items())},
            'all_calls_per_job': sum(calls.values()) / jobs, 'errors': dict(errors)}


def read_audit(log):
    with open(log) as f:
        for line in f:
            entry = json.loads(line)
            if entry.get('stage') == 'ResponseComplete' and 'objectRef' in entry:
                yield entry


def show(name, result):
    def both(key):
        value = result[key]
        return '%6.2f / %6.2f' % (value['p50'], value['p99']) if value else '     – /      –'
    print('%-22s %6d | last pod %s | running %s, after its pods %s | succeeded %s | cleaned %s s | %5.1f calls/job | '
          'operator %6.1f s of CPU (%4.1f %% of all), peak %5.1f MiB, idle %.2f %%' % (
              name, result['jobs'], both('created_to_last_pod_s'), both('created_to_running_s'),
              both('pods_run_to_running_s'), both('created_to_succeeded_s'), both('created_to_cleaned_s'), result['all_calls_per_job'], result['cpu_s'],
              100 * result['cpu_share'], result['peak_mib'], 100 * result['idle_cpu']), flush=True)
    for call, count in result['calls_per_job'].items():
        print('    %7.2f %s' % (count, call))
    for what, count in result['errors'].items():
        print('    refused: %d × %s' % (count, what))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--operator', help='our operator')
    parser.add_argument('--flags', default='', help='further flags for it')
    parser.add_argument('--peer', action='append', default=[], metavar='NAME=COMMAND')
    parser.add_argument('--jobs', type=int, action='append')
    parser.add_argument('--run-for', default='5s', help='how long workers run')
    parser.add_argument('--json', help='write all figures here')
    args = parser.parse_args()
    commands = []
    if args.operator:
        commands.append(('trainyard', OURS.replace('{program}', os.path.abspath(args.operator)) + ' ' + args.flags))
    commands += [tuple(peer.split('=', 1)) for peer in args.peer]
    results = []
    for jobs in args.jobs or [100, 1000]:
        for name, command in commands:
            folder = tempfile.mkdtemp(prefix='trainyard-bench-')
            result = Bench(command, jobs, args.run_for, folder).run()
            shutil.rmtree(folder)
            show(name, result)
            results.append(dict(result, operator=name))
    if args.json:
        with open(args.json, 'w') as f:
            json.dump(results, f, indent=1)


if __name__ == '__main__':
    main()
