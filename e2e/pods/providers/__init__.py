"""Where the suite gets its cluster from. A provider is a module of this folder with a class Provider(Base)."""
import importlib
import os
import pkgutil


class Unsupported(Exception):
    """What this provider cannot do for a case, and why; the case is then skipped with these words."""


class Base:
    """What a case may ask of its cluster beyond the API server. `attach`: the cluster runs already, in another process."""

    name = ''
    shares_folders = False  # volume() gives every namespace the same folder for the same name
    enforces_policies = False  # NetworkPolicies; False: perhaps

    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.kubeconfig = ''

    def up(self):
        """Starts or finds the cluster and sets self.kubeconfig."""
        raise NotImplementedError

    def attach(self):
        raise NotImplementedError

    def down(self):
        """Removes what up() made."""

    def ending(self):
        """How to end a cluster that was left, as the rest of a sentence."""
        return ''

    def load(self, archives):
        """Makes the images of these archives known to all nodes."""

    def volume(self, name):
        """The source of a PersistentVolume that several pods may write, as in its spec; None: by the storage class."""
        return None

    def small_volume(self, node, mebibytes):
        """The same for a file system of that size on that node; asked again, it gets the new size."""
        raise Unsupported('provider %s makes no file systems of a given size' % self.name)

    def kill(self, node, container_id):
        """Kills the container's process, so that kubelet sees it end with 137."""
        raise Unsupported('provider %s reaches no processes on nodes' % self.name)

    def name_image(self, image, name):
        """Gives an image that all nodes have another name."""
        raise Unsupported('provider %s does not name images on nodes' % self.name)

    def gpus(self, node, count):
        """Gives the node that many GPUs, by a device plugin that hands out what is none."""
        raise Unsupported('provider %s has no device plugin' % self.name)

    def container(self, node, container_id):
        """The runtime's specification of a container (OCI), as a dict."""
        raise Unsupported('provider %s does not show what a container was given' % self.name)

    def collect(self, folder):
        """Copies logs of nodes and control plane to this folder."""


def names():
    return sorted(module.name for module in pkgutil.iter_modules([os.path.dirname(os.path.abspath(__file__))]))


def make(name, options, folder):
    return importlib.import_module('providers.' + name).Provider(options, folder)
