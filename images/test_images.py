#!/usr/bin/env python3
"""Tests of the images: what is in the archives of `make images`, and their programs at work in a sandbox that is as
strict as a pod of the restricted profile, with names that only DNS knows.

  test_images.py [ARCHIVES [BUILD]] [TEST...]      (build/images, build/release)

Needs root (for the sandbox and for a DNS server on loopback), Debian's dpkg, and for the operator the control plane of
e2e/control_plane.py."""
import collections
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path[:0] = [HERE, os.path.join(ROOT, 'e2e')]
# pylint: disable=wrong-import-position
import archive  # noqa: E402
import build  # noqa: E402
import control_plane  # noqa: E402
import name_server  # noqa: E402
from harness import tfjob  # noqa: E402
from operator_process import Operator  # noqa: E402

ARCHIVES = os.path.join(ROOT, 'build', 'images')
BUILD = os.path.join(ROOT, 'build', 'release')
CUDA = os.path.join(ROOT, 'build', 'cuda')
MB = 1_000_000
# As a registry holds them, and unpacked. oneDNN alone is 40 MB of the trainer's.
LIMITS = {'operator': (12 * MB, 40 * MB), 'trainer': (30 * MB, 80 * MB)}
SHELLS = re.compile(r'(^|/)(sh|bash|dash|ash|zsh|busybox|env|perl|python[\d.]*|apt|apt-get|dpkg)$')
DOMAIN = 'jobs.svc.cluster.test'


def unpack(path, folder):
    """The image's root file system; owners are kept."""
    with tarfile.open(path) as tar:
        for name in json.load(tar.extractfile('manifest.json'))[0]['Layers']:
            with tarfile.open(fileobj=tar.extractfile(name)) as layer:
                layer.extractall(folder, numeric_owner=True)


def needed(path):
    """The libraries that an ELF file asks the loader for."""
    done = subprocess.run(['readelf', '-d', path], stdout=subprocess.PIPE, check=True, timeout=60)
    return set(re.findall(r'\(NEEDED\).*\[(.*)\]', done.stdout.decode()))


def package_of(path):
    """The Debian package whose file this is on this machine."""
    for candidate in (path, '/' + path.removeprefix('/usr/'), os.path.realpath(path)):
        done = subprocess.run(['dpkg-query', '-S', candidate], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              timeout=60, check=False)
        if done.returncode == 0:
            return done.stdout.decode().partition(':')[0]
    raise AssertionError('no Debian package has ' + path)


class Unpacked:
    """An image, unpacked into a folder, for all tests."""

    def __init__(self, name, folder, archives=None):
        self.name = name
        self.program = build.PROGRAMS[name]
        self.path = os.path.join(archives or ARCHIVES, name + '.tar')
        self.files = archive.files(self.path)
        self.config, self.tags = archive.configuration(self.path)
        self.root = os.path.join(folder, name)
        unpack(self.path, self.root)

    def libraries(self):
        return {key: member for key, (member, _) in self.files.items() if re.search(r'\.so(\.|$)', key)}

    def command(self, *args, binds=()):
        environment = [option for variable in self.config['Env'] for option in ('--env', variable)]
        return [sys.executable, os.path.join(HERE, 'sandbox.py'), *environment,
                *['--bind=%s:%s' % bind for bind in binds], self.root, *self.config['Entrypoint'], *args]

    def run(self, *args, binds=()):
        done = subprocess.run(self.command(*args, binds=binds), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=120 * control_plane.PATIENCE, check=False)
        return done.returncode, done.stdout.decode(errors='replace')


class ImageCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix='trainyard-images-')
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        os.chmod(cls.folder, 0o755)
        cls.images = {name: Unpacked(name, cls.folder) for name in build.USUAL}

    def writable(self, name):
        """A folder for user 65532, as a volume with fsGroup would be."""
        path = os.path.join(self.folder, name)
        os.mkdir(path)
        os.chown(path, 65532, 65532)
        return path

    def resolver(self, records):
        """A DNS server and the resolv.conf of a pod that asks it."""
        server = name_server.NameServer(records)
        self.addCleanup(server.close)
        path = os.path.join(self.folder, 'resolv.conf')
        with open(path, 'w') as f:
            f.write('nameserver %s\nsearch %s\noptions ndots:5\n' % (server.address, DOMAIN))
        return server, path


