"""Keeps NetworkPolicies in force on the nodes of a local cluster, as a network plugin does elsewhere: follows policies, pods
and namespaces, and rewrites each node's rules within a moment of every change that matters.

Usage: network_policy.py KUBECONFIG NETWORK_NAMESPACE... (paths). Ends only by being killed; the rules end with the nodes."""
import os
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE)]
# pylint: disable=wrong-import-position
import kube  # noqa: E402
from mirror import Mirror  # noqa: E402
from nodes import policy_rules  # noqa: E402

KINDS = ('networkpolicies', 'pods', 'namespaces')


def inside(space, *command, text=None):
    return subprocess.run(['nsenter', '--net=' + space, *command], input=text, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=60, check=False, encoding='utf-8')


def enforce(space, lines):
    """False, and said why, where a node would not take the rules; what was in force stays."""
    done = inside(space, 'iptables-restore', '--wait', '--noflush', text='\n'.join(lines))
    jump = ('FORWARD', '-j', policy_rules.CHAIN)
    if done.returncode == 0 and inside(space, 'iptables', '--wait', '-C', *jump).returncode != 0:
        done = inside(space, 'iptables', '--wait', '-I', *jump)  # before what kube-proxy accepts
    if done.returncode != 0:
        print('%s: %s\n%s' % (os.path.basename(space), done.stdout.strip(), '\n'.join(lines)), flush=True)
    return done.returncode == 0


def main():
    config, *spaces = sys.argv[1:]
    mirror = Mirror(kube.Client.from_kubeconfig(config), KINDS)
    changed = threading.Event()
    mirror.listeners.append(lambda *_: changed.set())
    mirror.start()
    in_force = None
    while True:
        changed.wait()
        changed.clear()
        with mirror.lock:
            found = [list(mirror.objects[kind].values()) for kind in KINDS]
            mirror.history.clear()  # it is for tests, and would grow for ever
        lines = policy_rules.rules(*found)
        if lines == in_force:
            continue
        if all([enforce(space, lines) for space in spaces]):
            in_force = lines
        else:
            time.sleep(1)
            changed.set()


if __name__ == '__main__':
    main()
