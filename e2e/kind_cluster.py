#!/usr/bin/env python3
"""A cluster of the genuine kind tool with one node, on a Docker daemon of its own. The daemon lives in namespaces of this
machine, so that the machine's own Docker, networks, firewall and kernel settings stay as they are. No image registry.

  kind_cluster.py build                     build kind and its node image, and say where they are
  kind_cluster.py up [--dir DIR]            start it; DIR (build/kind) holds state, logs and kubeconfig
  kind_cluster.py load ARCHIVE...           `kind load image-archive` of each
  kind_cluster.py env                       print the lines that point kubectl, helm and docker at it
  kind_cluster.py kind ARGUMENT...          kind itself, on that daemon
  kind_cluster.py down                      stop it and remove all of it, also after a crash

Needs root on Debian 12, and installs what is missing (groups nodes and kind of cmake/packages.txt)."""
import argparse
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
# pylint: disable=wrong-import-position
import binaries  # noqa: E402
from control_plane import PATIENCE, ROOT, ClusterError, ControlPlane  # noqa: E402
from binaries import say  # noqa: E402
from kind import machine, node_image  # noqa: E402
from nodes import cgroups  # noqa: E402
from nodes.lan import Lan, LanError  # noqa: E402
from nodes.node import Containers, NodeError  # noqa: E402

NAME = 'trainyard'
HERE = os.path.dirname(os.path.abspath(__file__))
MODULES = '/lib/modules'  # kind mounts it, and Docker makes it where it is not there
# What machines without CAP_SYS_RESOURCE, without huge pages, or with version 1 of control groups need.
CONTAINERD = '''[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  disable_hugetlb_controller = true
  tolerate_missing_hugetlb_controller = true
'''
# The last: a claim that it sees before its volume would wait for 15 s.
PATCHES = [{'apiVersion': 'kubelet.config.k8s.io/v1beta1', 'kind': 'KubeletConfiguration', 'failCgroupV1': False,
            'oomScoreAdj': 0},
           {'apiVersion': 'kubeproxy.config.k8s.io/v1alpha1', 'kind': 'KubeProxyConfiguration', 'oomScoreAdj': 0},
           {'kind': 'ClusterConfiguration',
            'controllerManager': {'extraArgs': {'pvclaimbinder-sync-period': '1s'}}}]


class KindNode(Containers):
    """The cluster's one node, which is a container of the daemon."""

    def __init__(self, cluster):
        self.name = NAME + '-control-plane'
        self.cluster = cluster

    def inside(self, *command, check=True, timeout=300):
        return self.cluster.call('docker', 'exec', self.name, *command, check=check, timeout=timeout)

    def start(self, name, program, *arguments):
        """Starts a program of this machine in the node; its output goes to a log there."""
        self.cluster.call('docker', 'cp', program, '%s:/usr/local/bin/%s' % (self.name, name))
        self.cluster.call('docker', 'exec', '--detach', self.name, 'sh', '-c', 'exec "$0" "$@" >/var/log/%s.log 2>&1' % name,
                          name, *arguments)


