#!/usr/bin/env python3
"""The names of a job's tasks resolve in a cluster without internet: its DNS knows their IPv4 addresses under a search
domain, and asks name servers that never answer for whatever lies outside of it.   dns_test.py TRAINER

In network and mount namespaces of its own, with an /etc/resolv.conf and a DNS server of its own; SKIPPED where those
may not be made."""
import fcntl
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

TRAINER = None
INSIDE = '--inside'
ZONE = 'cluster.local'
SEARCH = 'team.svc.%s svc.%s %s' % (ZONE, ZONE, ZONE)
NAME = 'mine-ps-0.team.svc'  # as TF_CONFIG has it; ndots makes it relative
A, AAAA = 1, 28


class ClusterDns(threading.Thread):
    """Answers as CoreDNS does for its zone; is silent about all other names, as its dead forwarders are."""

    def __init__(self):
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(('127.0.0.1', 53))
        self.unanswered = []

    def run(self):
        while True:
            query, sender = self.socket.recvfrom(4096)
            labels, at = [], 12
            while query[at]:
                labels.append(query[at + 1:at + 1 + query[at]].decode())
                at += 1 + query[at]
            kind = struct.unpack('>H', query[at + 1:at + 3])[0]
            name = '.'.join(labels)
            if not name.endswith('.' + ZONE):
                self.unanswered.append((name, kind))
                continue
            known = name == NAME + '.' + ZONE
            answer = b''
            if known and kind == A:
                answer = struct.pack('>HHHIH', 0xC00C, A, 1, 5, 4) + socket.inet_aton('127.0.0.1')
            header = query[:2] + struct.pack('>HHHHH', 0x8580 if known else 0x8583, 1, 1 if answer else 0, 0, 0)
            self.socket.sendto(header + query[12:at + 5] + answer, sender)


class DnsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dns = ClusterDns()
        cls.dns.start()

    def setUp(self):
        self.dns.unanswered.clear()
        with socket.socket() as free:
            free.bind(('127.0.0.1', 0))
            self.port = free.getsockname()[1]
        self.cluster = ['--ps_hosts=%s:%d' % (NAME, self.port), '--worker_hosts=127.0.0.1:1']
        self.ps = subprocess.Popen([TRAINER, '--job_name=ps', '--task_index=0', *self.cluster], env=self.environment(),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(self.ps.wait, 20)
        self.addCleanup(self.ps.kill)
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(('127.0.0.1', self.port), 1).close()
                return
            except OSError:
                self.assertLess(time.monotonic(), deadline, 'the parameter server does not listen')
                time.sleep(0.05)

    @staticmethod
    def environment(**more):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(('GRPC_', 'TF_CONFIG'))}
        return {**kept, **more}

    def check(self, **environment):
        """What `trainer check` says of the parameter server within 4 s."""
        worker = subprocess.run([TRAINER, 'check', '--job_name=worker', '--task_index=0', '--wait_timeout=4', *self.cluster],
                                env=self.environment(**environment), capture_output=True, text=True, timeout=60)
        lines = [line for line in worker.stdout.splitlines() if NAME in line]
        self.assertEqual(len(lines), 1, worker.stdout + worker.stderr)
        return lines[0]

    def test_a_task_finds_another_by_its_ipv4_address(self):
        self.assertRegex(self.check(), r'\bok\b')
        self.assertEqual(self.dns.unanswered, [], 'asked for names outside of the cluster')

    def test_a_resolver_that_the_user_names_stays(self):
        self.check(GRPC_DNS_RESOLVER='ares')
        self.assertNotEqual(self.dns.unanswered, [], 'the resolver of gRPC was not asked')


def loopback_up():
    flags = struct.pack('16sH14x', b'lo', 0x1 | 0x40)  # IFF_UP | IFF_RUNNING
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, 0x8914, flags)  # SIOCSIFFLAGS


def in_namespaces():
    """This program again, as root of a network and a file system of its own."""
    with tempfile.TemporaryDirectory() as folder:
        conf = os.path.join(folder, 'resolv.conf')
        with open(conf, 'w') as f:
            f.write('nameserver 127.0.0.1\nsearch %s\noptions ndots:5\n' % SEARCH)
        script = 'mount --bind "$1" /etc/resolv.conf && shift && exec "$@"'
        unshare = ['unshare', '--user', '--map-root-user', '--net', '--mount']
        probe = subprocess.run([*unshare, 'sh', '-c', script, 'sh', conf, 'true'], capture_output=True, text=True)
        if probe.returncode != 0:
            print('SKIPPED: no namespaces here: ' + probe.stderr.strip())
            return 77
        return subprocess.call([*unshare, 'sh', '-c', script, 'sh', conf, sys.executable, __file__, TRAINER, INSIDE])


if __name__ == '__main__':
    TRAINER = os.path.abspath(sys.argv[1])
    if INSIDE not in sys.argv:
        sys.exit(in_namespaces())
    loopback_up()
    unittest.main(argv=sys.argv[:1], verbosity=2)
