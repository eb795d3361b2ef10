"""The first process of a kind cluster's Docker daemon, in a mount, a network and a process namespace of its own: gives the
daemon a view of this machine in which it disturbs nothing, starts it, and reaps what its containers leave.

Usage: init.py CONFIG.json (written by kind_cluster.py). Ends with the daemon, and everything in its namespaces then ends."""
import json
import os
import socket
import struct
import subprocess
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# pylint: disable=wrong-import-position
from nodes import init  # noqa: E402

NO_SUCH_NAME = struct.pack('!HHHHH', 0x8583, 1, 0, 0, 0)  # flags and counts: an answer with authority, code NXDOMAIN


def deny_names(address):
    """Answers whoever asks for a name at `address` that there is none (RFC 1035). From here no other name server can be
    reached, and look-ups that go beyond the cluster would wait for one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((address, 53))
        while True:
            packet, sender = server.recvfrom(4096)
            end = packet.find(0, 12) + 5  # the name's last label, then type and class
            if len(packet) >= end > 5:
                server.sendto(packet[:2] + NO_SUCH_NAME + packet[12:end], sender)


def main():
    with open(sys.argv[1]) as f:
        config = json.load(f)
    init.mount('--make-rshared', '/')
    init.mount('-t', 'tmpfs', '-o', 'mode=755', 'tmpfs', '/run')
    if config['in_memory']:
        init.mount('-t', 'tmpfs', '-o', 'mode=711', 'data', config['data'])
    if os.path.isdir('/etc/docker'):  # of the machine's own daemon: its settings, and a key that ours would write
        init.mount('--bind', config['settings'], '/etc/docker')
    init.write('/proc/sys/net/ipv4/ip_forward', '1')
    init.raise_file_limit()
    threading.Thread(target=deny_names, args=(config['dns'],), daemon=True).start()
    daemon = subprocess.Popen(config['command'], stdin=subprocess.DEVNULL)
    while True:
        pid, status = os.wait()
        if pid == daemon.pid:
            sys.exit('dockerd ended with status %d' % os.waitstatus_to_exitcode(status))


if __name__ == '__main__':
    main()
