#!/usr/bin/env python3
"""A control plane of one machine: etcd, kube-apiserver and the built-in controllers that TFJobs meet, on
loopback, with ports that the kernel chooses, and our CRD.

  control_plane.py build                 build the programs (see binaries.py) and say where they are
  control_plane.py up [--dir DIR]        start it; DIR (build/control-plane) holds state, logs and the kubeconfig
  control_plane.py env [--dir DIR]       print the line that points kubectl and the operator at it
  control_plane.py down [--dir DIR]      stop it, by the process ids recorded in DIR, and remove its files
  control_plane.py run COMMAND...        start it, run COMMAND with KUBECONFIG set, stop it

Needs openssl, and root only where Go has to be installed. Touches no process but its own."""
import argparse
import base64
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
# pylint: disable=wrong-import-position
import binaries  # noqa: E402
import kube  # noqa: E402
from binaries import say  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CRD = os.path.join(ROOT, 'crds', 'tfjob.yaml')
PATIENCE = float(os.environ.get('TEST_PATIENCE', '1'))  # factor on deadlines
PARTS = ('controllers', 'apiserver', 'etcd')  # in the order in which they stop
CONTROLLERS = ('garbage-collector-controller', 'namespace-controller', 'serviceaccount-controller',
               'resourcequota-controller')


class ClusterError(Exception):
    """The control plane did not come up: which part, and the end of its log."""


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _started_at(pid):
    """The kernel's start time of a process: tells it from a later one with the same id. None when it is gone."""
    try:
        with open('/proc/%d/stat' % pid) as f:
            fields = f.read().rpartition(')')[2].split()
    except OSError:
        return None
    return None if fields[0] == 'Z' else fields[19]


class Certificates:
    """One authority and what it signed, in a folder; kubeconfigs are JSON, which is YAML too."""

    def __init__(self, folder, address='127.0.0.1'):
        self.folder = folder
        os.makedirs(folder, mode=0o700)
        self._key('ca')
        self._openssl('req', '-x509', '-new', '-key', 'ca.key', '-subj', '/CN=trainyard-e2e', '-days', '30', '-out', 'ca.crt',
                      '-addext', 'basicConstraints=critical,CA:TRUE',
                      '-addext', 'keyUsage=critical,keyCertSign,cRLSign,digitalSignature')
        self.issue('apiserver', '/CN=kube-apiserver', 'serverAuth',
                   'DNS:localhost,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:10.96.0.1,IP:' + address)
        self.issue('admin', '/O=system:masters/CN=admin', 'clientAuth')
        self.issue('controllers', '/O=system:masters/CN=system:kube-controller-manager', 'clientAuth')
        self._openssl('genrsa', '-out', 'accounts.key', '2048')
        self._openssl('rsa', '-in', 'accounts.key', '-pubout', '-out', 'accounts.pub')

    def path(self, name):
        return os.path.join(self.folder, name)

    def issue(self, name, subject, usage, names=''):
        """The path of the certificate and its key, without `.crt` and `.key`."""
        self._key(name)
        with open(self.path(name + '.ext'), 'w') as f:
            f.write('keyUsage=critical,digitalSignature,keyEncipherment\nextendedKeyUsage=%s\n' % usage)
            if names:
                f.write('subjectAltName=%s\n' % names)
        self._openssl('req', '-new', '-key', name + '.key', '-subj', subject, '-out', name + '.csr')
        self._openssl('x509', '-req', '-in', name + '.csr', '-CA', 'ca.crt', '-CAkey', 'ca.key', '-CAcreateserial',
                      '-days', '30', '-extfile', name + '.ext', '-out', name + '.crt')
        return self.path(name)

    def kubeconfig(self, user, server, path):
        data = {}
        for name in ('ca.crt', user + '.crt', user + '.key'):
            with open(self.path(name), 'rb') as f:
                data[name] = base64.b64encode(f.read()).decode()
        write_kubeconfig(path, server, {'certificate-authority-data': data['ca.crt']},
                         {'client-certificate-data': data[user + '.crt'], 'client-key-data': data[user + '.key']})

    def _key(self, name):
        self._openssl('ecparam', '-name', 'prime256v1', '-genkey', '-noout', '-out', name + '.key')

    def _openssl(self, *args):
        try:
            done = subprocess.run(['openssl', *args], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=60, check=False)
        except FileNotFoundError:
            raise ClusterError('certificates are made with openssl and there is none; install it') from None
        if done.returncode != 0:
            raise ClusterError('openssl %s: %s' % (' '.join(args), done.stdout.decode()[-500:]))


