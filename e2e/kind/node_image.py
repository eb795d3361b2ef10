"""The image that nodes of kind run: the released one where it can be pulled, else one that is made here of Debian's
packages, of the files that kind's own Go module has for nodes, and of the programs that binaries.py builds.

Either is kept as an archive in the cache. What differs in ours: Debian's containerd and runc, a network plugin for a
single node in place of kindnet, and images of the control plane that hold nothing but its programs."""
import collections
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time

import binaries
from control_plane import ClusterError
from kind import images
from nodes import archive
from nodes.init import KERNEL

PAUSE = os.path.join(os.path.dirname(archive.__file__), 'pause.c')
NAME = 'trainyard/kind-node'
PACKAGES = ('systemd', 'conntrack', 'iptables', 'iproute2', 'ethtool', 'util-linux', 'mount', 'kmod', 'jq', 'procps',
            'ca-certificates', 'containerd', 'runc', 'containernetworking-plugins', 'busybox-static')
WITHOUT = ('/usr/share/doc/*', '/usr/share/man/*', '/usr/share/locale/*', '/usr/share/info/*')
# Services of a whole machine, which a container must not start; as in kind's own base image.
UNWANTED = ('lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service',
            *('lib/systemd/system/%s' % name for name in (
                'multi-user.target.wants/*', 'local-fs.target.wants/*', 'basic.target.wants/*',
                'sockets.target.wants/*udev*', 'sockets.target.wants/*initctl*')),
            'etc/systemd/system/*.wants/*', 'usr/lib/sysctl.d/*', 'etc/sysctl.d/99-sysctl.conf')
SERVICES = ('containerd', 'kubelet', 'undo-mount-hacks')
# The one node's part of kind's 10.244.0.0/16, as kindnet would give it.
NETWORK = {'cniVersion': '0.4.0', 'name': 'pods', 'plugins': [
    {'type': 'ptp', 'ipMasq': True, 'ipam': {
        'type': 'host-local', 'ranges': [[{'subnet': '10.244.0.0/24'}]], 'routes': [{'dst': '0.0.0.0/0'}]}},
    {'type': 'portmap', 'capabilities': {'portMappings': True}}]}
# Settings of the whole kernel that systemd and kubelet write: they get files instead, so that the machine keeps its own.
START = 'kind/bin/start'
KINDS_START = '/usr/local/bin/entrypoint'
STAND_INS = '#!/bin/sh\nset -eu\nmkdir -p /run/kernel\n%s\nexec %s "$@"\n' % ('\n'.join(
    'echo {1} >/run/kernel/{2}; mount --bind /run/kernel/{2} /proc/sys/{0}'.format(setting, value, setting.replace('/', '_'))
    for setting, value in dict(KERNEL, **{'fs/file-max': str((1 << 63) - 1)}).items()), KINDS_START)
LOAD = '''mount -t proc proc /proc && mount -t tmpfs tmpfs /run
containerd >/run/log 2>&1 &
for i in $(seq 300); do ctr version >/dev/null 2>&1 && break; sleep 0.1; done
for image in /kind/images/*.tar; do ctr -n k8s.io images import --no-unpack "$image" >/dev/null || { cat /run/log; exit 1; }; done
kill $! && wait $!
'''
WEEK_S = 7 * 24 * 3600

Image = collections.namedtuple('Image', 'name path ours')  # ours: has a network plugin already, and no kindnet


def find(say):
    """The Image to use, pulled or made where it is not in the cache."""
    folder = os.path.join(binaries.cache_root(), 'kind')
    os.makedirs(folder, exist_ok=True)
    module = binaries.module('sigs.k8s.io/kind')['Dir']
    with open(os.path.join(module, 'pkg/apis/config/defaults/image.go')) as f:
        released = re.search(r'const Image = "([^"@]+)@', f.read()).group(1)
    pulled = os.path.join(folder, 'released-%s.tar' % released.rpartition(':')[2])
    kubernetes, coredns = binaries.build_kind(), binaries.build_coredns()
    made = os.path.join(folder, 'node-%s.tar' % _key(kubernetes, coredns))
    for path, name in ((pulled, released), (made, NAME + ':' + os.path.basename(made)[5:-4])):
        if os.path.exists(path):
            os.utime(path)
            return Image(name, path, path == made)
    if _pull(released, pulled, say):
        return Image(released, pulled, False)
    say('%s cannot be pulled; making a node image of Debian\'s packages (once, 1 to 2 minutes)' % released)
    started = time.monotonic()
    _make(made, NAME + ':' + os.path.basename(made)[5:-4], module, kubernetes, coredns)
    say('node image made in %.0f s: %s' % (time.monotonic() - started, made))
    for old in glob.glob(os.path.join(folder, 'node-*.tar')):
        if time.time() - os.path.getmtime(old) > WEEK_S:
            os.remove(old)
    return Image(NAME + ':' + os.path.basename(made)[5:-4], made, True)


def _key(kubernetes, coredns):
    programs = (os.path.basename(kubernetes), os.path.basename(os.path.dirname(coredns)))
    digest = hashlib.sha256(repr((programs, STAND_INS)).encode())
    for path in (__file__, images.__file__, archive.__file__, PAUSE):
        with open(path, 'rb') as f:
            digest.update(f.read())
    return digest.hexdigest()[:16]