class WhatIsInThem(ImageCase):
    def test_names_user_entry_point_and_labels(self):
        for name, image in self.images.items():
            with self.subTest(name):
                self.assertEqual(image.tags, build.names(name))
                self.assertEqual(image.config['User'], '65532:65532')
                self.assertEqual(image.config['Entrypoint'], ['/usr/local/bin/' + image.program])
                self.assertNotIn('Cmd', image.config)
                labels = image.config['Labels']
                self.assertEqual(labels['org.opencontainers.image.version'], build.version())
                self.assertEqual(labels['org.opencontainers.image.licenses'], 'Apache-2.0')
                self.assertRegex(labels['org.opencontainers.image.revision'], r'^([0-9a-f]{40}(-modified)?|unknown)$')
                self.assertFalse([label for label in labels if not label.startswith('org.opencontainers.image.')])

    def test_sizes(self):
        for name, image in self.images.items():
            with self.subTest(name):
                pulled, unpacked = archive.sizes(image.path)
                print('\n%s: %.1f MB as a registry holds it, %.1f MB unpacked' % (name, pulled / MB, unpacked / MB))
                self.assertLess(pulled, LIMITS[name][0])
                self.assertLess(unpacked, LIMITS[name][1])

    def test_nothing_runs_in_them_but_the_program_and_its_loader(self):
        for name, image in self.images.items():
            with self.subTest(name):
                runnable = {key for key, (member, _) in image.files.items() if member.isfile() and member.mode & 0o111}
                loader = next(key for key in image.files if re.search(r'/ld-linux-[^/]+$', key))
                self.assertEqual(runnable, {'usr/local/bin/' + image.program, loader})
                self.assertEqual([key for key in image.files if SHELLS.search(key)], [])
                for key, (member, _) in image.files.items():
                    self.assertFalse(member.isfile() and member.mode & 0o6022, '%s has mode %o' % (key, member.mode))
                    self.assertTrue(member.uid == 0 or key == 'home/nonroot', '%s belongs to %d' % (key, member.uid))

    def test_the_libraries_are_those_that_are_needed_and_no_others(self):
        for name, image in self.images.items():
            with self.subTest(name):
                paths = [image.root + '/usr/local/bin/' + image.program]
                paths += [os.path.join(image.root, key) for key in image.libraries()]
                asked = set().union(*(needed(path) for path in paths))
                there = {key.rpartition('/')[2] for key in image.libraries()}
                self.assertEqual(there, asked)

    def test_the_sbom_has_every_library_and_each_package_its_licence(self):
        for name, image in self.images.items():
            with self.subTest(name):
                text = image.files['usr/share/sbom/%s.spdx.json' % image.program][1]
                with open(os.path.join(ARCHIVES, name + '.spdx.json'), 'rb') as f:
                    self.assertEqual(f.read(), text)
                sbom = json.loads(text)
                self.assertEqual(sbom['spdxVersion'], 'SPDX-2.3')
                packages = {package['SPDXID']: package for package in sbom['packages']}
                self.assertEqual(len(packages), len(sbom['packages']), 'an id is used twice')
                related = collections.defaultdict(set)
                for relation in sbom['relationships']:
                    related[relation['relationshipType']].add(packages[relation['relatedSpdxElement']]['name'])
                loaded = {package_of('/' + key) for key in image.libraries()}
                self.assertEqual(related['DEPENDS_ON'], loaded | {'ca-certificates'})
                self.assertLessEqual({'nlohmann-json3-dev', 'libabsl-dev'}, related['STATIC_LINK'])
                for package in related['DEPENDS_ON'] | related['STATIC_LINK'] | {'trainyard'}:
                    self.assertIn('usr/share/doc/%s/copyright' % package, image.files)

    def test_a_second_build_gives_the_same_bytes(self):
        again = os.path.join(self.folder, 'again')
        done = subprocess.run([sys.executable, os.path.join(HERE, 'build.py'), '--build', BUILD, '--out', again],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=1800, check=False)
        self.assertEqual(done.returncode, 0, done.stdout.decode(errors='replace')[-3000:])
        for name, image in self.images.items():
            with self.subTest(name):
                self.assertEqual(archive.layers(os.path.join(again, name + '.tar')), archive.layers(image.path))


