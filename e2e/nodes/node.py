"""One node: the files that its programs read, its start and stop, its images, and commands inside it.

A node is a set of namespaces (network, mounts, processes, host name, IPC) on this machine; init.py is its first process."""
import json
import os
import signal
import subprocess
import sys

from nodes import cgroups

HERE = os.path.dirname(os.path.abspath(__file__))
PODS = '10.244.%d.0/24'  # of node 1, 2, ...
ALL_PODS = '10.244.0.0/16'
PAUSE = 'trainyard/pause:1'

# No hugetlb groups and no lower oom_score_adj: machines without CAP_SYS_RESOURCE have neither.
CONTAINERD = '''version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "%(pause)s"
  disable_hugetlb_controller = true
  tolerate_missing_hugetlb_controller = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "%(folder)s/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
'''


class NodeError(Exception):
    """What a node would not do, and why."""


def _network(index):
    """Every pod has a link of its own to the node, which thus forwards, and judges, what pods of one node say to each other."""
    return {'cniVersion': '0.4.0', 'name': 'pods', 'plugins': [
        {'type': 'ptp', 'ipam': {'type': 'host-local', 'ranges': [[{'subnet': PODS % index}]],
                                 'routes': [{'dst': '0.0.0.0/0'}]}},
        {'type': 'portmap', 'capabilities': {'portMappings': True}}]}


class Containers:
    """What cases ask of a node's container runtime, by its own client; who inherits has inside(*command)."""

    def tag(self, image, name):
        self.inside('ctr', '-n', 'k8s.io', 'images', 'tag', '--force', image, name)

    def kill_container(self, container_id, number=signal.SIGKILL):
        """`container_id` as in a pod's status, without `containerd://`."""
        self.inside('ctr', '-n', 'k8s.io', 'tasks', 'kill', '--signal', str(int(number)), container_id)

    def specification(self, container_id):
        """The runtime's specification of a container (OCI), as a dict."""
        return json.loads(self.inside('ctr', '-n', 'k8s.io', 'containers', 'info', container_id))['Spec']


