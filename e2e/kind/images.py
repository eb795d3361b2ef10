"""The images that kubeadm and kind start a cluster from, under the names that they ask for, made of the programs that
binaries.py builds and of Debian's iptables. Knows nothing of nodes."""
import glob
import os
import re
import subprocess

from control_plane import ClusterError
from nodes import archive

IPTABLES = [family + rest for family in ('iptables', 'ip6tables') for rest in ('', '-save', '-restore')]
SHELL = ('sh', 'mkdir', 'rm')  # what the helper of the storage class runs, all of busybox


def wanted(kubeadm, version, containerd_config, storage_manifest):
    """{our name: the name that it is asked for by}."""
    done = subprocess.run([kubeadm, 'config', 'images', 'list', '--kubernetes-version', version], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=60, check=False)
    names = {image.rpartition('/')[2].partition(':')[0]: image for image in done.stdout.decode().split()}
    names['pause'] = re.search(r'sandbox_image = "(\S+)"', containerd_config).group(1)
    for image in re.findall(r'docker\.io/kindest/local-path\S+', storage_manifest):
        names[image.rpartition('/')[2].partition(':')[0]] = image
    needed = {'kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kube-proxy', 'etcd', 'coredns', 'pause',
              'local-path-provisioner', 'local-path-helper'}
    if set(names) != needed:
        raise ClusterError('kubeadm and kind ask for the images %s; we make %s: %s' % (
            sorted(names), sorted(needed), done.stderr.decode()[-500:]))
    return names


def _with_libraries(root, programs):
    """{path in the image: file here} of these programs of `root` and the shared libraries that they load."""
    listed = subprocess.run(['chroot', root, 'ldd', *programs], stdout=subprocess.PIPE, check=True, timeout=60)
    paths = set(programs) | set(re.findall(r'(/\S+\.so\S*) \(0x', listed.stdout.decode()))
    return {path: os.path.join(root, path.lstrip('/')) for path in paths}


def _kube_proxy(root, program):
    modules = ['/' + os.path.relpath(path, root) for path in glob.glob(os.path.join(root, 'usr/lib/*/xtables/*.so'))]
    files = _with_libraries(root, ['/usr/sbin/xtables-nft-multi', *modules])
    for name in IPTABLES:
        files['/usr/sbin/' + name] = os.path.join(root, 'usr/sbin/xtables-nft-multi')
    files['/usr/local/bin/kube-proxy'] = program
    return files


def make(folder, names, programs, root):
    """Writes an archive of each image into `folder`. `programs`: {name: path}; `root`: a Debian with iptables and busybox."""
    for name, image in names.items():
        if name == 'kube-proxy':
            files, entrypoint = _kube_proxy(root, programs[name]), ['/usr/local/bin/kube-proxy']
        elif name == 'local-path-helper':
            files, entrypoint = {'/bin/' + tool: os.path.join(root, 'bin/busybox') for tool in SHELL}, ['/bin/sh']
        elif name in ('coredns', 'pause'):  # started by these very paths
            files, entrypoint = {'/' + name: programs[name]}, ['/' + name]
        else:
            files, entrypoint = {'/usr/local/bin/' + name: programs[name]}, ['/usr/local/bin/' + name]
        archive.write(os.path.join(folder, name + '.tar'), image, files, entrypoint)
