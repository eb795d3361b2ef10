"""A DNS server for tests: it answers for the A records that it is given, says that there are no other records of
these names, and that there are no other names (RFC 1035). It listens on port 53 of a free loopback address, because
resolv.conf can name no other port; that needs root."""
import random
import socket
import struct
import threading

A, IN, NXDOMAIN = 1, 1, 3


def _question(packet):
    """(name in lower case, type, where the question ends)."""
    labels, at = [], 12
    while packet[at]:
        labels.append(packet[at + 1:at + 1 + packet[at]].decode('ascii', 'replace').lower())
        at += 1 + packet[at]
    return '.'.join(labels), struct.unpack_from('!H', packet, at + 1)[0], at + 5


class NameServer:
    """Serves until close(). `asked`: the names that were looked up."""

    def __init__(self, records):
        self.records = records
        self.asked = set()
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.address = self._bind()
        threading.Thread(target=self._serve, daemon=True).start()

    def _bind(self):
        for _ in range(20):
            address = '127.%d.%d.%d' % tuple(random.randint(1, 254) for _ in range(3))
            try:
                self.socket.bind((address, 53))
                return address
            except OSError as e:
                last = e
        raise OSError('no loopback address has port 53 free for a test\'s DNS server: %s' % last)

    def _serve(self):
        while True:
            try:
                packet, sender = self.socket.recvfrom(4096)
                self.socket.sendto(self._answer(packet), sender)
            except (IndexError, struct.error):
                continue  # not a question
            except OSError:
                return  # closed

    def _answer(self, packet):
        name, kind, end = _question(packet)
        self.asked.add(name)
        address = self.records.get(name)
        answers = [address] if address and kind == A else []
        code = 0 if address else NXDOMAIN
        head = packet[:2] + struct.pack('!HHHHH', 0x8580 | code, 1, len(answers), 0, 0)
        records = b''.join(struct.pack('!HHHIH', 0xc00c, A, IN, 5, 4) + socket.inet_aton(a) for a in answers)
        return head + packet[12:end] + records

    def close(self):
        self.socket.close()