class Node(Containers):
    """Node `index` (1, 2, ...) of the cluster on `lan`; `folder` holds its files and logs."""

    def __init__(self, folder, lan, index):
        self.name = 'node%d' % index
        self.folder = os.path.join(folder, self.name)
        self.lan = lan
        self.index = index
        self.last = 10 + index
        self.address = lan.address(self.last)
        self.group = '%s-%s' % (lan.name, self.name)
        self.space = lan.space(self.name)

    def path(self, name):
        return os.path.join(self.folder, name)

    def command(self, certificates, programs, others, patience):
        """Prepares the node and returns the command that is it. `programs`: {name: path}; others: all node indexes."""
        for name in ('lib/kubelet', 'lib/cni', 'log/pods', 'log/containers', 'cni'):
            os.makedirs(self.path(name), exist_ok=True)
        self._write_files(certificates)
        routes = {PODS % other: self.lan.address(10 + other) for other in others if other != self.index}
        self.lan.add_node(self.name, self.last, dict(routes, default=self.lan.host))
        cgroups.make(self.group)
        config = {'folder': self.folder, 'name': self.name, 'patience': patience, 'pods': ALL_PODS,
                  'images': [os.path.join(os.path.dirname(self.folder), 'pause.tar')], 'programs': {
                      'containerd': ['containerd', '--config', self.path('containerd.toml')],
                      'kubelet': [programs['kubelet'], '--config', self.path('kubelet.json'), '--kubeconfig',
                                  self.path('kubelet.kubeconfig'), '--hostname-override', self.name, '--node-ip',
                                  self.address, '--v=2'],
                      'kube-proxy': [programs['kube-proxy'], '--config', self.path('kube-proxy.json')]}}
        self._write('init.json', config)
        return ['nsenter', '--net=' + self.space, 'unshare', '--mount', '--pid', '--fork', '--uts', '--ipc', '--kill-child',
                '--mount-proc', '--propagation', 'private', sys.executable, os.path.join(HERE, 'init.py'),
                self.path('init.json')]

    def _write(self, name, value):
        with open(self.path(name), 'w') as f:
            f.write(value if isinstance(value, str) else json.dumps(value, indent=1))

    def _write_files(self, certificates):
        self._write('resolv.conf', 'nameserver %s\n' % self.lan.dns)
        self._write('containerd.toml', CONTAINERD % {'pause': PAUSE, 'folder': self.folder})
        self._write('cni/10-pods.conflist', _network(self.index))
        serving = certificates.issue('kubelet-' + self.name, '/CN=' + self.name, 'serverAuth',
                                     'DNS:%s,IP:%s' % (self.name, self.address))
        self._write('kubelet.json', {
            'apiVersion': 'kubelet.config.k8s.io/v1beta1', 'kind': 'KubeletConfiguration',
            'cgroupDriver': 'cgroupfs', 'cgroupRoot': '/' + self.group, 'failCgroupV1': False, 'failSwapOn': False,
            'oomScoreAdj': 0, 'enforceNodeAllocatable': ['pods'],
            'containerRuntimeEndpoint': 'unix:///run/containerd/containerd.sock',
            'authentication': {'anonymous': {'enabled': False}, 'webhook': {'enabled': True},
                               'x509': {'clientCAFile': certificates.path('ca.crt')}},
            'authorization': {'mode': 'Webhook'},
            'tlsCertFile': serving + '.crt', 'tlsPrivateKeyFile': serving + '.key',
            'clusterDNS': [self.lan.dns], 'clusterDomain': 'cluster.local', 'resolvConf': self.path('resolv.conf'),
            # A machine with a full disk still runs tests, and images are never thrown away: none could be pulled.
            'evictionHard': {'memory.available': '100Mi', 'nodefs.available': '0%', 'imagefs.available': '0%',
                             'nodefs.inodesFree': '0%'},
            'imageGCHighThresholdPercent': 100, 'imageGCLowThresholdPercent': 99, 'nodeStatusReportFrequency': '10s'})
        self._write('kube-proxy.json', {
            'apiVersion': 'kubeproxy.config.k8s.io/v1alpha1', 'kind': 'KubeProxyConfiguration', 'mode': 'iptables',
            'clusterCIDR': ALL_PODS, 'hostnameOverride': self.name, 'healthzBindAddress': '127.0.0.1:10256',
            'metricsBindAddress': '127.0.0.1:10249', 'conntrack': {'maxPerCore': 0, 'min': 0}, 'oomScoreAdj': 0,
            'clientConnection': {'kubeconfig': os.path.join(os.path.dirname(self.folder), 'proxy.kubeconfig')}})

    def first_process(self):
        """The id on this machine of the node's first process: the child of unshare, which the record knows."""
        with open(os.path.join(os.path.dirname(os.path.dirname(self.folder)), 'pids')) as f:
            recorded = json.load(f)
        try:
            with open('/proc/%d/task/%d/children' % ((recorded[self.name][0],) * 2)) as f:
                return int(f.read().split()[0])
        except (KeyError, OSError, IndexError):
            raise NodeError('%s does not run' % self.name) from None

    def inside(self, *command, check=True, timeout=300):
        """The output of a command that runs in the node's namespaces."""
        entered = ['nsenter', '-t', str(self.first_process()), '--net', '--mount', '--pid', '--uts', '--ipc', *command]
        done = subprocess.run(entered, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=timeout, check=False)
        if check and done.returncode != 0:
            raise NodeError('%s: %s ended with %d: %s' % (self.name, ' '.join(command), done.returncode,
                                                          done.stdout.decode('utf-8', 'replace')[-1000:]))
        return done.stdout.decode('utf-8', 'replace')

    def start(self, name, *command):
        """Starts a program in the node's namespaces that ends with the node; its output goes to the node's logs."""
        entered = ['nsenter', '-t', str(self.first_process()), '--net', '--mount', '--pid', '--uts', '--ipc', *command]
        with open(self.path('log/%s.log' % name), 'ab') as log:
            subprocess.Popen(entered, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def load(self, archive):
        """Makes the images of a docker-archive or OCI archive known to the node's kubelet."""
        self.inside('ctr', '-n', 'k8s.io', 'images', 'import', os.path.abspath(archive))
