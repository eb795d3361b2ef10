#!/usr/bin/env python3
"""TensorFlow itself reads our checkpoints, and we read TensorFlow's.

  tensorflow_reads_checkpoint_test.py --sample trainer_persist_sample [--trainer trainer]

With --trainer: a cluster of two ps with split variables trains on synthesised digits; a NumPy forward
pass over the checkpoint, as TensorFlow loads it, gives the accuracy that the trainer printed.
Exits with 77 and the reason where TensorFlow is not installed."""
import argparse
import gzip
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
os.environ.setdefault('CUDA_VISIBLE_DEVICES', '')
try:
    import numpy as np
    import tensorflow as tf
except ImportError as error:
    print('SKIPPED: this Python (%s) has no TensorFlow: %s' % (sys.executable, error))
    sys.exit(77)

ARGS = None


def run(*command, timeout=60):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=timeout).stdout


def free_addresses(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(('127.0.0.1', 0))
    addresses = ['127.0.0.1:%d' % s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return addresses


def read_idx(path):
    """Pixels (N, D) scaled to [0, 1], or labels (N)."""
    with (gzip.open if path.endswith('.gz') else open)(path, 'rb') as f:
        data = f.read()
    rank = data[3]
    shape = [int.from_bytes(data[4 + 4 * i:8 + 4 * i], 'big') for i in range(rank)]
    values = np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(shape)
    return values if rank == 1 else values.reshape(shape[0], -1).astype(np.float32) / 255


class Folder(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix='tensorflow-reads-')

    def tearDown(self):
        shutil.rmtree(self.dir, ignore_errors=True)


class SampleTest(Folder):
    def test_tensorflow_finds_the_newest_checkpoint(self):
        run(ARGS.sample, 'write', self.dir)
        self.assertEqual(tf.train.latest_checkpoint(self.dir), os.path.join(self.dir, 'model.ckpt-1234'))

    def test_tensorflow_puts_split_tensors_together(self):
        run(ARGS.sample, 'write', self.dir)
        reader = tf.train.load_checkpoint(self.dir)
        shapes = reader.get_variable_to_shape_map()
        self.assertEqual(shapes['conv1/weights'], [5, 5, 2, 5])
        self.assertEqual(shapes['dense1/biases/Adam_1'], [11])
        ours = run(ARGS.sample, 'read', os.path.join(self.dir, 'model.ckpt-1234'))
        names = set()
        for line in ours.splitlines()[1:]:
            name, shape, total = line.split()
            tensor = reader.get_tensor(name)
            names.add(name)
            self.assertEqual(list(tensor.shape), [int(n) for n in shape.strip('[]').split(',') if n], name)
            self.assertEqual(tensor.dtype, np.float32)
            self.assertAlmostEqual(float(tensor.sum(dtype=np.float64)), float(total), places=4, msg=name)
        self.assertEqual(names | {'global_step'}, set(shapes))
        for name in ('conv1/weights', 'dense2/biases'):
            np.testing.assert_array_equal(reader.get_tensor(name + '/ExponentialMovingAverage'),
                                          2 * reader.get_tensor(name))

    def test_global_step_and_adams_powers_are_tensorflows(self):
        run(ARGS.sample, 'write', self.dir)
        reader = tf.train.load_checkpoint(self.dir)
        self.assertEqual(reader.get_tensor('global_step').dtype, np.int64)
        self.assertEqual(reader.get_tensor('global_step').shape, ())
        self.assertEqual(reader.get_tensor('global_step'), 1234)
        self.assertAlmostEqual(float(reader.get_tensor('beta2_power')), 0.999**1235, places=4)

    def test_a_classic_saver_restores_it(self):
        run(ARGS.sample, 'write', self.dir)
        tf1 = tf.compat.v1
        with tf.Graph().as_default(), tf1.Session() as session:
            with tf1.variable_scope('dense1'):
                weights = tf1.get_variable('weights', [14, 11])
            step = tf1.train.get_or_create_global_step()
            tf1.train.Saver().restore(session, tf.train.latest_checkpoint(self.dir))
            self.assertEqual(session.run(step), 1234)
            np.testing.assert_array_equal(session.run(weights),
                                          tf.train.load_variable(self.dir, 'dense1/weights'))

    def test_we_read_what_a_classic_saver_wrote(self):
        tf1 = tf.compat.v1
        prefix = os.path.join(self.dir, 'model.ckpt')
        with tf.Graph().as_default(), tf1.Session() as session:
            split = tf1.get_variable('split', [7, 5], partitioner=tf1.fixed_size_partitioner(3),
                                     initializer=tf1.random_normal_initializer(10, 1))
            many = [tf1.get_variable('layer%03d/weights' % i, initializer=np.float32([i, 1]))
                    for i in range(300)]
            step = tf1.train.get_or_create_global_step()
            session.run(tf1.global_variables_initializer())
            session.run(step.assign(42))
            saver = tf1.train.Saver(list(split) + many + [step])
            path = saver.save(session, prefix, global_step=42)
        lines = run(ARGS.sample, 'read', path).splitlines()
        self.assertEqual(lines[0], 'global_step 42')
        total = float(tf.train.load_variable(path, 'split').sum(dtype=np.float64))
        self.assertIn('split [7,5] %.6g' % total, lines)
        self.assertIn('layer299/weights [2] 300', lines)
        self.assertEqual(len(lines), 302)


class TrainedTest(Folder):
    def setUp(self):
        super().setUp()
        if not ARGS.trainer:
            self.skipTest('no --trainer')
        self.processes = []

    def tearDown(self):
        for process in self.processes:
            process.kill()
            process.wait(10)
            process.stdout.close()
        super().tearDown()

    def test_numpy_over_the_checkpoint_gives_the_accuracy_that_we_printed(self):
        data = os.path.join(self.dir, 'data')
        run(ARGS.trainer, 'data', 'synthesize', '--data_dir=' + data, '--train=7000', '--test=1000')
        checkpoints = os.path.join(self.dir, 'checkpoints')
        ps, workers = free_addresses(2), free_addresses(1)
        common = ['--ps_hosts=' + ','.join(ps), '--worker_hosts=' + ','.join(workers), '--data_dir=' + data,
                  '--checkpoint_dir=' + checkpoints, '--placement=partitioned', '--train_steps=300',
                  '--learning_rate=0.3', '--hidden_units=100', '--wait_timeout=60']
        for job, index in (('ps', 0), ('ps', 1), ('worker', 0)):
            self.processes.append(subprocess.Popen(
                [ARGS.trainer, '--job_name=' + job, '--task_index=%d' % index, *common],
                stdout=subprocess.PIPE, text=True, env=dict(os.environ, TF_CONFIG='')))
        output, _ = self.processes[-1].communicate(timeout=120)
        for process in self.processes[:-1]:
            self.assertEqual(process.wait(30), 0)
        done = re.search(r'^done global_step=(\d+) .*test_accuracy=(\S+)', output, re.M)
        self.assertIsNotNone(done, output)

        reader = tf.train.load_checkpoint(checkpoints)
        self.assertEqual(reader.get_tensor('global_step'), int(done.group(1)))
        value = lambda name: reader.get_tensor(name + '/ExponentialMovingAverage')
        files = {name.split('-')[0] + name.split('-')[1][:3]: os.path.join(data, name)
                 for name in os.listdir(data) if name.startswith('t10k')}
        images = read_idx(next(p for p in files.values() if 'images' in p))
        labels = read_idx(next(p for p in files.values() if 'labels' in p))
        hidden = np.maximum(images @ value('layer1/weights') + value('layer1/biases'), 0)
        logits = hidden @ value('layer2/weights') + value('layer2/biases')
        accuracy = float(np.mean(np.argmax(logits, 1) == labels))
        self.assertGreater(accuracy, 0.5)
        self.assertAlmostEqual(accuracy, float(done.group(2)), delta=0.0011)


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--sample', required=True)
    parser.add_argument('--trainer', default='')
    ARGS, rest = parser.parse_known_args()
    unittest.main(argv=sys.argv[:1] + rest)