def write_kubeconfig(path, server, cluster, user):
    config = {'apiVersion': 'v1', 'kind': 'Config', 'current-context': 'e2e',
              'clusters': [{'name': 'e2e', 'cluster': dict(cluster, server=server)}],
              'users': [{'name': 'e2e', 'user': user}],
              'contexts': [{'name': 'e2e', 'context': {'cluster': 'e2e', 'user': 'e2e'}}]}
    with open(path, 'w') as f:
        json.dump(config, f, indent=1)
    os.chmod(path, 0o600)


class ControlPlane:
    """Lives in `folder`. `tied`: its processes end with ours, however ours ends."""

    parts = PARTS
    abrupt = ('apiserver',)  # it would drain connections for long
    address = '127.0.0.1'  # of the API server

    def __init__(self, folder, tied=True, apiserver_flags=()):
        self.folder = os.path.abspath(folder)
        self.tied = tied
        self.apiserver_flags = list(apiserver_flags)
        self.kubeconfig = os.path.join(self.folder, 'kubeconfig')
        self.certificates = None
        self.children = {}

    def path(self, name):
        return os.path.join(self.folder, name)

    def up(self):
        programs = self._programs()
        if os.path.exists(self.path('pids')):
            raise ClusterError('%s is in use; stop it first: %s down --dir %s' % (
                self.folder, os.path.basename(sys.argv[0]), self.folder))
        os.makedirs(self.folder, exist_ok=True)
        started = time.monotonic()
        try:
            self._start_parts(programs)
        except BaseException:
            self.down(wipe=False)  # the logs stay
            raise
        say('up after %.1f s; logs and kubeconfig in %s' % (time.monotonic() - started, self.folder))
        return self

    def client(self):
        return kube.Client.from_kubeconfig(self.kubeconfig)

    def _programs(self):
        return binaries.build()

    def _start_parts(self, programs):
        self._start_api(programs)
        self._apply_crd()
        self._start_controllers(programs)

    def _start_api(self, programs):
        shutil.rmtree(self.path('pki'), ignore_errors=True)
        self.certificates = Certificates(self.path('pki'), self.address)
        for attempt in range(3):
            if self._start_store_and_server(programs, last=attempt == 2):
                break

    def _server_flags(self):
        """Alone on loopback: no Endpoints of its own, no nodes, no tokens in pods."""
        return ['--endpoint-reconciler-type=none', '--authorization-mode=RBAC',
                '--disable-admission-plugins=ServiceAccount']

    def _controller_flags(self):
        return ['--controllers=' + ','.join(CONTROLLERS), '--use-service-account-credentials=false']

    def _start_store_and_server(self, programs, last):
        """False where another program took a port between our asking for it and using it."""
        store, peer, port = free_port(), free_port(), free_port()
        pki = self.certificates.path
        server = 'https://%s:%d' % (self.address, port)
        shutil.rmtree(self.path('etcd'), ignore_errors=True)
        self._start('etcd', [
            os.path.join(programs, 'etcd'), '--name=e2e', '--data-dir=' + self.path('etcd'), '--unsafe-no-fsync',
            '--listen-client-urls=http://127.0.0.1:%d' % store, '--advertise-client-urls=http://127.0.0.1:%d' % store,
            '--listen-peer-urls=http://127.0.0.1:%d' % peer, '--log-level=warn',
            '--initial-advertise-peer-urls=http://127.0.0.1:%d' % peer,
            '--initial-cluster=e2e=http://127.0.0.1:%d' % peer])
        self._start('apiserver', [
            os.path.join(programs, 'kube-apiserver'), '--etcd-servers=http://127.0.0.1:%d' % store,
            '--bind-address=' + self.address, '--secure-port=%d' % port,
            '--service-cluster-ip-range=10.96.0.0/16', '--client-ca-file=' + pki('ca.crt'),
            '--tls-cert-file=' + pki('apiserver.crt'), '--tls-private-key-file=' + pki('apiserver.key'),
            '--service-account-issuer=https://kubernetes.default.svc',
            '--service-account-key-file=' + pki('accounts.pub'),
            '--service-account-signing-key-file=' + pki('accounts.key'), *self._server_flags(), *self.apiserver_flags])
        self.certificates.kubeconfig('admin', server, self.kubeconfig)
        self.certificates.kubeconfig('controllers', server, self.path('controllers.kubeconfig'))
        client = self.client()
        try:
            self._wait('the API server at %s to be ready' % server, 90, lambda: self._ready(client))
        except ClusterError:
            logs = self._log('etcd') + self._log('apiserver')
            if last or 'address already in use' not in logs:
                raise
            self._stop_all()
            return False
        return True

    @staticmethod
    def _ready(client):
        try:
            client.request('GET', '/readyz')
            return True
        except (kube.ApiError, OSError):
            return False

    def _apply_crd(self):
        client = self.client()
        with open(CRD) as f:
            client.apply('customresourcedefinitions', None, 'tfjobs.kubeflow.org', f.read())
        self._wait('the API server to serve TFJobs', 30, lambda: client.serves('tfjobs'))

    def _start_controllers(self, programs):
        pki = self.certificates.path
        config = self.path('controllers.kubeconfig')
        self._start('controllers', [
            os.path.join(programs, 'kube-controller-manager'), '--kubeconfig=' + config, '--leader-elect=false',
            '--secure-port=0', *self._controller_flags(),
            '--service-account-private-key-file=' + pki('accounts.key'), '--root-ca-file=' + pki('ca.crt'),
            '--concurrent-gc-syncs=4', '--kube-api-qps=200', '--kube-api-burst=400'])

    def _start(self, name, command):
        with open(self.path(name + '.log'), 'wb') as log:
            self.children[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=self.folder,
                start_new_session=True, preexec_fn=die_with_parent if self.tied else None)
        self._record()

    def _record(self):
        with open(self.path('pids.new'), 'w') as f:
            json.dump({name: [p.pid, _started_at(p.pid)] for name, p in self.children.items()}, f)
        os.rename(self.path('pids.new'), self.path('pids'))

    def _log(self, name):
        try:
            with open(self.path(name + '.log'), errors='replace') as f:
                return f.read()
        except OSError:
            return ''

    def _wait(self, what, seconds, done):
        deadline = time.monotonic() + seconds * PATIENCE
        while not done():
            for name, process in self.children.items():
                if process.poll() is not None:
                    raise ClusterError('%s ended with status %d while we waited for %s; the end of its log:\n%s' % (
                        name, process.returncode, what, self._log(name)[-2000:]))
            if time.monotonic() > deadline:
                raise ClusterError('waited %d s in vain for %s; logs are in %s:\n%s' % (
                    seconds * PATIENCE, what, self.folder, self._log('apiserver')[-2000:]))
            time.sleep(0.1)

    def down(self, wipe=True):
        self._stop_all()
        if not wipe or not os.path.isdir(self.folder):
            return
        for name in os.listdir(self.folder):  # only what is ours: people name folders by mistake
            if name in ('kubeconfig', 'controllers.kubeconfig') or name in [part + '.log' for part in self.parts]:
                os.remove(self.path(name))
            elif name in ('etcd', 'pki'):
                shutil.rmtree(self.path(name))
        if not os.listdir(self.folder):
            os.rmdir(self.folder)

    def _recorded(self):
        try:
            with open(self.path('pids')) as f:
                return json.load(f)
        except (OSError, ValueError):
            return {}

    def alive(self, name):
        """Whether this part runs, started by us or by whoever wrote the record."""
        pid, started_at = self._recorded().get(name, (0, None))
        return started_at is not None and _started_at(pid) == started_at

    def _stop_all(self):
        recorded = self._recorded()
        for name in self.parts:
            if name in recorded:
                self._stop(name, *recorded[name])
        self.children = {}
        if os.path.exists(self.path('pids')):
            os.remove(self.path('pids'))

    def _stop(self, name, pid, started_at):
        deadline = time.monotonic() + 10
        force = False
        while started_at is not None and _started_at(pid) == started_at:
            if not force:
                os.kill(pid, signal.SIGTERM)
            if name in self.abrupt or time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
            force = True
            if name in self.children:
                self.children[name].poll()
            time.sleep(0.02)