class TheTrainer(ImageCase):
    def trainer(self, *args, **options):
        status, output = self.images['trainer'].run(*args, **options)
        self.assertEqual(status, 0, output)
        return output

    def test_helps_and_knows_its_version(self):
        self.assertIn('--job_name', self.trainer('train', '--help'))
        self.assertIn(build.version(), self.trainer('version'))

    def test_has_a_read_only_root(self):
        status, output = self.images['trainer'].run('data', 'synthesize', '--data_dir=/home/nonroot/digits')
        self.assertNotEqual(status, 0, output)
        self.assertIn('Read-only file system', output)

    def test_trains_with_a_parameter_server_that_it_finds_by_dns(self):
        server, resolv_conf = self.resolver({'%s.%s' % (task, DOMAIN): '127.0.0.1' for task in ('ps-0', 'worker-0')})
        binds = [(self.writable('data'), '/data'), (self.writable('checkpoints'), '/checkpoints'),
                 (resolv_conf, '/etc/resolv.conf')]
        self.trainer('data', 'synthesize', '--data_dir=/data', binds=binds)
        cluster = ['--ps_hosts=ps-0:%d' % control_plane.free_port(), '--worker_hosts=worker-0:%d' % control_plane.free_port(),
                   '--data_dir=/data', '--checkpoint_dir=/checkpoints/run', '--train_steps=200', '--learning_rate=0.8',
                   '--wait_timeout=60', '--task_index=0']
        log = os.path.join(self.folder, 'ps.log')
        with open(log, 'wb') as f:
            ps = subprocess.Popen(self.images['trainer'].command('--job_name=ps', *cluster, binds=binds), stdout=f,
                                  stderr=subprocess.STDOUT)
        try:
            output = self.trainer('--job_name=worker', *cluster, binds=binds)
            self.assertRegex(output, r'done global_step=20\d .*test_accuracy=0\.[6-9]')
            status = ps.wait(60 * control_plane.PATIENCE)
        finally:
            ps.kill()
            ps.wait(10)
        with open(log, errors='replace') as f:
            self.assertEqual(status, 0, f.read())
        self.assertIn('ps-0.' + DOMAIN, server.asked)
        self.assertIn('checkpoint', os.listdir(os.path.join(self.folder, 'checkpoints', 'run')))


