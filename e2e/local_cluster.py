#!/usr/bin/env python3
"""A whole cluster on this machine: control plane, scheduler, DNS, and real nodes (kubelet, containerd, runc, kube-proxy) in
network namespaces. Pods are real containers. Several clusters may run beside each other.

  local_cluster.py build                         build the programs and say where they are
  local_cluster.py up [--nodes N] [--dir DIR]    start it (2 nodes); DIR (build/local-cluster) holds state, logs, kubeconfig
  local_cluster.py load ARCHIVE...               make the images of archives known to all nodes
  local_cluster.py env                           print the line that points kubectl and helm at it
  local_cluster.py shell NODE [COMMAND...]       run a command in a node's namespaces (ps -ef)
  local_cluster.py down                          stop it and remove all of it, also after a crash

Needs root on Debian 12, and installs what is missing (group nodes of cmake/packages.txt). No image registry: pods run images
that were loaded. Its network enforces NetworkPolicy (nodes/network_policy.py)."""
import argparse
import json
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
# pylint: disable=wrong-import-position
import binaries  # noqa: E402
import kube  # noqa: E402
from control_plane import PARTS, PATIENCE, ROOT, ClusterError, ControlPlane  # noqa: E402
from binaries import say  # noqa: E402
from nodes import archive, cgroups  # noqa: E402
from nodes.lan import Lan, LanError  # noqa: E402
from nodes.node import ALL_PODS, PAUSE, Node, NodeError  # noqa: E402

TOOLS = ('containerd', 'ctr', 'runc', 'iptables', 'ip', 'nsenter', 'unshare')
COREFILE = '''cluster.local:53 in-addr.arpa:53 {
  bind %(address)s
  errors
  kubernetes cluster.local in-addr.arpa {
    kubeconfig %(kubeconfig)s e2e
    pods insecure
    ttl 1
  }
}
'''


def check_machine():
    """Says what is missing before anything is started."""
    if os.geteuid() != 0:
        raise ClusterError('a local cluster needs root: it makes namespaces, mounts and control groups')
    path = os.environ['PATH'] = os.environ.get('PATH', '') + ':/usr/local/sbin:/usr/sbin:/sbin'
    with open('/proc/filesystems') as f:
        if 'overlay' not in f.read() and subprocess.run(['sh', '-c', 'modprobe overlay'], check=False).returncode:
            raise ClusterError('containerd needs the kernel\'s overlay file system, which this machine lacks')
    if any(not shutil.which(tool, path=path) for tool in TOOLS) or not os.path.exists('/usr/lib/cni/bridge'):
        if subprocess.run(['sh', os.path.join(ROOT, 'cmake', 'deps.sh'), 'nodes'], check=False).returncode != 0:
            raise ClusterError('install what a node is made of: %s, and the CNI plugins in /usr/lib/cni' % ', '.join(TOOLS))


