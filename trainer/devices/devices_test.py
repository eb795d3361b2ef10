#!/usr/bin/env python3
"""The trainer with a GPU plug-in beside it: where each task computes, what it says, and what it exits with.
The GPUs are this machine's memory (trainer/cuda/plugin/fake_plugin.cc), but for --real, the plug-in for NVIDIA's.
    devices_test.py TRAINER --plugin=FAKE [--nvml=FAKE] | --real=PLUGIN"""
import argparse
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

SMALL = ('--hidden_units=16', '--train_steps=40', '--batch_size=20', '--seed=3')
ARGS = None
FOLDER = None  # the trainer, a plug-in beside it, and digits


def environment(**variables):
    clean = {k: v for k, v in os.environ.items() if k not in ('TF_CONFIG', 'CUDA_VISIBLE_DEVICES', 'TRAINYARD_CUDA_PLUGIN')}
    return {**clean, **variables}


def run(*args, seconds=120, **variables):
    return subprocess.run([os.path.join(FOLDER, 'trainer'), *args], capture_output=True, text=True, timeout=seconds,
                          env=environment(**variables))


def train(*args, **variables):
    return run('--data_dir=' + os.path.join(FOLDER, 'digits'), *SMALL, *args, **variables)


def accuracy(result):
    return float(re.search(r'test_accuracy=([0-9.]+)', result.stdout + result.stderr).group(1))


class Base(unittest.TestCase):
    def assert_trains(self, result):
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn('done global_step=40', result.stdout + result.stderr)

    def assert_fails(self, result, code, *parts):
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)


