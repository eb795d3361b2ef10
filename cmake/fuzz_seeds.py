#!/usr/bin/env python3
"""fuzz_seeds.py FOLDER: small valid inputs for each fuzzer, one folder each, so that mutation starts
behind the magic numbers and checksums. Formats: see the readers in base/, operator/cli and trainer/."""
import gzip
import json
import os
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def crc32c_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = crc32c_table()


def masked_crc(data):
    """CRC-32C, rotated and offset as TFRecord and LevelDB tables store it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, wire_type, payload):
    """One protobuf field: payload is an int (wire type 0) or bytes (wire type 2)."""
    key = varint(number << 3 | wire_type)
    return key + (varint(payload) if wire_type == 0 else varint(len(payload)) + payload)


def idx(dims, data):
    return struct.pack('>I', 0x800 | len(dims)) + struct.pack('>%dI' % len(dims), *dims) + data


def feature(name, kind, payload):
    return field(1, 2, field(1, 2, name) + field(2, 2, field(kind, 2, payload)))


def tf_record(image):
    pixels = field(1, 0, len(image))
    example = field(1, 2, feature(b'image_raw', 1, field(1, 2, image)) +
                    feature(b'pixels', 3, pixels) + feature(b'label', 3, field(1, 0, 7)))
    length = struct.pack('<Q', len(example))
    return (length + struct.pack('<I', masked_crc(length)) + example +
            struct.pack('<I', masked_crc(example)))


def table_block(entries):
    """A LevelDB table block without key sharing: entries, one restart point, trailer."""
    body = b''.join(varint(0) + varint(len(k)) + varint(len(v)) + k + v for k, v in entries)
    body += struct.pack('<II', 0, 1) + b'\0'
    return body + struct.pack('<I', masked_crc(body))


def checkpoint_index(variables):
    """The .index file of a TensorFlow V2 checkpoint with `variables` = (name, shape)."""
    entries, offset = [(b'', field(1, 0, 1) + field(3, 2, field(1, 0, 1)))], 0
    for name, shape in variables:
        size = 4
        for n in shape:
            size *= n
        dims = b''.join(field(2, 2, field(1, 0, n)) for n in shape)
        entry = field(1, 0, 1) + field(2, 2, dims) + field(4, 0, offset) + field(5, 0, size)
        entries.append((name, entry + b'\x35' + struct.pack('<I', masked_crc(b''))))
        offset += size
    data = table_block(entries)
    meta = table_block([])
    handle = lambda at, block: varint(at) + varint(len(block) - 5)
    index = table_block([(entries[-1][0], handle(0, data))])
    footer = handle(len(data), meta) + handle(len(data) + len(meta), index)
    return (data + meta + index + footer.ljust(40, b'\0') + struct.pack('<Q', 0xDB4775248B80FB57))


def tf_configs():
    cluster = {'ps': ['tf-ps0:2222'], 'worker': ['tf-worker0:2222', 'tf-worker1:2222'],
               'chief': ['tf-chief0:2222']}
    yield json.dumps({'cluster': cluster, 'task': {'type': 'worker', 'index': 1}})
    yield json.dumps({'cluster': cluster, 'task': {'type': 'ps', 'index': 0},
                      'environment': 'cloud'})
    yield json.dumps({'sparseCluster': {'worker': {'3': 'tf-worker3:2222'}, 'ps': ['tf-ps0:2222']},
                      'task': {'type': 'worker', 'index': 3}})
    yield '{}'


def manifests():
    for folder in ('examples', 'operator/cli/testdata/convert'):
        path = os.path.join(os.path.dirname(HERE), folder)
        for name in sorted(os.listdir(path)):
            if name.endswith('.yaml'):
                with open(os.path.join(path, name), encoding='utf-8') as f:
                    yield f.read()


def kube_texts():
    yield json.dumps({'type': 'ADDED', 'object': {'metadata': {'managedFields': [], 'name': 'a'}}}) + '\n'
    yield json.dumps({'type': 'ERROR', 'object': {'code': 410, 'message': 'old'}}) + '\n'
    yield json.dumps({'metadata': {'resourceVersion': '1', 'continue': 'c'}, 'items': [{}]})
    yield json.dumps({'kind': 'ExecCredential', 'status': {
        'token': 't', 'expirationTimestamp': '2026-01-02T03:04:05Z'}})
    user = ('{exec: {apiVersion: client.authentication.k8s.io/v1, command: p, args: [a], '
            'env: [{name: a, value: b}]}}')
    yield ('current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n'
           'clusters: [{name: c, cluster: {server: "https://s", certificate-authority-data: YQ==}}]\n'
           'users: [{name: u, user: %s}]\n' % user)


def seeds():
    images = idx((2, 4, 4), bytes(range(32)))
    yield 'cluster_spec_fuzz', [s.encode() for s in tf_configs()]
    yield 'manifest_fuzz', [s.encode() for s in manifests()]
    yield 'kube_fuzz', [s.encode() for s in kube_texts()]
    yield 'idx_fuzz', [images, idx((2,), b'\x03\x07'), gzip.compress(images, mtime=0)]
    yield 'tfrecord_fuzz', [tf_record(bytes(16)), tf_record(bytes(784)) * 2, b'']
    yield 'checkpoint_index_fuzz', [
        checkpoint_index([(b'global_step', ())]),
        checkpoint_index([(b'layer1/biases', (5,)), (b'layer1/weights', (784, 5))])]


def main():
    for name, inputs in seeds():
        folder = os.path.join(sys.argv[1], name)
        os.makedirs(folder, exist_ok=True)
        for i, data in enumerate(inputs):
            with open(os.path.join(folder, 'seed-%02d' % i), 'wb') as f:
                f.write(data)


main()