class LocalCluster(ControlPlane):
    """A ControlPlane with nodes; its API server listens where nodes reach it."""

    def __init__(self, folder, tied=True, nodes=2):
        super().__init__(folder, tied)
        self.coredns = None
        self.count = nodes
        self.lan = None
        self.nodes = []
        if os.path.exists(self.path('lan')):
            with open(self.path('lan')) as f:
                record = json.load(f)
            self._take(Lan(record['number']), record['nodes'])

    def _take(self, lan, count):
        self.lan, self.address = lan, lan.host
        self.nodes = [Node(self.path('nodes'), lan, index) for index in range(1, count + 1)]
        names = tuple(node.name for node in self.nodes)
        self.parts = (*names, 'network-policy', 'coredns', 'scheduler', *PARTS)
        self.abrupt = (*names, 'apiserver')  # unshare, which a node begins with, hears no other signal

    def up(self):
        check_machine()
        if self.lan:
            if self.children_alive():
                raise ClusterError('a cluster runs in %s; stop it first: local_cluster.py down --dir %s' % (
                    self.folder, self.folder))
            self.down()  # what a crash has left
        return super().up()

    def children_alive(self):
        """Whether any part of it runs, whoever started it."""
        return any(self.alive(name) for name in self.parts)

    def _programs(self):
        folder = binaries.build_cluster()
        self.coredns = binaries.build_coredns()
        return folder

    def _start_parts(self, programs):
        lan = Lan.claim()
        with open(self.path('lan'), 'w') as f:
            json.dump({'number': lan.number, 'nodes': self.count}, f)
        self._take(lan, self.count)
        lan.up()
        self._start_api(programs)
        self._start_controllers(programs)
        self._start('scheduler', [os.path.join(programs, 'kube-scheduler'), '--secure-port=0', '--leader-elect=false',
                                  '--kubeconfig=' + self.path('controllers.kubeconfig')])
        self._start_dns()
        self._start_nodes(programs)

    def _server_flags(self):
        certificate = self.certificates.issue('kubelet-client', '/O=system:masters/CN=kube-apiserver', 'clientAuth')
        return ['--advertise-address=' + self.address, '--authorization-mode=Node,RBAC', '--allow-privileged=true',
                '--enable-admission-plugins=NodeRestriction', '--kubelet-preferred-address-types=InternalIP',
                '--kubelet-certificate-authority=' + self.certificates.path('ca.crt'),
                '--kubelet-client-certificate=%s.crt' % certificate, '--kubelet-client-key=%s.key' % certificate]

    def _controller_flags(self):
        return ['--use-service-account-credentials=true', '--service-cluster-ip-range=10.96.0.0/16',
                '--pvclaimbinder-sync-period=1s']  # a claim that it sees before its volume would wait for 15 s

    def _kubeconfig(self, user, subject, path):
        self.certificates.issue(user, subject, 'clientAuth')
        with open(self.kubeconfig) as f:
            server = json.load(f)['clusters'][0]['cluster']['server']
        self.certificates.kubeconfig(user, server, path)

    def _start_dns(self):
        self._kubeconfig('coredns', '/O=system:masters/CN=coredns', self.path('coredns.kubeconfig'))
        with open(self.path('Corefile'), 'w') as f:
            f.write(COREFILE % {'address': self.lan.dns, 'kubeconfig': self.path('coredns.kubeconfig')})
        self._start('coredns', ['nsenter', '--net=/run/netns/' + self.lan.name, self.coredns, '-conf',
                                self.path('Corefile')])

    def _allow_nodes(self):
        """A node may read what its pods name as soon as the server knows the pod is there. The kubelet of the same machine
        asks sooner than that, is refused, and asks again after 10 s; so nodes may read all of it."""
        self.client().create('clusterrolebindings', None, {
            'metadata': {'name': 'local-nodes'},
            'roleRef': {'apiGroup': 'rbac.authorization.k8s.io', 'kind': 'ClusterRole', 'name': 'system:node'},
            'subjects': [{'apiGroup': 'rbac.authorization.k8s.io', 'kind': 'Group', 'name': 'system:nodes'}]})

    def _start_nodes(self, programs):
        self._allow_nodes()
        folder = self.path('nodes')
        os.makedirs(folder, exist_ok=True)
        self._make_pause(os.path.join(folder, 'pause.tar'))
        self._kubeconfig('proxy', '/CN=system:kube-proxy', os.path.join(folder, 'proxy.kubeconfig'))
        paths = {name: os.path.join(programs, name) for name in ('kubelet', 'kube-proxy')}
        for node in self.nodes:
            os.makedirs(node.folder)
            self._kubeconfig('user-' + node.name, '/O=system:nodes/CN=system:node:' + node.name,
                             node.path('kubelet.kubeconfig'))
            self._start(node.name, node.command(self.certificates, paths, range(1, self.count + 1), 60 * PATIENCE))
        self._start('network-policy', [sys.executable, os.path.join(ROOT, 'e2e', 'nodes', 'network_policy.py'),
                                       self.kubeconfig, *(node.space for node in self.nodes)])
        client = self.client()
        for node in self.nodes:
            self._wait('%s to be ready; its logs are in %s' % (node.name, node.path('log')), 120,
                       lambda name=node.name: _is_ready(client, name))
        self._wait('the service account of pods', 60, lambda: _exists(client, 'serviceaccounts', 'default', 'default'))

    def _make_pause(self, path):
        program = os.path.join(os.path.dirname(path), 'pause')
        compiled = subprocess.run(['gcc', '-O2', '-static', '-s', '-o', program, os.path.join(ROOT, 'e2e/nodes/pause.c')],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if compiled.returncode != 0:
            raise ClusterError('the program of pause containers was not compiled: ' + compiled.stdout.decode()[-500:])
        archive.write(path, PAUSE, {'/pause': program}, ['/pause'])

    def load(self, archives):
        for path in archives:
            for node in self.nodes:
                node.load(path)

    def node(self, name):
        for node in self.nodes:
            if node.name == name:
                return node
        raise ClusterError('no node is called %s; there are %s' % (name, ', '.join(n.name for n in self.nodes)))

    def down(self, wipe=True):
        self._stop_all()
        if self.lan:
            left = cgroups.remove(self.lan.name + '-')
            self.lan.down()
            if left:
                say('control groups would not go: ' + ', '.join(left))
        if wipe and os.path.isdir(self.folder):
            for name in ('nodes', 'volumes'):
                shutil.rmtree(self.path(name), ignore_errors=True)
            for name in ('lan', 'Corefile', 'coredns.kubeconfig', *('%s.log' % part for part in self.parts)):
                if os.path.exists(self.path(name)):
                    os.remove(self.path(name))
        super().down(wipe)


def _exists(client, kind, namespace, name):
    try:
        client.get(kind, namespace, name)
        return True
    except kube.ApiError:
        return False


def _is_ready(client, name):
    try:
        conditions = client.get('nodes', None, name)['status'].get('conditions', [])
    except kube.ApiError:
        return False
    return any(c['type'] == 'Ready' and c['status'] == 'True' for c in conditions)


def _main(args):
    cluster = LocalCluster(args.dir, tied=False, nodes=getattr(args, 'nodes', 2))
    if args.verb == 'build':
        print(binaries.build_cluster())
        print(binaries.build_coredns())
        print(binaries.build_device_plugin())
        return 0
    if args.verb == 'up':
        cluster.up()
    elif args.verb == 'down':
        cluster.down()
        return 0
    elif not cluster.lan:
        raise ClusterError('no cluster is in %s; start it: local_cluster.py up' % cluster.folder)
    if args.verb == 'load':
        cluster.load(args.archives)
    elif args.verb == 'shell':
        process = cluster.node(args.node).first_process()
        os.execvp('nsenter', ['nsenter', '-t', str(process), '--net', '--mount', '--pid', '--uts', '--ipc',
                              *(args.command or ['/bin/sh'])])
    else:
        print('export KUBECONFIG=' + cluster.kubeconfig)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest='verb', required=True)
    for verb in ('build', 'up', 'load', 'env', 'shell', 'down'):
        sub = verbs.add_parser(verb)
        sub.add_argument('--dir', default=os.path.join(ROOT, 'build', 'local-cluster'))
        if verb == 'up':
            sub.add_argument('--nodes', type=int, default=2)
        elif verb == 'load':
            sub.add_argument('archives', nargs='+')
        elif verb == 'shell':
            sub.add_argument('node')
            sub.add_argument('command', nargs=argparse.REMAINDER)
    try:
        return _main(parser.parse_args())
    except (binaries.BuildError, ClusterError, LanError, NodeError) as e:
        say(str(e))
        return 1


if __name__ == '__main__':
    sys.exit(main())
