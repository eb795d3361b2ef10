#!/usr/bin/env python3
"""Measures our operator while N jobs of 1 ps and 2 workers run and nothing else happens.

  steady.py --operator PROGRAM [--jobs 1000] [--failures 100] [--json FILE]

What it keeps resident, the CPU that it uses when idle, from its start to /readyz with all those jobs there, from the
failure of a pod (exit code 137, one at a time) until its replacement is made, and the same when the leader has just
been killed and another operator stands by. Same control plane, nodes and jobs as run.py."""
import argparse
import concurrent.futures
import json
import os
import shlex
import shutil
import signal
import tempfile
import threading
import time
import urllib.error
import urllib.request

import run
from mirror import Mirror
from operator_process import cpu_and_peak, resident_mib

FAILED = {'status': {'phase': 'Failed', 'containerStatuses': [{
    'name': 'tensorflow', 'image': 'train:1', 'imageID': '', 'ready': False, 'restartCount': 0,
    'state': {'terminated': {'exitCode': 137, 'reason': 'Error'}}}]}}


class Steady(run.Bench):
    """One control plane, several operators one after the other."""

    def __init__(self, program, jobs, folder):
        super().__init__('', jobs, '24h', folder)
        self.program = program
        self.config = os.path.join(folder, 'operator.kubeconfig')
        self.made = {}  # pod name → (uid, when it was seen first)
        self.changed = threading.Condition()

    def run(self, failures):
        self.cluster.up()
        try:
            return self._measure(failures)
        finally:
            for _, process in self.children:
                process.send_signal(signal.SIGKILL)
                process.wait(10)
            self.cluster.down()

    def _measure(self, failures):
        client = self.cluster.client()
        client.create('namespaces', None, {'metadata': {'name': run.NAMESPACE}})
        self._start_nodes(client)
        self.cluster.certificates.issue('operator', '/O=system:masters/CN=operator', 'clientAuth')
        self.cluster.certificates.kubeconfig('operator', client.server, self.config)
        result = {'jobs': self.jobs}
        first, result['start_to_ready_empty_s'] = self._start_operator('first')
        mirror = Mirror(client, ('tfjobs', 'pods'))
        mirror.listeners.append(self._note)
        mirror.start()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda i: client.create('tfjobs', run.NAMESPACE, run.job(i, self.run_for)), range(self.jobs)))
        self._wait('all jobs Running', lambda: self._running(mirror) == self.jobs, 120 + self.jobs)
        time.sleep(10)  # events and counters that come after
        before = cpu_and_peak(first.pid)[0]
        time.sleep(60)
        result['idle_cpu_percent'] = 100 * (cpu_and_peak(first.pid)[0] - before) / 60
        result['resident_mib'] = resident_mib(first.pid)
        result['peak_mib'] = cpu_and_peak(first.pid)[1]
        first.send_signal(signal.SIGTERM)
        first.wait(60)
        second, result['start_to_ready_s'] = self._start_operator('second')
        result['restarted_resident_mib'] = resident_mib(second.pid)
        time.sleep(5)
        result['failed_to_replaced_s'] = run.quantiles(
            [self._fail(client, 'job-%05d-worker-0' % (i % self.jobs)) for i in range(min(failures, self.jobs))])
        self._start_operator('third', ready=False)
        time.sleep(5)  # until it stands by
        second.send_signal(signal.SIGKILL)
        second.wait(10)
        result['leader_killed_to_replaced_s'] = self._fail(client, 'job-%05d-worker-1' % 0)
        mirror.stop()
        return result

    def _start_operator(self, name, ready=True):
        """(process, seconds until /readyz says so)."""
        port = run.control_plane.free_port()
        started = time.monotonic()
        process = self._spawn(name, shlex.split(run.OURS.format(
            program=self.program, kubeconfig=self.config, port=run.control_plane.free_port(), port2=port)))
        if ready:
            self._wait('/readyz of the operator', lambda: self._is_ready(port), 120, every=0.005)
        return process, time.monotonic() - started

    @staticmethod
    def _is_ready(port):
        try:
            with urllib.request.urlopen('http://127.0.0.1:%d/readyz' % port, timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    @staticmethod
    def _running(mirror):
        return sum(1 for item in mirror.all('tfjobs', run.NAMESPACE)
                   if any(c['type'] == 'Running' and c['status'] == 'True'
                          for c in item.get('status', {}).get('conditions', [])))

    def _wait(self, what, done, seconds, every=0.2):
        deadline = time.monotonic() + seconds
        while not done():
            if time.monotonic() > deadline:
                raise SystemExit('no %s after %d s; logs are in %s' % (what, seconds, self.folder))
            time.sleep(every)

    def _note(self, kind, what, item):
        if kind != 'pods' or what == 'DELETED':
            return
        name, uid = item['metadata']['name'], item['metadata']['uid']
        with self.changed:
            if self.made.get(name, ('', 0))[0] != uid:
                self.made[name] = (uid, time.monotonic())
                self.changed.notify_all()

    def _fail(self, client, pod):
        """Seconds from the failure of this pod until another of its name is there."""
        uid = self.made[pod][0]
        client.patch('pods', run.NAMESPACE, pod, FAILED, 'status')
        failed = time.monotonic()
        with self.changed:
            if not self.changed.wait_for(lambda: self.made[pod][0] != uid, 120):
                raise SystemExit('%s was not replaced in 120 s; logs are in %s' % (pod, self.folder))
        return self.made[pod][1] - failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--operator', required=True, help='the program')
    parser.add_argument('--jobs', type=int, default=1000)
    parser.add_argument('--failures', type=int, default=100)
    parser.add_argument('--json', help='write all figures here')
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix='trainyard-bench-')
    result = Steady(os.path.abspath(args.operator), args.jobs, folder).run(args.failures)
    shutil.rmtree(folder)
    for what, value in result.items():
        print('%-28s %s' % (what, value if isinstance(value, (int, dict)) else '%.3f' % value))
    if args.json:
        with open(args.json, 'w') as f:
            json.dump(result, f, indent=1)


if __name__ == '__main__':
    main()
