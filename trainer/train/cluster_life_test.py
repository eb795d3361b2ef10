#!/usr/bin/env python3
"""The life of a cluster, with real processes: any start order, late and returning tasks, kill -9 of
each kind of task at random instants, signals, exit codes, and parameter servers that end by themselves.

  cluster_life_test.py TRAINER [--runs N] [--seed S]

Every wait has a deadline; every process started here is gone at the end."""
import argparse
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

ARGS = None
DATA = None
PATIENCE = float(os.environ.get('TEST_PATIENCE', '1'))  # factor on deadlines, for slowed-down programs


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(('127.0.0.1', 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Cluster:
    """Tasks of one job as processes; logs and checkpoints in a folder of its own."""

    def __init__(self, ps=1, workers=2, steps=1500, flags=()):
        self.dir = tempfile.mkdtemp(prefix='cluster-life-')
        hosts = ['127.0.0.1:%d' % p for p in free_ports(ps + workers)]
        self.steps = steps
        self.checkpoints = os.path.join(self.dir, 'ckpt')
        self.common = ['--ps_hosts=' + ','.join(hosts[:ps]), '--worker_hosts=' + ','.join(hosts[ps:]),
                       '--data_dir=' + DATA, '--checkpoint_dir=' + self.checkpoints, '--hidden_units=200',
                       '--train_steps=%d' % steps, '--save_checkpoint_steps=100', '--num_threads=1',
                       '--learning_rate=0.2', '--wait_timeout=40', *flags]
        self.tasks = [('ps', i) for i in range(ps)] + [('worker', i) for i in range(workers)]
        self.processes = {}
        self.started = 0

    def start(self, task, *flags):
        job, index = task
        self.started += 1
        log = os.path.join(self.dir, '%s-%d.%d.log' % (job, index, self.started))
        with open(log, 'w') as out:
            self.processes[task] = subprocess.Popen(
                [ARGS.trainer, '--job_name=' + job, '--task_index=%d' % index, *self.common, *flags],
                stdout=out, stderr=subprocess.STDOUT, env=dict(os.environ, TF_CONFIG=''))
        self.processes[task].log = log

    def start_all(self, order=None):
        for task in order or self.tasks:
            self.start(task)

    def kill(self, task, sig=signal.SIGKILL):
        self.processes[task].send_signal(sig)
        if sig == signal.SIGKILL:
            self.processes[task].wait(10)

    def wait(self, task, seconds):
        seconds *= PATIENCE
        try:
            return self.processes[task].wait(seconds)
        except subprocess.TimeoutExpired:
            return 'still running after %d s' % seconds

    def log(self, task):
        with open(self.processes[task].log) as f:
            return f.read()

    def logs(self):
        text = ''
        for name in sorted(os.listdir(self.dir)):
            if name.endswith('.log'):
                with open(os.path.join(self.dir, name)) as f:
                    text += '--- %s\n%s' % (name, f.read()[-2500:])
        return text

    def wait_for_text(self, task, pattern, seconds):
        end = time.time() + seconds * PATIENCE
        while time.time() < end:
            if re.search(pattern, self.log(task)):
                return True
            if self.processes[task].poll() is not None:
                return re.search(pattern, self.log(task)) is not None
            time.sleep(0.01)
        return False

    def close(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait(10)
        shutil.rmtree(self.dir, ignore_errors=True)


class ClusterLifeTest(unittest.TestCase):
    def cluster(self, **kwargs):
        cluster = Cluster(**kwargs)
        self.addCleanup(cluster.close)
        return cluster

    def assert_done(self, cluster, tasks=None, seconds=60):
        end = time.time() + seconds
        for task in tasks or cluster.tasks:
            code = cluster.wait(task, max(1, end - time.time()))
            self.assertEqual(code, 0, '%s:%d\n%s' % (*task, cluster.logs()))
        chief = cluster.log(('worker', 0))
        self.assertRegex(chief, r'(?m)^done global_step=%d ' % cluster.steps, cluster.logs())
        evaluated = subprocess.run([ARGS.trainer, 'eval', '--checkpoint_dir=' + cluster.checkpoints,
                                    '--data_dir=' + DATA, '--hidden_units=200'],
                                   capture_output=True, text=True, timeout=60 * PATIENCE)
        self.assertEqual(evaluated.returncode, 0, evaluated.stderr)
        self.assertIn('eval global_step=%d ' % cluster.steps, evaluated.stdout)

    def test_workers_may_start_before_the_servers(self):
        cluster = self.cluster(ps=2, steps=200)
        cluster.start_all(order=[('worker', 1), ('worker', 0), ('ps', 1), ('ps', 0)])
        self.assert_done(cluster)

    def test_servers_exit_by_themselves_within_five_seconds(self):
        cluster = self.cluster(steps=200)
        cluster.start_all()
        self.assertEqual(cluster.wait(('worker', 0), 60), 0, cluster.logs())
        self.assertEqual(cluster.wait(('ps', 0), 5), 0, cluster.logs())

    def test_a_late_worker_joins(self):
        cluster = self.cluster(steps=3000)
        cluster.start(('ps', 0))
        cluster.start(('worker', 0))
        self.assertTrue(cluster.wait_for_text(('worker', 0), r'After 100 training steps', 30),
                        cluster.logs())
        cluster.start(('worker', 1))
        self.assert_done(cluster)

    def test_a_worker_that_comes_after_the_end_exits_in_good_order(self):
        cluster = self.cluster(steps=200)
        cluster.start(('ps', 0))
        cluster.start(('worker', 0))
        self.assert_done(cluster, [('worker', 0), ('ps', 0)])
        cluster.start(('worker', 1))
        self.assertEqual(cluster.wait(('worker', 1), 20), 0, cluster.logs())
        self.assertIn('training has ended already', cluster.log(('worker', 1)))

    def test_a_server_that_comes_back_after_the_end_exits_in_good_order(self):
        cluster = self.cluster(steps=200)
        cluster.start_all()
        self.assert_done(cluster)
        cluster.start(('ps', 0))
        self.assertEqual(cluster.wait(('ps', 0), 20), 0, cluster.logs())
        self.assertIn('training has ended already', cluster.log(('ps', 0)))

    def test_training_resumes_from_the_newest_checkpoint(self):
        cluster = self.cluster(steps=200)
        cluster.start_all()
        self.assert_done(cluster)
        cluster.common = [f.replace('--train_steps=200', '--train_steps=400') for f in cluster.common]
        cluster.steps = 400
        cluster.start_all()
        self.assert_done(cluster)
        self.assertRegex(cluster.log(('worker', 0)), r'restored a shard.*step=200')

    def test_sigterm_ends_the_chief_with_a_checkpoint_and_143(self):
        cluster = self.cluster(steps=10**9, flags=['--save_checkpoint_steps=0'])
        cluster.start_all()
        self.assertTrue(cluster.wait_for_text(('worker', 0), r'After 200 training steps', 30),
                        cluster.logs())
        cluster.kill(('worker', 0), signal.SIGTERM)
        self.assertEqual(cluster.wait(('worker', 0), 10), 143, cluster.logs())
        saved = [n for n in os.listdir(cluster.checkpoints) if n.endswith('.index')]
        self.assertGreaterEqual(len(saved), 2, saved)
        for task, sig, code in ((('worker', 1), signal.SIGINT, 130), (('ps', 0), signal.SIGTERM, 143)):
            cluster.kill(task, sig)
            self.assertEqual(cluster.wait(task, 5), code, cluster.logs())

    def test_gives_up_with_138_when_nobody_comes(self):
        cluster = self.cluster(steps=200, flags=['--wait_timeout=1'])
        cluster.start_all(order=[('worker', 1)])
        self.assertEqual(cluster.wait(('worker', 1), 20), 138, cluster.logs())
        self.assertIn('gave up waiting for /job:ps/task:0', cluster.log(('worker', 1)))
        cluster.start(('ps', 0))
        self.assertEqual(cluster.wait(('ps', 0), 20), 138, cluster.logs())

    def test_a_port_that_is_taken_is_named_with_exit_2(self):
        cluster = self.cluster(steps=200)
        cluster.start(('ps', 0))
        self.assertTrue(cluster.wait_for_text(('ps', 0), 'listens', 20))
        first = cluster.processes[('ps', 0)]
        cluster.start(('ps', 0))
        self.assertEqual(cluster.wait(('ps', 0), 20), 2, cluster.logs())
        self.assertRegex(cluster.log(('ps', 0)), r'127\.0\.0\.1:\d+')
        first.kill()
        first.wait(10)

    def test_a_lost_worker_does_not_stop_synchronous_training(self):
        cluster = self.cluster(ps=2, workers=3, steps=600, flags=['--sync_replicas'])
        cluster.start_all()
        self.assertTrue(cluster.wait_for_text(('worker', 0), r'After 100 training steps', 30),
                        cluster.logs())
        cluster.kill(('worker', 2))
        self.assert_done(cluster, [t for t in cluster.tasks if t != ('worker', 2)])

    def test_kill_9_at_random_instants_never_loses_a_run(self):
        rng = random.Random(ARGS.seed)
        for run in range(ARGS.runs):
            ps, sync = rng.choice((1, 2)), rng.random() < 0.5
            victim = rng.choice([('ps', rng.randrange(ps)), ('worker', 0), ('worker', 1)])
            delay = rng.uniform(0.05, 1.0)
            with self.subTest(run=run, ps=ps, sync=sync, victim=victim, delay=round(delay, 3)):
                cluster = Cluster(ps=ps, steps=800, flags=['--sync_replicas'] if sync else [])
                try:
                    cluster.start_all(order=rng.sample(cluster.tasks, len(cluster.tasks)))
                    time.sleep(delay)
                    ended = cluster.processes[victim].poll() is not None
                    cluster.kill(victim)
                    if not ended:
                        cluster.start(victim)
                    self.assert_done(cluster)
                finally:
                    cluster.close()


def main():
    global ARGS, DATA
    parser = argparse.ArgumentParser()
    parser.add_argument('trainer')
    parser.add_argument('--runs', type=int, default=50)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--only', default='', help='run the tests whose name contains this')
    ARGS = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix='cluster-life-data-') as DATA:
        subprocess.run([ARGS.trainer, 'data', 'synthesize', '--data_dir=' + DATA, '--train=6000',
                        '--test=500'], check=True, timeout=120, stdout=subprocess.DEVNULL)
        loader = unittest.TestLoader()
        if ARGS.only:
            loader.testNamePatterns = ['*%s*' % ARGS.only]
        suite = loader.loadTestsFromTestCase(ClusterLifeTest)
        result = unittest.TextTestRunner(verbosity=2).run(suite)
    sys.exit(0 if result.wasSuccessful() else 1)


if __name__ == '__main__':
    main()
