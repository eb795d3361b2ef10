"""The programs of a control plane (etcd, kube-apiserver, kube-controller-manager) and of nodes (kubelet and others);
kwok for the benchmark, helm for the chart, and kind. They are built from the Go modules that tools/go.mod pins, once, and
lie in a cache keyed on go.sum and Go's version.

Knows nothing of clusters. Where Go is absent or too old it is fetched: Debian's package, and with that the
toolchain that tools/go.mod names, through the module proxy that Go is set up for."""
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
KUBERNETES = {'kube-apiserver': 'k8s.io/kubernetes/cmd/kube-apiserver',
              'kube-controller-manager': 'k8s.io/kubernetes/cmd/kube-controller-manager',
              'etcd': 'go.etcd.io/etcd/server/v3'}
NODES = {name: 'k8s.io/kubernetes/cmd/' + name for name in ('kube-scheduler', 'kubelet', 'kube-proxy')}
KIND = {'kind': 'sigs.k8s.io/kind', 'kubeadm': 'k8s.io/kubernetes/cmd/kubeadm', 'kubectl': 'k8s.io/kubernetes/cmd/kubectl',
        'local-path-provisioner': 'github.com/rancher/local-path-provisioner'}
COREDNS = {'coredns': '.'}
DEVICE_PLUGIN = {'device-plugin': '.'}
KWOK = {'kwok': 'sigs.k8s.io/kwok/cmd/kwok'}
HELM = {'helm': 'helm.sh/helm/v3/cmd/helm', 'kustomize': 'sigs.k8s.io/kustomize/kustomize/v5'}


class BuildError(Exception):
    """What could not be built, why, and what to do about it."""


def say(text):
    print('control plane: ' + text, file=sys.stderr, flush=True)


def cache_root():
    if os.environ.get('TRAINYARD_CACHE'):
        return os.environ['TRAINYARD_CACHE']
    base = os.environ.get('XDG_CACHE_HOME') or os.path.join(os.path.expanduser('~'), '.cache')
    return os.path.join(base, 'trainyard')


def _numbers(version):
    return tuple(int(n) for n in re.findall(r'\d+', version)[:3])


def _line_of(go_mod, word):
    with open(go_mod) as f:
        return re.search(r'^%s (\S+)$' % word, f.read(), re.M).group(1)


def _version_of(go):
    """"go1.26.8", or None where that program does not run."""
    try:
        done = subprocess.run([go, 'env', 'GOVERSION'], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
                              env=dict(os.environ, GOTOOLCHAIN='local'), cwd='/', check=False)
    except OSError:
        return None
    return done.stdout.decode().strip() or None


def _fetch_toolchain(go, wanted):
    """That toolchain as a module, which also checks its sum; module archives keep no executable bits."""
    say('%s is too old; fetching the toolchain %s as a Go module' % (_version_of(go), wanted))
    module = 'golang.org/toolchain@v0.0.1-%s.linux-%s' % (
        wanted, {'x86_64': 'amd64', 'aarch64': 'arm64'}.get(os.uname().machine, os.uname().machine))
    folder = os.path.join(cache_root(), 'empty')
    os.makedirs(folder, exist_ok=True)
    done = subprocess.run([go, 'mod', 'download', '-json', module], cwd=folder, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=600, check=False)
    answer = json.loads(done.stdout or b'{}')
    if 'Dir' not in answer:
        raise BuildError('Go %s could not be fetched as the module %s: %s' % (
            wanted, module, answer.get('Error') or done.stderr.decode()[-500:]))
    home = os.path.join(cache_root(), wanted)
    if not os.path.exists(os.path.join(home, 'bin', 'go')):
        shutil.rmtree(home + '.new', ignore_errors=True)
        shutil.copytree(answer['Dir'], home + '.new')
        for part in ('bin', 'pkg/tool'):
            for where, _, names in os.walk(os.path.join(home + '.new', part)):
                os.chmod(where, 0o755)
                for name in names:
                    os.chmod(os.path.join(where, name), 0o755)
        os.rename(home + '.new', home)
    return os.path.join(home, 'bin', 'go')


def find_go(go_mod):
    """A Go that can build `go_mod`: (program, version)."""
    least, wanted = _line_of(go_mod, 'go'), _line_of(go_mod, 'toolchain')
    candidates = [shutil.which('go'), '/usr/local/go/bin/go', os.path.join(cache_root(), wanted, 'bin', 'go')]
    found = {go: _version_of(go) for go in candidates if go}
    for go, version in found.items():
        if version and _numbers(version) >= _numbers(least):
            return go, version
    old = next((go for go, version in found.items() if version), None)
    if old is None:
        say('there is no Go; installing Debian\'s')
        done = subprocess.run(['sh', os.path.join(HERE, '..', 'cmake', 'deps.sh'), 'cluster'], check=False)
        old = shutil.which('go')
        if done.returncode != 0 or old is None:
            raise BuildError('the control plane is built with Go %s or newer and there is none; install it (Debian: '
                             'apt-get install golang-go), or name a cluster in TRAINYARD_KUBECONFIG' % least)
        if _numbers(_version_of(old)) >= _numbers(least):
            return old, _version_of(old)
    go = _fetch_toolchain(old, wanted)
    return go, _version_of(go)


