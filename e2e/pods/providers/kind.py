"""The cluster that e2e/kind_cluster.py makes on this machine with the genuine kind: started for the suite and removed after
it. It has one node."""
import os
import shutil

import kind_cluster
from providers import local


class Provider(local.Provider):
    name = 'kind'
    enforces_policies = False
    subfolder = 'kind'
    program = 'e2e/kind_cluster.py'

    def make(self, folder, tied=True):
        return kind_cluster.KindCluster(folder, tied, self.options['digits'])

    def collect(self, folder):
        if os.path.isdir(self.cluster.path('logs')):  # it did not start
            shutil.copytree(self.cluster.path('logs'), folder, dirs_exist_ok=True)
        elif self.cluster.lan:
            self.cluster.export_logs(folder)
        if os.path.exists(self.cluster.path('docker.log')):
            shutil.copy(self.cluster.path('docker.log'), folder)
