#!/usr/bin/env python3
"""The trainer as a user types it: what each wrong flag, file or checkpoint says and exits with, and that
the same seed gives the same run.   command_line_test.py TRAINER"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

TRAINER = None
DATA = None


def run(*args, env=None, seconds=60):
    return subprocess.run([TRAINER, *args], capture_output=True, text=True, timeout=seconds,
                          env={**os.environ, 'TF_CONFIG': '', **(env or {})})


class CommandLineTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix='command-line-')
        self.addCleanup(shutil.rmtree, self.dir, True)

    def train(self, *args, **kwargs):
        return run('--data_dir=' + DATA, '--hidden_units=16', '--train_steps=40', *args, **kwargs)

    def assert_fails(self, result, code, *parts):
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)

    def test_wrong_usage_exits_2_and_names_the_flag(self):
        table = [
            (['trian'], ['unknown command `trian`', 'did you mean train?']),
            (['--taske_id=1'], ['--taske_id', 'did you mean --task_id?']),
            (["--job_name='ps'"], ['--job_name', 'shell quotes']),
            (['--preset=minst-mlp'], ['minst-mlp', 'mnist-mlp']),
            (['--job_name=ps', '--ps_hosts=a:1', '--task_index=3'], ['--task_index=3']),
            (['--job_name=worker', '--task_index=0', '--worker_hosts=a:1,b:1', '--sync_replicas'],
             ['--sync_replicas', '--ps_hosts']),
            (['--ps_hosts=nonsense', '--job_name=ps'], ['--ps_hosts', 'nonsense']),
            (['--config=/no/such/file.yaml'], ['/no/such/file.yaml']),
            (['eval'], ['--checkpoint_dir']),
            (['export', '--checkpoint_dir=/tmp'], ['--output']),
        ]
        for args, parts in table:
            with self.subTest(args=args):
                self.assert_fails(run(*args), 2, *parts)

    def test_a_bad_tf_config_exits_2_and_names_the_path(self):
        table = [
            ('{', ['TF_CONFIG']),
            ('{"cluster":{"ps":["a"],"worker":["b:1"]},"task":{"type":"worker","index":0}}',
             ['cluster.ps[0]']),
            ('{"cluster":{"ps":["a:1"],"worker":["b:1"]},"task":{"type":"worker","index":7}}', ['7']),
        ]
        for config, parts in table:
            with self.subTest(config=config):
                self.assert_fails(run(env={'TF_CONFIG': config}), 2, *parts)

    def test_unusable_data_exits_3_and_names_the_file(self):
        self.assert_fails(run('--data_dir=/no/such/folder'), 3, '/no/such/folder')
        short = os.path.join(self.dir, 'short')
        shutil.copytree(DATA, short)
        path = os.path.join(short, 'train-images-idx3-ubyte')
        with open(path, 'r+b') as f:
            f.truncate(100000)
        self.assert_fails(run('--data_dir=' + short, '--train_steps=1'), 3, path, 'expected')

    def test_a_checkpoint_of_another_shape_exits_3_and_stays_as_it_was(self):
        folder = os.path.join(self.dir, 'ckpt')
        self.assertEqual(self.train('--checkpoint_dir=' + folder).returncode, 0)
        before = {n: os.path.getmtime(os.path.join(folder, n)) for n in os.listdir(folder)
                  if n.startswith('model.ckpt')}
        result = run('--data_dir=' + DATA, '--hidden_units=17', '--train_steps=80',
                     '--checkpoint_dir=' + folder)
        self.assert_fails(result, 3, 'layer1/weights', '16', '17')
        after = {n: os.path.getmtime(os.path.join(folder, n)) for n in os.listdir(folder)
                 if n.startswith('model.ckpt')}
        self.assertEqual(before, after)

    def test_an_unwritable_checkpoint_folder_names_the_path(self):
        blocker = os.path.join(self.dir, 'file')
        with open(blocker, 'w'):
            pass
        self.assert_fails(self.train('--checkpoint_dir=' + blocker + '/ckpt'), 3, blocker)

    def test_a_loss_that_is_not_finite_exits_4(self):
        self.assert_fails(self.train('--learning_rate=1e30'), 4, 'step')

    def test_the_same_seed_gives_the_same_losses_to_the_bit(self):
        def losses():
            out = self.train('--log_every=1', '--log_format=json', '--seed=5').stdout
            steps = [json.loads(line) for line in out.splitlines() if line.startswith('{')]
            return [(s['global_step'], s['loss']) for s in steps if s.get('event') == 'step']
        first = losses()
        self.assertEqual(len(first), 40)
        self.assertEqual(first, losses())

    def test_the_last_line_is_machine_readable(self):
        result = self.train()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout.strip().splitlines()[-1],
                         r'^done global_step=40 seconds=\d+\.\d+ test_accuracy=0\.\d{4}$')

    def test_a_checkpoint_is_exported_and_evaluated(self):
        folder = os.path.join(self.dir, 'ckpt')
        self.assertEqual(self.train('--checkpoint_dir=' + folder).returncode, 0)
        for name in ('safetensors', 'onnx'):
            output = os.path.join(self.dir, 'model.' + name)
            result = run('export', '--hidden_units=16', '--checkpoint_dir=' + folder,
                         '--format=' + name, '--output=' + output)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertGreater(os.path.getsize(output), 784 * 16 * 4)
        result = run('eval', '--hidden_units=16', '--data_dir=' + DATA, '--checkpoint_dir=' + folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn('eval global_step=40 test_accuracy=0.', result.stdout)

    def test_devices_are_listed_and_tried(self):
        result = run('devices')
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn('[2, 4, 6]', result.stdout.replace('2,4,6', '2, 4, 6'))


def main():
    global TRAINER, DATA
    TRAINER = os.path.abspath(sys.argv.pop(1))
    with tempfile.TemporaryDirectory(prefix='command-line-data-') as DATA:
        subprocess.run([TRAINER, 'data', 'synthesize', '--data_dir=' + DATA, '--train=6000',
                        '--test=500'], check=True, timeout=120, stdout=subprocess.DEVNULL)
        result = unittest.main(argv=sys.argv, exit=False, verbosity=2).result
    sys.exit(0 if result.wasSuccessful() else 1)


if __name__ == '__main__':
    main()
