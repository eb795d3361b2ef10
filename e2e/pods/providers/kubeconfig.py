"""A cluster that is there already, named by --kubeconfig: its nodes pull the images, --storage-class gives volumes that
several pods may write (ReadWriteMany), and no other operator serves TFJobs."""
import os

import providers


class Provider(providers.Base):
    name = 'kubeconfig'

    def up(self):
        path = self.options['kubeconfig'] or os.environ.get('KUBECONFIG')
        if not path:
            raise providers.Unsupported('name the cluster: --kubeconfig FILE, or KUBECONFIG')
        self.kubeconfig = os.path.abspath(path)

    attach = up
