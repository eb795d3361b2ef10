"""A container image as an archive of docker's form (`docker save`), read and rewritten.

rewrite() makes an image's bytes a function of its files and its configuration alone: one layer, sorted, every file
of 1970 so that equal files are an equal layer in the next commit too, and a configuration without traces of the tool
that built it. Knows no container tool."""
import gzip
import hashlib
import io
import json
import tarfile
import time


def configuration(path):
    """What a container gets: {"User": ..., "Entrypoint": [...], "Labels": {...}, ...}, and the image's tags."""
    with tarfile.open(path) as tar:
        entry = json.load(tar.extractfile('manifest.json'))[0]
        return json.load(tar.extractfile(entry['Config']))['config'], entry['RepoTags']


def layers(path):
    """The digest of each layer, which registries and nodes know it by."""
    with tarfile.open(path) as tar:
        entry = json.load(tar.extractfile('manifest.json'))[0]
        return json.load(tar.extractfile(entry['Config']))['rootfs']['diff_ids']


def files(path):
    """{name without leading slash: (TarInfo, content or None)} of the root file system, layers applied."""
    found = {}
    with tarfile.open(path) as outer:
        for name in json.load(outer.extractfile('manifest.json'))[0]['Layers']:
            with tarfile.open(fileobj=outer.extractfile(name)) as layer:
                for member in layer:
                    key = member.name.strip('/').removeprefix('./')
                    if key.rpartition('/')[2].startswith('.wh.'):
                        raise ValueError('%s: a layer takes %s away; the Dockerfiles here only add' % (path, key))
                    if key not in ('', '.'):
                        found[key] = (member, layer.extractfile(member).read() if member.isfile() else None)
    return found


def sizes(path):
    """(bytes of the layers as a registry would hold them, bytes of the files)."""
    with tarfile.open(path) as outer:
        pulled = sum(len(gzip.compress(outer.extractfile(name).read(), mtime=0))
                     for name in json.load(outer.extractfile('manifest.json'))[0]['Layers'])
    return pulled, sum(len(content or b'') for _, content in files(path).values())


def read_file(path, name):
    return files(path)[name][1]


def _one_layer(found):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode='w', format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(found):
            member, content = found[name]
            clean = tarfile.TarInfo(name)
            clean.type, clean.mode, clean.linkname = member.type, member.mode, member.linkname
            clean.uid, clean.gid, clean.size = member.uid, member.gid, len(content or b'')
            tar.addfile(clean, io.BytesIO(content or b''))
    return out.getvalue()


def rewrite(source, target, tags, created_s):
    """Writes the image in archive `source` to archive `target`, as above; created_s is only said in its configuration."""
    found = files(source)
    layer = _one_layer(found)
    digest = hashlib.sha256(layer).hexdigest()
    with tarfile.open(source) as tar:
        old = json.load(tar.extractfile(json.load(tar.extractfile('manifest.json'))[0]['Config']))
    wanted = ('Entrypoint', 'Cmd', 'Env', 'ExposedPorts', 'Labels', 'User', 'Volumes', 'WorkingDir')
    config = {key: value for key, value in old['config'].items() if key in wanted and value}
    # buildah signs its work, with its version.
    config['Labels'] = {k: v for k, v in config.get('Labels', {}).items() if not k.startswith('io.buildah.')}
    created = time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(created_s))
    image = json.dumps({
        'architecture': old['architecture'], 'os': old['os'], 'created': created, 'config': config,
        'rootfs': {'type': 'layers', 'diff_ids': ['sha256:' + digest]},
        'history': [{'created': created, 'created_by': 'trainyard images/build.py'}]}, sort_keys=True).encode()
    name = hashlib.sha256(image).hexdigest()
    manifest = json.dumps([{'Config': name + '.json', 'RepoTags': tags, 'Layers': [digest + '/layer.tar']}]).encode()
    with tarfile.open(target, 'w', format=tarfile.USTAR_FORMAT) as tar:
        for path, content in ((name + '.json', image), (digest + '/layer.tar', layer), ('manifest.json', manifest)):
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(content), 0o644
            tar.addfile(member, io.BytesIO(content))