def _pull(image, path, say):
    """Whether the released image is now at `path`."""
    for tool in ('docker', 'podman', 'buildah'):
        if not shutil.which(tool) or subprocess.run([tool, 'info'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                                    timeout=60, check=False).returncode:
            continue
        name = 'docker.io/' + image
        say('pulling %s with %s' % (name, tool))
        save = [['push', '-q', name, 'docker-archive:%s.part:%s' % (path, name)]] if tool == 'buildah' else [
            ['save', '-o', path + '.part', name]]
        try:
            if all(subprocess.run([tool, *command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=600,
                                  check=False).returncode == 0 for command in [['pull', '-q', name], *save]):
                os.rename(path + '.part', path)
                return True
        except subprocess.TimeoutExpired:
            say('it does not come in 600 s')
        return False
    return False


def _run(what, *command, timeout=1800):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=timeout, check=False)
    if done.returncode != 0:
        raise ClusterError('%s failed: %s' % (what, done.stdout.decode(errors='replace')[-2000:]))


def _make(path, name, module, kubernetes, coredns):
    with tempfile.TemporaryDirectory(prefix='node-', dir=os.path.dirname(path)) as work:
        root = os.path.join(work, 'root')
        os.mkdir(root)
        _run('mmdebstrap', 'mmdebstrap', '--quiet', '--mode=root', '--variant=minbase',
             '--include=' + ','.join(PACKAGES), *('--dpkgopt=path-exclude=' + path for path in WITHOUT), 'bookworm', root)
        _arrange(root, module, kubernetes)
        _add_images(root, work, module, kubernetes, coredns)
        layer = os.path.join(work, 'layer.tar')
        _run('tar', 'tar', '-C', root, '--numeric-owner', '--exclude=./dev/*', '--exclude=./run/*', '-cf', layer, '.')
        archive.pack(os.path.join(work, 'image.tar'), name, layer, {
            'Entrypoint': ['/' + START, '/sbin/init'], 'Env': [archive.PATH, 'container=docker'],
            'StopSignal': 'SIGRTMIN+3'})
        os.rename(os.path.join(work, 'image.tar'), path)


def _write(root, path, text):
    full = os.path.join(root, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, 'w') as f:
        f.write(text)


def _link(root, target, path):
    full = os.path.join(root, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    if os.path.lexists(full):
        os.remove(full)
    os.symlink(target, full)


def _arrange(root, module, kubernetes):
    """Kind's files, the programs of a node, and which services start."""
    files = os.path.join(module, 'images/base/files')
    for where, _, names in os.walk(files):
        for file in names:
            target = os.path.join(root, os.path.relpath(where, files), file)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copyfile(os.path.join(where, file), target)
            os.chmod(target, 0o755 if '/bin' in where else 0o644)
    for pattern in UNWANTED:
        for unwanted in glob.glob(os.path.join(root, pattern)):
            os.remove(unwanted)
    for service in SERVICES:
        _link(root, '/etc/systemd/system/%s.service' % service,
              'etc/systemd/system/multi-user.target.wants/%s.service' % service)
    _link(root, '/dev/null', 'etc/systemd/system/systemd-binfmt.service')
    _link(root, '/lib/systemd/systemd', 'sbin/init')
    with open(os.path.join(root, 'etc/systemd/journald.conf'), 'a') as f:
        f.write('ReadKMsg=no\n')
    for program in ('containerd', 'containerd-shim-runc-v2', 'ctr'):
        _link(root, '/usr/bin/' + program, 'usr/local/bin/' + program)
    _link(root, '/usr/lib/cni', 'opt/cni/bin')
    _write(root, 'etc/cni/net.d/10-pods.conflist', json.dumps(NETWORK))
    _write(root, START, STAND_INS)
    os.chmod(os.path.join(root, START), 0o755)
    os.makedirs(os.path.join(root, 'etc/kubernetes/manifests'))
    for program in ('kubeadm', 'kubelet', 'kubectl'):
        shutil.copy(os.path.join(kubernetes, program), os.path.join(root, 'usr/bin', program))
    spec = json.loads(subprocess.run(['chroot', root, 'ctr', 'oci', 'spec'], stdout=subprocess.PIPE, timeout=60,
                                     check=True).stdout)
    spec['process'].pop('rlimits', None)
    spec.setdefault('hooks', {})['createContainer'] = [{'path': '/kind/bin/mount-product-files.sh'}]
    _write(root, 'etc/containerd/cri-base.json', json.dumps(spec))


def _add_images(root, work, module, kubernetes, coredns):
    """The images of the control plane in containerd's store, and the manifest of the storage class."""
    with open(os.path.join(module, 'pkg/build/nodeimage/const_storage.go')) as f:
        source = f.read()
    constants = dict(re.findall(r'const (\w+) = "(.*)"', source))
    manifest = re.search(r'const defaultStorageManifest = `(.*)`', source, re.S).group(1)
    manifest = re.sub(r'` \+ (\w+) \+ `', lambda match: constants[match.group(1)], manifest)
    _write(root, 'kind/manifests/default-storage.yaml', manifest)
    version = binaries.module('k8s.io/kubernetes')['Version']
    _write(root, 'kind/version', version)
    with open(os.path.join(root, 'etc/containerd/config.toml')) as f:
        names = images.wanted(os.path.join(kubernetes, 'kubeadm'), version, f.read(), manifest)
    programs = {name: os.path.join(kubernetes, name) for name in names}
    programs.update(coredns=coredns, pause=os.path.join(work, 'pause'))
    _run('the program of pause containers', 'gcc', '-O2', '-static', '-s', '-o', programs['pause'],
         PAUSE)
    folder = os.path.join(root, 'kind/images')
    os.mkdir(folder)
    images.make(folder, names, programs, root)
    _run('containerd\'s import of the images', 'unshare', '--mount', '--pid', '--fork', '--kill-child', 'chroot', root,
         'sh', '-euc', LOAD, timeout=300)
    shutil.rmtree(folder)