class TheTrainerForGpus(ImageCase):
    """With a stand-in for cuBLASLt, which has 540 MB; it is asked nothing where there is no GPU."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        stand_in = glob.glob(os.path.join(CUDA, 'fake_cublaslt', 'libcublasLt.so.*'))
        if not stand_in or not os.path.exists(os.path.join(CUDA, 'libtrainer_cuda.so')):
            raise unittest.SkipTest('there is no GPU plug-in in %s: make cuda' % CUDA)
        done = subprocess.run([sys.executable, os.path.join(HERE, 'build.py'), '--build', BUILD, '--cuda-build', CUDA,
                               '--cublaslt', stand_in[0], '--out', cls.folder, 'trainer-cuda'], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=1800, check=False)
        if done.returncode != 0:
            raise AssertionError(done.stdout.decode(errors='replace')[-3000:])
        cls.image = Unpacked('trainer-cuda', cls.folder, cls.folder)

    def test_has_the_plug_in_and_its_library_and_their_licence(self):
        self.assertEqual(self.image.tags, build.names('trainer-cuda'))
        there = {key.rpartition('/')[2] for key in self.image.files if key.startswith('usr/local/lib/trainyard/')}
        self.assertEqual({name.partition('.so')[0] for name in there}, {'libtrainer_cuda', 'libcublasLt'})
        asked = set().union(*(needed(os.path.join(self.image.root, key)) for key in self.image.libraries()))
        self.assertLessEqual(asked, {key.rpartition('/')[2] for key in self.image.libraries()})
        plugin = os.path.join(self.image.root, 'usr/local/lib/trainyard/libtrainer_cuda.so')
        paths = subprocess.run(['readelf', '-d', plugin], stdout=subprocess.PIPE, check=True, timeout=60).stdout.decode()
        self.assertEqual(re.findall(r'\((?:RUNPATH|RPATH)\).*\[(.*)\]', paths), ['$ORIGIN'])
        self.assertIn('usr/share/doc/nvidia-cublas/copyright', self.image.files)
        sbom = json.loads(self.image.files['usr/share/sbom/trainer.spdx.json'][1])
        self.assertIn('nvidia-cublas', [package['name'] for package in sbom['packages']])

    def test_says_why_it_computes_on_cpus(self):
        status, output = self.image.run('devices')
        self.assertEqual(status, 0, output)
        self.assertIn('no usable GPU: no NVIDIA driver', output)


class TheOperator(ImageCase):
    def test_helps_and_knows_its_version(self):
        for flag, word in (('--help', '--leader-elect'), ('--version', build.version())):
            status, output = self.images['operator'].run(flag)
            self.assertEqual(status, 0, output)
            self.assertIn(word, output)

    def test_trusts_the_authorities_of_the_image_and_runs_a_job(self):
        """The kubeconfig names no authority: the API server's must come from the image's own list, which this test
        extends as administrators do, by a file over it. Its name is known to DNS alone."""
        cluster = control_plane.ControlPlane(os.path.join(self.folder, 'control-plane'))
        self.addCleanup(cluster.down)
        cluster.up()
        _, resolv_conf = self.resolver({'kubernetes.default.svc': '127.0.0.1'})
        kubeconfig = os.path.join(self.folder, 'kubeconfig')
        with open(cluster.kubeconfig) as f:
            config = json.load(f)
        port = config['clusters'][0]['cluster']['server'].rpartition(':')[2]
        control_plane.write_kubeconfig(kubeconfig, 'https://kubernetes.default.svc:' + port, {}, config['users'][0]['user'])
        os.chmod(kubeconfig, 0o644)
        authorities = os.path.join(self.folder, 'authorities.pem')
        shutil.copy(cluster.certificates.path('ca.crt'), authorities)
        os.chmod(authorities, 0o644)
        operator = Operator(self._script(binds=[(kubeconfig, '/kubeconfig'), (resolv_conf, '/etc/resolv.conf'),
                                                (authorities, '/etc/ssl/certs/ca-certificates.crt')]),
                            '/kubeconfig', os.path.join(self.folder, 'operator.log')).start(wait=False)
        try:
            operator.wait_ready(60)
            client = cluster.client()
            client.create('tfjobs', 'default', tfjob('j', PS=1, Worker=2))
            deadline = time.monotonic() + 60 * control_plane.PATIENCE
            while len(client.list('pods', 'default')) < 3:
                self.assertLess(time.monotonic(), deadline, 'waited for 3 pods of the job:\n' + operator.tail())
                time.sleep(0.1)
        finally:
            status = operator.stop()
        self.assertEqual(status, 0, operator.tail())

    def _script(self, binds):
        """A file to execute, which Operator wants: the image's program in the sandbox."""
        path = os.path.join(self.folder, 'operator.sh')
        with open(path, 'w') as f:
            f.write('#!/bin/sh\nexec %s "$@"\n' % ' '.join(self.images['operator'].command(binds=binds)))
        os.chmod(path, 0o755)
        return path


def main():
    global ARCHIVES, BUILD  # pylint: disable=global-statement
    folders = [arg for arg in sys.argv[1:] if os.path.isdir(arg)]
    ARCHIVES, BUILD = (os.path.abspath(path) for path in (folders + [ARCHIVES, BUILD][len(folders):]))
    if os.getuid() != 0:
        sys.exit('test_images: the sandbox and the DNS server of these tests need root')
    unittest.main(argv=[sys.argv[0]] + [arg for arg in sys.argv[1:] if arg not in folders], verbosity=2, warnings='ignore')


if __name__ == '__main__':
    main()