class KindCluster(ControlPlane):
    """Lives in `folder`; `tied`: it ends with this process. `digits`: a folder that the node has too, read-only."""

    parts = ('docker',)
    abrupt = ('docker',)  # unshare, with which it begins, hears no other signal

    def __init__(self, folder, tied=True, digits=''):
        super().__init__(folder, tied)
        self.digits = digits
        self.image = self.lan = None
        self.nodes = [KindNode(self)]
        if os.path.exists(self.path('lan')):
            with open(self.path('lan')) as f:
                self.lan = Lan(json.load(f)['number'])

    # Starting and stopping.

    def up(self):
        machine.check(self.folder, binaries.cache_root())
        if self.lan:
            if self.children_alive():
                raise ClusterError('a kind cluster runs in %s; stop it first: kind_cluster.py down --dir %s' % (
                    self.folder, self.folder))
            self.down()  # what a crash has left
        return super().up()

    def children_alive(self):
        return self.alive('docker')

    def _programs(self):
        self.image = node_image.find(say)
        return binaries.build_kind()

    def _start_parts(self, programs):
        lan = Lan.claim()
        with open(self.path('lan'), 'w') as f:
            json.dump({'number': lan.number, 'modules': os.path.isdir(MODULES)}, f)
        self.lan = lan
        lan.up()
        self._start_docker()
        self.call('docker', 'load', '--quiet', '--input', self.image.path)
        os.makedirs(self.path('volumes'), exist_ok=True)
        with open(self.path('kind.yaml'), 'w') as f:
            json.dump(self._configuration(), f, indent=1)
        try:
            self.call('kind', 'create', 'cluster', '--name', NAME, '--image', self.image.name, '--config',
                      self.path('kind.yaml'), '--wait', '%ds' % (180 * PATIENCE), '--retain', timeout=600 * PATIENCE)
        except NodeError:
            self.export_logs(self.path('logs'))
            raise

    def _start_docker(self):
        cgroups.make(self.lan.name + '-docker')
        settings, data = self.path('docker'), self.path('data')
        for path in (settings, data):
            os.makedirs(path, exist_ok=True)
        with open(os.path.join(settings, 'daemon.json'), 'w') as f:
            json.dump({'data-root': data, 'exec-root': '/run/docker', 'pidfile': '/run/docker.pid',
                       'hosts': [self._socket()], 'dns': [self.lan.dns], 'storage-driver': 'overlay2', 'log-level': 'warn',
                       'exec-opts': ['native.cgroupdriver=cgroupfs'], 'cgroup-parent': '/%s-docker' % self.lan.name,
                       'runtimes': {'node': {'path': os.path.join(HERE, 'kind', 'runtime.py')}},
                       'default-runtime': 'node'}, f, indent=1)
        with open(self.path('init.json'), 'w') as f:
            json.dump({'settings': settings, 'dns': self.lan.dns, 'data': data, 'in_memory': machine.in_memory(),
                       'command': ['dockerd', '--config-file', settings + '/daemon.json']}, f)
        self._start('docker', [
            'nsenter', '--net=/run/netns/' + self.lan.name, 'unshare', '--mount', '--pid', '--fork', '--kill-child',
            '--mount-proc', '--propagation', 'private', sys.executable, os.path.join(HERE, 'kind', 'init.py'),
            self.path('init.json')])
        self._wait('Docker to answer at %s' % self._socket(), 60, lambda: not subprocess.run(
            ['docker', 'version'], env=self.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            timeout=60, check=False).returncode)

    def _configuration(self):
        mounts = [{'hostPath': self.path('volumes'), 'containerPath': self.path('volumes')}]
        if self.digits:
            mounts.append({'hostPath': self.digits, 'containerPath': self.digits, 'readOnly': True})
        return {'kind': 'Cluster', 'apiVersion': 'kind.x-k8s.io/v1alpha4',
                'networking': {'apiServerAddress': self.lan.dns, 'disableDefaultCNI': self.image.ours},
                'containerdConfigPatches': [CONTAINERD], 'kubeadmConfigPatches': [json.dumps(patch) for patch in PATCHES],
                'nodes': [{'role': 'control-plane', 'extraMounts': mounts}]}

    def down(self, wipe=True):
        self._stop_all()
        if self.lan:
            left = cgroups.remove(self.lan.name + '-')
            self.lan.down()
            if left:
                say('control groups would not go: ' + ', '.join(left))
            self._remove_modules()
            self.lan = None
        if os.path.isdir(self.folder):
            for name in ('data', 'docker', *(('volumes', 'logs') if wipe else ())):
                shutil.rmtree(self.path(name), ignore_errors=True)
            for name in ('lan', 'docker.sock', 'init.json', *(('kind.yaml', 'docker.log') if wipe else ())):
                if os.path.exists(self.path(name)):
                    os.remove(self.path(name))
        super().down(wipe)

    def _remove_modules(self):
        with open(self.path('lan')) as f:
            there_before = json.load(f)['modules']
        if not there_before and os.path.isdir(MODULES) and not os.listdir(MODULES):
            os.rmdir(MODULES)

    # Using it.

    def _socket(self):
        return 'unix://' + self.path('docker.sock')

    def environment(self):
        """For docker, kind and kubectl."""
        return dict(os.environ, DOCKER_HOST=self._socket(), KUBECONFIG=self.kubeconfig)

    def command(self, *command):
        """How to run it where the daemon's network is, which kind expects."""
        if command[0] == 'kind':
            command = (os.path.join(binaries.build_kind(), 'kind'), *command[1:])
        return ['nsenter', '--net=/run/netns/' + self.lan.name, *command]

    def call(self, *command, check=True, timeout=300):
        """The output of `docker ...` or `kind ...`."""
        try:
            done = subprocess.run(self.command(*command), env=self.environment(), stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout, check=False)
        except subprocess.TimeoutExpired as e:
            raise NodeError('%s did not end in %d s: %s' % (' '.join(command), timeout, (e.stdout or b'')[-1000:])) from None
        output = done.stdout.decode(errors='replace')
        if check and done.returncode != 0:
            raise NodeError('%s ended with %d: %s' % (' '.join(command), done.returncode, output[-3000:]))
        return output

    def load(self, archives):
        for path in archives:
            self.call('kind', 'load', 'image-archive', os.path.abspath(path), '--name', NAME)

    def node(self, name):
        if name != self.nodes[0].name:
            raise ClusterError('no node is called %s; there is %s' % (name, self.nodes[0].name))
        return self.nodes[0]

    def export_logs(self, folder):
        return self.call('kind', 'export', 'logs', folder, '--name', NAME, check=False)


def _main(args):
    cluster = KindCluster(args.dir, tied=False)
    if args.verb == 'build':
        machine.check(cluster.folder, binaries.cache_root())
        print(os.path.join(binaries.build_kind(), 'kind'))
        print(node_image.find(say).path)
    elif args.verb == 'up':
        cluster.up()
    elif args.verb == 'down':
        cluster.down()
    elif not cluster.lan:
        raise ClusterError('no cluster is in %s; start it: kind_cluster.py up' % cluster.folder)
    elif args.verb == 'load':
        cluster.load(args.archives)
    elif args.verb == 'kind':
        command = cluster.command('kind', *args.arguments)
        os.execvpe(command[0], command, cluster.environment())
    else:
        print('export KUBECONFIG=%s\nexport DOCKER_HOST=%s' % (cluster.kubeconfig, cluster.environment()['DOCKER_HOST']))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest='verb', required=True)
    for verb in ('build', 'up', 'load', 'env', 'kind', 'down'):
        sub = verbs.add_parser(verb)
        sub.add_argument('--dir', default=os.path.join(ROOT, 'build', 'kind'))
        if verb == 'load':
            sub.add_argument('archives', nargs='+')
        elif verb == 'kind':
            sub.add_argument('arguments', nargs=argparse.REMAINDER)
    try:
        _main(parser.parse_args())
    except (binaries.BuildError, ClusterError, LanError, NodeError) as e:
        say(str(e))
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