def _run(folder, command):
    cluster = ControlPlane(folder or tempfile.mkdtemp(prefix='trainyard-cluster-'))
    try:
        cluster.up()
        return subprocess.call(command, env=dict(os.environ, KUBECONFIG=cluster.kubeconfig))
    finally:
        cluster.down()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest='verb', required=True)
    for verb in ('build', 'up', 'env', 'down', 'run'):
        sub = verbs.add_parser(verb)
        sub.add_argument('--dir')
        if verb == 'run':
            sub.add_argument('command', nargs=argparse.REMAINDER)
    args = parser.parse_args()
    folder = args.dir or os.path.join(ROOT, 'build', 'control-plane')
    cluster = ControlPlane(folder, tied=False)
    try:
        if args.verb == 'build':
            print(binaries.build())
            print(binaries.build_helm())
        elif args.verb == 'up':
            cluster.up()
            print('export KUBECONFIG=' + cluster.kubeconfig)
        elif args.verb == 'env':
            if not os.path.exists(cluster.path('pids')):
                raise ClusterError('nothing runs in %s; start it: control_plane.py up' % folder)
            print('export KUBECONFIG=' + cluster.kubeconfig)
        elif args.verb == 'down':
            cluster.down()
        else:
            return _run(args.dir, args.command)
    except (binaries.BuildError, ClusterError) as e:
        say(str(e))
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
