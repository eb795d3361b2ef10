"""Makes an image of one layer and writes it as an archive that container runtimes load (docker-archive).

The same input gives the same bytes. Knows no registry and no base image."""
import hashlib
import io
import json
import os
import tarfile

EPOCH = '1970-01-01T00:00:00Z'
PATH = 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'


def _add(archive, name, data):
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), 0o644
    archive.addfile(entry, io.BytesIO(data))


def _add_file(archive, name, source, mode):
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = os.path.getsize(source), mode
    with open(source, 'rb') as f:
        archive.addfile(entry, f)


def pack(path, image, layer, config):
    """The archive at `path` has `image`: the files of the tar at `layer`, run as `config` says ({"Entrypoint": [...]})."""
    with open(layer, 'rb') as f:
        digest = hashlib.file_digest(f, 'sha256').hexdigest()
    described = json.dumps({
        'architecture': 'amd64', 'os': 'linux', 'created': EPOCH, 'config': config,
        'rootfs': {'type': 'layers', 'diff_ids': ['sha256:' + digest]}, 'history': [{'created': EPOCH}]}).encode()
    manifest = [{'Config': hashlib.sha256(described).hexdigest() + '.json', 'RepoTags': [image],
                 'Layers': [digest + '/layer.tar']}]
    with tarfile.open(path, 'w') as out:
        _add(out, manifest[0]['Config'], described)
        _add_file(out, manifest[0]['Layers'][0], layer, 0o644)
        _add(out, 'manifest.json', json.dumps(manifest).encode())


def write(path, image, files, entrypoint):
    """The archive at `path` has `image`: `files`, {path in it: file here}, all of them programs, and runs `entrypoint`."""
    layer = path + '.layer'
    try:
        with tarfile.open(layer, 'w') as out:
            for name in sorted(files):
                _add_file(out, name.lstrip('/'), files[name], 0o755)
        pack(path, image, layer, {'Entrypoint': entrypoint, 'Env': [PATH]})
    finally:
        os.remove(layer)