def module(path, folder=os.path.join(HERE, 'tools')):
    """What Go knows of a module that `folder` pins, fetched where it is not here: {"Version": ..., "Dir": ...}."""
    go, _ = find_go(os.path.join(folder, 'go.mod'))
    done = subprocess.run([go, 'mod', 'download', '-json', path], cwd=folder, env=dict(os.environ, GOTOOLCHAIN='local'),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600, check=False)
    answer = json.loads(done.stdout or b'{}')
    if 'Dir' not in answer:
        raise BuildError('the module %s could not be fetched: %s' % (path, answer.get('Error') or done.stderr.decode()[-500:]))
    return answer


def _linker_flags(go, folder, environment):
    """Kubernetes programs report their version from variables that the linker sets."""
    flags = ['-s', '-w']
    listed = subprocess.run([go, 'list', '-m', '-f', '{{.Version}}', 'k8s.io/kubernetes'], cwd=folder, env=environment,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout.decode().strip()
    if listed:
        major, minor = listed.lstrip('v').split('.')[:2]
        for package in ('k8s.io/client-go/pkg/version', 'k8s.io/component-base/version'):
            for name, value in (('gitVersion', listed), ('gitMajor', major), ('gitMinor', minor),
                                ('gitTreeState', 'clean')):
                flags.append('-X %s.%s=%s' % (package, name, value))
    return ' '.join(flags)


def _key(folder, version):
    digest = hashlib.sha256(version.encode())
    for name in ('go.mod', 'go.sum', 'main.go'):
        if os.path.exists(os.path.join(folder, name)):
            with open(os.path.join(folder, name), 'rb') as f:
                digest.update(f.read())
    return digest.hexdigest()[:16]


def build(programs=None, folder=os.path.join(HERE, 'tools')):
    """Builds what is missing of {name: package} and returns the folder with the programs."""
    programs = KUBERNETES if programs is None else programs
    go, version = find_go(os.path.join(folder, 'go.mod'))
    out = os.path.join(cache_root(), 'cluster', _key(folder, version))
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, '.lock'), 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two suites at once build once
        missing = [name for name in programs if not os.path.exists(os.path.join(out, name))]
        if missing:
            _build(go, version, folder, {name: programs[name] for name in missing}, out)
    return out


def build_cluster():
    """The folder with the programs of a control plane and of nodes, all but build_coredns()."""
    return build(dict(KUBERNETES, **NODES))


def build_kind():
    """The folder with kind and what its nodes are made of, all but build_coredns()."""
    return build(dict(KUBERNETES, **NODES, **KIND))


def build_coredns():
    """The path of coredns."""
    return os.path.join(build(COREDNS, os.path.join(HERE, 'tools', 'coredns')), 'coredns')


def build_device_plugin():
    """The path of the device plugin that hands out what is no device."""
    return os.path.join(build(DEVICE_PLUGIN, os.path.join(HERE, 'tools', 'deviceplugin')), 'device-plugin')


def build_helm():
    """The path of helm; kustomize lies beside it."""
    return os.path.join(build(HELM, os.path.join(HERE, 'tools', 'helm')), 'helm')


def _build(go, version, folder, programs, out):
    environment = dict(os.environ, CGO_ENABLED='0', GOFLAGS='-buildvcs=false -mod=readonly', GOTOOLCHAIN='local',
                       GO111MODULE='on', GOWORK='off', GOOS='', GOARCH='')
    flags = _linker_flags(go, folder, environment)
    for name, package in programs.items():
        say('building %s with %s (the first time this takes minutes)' % (name, version))
        started, used = time.monotonic(), os.times()
        done = subprocess.run([go, 'build', '-trimpath', '-ldflags', flags, '-o', os.path.join(out, name + '.new'),
                               package], cwd=folder, env=environment, stderr=subprocess.PIPE, check=False)
        if done.returncode != 0:
            lines = [line for line in done.stderr.decode().splitlines() if 'downloading' not in line]
            raise BuildError('%s could not be built (%s build %s in %s):\n  %s\nIs the Go module proxy reachable (go env '
                             'GOPROXY)? TRAINYARD_KUBECONFIG names a cluster to use instead.' % (
                                 name, go, package, folder, '\n  '.join(lines[-12:])))
        os.rename(os.path.join(out, name + '.new'), os.path.join(out, name))
        now = os.times()
        say('%s built in %.0f s, %.0f s of CPU' % (
            name, time.monotonic() - started,
            now.children_user + now.children_system - used.children_user - used.children_system))
