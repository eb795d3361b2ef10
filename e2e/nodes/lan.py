"""The network of a local cluster: a bridge in a network namespace of its own, on which this machine and the nodes meet.

Nothing of it touches the machine's own network but one virtual interface, which ends with the bridge. The machine's
firewall never sees what nodes say to each other."""
import glob
import os
import subprocess

NAMESPACES = '/run/netns'


class LanError(Exception):
    """What of the network could not be made, and ip's own words."""


def ip(*args, check=True):
    done = subprocess.run(['ip', *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=60)
    if check and done.returncode != 0:
        raise LanError('ip %s: %s' % (' '.join(args), done.stdout.decode().strip()))
    return done.returncode == 0


class Lan:
    """10.250.NUMBER.0/24: the machine has .1, DNS .2, nodes .11 and on."""

    def __init__(self, number):
        self.number = number
        self.name = 'trainyard-%d' % number  # of the namespace; those of nodes and cgroups begin with it
        self.interface = 'trainyard%d' % number
        self.host, self.dns = self.address(1), self.address(2)

    @staticmethod
    def claim():
        """The first number that no cluster of this machine has; making a namespace is what claims it."""
        for number in range(1, 255):
            lan = Lan(number)
            if not os.path.exists(os.path.join(NAMESPACES, lan.name)) and ip('netns', 'add', lan.name, check=False):
                return lan
        raise LanError('no network namespace could be made (ip netns add trainyard-N): are you root, and may this '
                       'machine make namespaces? Left-overs in %s?' % NAMESPACES)

    def address(self, last):
        return '10.250.%d.%d' % (self.number, last)

    def up(self):
        ip('-n', self.name, 'link', 'add', 'bridge', 'type', 'bridge')
        ip('-n', self.name, 'addr', 'add', self.dns + '/24', 'dev', 'bridge')
        for link in ('lo', 'bridge'):
            ip('-n', self.name, 'link', 'set', link, 'up')
        ip('link', 'add', self.interface, 'type', 'veth', 'peer', 'name', 'machine', 'netns', self.name)
        ip('-n', self.name, 'link', 'set', 'machine', 'master', 'bridge', 'up')
        ip('addr', 'add', self.host + '/24', 'dev', self.interface)
        ip('link', 'set', self.interface, 'up')

    def space(self, node):
        """The path of the node's network namespace."""
        return os.path.join(NAMESPACES, '%s-%s' % (self.name, node))

    def add_node(self, name, last, routes):
        """A namespace for the node `name` at address `last`; `routes`: {range of addresses: gateway}."""
        space = os.path.basename(self.space(name))
        ip('netns', 'add', space)
        ip('link', 'add', 'eth0', 'netns', space, 'type', 'veth', 'peer', 'name', name, 'netns', self.name)
        ip('-n', self.name, 'link', 'set', name, 'master', 'bridge', 'up')
        ip('-n', space, 'addr', 'add', self.address(last) + '/24', 'dev', 'eth0')
        for link in ('lo', 'eth0'):
            ip('-n', space, 'link', 'set', link, 'up')
        for where, gateway in routes.items():
            ip('-n', space, 'route', 'replace', where, 'via', gateway)

    def down(self):
        """Removes all namespaces of this cluster, and with them every interface; does nothing twice."""
        for path in sorted(glob.glob(os.path.join(NAMESPACES, self.name + '-*'))) + [
                os.path.join(NAMESPACES, self.name)]:
            if os.path.exists(path):
                ip('netns', 'del', os.path.basename(path), check=False)
        ip('link', 'del', self.interface, check=False)
