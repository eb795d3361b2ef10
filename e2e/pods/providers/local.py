"""The cluster that e2e/local_cluster.py makes on this machine: started for the suite and removed after it."""
import glob
import os
import shutil
import time

import binaries
import local_cluster
import providers


class Provider(providers.Base):
    name = 'local'
    shares_folders = True
    enforces_policies = True
    subfolder = 'cluster'
    program = 'e2e/local_cluster.py'

    def __init__(self, options, folder):
        super().__init__(options, folder)
        self.cluster = None

    def make(self, folder, tied=True):
        return local_cluster.LocalCluster(folder, tied)

    def up(self):
        self._sweep()
        self.cluster = self.make(os.path.join(self.folder, self.subfolder), tied=not self.options['keep'])
        self.cluster.up()
        self.kubeconfig = self.cluster.kubeconfig

    def _sweep(self):
        """Removes what a suite has left that was killed."""
        for path in glob.glob(os.path.join(os.path.dirname(self.folder), 'e2e-*', self.subfolder)):
            left = self.make(path)
            if left.lan and not left.children_alive() and time.time() - os.path.getmtime(path) > 60:
                left.down()
                shutil.rmtree(os.path.dirname(path))

    def attach(self):
        self.cluster = self.make(os.path.join(self.folder, self.subfolder))
        self.kubeconfig = self.cluster.kubeconfig

    def down(self):
        if self.cluster:
            self.cluster.down()

    def ending(self):
        return '; end it: %s down --dir %s' % (self.program, self.cluster.folder)

    def load(self, archives):
        self.cluster.load(archives)

    def volume(self, name):
        if name == 'digits' and self.options['digits']:
            return {'hostPath': {'path': self.options['digits']}}
        path = os.path.join(self.cluster.path('volumes'), name)
        os.makedirs(path, exist_ok=True)
        os.chmod(path, 0o777)  # containers run as a user of their own
        return {'hostPath': {'path': path}}

    def small_volume(self, node, mebibytes):
        path = os.path.join(self.cluster.path('volumes'), 'small')
        os.makedirs(path, exist_ok=True)
        size = 'size=%dm,mode=777' % mebibytes
        place = self.cluster.node(node)
        if place.inside('sh', '-c', 'mountpoint -q %s || echo none' % path):
            place.inside('mount', '-t', 'tmpfs', '-o', size, 'small', path)
        else:
            place.inside('mount', '-o', 'remount,' + size, path)
        return {'hostPath': {'path': path}}

    def kill(self, node, container_id):
        self.cluster.node(node).kill_container(container_id)

    def name_image(self, image, name):
        for node in self.cluster.nodes:
            node.tag(image, name)

    def gpus(self, node, count):
        self.cluster.node(node).start('device-plugin', binaries.build_device_plugin(), 'nvidia.com/gpu', str(count))

    def container(self, node, container_id):
        return self.cluster.node(node).specification(container_id)

    def collect(self, folder):
        for part in self.cluster.parts:
            path = self.cluster.path(part + '.log')
            if os.path.exists(path):
                shutil.copy(path, folder)
        for node in self.cluster.nodes:
            for program in ('kubelet', 'containerd', 'kube-proxy'):
                path = node.path('log/%s.log' % program)
                if os.path.exists(path):
                    shutil.copy(path, os.path.join(folder, '%s-%s.log' % (node.name, program)))
