"""What all cases stand on: a cluster from a provider, our images on its nodes, the operator from the chart, and digits."""
import json
import os
import shutil
import time

from kubernetes import client, config

import helm
import providers
from space import PATIENCE, Space

HOME = 'trainyard-system'
RELEASE = 'trainyard'
SELECTOR = 'app.kubernetes.io/instance=' + RELEASE
IMAGES = ('operator', 'trainer')
SCRAPER = {'metrics': 'let-in'}  # labels of the pods that may read the operator's metrics


class Stage:
    """`options`: plain values of the command line. Workers of a parallel run attach() to what one process has set up()."""

    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.mark = os.path.basename(folder)
        self.provider = providers.make(options['provider'], options, folder)
        self.trainer_image = options['trainer_image']
        self.api = None
        self.helm = None

    def up(self):
        started = time.monotonic()
        self.provider.up()
        self._connect()
        ready = time.monotonic()
        self.provider.load(self.archives())
        loaded = time.monotonic()
        self.install()
        self._digits()
        print('cluster ready after %.1f s, images loaded in %.1f s, operator and data ready in %.1f s' % (
            ready - started, loaded - ready, time.monotonic() - loaded), flush=True)
        return self

    def attach(self):
        self.provider.attach()
        self._connect()
        return self

    def down(self):
        self.provider.down()
        shutil.rmtree(self.folder, ignore_errors=True)

    def quiet(self):
        """Whether what earlier cases left has gone."""
        core = client.CoreV1Api(self.api)
        return not any(space.metadata.name.startswith(self.mark) for space in core.list_namespace().items)

    def archives(self):
        paths = [os.path.join(self.options['images'], name + '.tar') for name in IMAGES]
        missing = [path for path in paths if not os.path.exists(path)]
        if missing and self.options['provider'] != 'kubeconfig':
            raise providers.Unsupported('no image %s; make it first: make images' % ', '.join(missing))
        return paths

    def _connect(self):
        self.api = config.new_client_from_config(self.provider.kubeconfig)
        self.helm = helm.Helm(self.folder)
        self.helm.kubeconfig = self.provider.kubeconfig

    # The operator.

    def install(self, *flags):
        """Installs the chart, or upgrades the release to other values, and waits until the operator serves."""
        repository, _, tag = self.options['operator_image'].rpartition(':')
        self.helm.run('upgrade', '--install', RELEASE, helm.CHART, '--namespace', HOME, '--create-namespace', '--set-string',
                      'image.repository=%s,image.tag=%s' % (repository, tag), '--set-json',
                      'networkPolicy=' + json.dumps(self.network_policy()), *flags)
        self.wait_for_operator()

    def network_policy(self):
        """The operator calls the API server and pods of jobs only, and shows its metrics to nobody but SCRAPER."""
        core, discovery = client.CoreV1Api(self.api), client.DiscoveryV1Api(self.api)
        slices = discovery.list_namespaced_endpoint_slice(
            'default', label_selector='kubernetes.io/service-name=kubernetes').items
        addresses = {address for part in slices for end in part.endpoints for address in end.addresses}
        addresses.add(core.read_namespaced_service('kubernetes', 'default').spec.cluster_ip)
        return {'enabled': True, 'metricsFrom': [{'namespaceSelector': {}, 'podSelector': {'matchLabels': SCRAPER}}],
                'egressTo': [{'ipBlock': {'cidr': address + '/32'}} for address in sorted(addresses)]}

    def wait_for_operator(self):
        apps = client.AppsV1Api(self.api)
        deadline = time.monotonic() + 120 * PATIENCE
        while True:
            found = apps.read_namespaced_deployment(RELEASE, HOME)
            wanted, status = found.spec.replicas, found.status
            if (status.observed_generation == found.metadata.generation and status.updated_replicas == wanted and
                    status.ready_replicas == wanted and status.replicas == wanted):
                return
            assert time.monotonic() < deadline, 'the operator is not ready after %d s: %s' % (
                120 * PATIENCE, json.dumps(self.api.sanitize_for_serialization(status)))
            time.sleep(0.2)

    def operator_pods(self):
        return client.CoreV1Api(self.api).list_namespaced_pod(HOME, label_selector=SELECTOR).items

    def leader(self):
        """The name of the operator's pod that leads."""
        leases = client.CoordinationV1Api(self.api).list_namespaced_lease(HOME).items
        holders = [lease.spec.holder_identity or '' for lease in leases]
        return next((pod.metadata.name for pod in self.operator_pods()
                     if any(holder.startswith(pod.metadata.name + '_') for holder in holders)), None)

    # Data.

    def _digits(self):
        """Digits in the volume that all namespaces share, drawn by a pod of the trainer where no folder was given."""
        if self.provider.shares_folders and not self.options['digits']:
            space = Space(self, self.mark + '-digits').create()
            space.trainer('synthesize', 'data', 'synthesize', '--data_dir=/data')
            space.remove()
