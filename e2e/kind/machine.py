"""Whether kind can run on this machine: all that it needs is looked for before anything is started or changed."""
import os
import shutil
import subprocess

import local_cluster
from control_plane import ROOT, ClusterError
from nodes import cgroups

TOOLS = {'dockerd': 'kind', 'docker': 'kind', 'mmdebstrap': 'image-base'}  # and the groups of cmake/packages.txt
CONTROLLERS_V1 = ('blkio', 'cpu', 'cpuacct', 'cpuset', 'devices', 'freezer', 'memory', 'pids', 'systemd')
CACHE_BYTES = 3 << 30  # a node image, and what it is made of
DATA_BYTES = 4 << 30  # it unpacked, and what its containers write
SPARE_MEMORY_BYTES = 12 << 30
LONGEST_SOCKET = 107  # a path in sockaddr_un


def check(folder, cache):
    """Raises ClusterError with what is missing and what to do. `folder`: of the cluster; `cache`: of the node image."""
    if os.geteuid() != 0:
        raise ClusterError('kind needs root here: its Docker daemon makes namespaces, mounts and control groups')
    _check_cgroups()
    _check_storage(folder, cache)
    socket = os.path.join(folder, 'docker.sock')
    if len(socket) > LONGEST_SOCKET:
        raise ClusterError('the path of Docker\'s socket, %s, is longer than %d characters: take a shorter folder (--dir)'
                           % (socket, LONGEST_SOCKET))
    local_cluster.check_machine()
    _install({group for tool, group in TOOLS.items() if not shutil.which(tool)})


def _install(groups):
    """Debian's packages, unless they would push out those of another maker."""
    if 'kind' in groups and subprocess.run(['dpkg-query', '-W', 'containerd.io'], stdout=subprocess.DEVNULL,
                                           stderr=subprocess.DEVNULL, check=False).returncode == 0:
        raise ClusterError('kind needs dockerd and docker, and Debian\'s docker.io would remove the package containerd.io that '
                           'is installed here: install docker-ce and docker-ce-cli, which fit it')
    for group in sorted(groups):
        if subprocess.run(['sh', os.path.join(ROOT, 'cmake', 'deps.sh'), group], check=False).returncode != 0:
            raise ClusterError('kind needs %s: install the group %s of cmake/packages.txt' % (
                ', '.join(tool for tool in TOOLS if TOOLS[tool] == group), group))


def _check_cgroups():
    if os.path.exists(os.path.join(cgroups.ROOT, 'cgroup.controllers')):
        with open(os.path.join(cgroups.ROOT, 'cgroup.controllers')) as f:
            lacks = set(cgroups.WANTED) - set(f.read().split())
    else:
        lacks = {name for name in CONTROLLERS_V1 if not os.path.isdir(os.path.join(cgroups.ROOT, name))}
    if lacks:
        raise ClusterError('nodes of kind need the control groups %s, which %s lacks; in a container, mount them or run on '
                           'the machine itself' % (', '.join(sorted(lacks)), cgroups.ROOT))
    if not os.access(cgroups.ROOT, os.W_OK) or os.statvfs(cgroups.ROOT).f_flag & os.ST_RDONLY:
        raise ClusterError('%s is read-only: in a container, run it privileged' % cgroups.ROOT)


def _existing(path):
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return path


def _check_storage(folder, cache):
    """Docker's data lies in memory where there is plenty: that is gone at once, and spares the disk 2 GB each time."""
    for path, bytes_needed in ((cache, CACHE_BYTES), (folder, 0 if in_memory() else DATA_BYTES)):
        place = os.statvfs(_existing(path))
        free = place.f_bavail * place.f_frsize
        if free < bytes_needed:
            raise ClusterError('%s has %.1f GB free, and kind needs %.1f' % (path, free / 1e9, bytes_needed / 1e9))
    kind = subprocess.run(['stat', '-f', '-c', '%T', _existing(folder)], stdout=subprocess.PIPE, check=True)
    if kind.stdout.decode().strip() in ('overlayfs', 'overlay') and not in_memory():
        raise ClusterError('%s is on overlayfs, on which Docker cannot put another: take a folder of a disk (--dir), or '
                           'a machine with more memory' % folder)


def in_memory():
    """Whether there is memory to spare for Docker's data, beside nodes and jobs."""
    with open('/proc/meminfo') as f:
        available = next(line for line in f if line.startswith('MemAvailable:'))
    return int(available.split()[1]) << 10 > SPARE_MEMORY_BYTES
