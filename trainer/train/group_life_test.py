#!/usr/bin/env python3
"""The life of in-graph and all-reduce jobs, and of `trainer check`, with real processes: tasks killed
with kill -9 and started again, signals, exit codes.

  group_life_test.py TRAINER

Every wait has a deadline; every process started here is gone at the end."""
import os
import re
import signal
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

PATIENCE = float(os.environ.get('TEST_PATIENCE', '1'))  # factor on deadlines, for slowed-down programs
TRAINER = None
DATA = None


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(('127.0.0.1', 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Processes(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix='group-life-')
        self.checkpoints = os.path.join(self.dir, 'ckpt')
        self.processes = []

    def tearDown(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        shutil.rmtree(self.dir)

    def start(self, name, *args):
        log = os.path.join(self.dir, '%d-%s.log' % (len(self.processes), name))
        with open(log, 'w') as out:
            process = subprocess.Popen([TRAINER, *args], stdout=out, stderr=subprocess.STDOUT,
                                       env=dict(os.environ, TF_CONFIG=''))
        process.name, process.log = name, log
        self.processes.append(process)
        return process

    def log(self, process):
        with open(process.log) as f:
            return f.read()

    def ends(self, process, code, within=90):
        within *= PATIENCE
        try:
            process.wait(within)
        except subprocess.TimeoutExpired:
            self.fail('%s still runs after %d s:\n%s' % (process.name, within, self.log(process)[-2000:]))
        self.assertEqual(process.returncode, code, '%s\n%s' % (process.name, self.log(process)[-2000:]))

    def until(self, condition, what, within=60):
        deadline = time.monotonic() + within * PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), deadline, 'no ' + what)
            time.sleep(0.02)

    def saved_step(self):
        steps = [int(m.group(1)) for m in (re.match(r'model\.ckpt-(\d+)\.index$', f)
                                           for f in (os.listdir(self.checkpoints)
                                                     if os.path.isdir(self.checkpoints) else [])) if m]
        return max(steps, default=-1)

    def kill(self, process):
        process.kill()
        process.wait()

    def flags(self, steps):
        return ['--data_dir=' + DATA, '--checkpoint_dir=' + self.checkpoints, '--hidden_units=100',
                '--train_steps=%d' % steps, '--save_checkpoint_steps=100', '--num_threads=1',
                '--learning_rate=0.2', '--wait_timeout=40', '--progress=lines']


class InGraph(Processes):
    STEPS = 6000

    def setUp(self):
        super().setUp()
        ports = free_ports(3)
        self.hosts = ['--ps_hosts=127.0.0.1:%d' % ports[0],
                      '--worker_hosts=grpc://127.0.0.1:%d,grpc://127.0.0.1:%d' % tuple(ports[1:])]

    def ps(self):
        return self.start('ps', '--job_name=ps', '--task_index=0', *self.hosts, '--wait_timeout=40')

    def worker(self, index):
        return self.start('worker%d' % index, 'serve', '--job_name=worker', '--task_index=%d' % index,
                          '--num_threads=1', '--exit_when_done', *self.hosts)

    def client(self, *more):
        return self.start('client', '--existing_servers', *self.hosts, *self.flags(self.STEPS), *more)

    def done(self, client):
        self.ends(client, 0)
        self.assertRegex(self.log(client), r'(?m)^done global_step=%d\d? ' % (self.STEPS // 10))

    def test_a_killed_worker_is_reported_and_taken_in_again(self):
        ps, one, two, client = self.ps(), self.worker(0), self.worker(1), self.client()
        self.until(lambda: self.saved_step() >= 100, 'checkpoint')
        self.kill(two)
        self.until(lambda: 'lost a worker' in self.log(client), 'report')
        self.assertIn('/job:worker/task:1', self.log(client))
        again = self.worker(1)
        self.done(client)
        self.assertIn('a worker is back', self.log(client))
        for process in (ps, one, again):
            self.ends(process, 0, 10)

    def test_a_killed_worker_does_not_stop_synchronous_training(self):
        self.STEPS = 1500
        ps, one, two = self.ps(), self.worker(0), self.worker(1)
        client = self.client('--sync_replicas')
        self.until(lambda: self.saved_step() >= 100, 'checkpoint')
        self.kill(two)
        self.done(client)
        self.assertEqual(self.saved_step(), self.STEPS)
        self.ends(ps, 0, 10)
        self.ends(one, 0, 10)

    def test_a_killed_ps_is_restored_when_it_is_back(self):
        ps, one, two, client = self.ps(), self.worker(0), self.worker(1), self.client()
        self.until(lambda: self.saved_step() >= 100, 'checkpoint')
        self.kill(ps)
        again = self.ps()
        self.done(client)
        self.assertIn('restored a shard', self.log(client))
        for process in (again, one, two):
            self.ends(process, 0, 10)

    def test_a_killed_client_goes_on_where_it_was(self):
        ps, one, two, client = self.ps(), self.worker(0), self.worker(1), self.client()
        self.until(lambda: self.saved_step() >= 100, 'checkpoint')
        self.kill(client)
        self.done(self.client())
        for process in (ps, one, two):
            self.ends(process, 0, 10)

    def test_a_stopped_client_saves_and_frees_its_workers(self):
        self.STEPS = 1000000
        ps, one, two, client = self.ps(), self.worker(0), self.worker(1), self.client()
        self.until(lambda: self.saved_step() >= 100, 'checkpoint')
        client.send_signal(signal.SIGTERM)
        self.ends(client, 143, 25)
        for process in (one, two):
            self.ends(process, 0, 10)

    def test_a_standing_server_ends_by_a_signal(self):
        worker = self.worker(0)
        self.until(lambda: 'listens' in self.log(worker), 'standing server')
        worker.send_signal(signal.SIGTERM)
        self.ends(worker, 143, 5)

    def test_gives_up_with_138_when_no_worker_comes(self):
        ps = self.ps()
        self.until(lambda: 'listens' in self.log(ps), 'parameter server')
        client = self.client('--wait_timeout=%d' % (2 * PATIENCE))
        self.ends(client, 138, 20)
        self.assertRegex(self.log(client), r'/job:worker/task:0.*/job:worker/task:1')


class AllReduce(Processes):
    COUNT = 3
    STEPS = 3000

    def setUp(self):
        super().setUp()
        self.hosts = ','.join('127.0.0.1:%d' % port for port in free_ports(self.COUNT))

    def worker(self, index):
        return self.start('worker%d' % index, '--job_name=worker', '--task_index=%d' % index,
                          '--worker_hosts=' + self.hosts, *self.flags(self.STEPS))

    def kill_and_restart(self, rank):
        workers = [self.worker(i) for i in range(self.COUNT)]
        self.until(lambda: self.saved_step() >= 100, 'checkpoint')
        self.kill(workers[rank])
        other = workers[(rank + 1) % self.COUNT]
        self.until(lambda: 'lost a worker' in self.log(other), 'report')
        workers[rank] = self.worker(rank)
        for worker in workers:
            self.ends(worker, 0)
        self.assertEqual(self.saved_step(), self.STEPS)
        self.assertRegex(self.log(workers[0]), r'(?m)^done global_step=%d ' % self.STEPS)

    def test_a_killed_worker_rejoins(self):
        self.kill_and_restart(2)

    def test_a_killed_chief_goes_on_from_its_checkpoint(self):
        self.kill_and_restart(0)

    def test_a_signal_ends_every_worker_within_five_seconds(self):
        self.STEPS = 1000000
        workers = [self.worker(i) for i in range(self.COUNT)]
        self.until(lambda: self.saved_step() >= 100, 'checkpoint')
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
        for worker in workers:
            self.ends(worker, 143, 25 if worker is workers[0] else 5)

    def test_a_worker_that_comes_after_the_end_exits_in_good_order(self):
        self.STEPS = 200
        for worker in [self.worker(i) for i in range(self.COUNT)]:
            self.ends(worker, 0)
        self.ends(self.worker(1), 0, 20)


class Check(Processes):
    def test_every_task_of_a_job_that_checks_itself_ends_well(self):
        ports = free_ports(4)
        hosts = ['--ps_hosts=127.0.0.1:%d' % ports[0],
                 '--worker_hosts=' + ','.join('127.0.0.1:%d' % p for p in ports[1:])]
        tasks = [('ps', 0), ('worker', 0), ('worker', 1), ('worker', 2)]
        checks = [self.start('check', 'check', '--job_name=' + job, '--task_index=%d' % index, *hosts)
                  for job, index in tasks]
        for check in checks:
            self.ends(check, 0, 30)
            self.assertEqual(len(re.findall(r' ok .* ms\n', self.log(check))), 3, self.log(check))

    def test_from_outside_it_names_who_does_not_answer(self):
        port, = free_ports(1)
        check = self.start('check', 'check', '--ps_hosts=127.0.0.1:%d' % port, '--wait_timeout=0.5')
        self.ends(check, 138, 20)
        self.assertIn('connection refused', self.log(check))


def main():
    global TRAINER, DATA
    TRAINER = os.path.abspath(sys.argv.pop(1))
    DATA = tempfile.mkdtemp(prefix='group-life-data-')
    try:
        subprocess.run([TRAINER, 'data', 'synthesize', '--data_dir=' + DATA, '--train=6000',
                        '--test=1000'], check=True, timeout=120)
        unittest.main(verbosity=2)
    finally:
        shutil.rmtree(DATA)


if __name__ == '__main__':
    main()