class FakeGpuTest(Base):
    def test_training_and_evaluation_run_on_a_gpu_where_there_is_one(self):
        checkpoints = tempfile.mkdtemp(prefix='devices-')
        self.addCleanup(shutil.rmtree, checkpoints, True)
        result = train('--require_gpu', '--noallow_soft_placement', '--checkpoint_dir=' + checkpoints)
        self.assert_trains(result)
        self.assertRegex(result.stderr, r'computing on a GPU.*device=GPU:0.*Fake GPU 0')
        on_cpu = train(CUDA_VISIBLE_DEVICES='')
        self.assert_trains(on_cpu)
        self.assertNotIn('computing on a GPU', on_cpu.stderr)
        self.assertAlmostEqual(accuracy(result), accuracy(on_cpu), delta=0.02)
        result = run('eval', '--hidden_units=16', '--data_dir=' + os.path.join(FOLDER, 'digits'),
                     '--checkpoint_dir=' + checkpoints)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn('computing on a GPU', result.stderr)

    def test_placement_is_told_as_it_is(self):
        result = train('--log_device_placement')
        self.assert_trains(result)
        self.assertIn('/device:GPU:1 -> device: 1, name: Fake GPU 1, pci bus id: 0000:02:00.0, compute capability: 9.1',
                      result.stderr)
        self.assertRegex(result.stderr, r'layer1: \(dense\): /job:\w+/replica:0/task:0/device:GPU:0')
        result = train('--log_device_placement', CUDA_VISIBLE_DEVICES='')
        self.assertNotIn('GPU', result.stderr)

    def test_towers_take_a_gpu_each(self):
        result = train('--num_gpus=2', '--noallow_soft_placement')
        self.assert_trains(result)
        self.assertIn('device=GPU:0', result.stderr)
        self.assertIn('device=GPU:1', result.stderr)

    def test_a_layers_device_is_obeyed_or_refused(self):
        config = os.path.join(FOLDER, 'model.yaml')
        for device, code, soft in (('/gpu:1', 0, 'device=GPU:1'), ('/gpu:7', 2, 'it runs on the CPU')):
            with open(config, 'w') as f:
                f.write('input_shape: [784]\nlayers:\n  - {type: dense, name: only, units: 10, device: "%s"}\n'
                        'train_steps: 40\nbatch_size: 20\n' % device)
            flags = ('--config=' + config, '--data_dir=' + os.path.join(FOLDER, 'digits'))
            result = run(*flags, '--noallow_soft_placement')
            self.assertEqual(result.returncode, code, result.stderr)
            if code:
                self.assertIn('op only cannot run on /device:GPU:7: there is no such device', result.stderr)
            result = run(*flags)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(soft, result.stderr)

    def test_without_a_usable_gpu_training_goes_on_unless_one_is_required(self):
        for variables, reason in (({'FAKE_CUDA': 'no_driver'}, 'no NVIDIA driver'), ({'FAKE_CUDA': 'no_device'}, 'shows no GPU'),
                                  ({'FAKE_CUDA': 'version'}, 'was built with this trainer'),
                                  ({'CUDA_VISIBLE_DEVICES': ''}, "CUDA_VISIBLE_DEVICES='' hides all GPUs"),
                                  ({'TRAINYARD_CUDA_PLUGIN': '/no/such.so'}, 'no GPU plug-in /no/such.so')):
            with self.subTest(reason=reason):
                self.assert_trains(train(**variables))
                self.assert_fails(train('--require_gpu', **variables), 2, 'no usable GPU', reason)
                self.assert_fails(train('--num_gpus=1', '--noallow_soft_placement', **variables), 2, reason)

    def test_a_standing_server_says_that_it_computes_on_cpus_only(self):
        self.assert_fails(run('serve', '--worker_hosts=127.0.0.1:1', '--job_name=worker', '--task_index=0', '--require_gpu'),
                          2, 'no usable GPU', 'compute on CPUs only')

    def test_memory_beyond_the_share_is_a_clear_error(self):
        result = train('--per_process_gpu_memory_fraction=0.0001')
        self.assert_fails(result, 1, 'GPU memory', '--per_process_gpu_memory_fraction')
        self.assert_trains(train('--per_process_gpu_memory_fraction=0.3', '--allow_growth'))

    def test_devices_are_listed_with_driver_and_memory(self):
        if not ARGS.nvml:
            self.skipTest('--nvml names no library')
        folder = os.path.dirname(ARGS.nvml)
        result = run('devices', LD_LIBRARY_PATH=folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r'GPU:1 +Fake GPU 1 +- +1\.0/80\.0 GiB +9\.1 +580\.00\.01 +\[2,4,6\]')
        result = run('devices', LD_LIBRARY_PATH=folder, FAKE_CUDA='bad_add')
        self.assertEqual(result.returncode, 1, result.stdout)
        result = run('devices', LD_LIBRARY_PATH=folder, CUDA_VISIBLE_DEVICES='')
        self.assertEqual(result.returncode, 0)
        self.assertNotIn('GPU:0', result.stdout)

    def test_a_parameter_server_never_touches_a_gpu_and_its_workers_take_them_in_turns(self):
        ports = []
        for _ in range(3):
            with socket.socket() as s:
                s.bind(('127.0.0.1', 0))
                ports.append(s.getsockname()[1])
        hosts = ['--ps_hosts=127.0.0.1:%d' % ports[0], '--worker_hosts=127.0.0.1:%d,127.0.0.1:%d' % tuple(ports[1:])]
        command = [os.path.join(FOLDER, 'trainer'), *hosts, '--data_dir=' + os.path.join(FOLDER, 'digits'), *SMALL,
                   '--sync_replicas']  # so that neither worker has finished before the other begins
        tasks = [subprocess.Popen([*command, '--job_name=' + job, '--task_index=%d' % index], env=environment(),
                                  stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
                 for job, index in (('ps', 0), ('worker', 0), ('worker', 1))]
        self.addCleanup(lambda: [task.kill() for task in tasks])
        loaded = []
        deadline = time.monotonic() + 60
        while tasks[0].poll() is None and time.monotonic() < deadline:
            try:
                with open('/proc/%d/maps' % tasks[0].pid) as f:
                    loaded.append('libtrainer_cuda' in f.read())
            except OSError:
                break
            time.sleep(0.02)
        said = [task.communicate(timeout=60)[1] for task in tasks]
        self.assertEqual([task.returncode for task in tasks], [0, 0, 0], '\n'.join(said))
        self.assertTrue(loaded)
        self.assertFalse(any(loaded))
        self.assertIn('device=GPU:0', said[1])
        self.assertIn('device=GPU:1', said[2])


class RealPluginTest(Base):
    """NVIDIA's runtime in the plug-in; on a machine with a driver there is nothing to see here."""

    def setUp(self):
        if os.path.exists('/proc/driver/nvidia/version'):
            self.skipTest('this machine has an NVIDIA driver')

    def test_without_a_driver_the_reason_is_told_and_the_cpu_trains(self):
        result = run('devices')
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn('no usable GPU: no NVIDIA driver is loaded on this machine', result.stdout)
        self.assert_trains(train())
        self.assert_fails(train('--require_gpu'), 2, 'no NVIDIA driver is loaded on this machine')

    def test_the_plugin_was_loaded(self):
        result = subprocess.run([os.path.join(FOLDER, 'trainer'), 'devices'], capture_output=True, text=True,
                                timeout=60, env=environment(LD_DEBUG='files'))
        self.assertIn('libtrainer_cuda.so', result.stderr)


def main():
    global ARGS, FOLDER
    parser = argparse.ArgumentParser()
    parser.add_argument('trainer')
    parser.add_argument('--plugin')
    parser.add_argument('--nvml')
    parser.add_argument('--real')
    ARGS, rest = parser.parse_known_args()
    with tempfile.TemporaryDirectory(prefix='devices-test-') as FOLDER:
        shutil.copy(ARGS.trainer, os.path.join(FOLDER, 'trainer'))
        shutil.copy(ARGS.real or ARGS.plugin, os.path.join(FOLDER, 'libtrainer_cuda.so'))
        subprocess.run([ARGS.trainer, 'data', 'synthesize', '--data_dir=' + os.path.join(FOLDER, 'digits'),
                        '--train=2000', '--test=500'], check=True, timeout=120, stdout=subprocess.DEVNULL)
        case = RealPluginTest if ARGS.real else FakeGpuTest
        suite = unittest.defaultTestLoader.loadTestsFromTestCase(case)
        sys.exit(0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1)


if __name__ == '__main__':
    main()
