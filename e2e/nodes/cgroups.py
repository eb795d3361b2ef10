"""Control groups of nodes: one group in every hierarchy of this machine, version 1 or 2."""
import glob
import os
import time

ROOT = '/sys/fs/cgroup'
WANTED = ('cpuset', 'cpu', 'memory', 'pids')


def _hierarchies():
    """The folders in which a node needs a group: one with version 2, one for each controller with version 1."""
    if os.path.exists(os.path.join(ROOT, 'cgroup.controllers')):
        return [ROOT]
    return [path for path in _mounts()[1:] if not os.path.exists(os.path.join(path, 'cgroup.controllers'))]


def _mounts():
    return [ROOT] + [path for path in sorted(glob.glob(ROOT + '/*')) if os.path.ismount(path) and not os.path.islink(path)]


def _copy(name, source, target):
    with open(os.path.join(source, name)) as f:
        value = f.read()
    with open(os.path.join(target, name), 'w') as f:
        f.write(value)


def make(name):
    for hierarchy in _hierarchies():
        group = os.path.join(hierarchy, name)
        if hierarchy == ROOT:
            with open(os.path.join(ROOT, 'cgroup.subtree_control'), 'w') as f:
                f.write(' '.join('+' + controller for controller in WANTED))
        os.makedirs(group, exist_ok=True)
        if os.path.basename(hierarchy) == 'cpuset':  # a new group of version 1 has no CPU and no memory to run on
            for setting in ('cpuset.cpus', 'cpuset.mems'):
                _copy(setting, hierarchy, group)
            with open(os.path.join(group, 'cgroup.clone_children'), 'w') as f:
                f.write('1')


def remove(prefix, seconds=10):
    """Removes the groups whose names begin so, once their processes are gone; returns those that would not go."""
    deadline = time.monotonic() + seconds
    while True:
        left = []
        for hierarchy in _mounts():  # runc makes groups in more of them than it is told of
            for group in glob.glob(os.path.join(hierarchy, prefix + '*')):
                for where, _, _ in os.walk(group, topdown=False):
                    try:
                        os.rmdir(where)
                    except OSError:
                        left.append(where)
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.1)
