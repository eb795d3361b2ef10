#!/usr/bin/env python3
"""The real TensorBoard reads our event files.

  tensorboard_reads_events_test.py --sample trainer_persist_sample [--trainer trainer]

Exits with 77 and the reason where TensorBoard is not installed."""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

os.environ.setdefault('PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION', 'python')
try:
    from tensorboard.backend.event_processing import event_accumulator
    from tensorboard.backend.event_processing import event_file_inspector
except ImportError as error:
    print('SKIPPED: this Python (%s) has no TensorBoard: %s' % (sys.executable, error))
    sys.exit(77)

ARGS = None


def load(folder):
    accumulator = event_accumulator.EventAccumulator(folder, size_guidance={'histograms': 0, 'scalars': 0})
    accumulator.Reload()
    return accumulator


class EventsTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix='tensorboard-reads-')

    def tearDown(self):
        shutil.rmtree(self.dir, ignore_errors=True)

    def run_sample(self):
        subprocess.run([ARGS.sample, 'write', self.dir], check=True, capture_output=True, timeout=60)
        return load(self.dir)

    def test_reads_scalars(self):
        scalars = self.run_sample().Scalars('loss')
        self.assertEqual([s.step for s in scalars], [100 * i for i in range(1, 11)])
        for i, scalar in enumerate(scalars):
            self.assertAlmostEqual(scalar.value, 1 / (i + 1), places=6)
            self.assertGreater(scalar.wall_time, 1.7e9)

    def test_reads_histograms(self):
        accumulator = self.run_sample()
        histogram, = accumulator.Histograms('dense1/weights')
        value = histogram.histogram_value
        self.assertEqual(histogram.step, 500)
        self.assertEqual((value.min, value.max, value.num, value.sum), (-500, 499, 1000, -500))
        self.assertEqual(sum(value.bucket), 1000)
        self.assertEqual(len(value.bucket), len(value.bucket_limit))
        self.assertEqual(list(value.bucket_limit), sorted(value.bucket_limit))

    def test_reads_the_graph_with_its_devices(self):
        graph = self.run_sample().Graph()
        nodes = {node.name: node for node in graph.node}
        self.assertEqual(nodes['dense1/weights'].device, '/job:ps/task:0/device:CPU:0')
        self.assertEqual(nodes['dense1/weights'].op, 'VariableV2')
        self.assertEqual(nodes['dense1/MatMul'].device, '/job:worker/task:0/device:CPU:0')
        self.assertEqual(nodes['conv1/weights'].attr['shape'].shape.dim[3].size, 5)

    def test_the_inspector_finds_nothing_wrong(self):
        self.run_sample()
        unit, = event_file_inspector.get_inspection_units(logdir=self.dir)
        observed = event_file_inspector.get_dict_to_print(unit.field_to_obs)
        self.assertEqual(observed['scalars']['num_steps'], 10)
        self.assertFalse(observed['sessionlog:stop'])

    def test_reads_what_a_training_wrote(self):
        if not ARGS.trainer:
            self.skipTest('no --trainer')
        subprocess.run([ARGS.trainer, '--train_steps=1500', '--summary_steps=50', '--hidden_units=32',
                        '--checkpoint_dir=' + self.dir], check=True, capture_output=True, timeout=120,
                       env=dict(os.environ, TF_CONFIG=''))
        accumulator = load(self.dir)
        tags = accumulator.Tags()
        self.assertIn('loss', tags['scalars'])
        self.assertIn('learning_rate', tags['scalars'])
        self.assertIn('layer1/weights', tags['histograms'])
        self.assertTrue(tags['graph'])
        losses = accumulator.Scalars('loss')
        self.assertGreater(len(losses), 20)
        self.assertLess(losses[-1].value, losses[0].value)


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--sample', required=True)
    parser.add_argument('--trainer', default='')
    ARGS, rest = parser.parse_known_args()
    unittest.main(argv=sys.argv[:1] + rest)
