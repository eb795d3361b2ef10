"""Makes an image of one program and writes it as an archive that container runtimes load (docker-archive).

The same input gives the same bytes. Knows no registry and no base image."""
import hashlib
import io
import json
import tarfile

EPOCH = '1970-01-01T00:00:00Z'


def _add(archive, name, data, mode=0o644):
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    archive.addfile(entry, io.BytesIO(data))


def _digest(data):
    return hashlib.sha256(data).hexdigest()


def write(path, image, program):
    """The archive at `path` has `image`, which holds the static program /NAME and runs it."""
    name = program.rpartition('/')[2]
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode='w') as files, open(program, 'rb') as f:
        _add(files, name, f.read(), 0o755)
    digest = _digest(layer.getvalue())
    config = json.dumps({
        'architecture': 'amd64', 'os': 'linux', 'created': EPOCH, 'config': {'Entrypoint': ['/' + name]},
        'rootfs': {'type': 'layers', 'diff_ids': ['sha256:' + digest]}, 'history': [{'created': EPOCH}]}).encode()
    manifest = [{'Config': _digest(config) + '.json', 'RepoTags': [image], 'Layers': [digest + '/layer.tar']}]
    with tarfile.open(path, 'w') as out:
        _add(out, manifest[0]['Config'], config)
        _add(out, manifest[0]['Layers'][0], layer.getvalue())
        _add(out, 'manifest.json', json.dumps(manifest).encode())
