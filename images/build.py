#!/usr/bin/env python3
"""Builds the images trainyard/operator and trainyard/trainer with docker, podman or buildah, whichever works here,
and writes each as an archive that `ctr -n k8s.io images import`, `kind load image-archive`, `podman load` and
`docker load` take: OUT/operator.tar, OUT/trainer.tar, with the SBOM beside them.

  build.py [--binaries prebuilt|source] [--build DIR] [--out DIR] [--tool TOOL] [operator|trainer|trainer-cuda ...]

prebuilt: the programs in --build (build/release) go in, so nothing is compiled; for Debian 12 with our packages.
source: they are compiled in the image's build stage; for any machine, and slow.
trainer-cuda, which is built only where it is named, has the GPU plug-in of --cuda-build (build/cuda) and cuBLASLt.

The final image is rewritten (archive.py) so that it does not depend on the tool or the time. Where no working
tool is there, buildah is installed from apt; where the base image neither is there nor can be pulled, base.py
makes one."""
import argparse
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
# pylint: disable=wrong-import-position
import archive  # noqa: E402
import tools  # noqa: E402
from tools import BuildError, say  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAMS = {'operator': 'trainyard-operator', 'trainer': 'trainer', 'trainer-cuda': 'trainer'}
USUAL = ('operator', 'trainer')


def version():
    with open(os.path.join(ROOT, 'CMakeLists.txt')) as f:
        return re.search(r'project\(trainyard VERSION (\S+)', f.read()).group(1)


def names(name):
    """The two names of an image: trainyard/trainer:0.1.0 and :latest, of trainer-cuda :0.1.0-cuda and :latest-cuda."""
    repository, dash, variant = name.partition('-')
    return ['docker.io/trainyard/%s:%s' % (repository, tag + dash + variant) for tag in (version(), 'latest')]


def _git(*args):
    done = subprocess.run(['git', '-C', ROOT, *args], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return done.stdout.decode().strip() if done.returncode == 0 else ''


def source_date():
    """When the image says that it was made: SOURCE_DATE_EPOCH, or the time of the last commit."""
    return int(os.environ.get('SOURCE_DATE_EPOCH') or _git('log', '-1', '--format=%ct') or 0)


def revision():
    commit = _git('rev-parse', 'HEAD')
    if not commit:
        return 'unknown'
    return commit + ('-modified' if _git('status', '--porcelain', '--untracked-files=no') else '')


def base_of(dockerfile):
    with open(dockerfile) as f:
        return re.search(r'^ARG BASE=(\S+)', f.read(), re.M).group(1)


def stage(name, args, context):
    """The small build context of BINARIES=prebuilt."""
    build = args.build
    shutil.rmtree(context, ignore_errors=True)
    os.makedirs(os.path.join(context, 'images'))
    for script in ('in_stage.sh', 'rootfs.sh'):
        shutil.copy(os.path.join(ROOT, 'images', script), os.path.join(context, 'images'))
    program = PROGRAMS[name]
    with open('/etc/os-release') as f:
        if 'VERSION_CODENAME=bookworm\n' not in f.read():
            raise BuildError('programs that were built here do not fit the images, which are of Debian 12 (bookworm): '
                             'take --binaries=source')
    if not os.path.exists(os.path.join(build, program)):
        raise BuildError('%s has no %s; build it first (make build), or take --binaries=source' % (build, program))
    scripts = [['binaries.sh', build, program, os.path.join(context, 'bin')]]
    if name == 'trainer-cuda':
        scripts.append(['cuda.sh', args.cuda_build, os.path.join(context, 'bin'), *filter(None, [args.cublaslt])])
    for script, *words in scripts:
        if subprocess.run(['sh', os.path.join(ROOT, 'images', script), *words], check=False).returncode != 0:
            raise BuildError('%s cannot go into an image, see above; or take --binaries=source' % ' '.join(words[:2]))
    return context


def build_image(tool, name, args):
    dockerfile = os.path.join(ROOT, 'images', name.partition('-')[0] + '.Dockerfile')
    tools.ensure_base(tool, base_of(dockerfile))
    context = ROOT if args.binaries == 'source' else stage(name, args, os.path.join(args.out, 'context', name))
    image, latest = names(name)
    raw = os.path.join(args.out, name + '.raw.tar')
    building = 'docker.io/trainyard/%s:build-%d' % (name, os.getpid())
    tool.build(dockerfile, context, building, {
        'BINARIES': args.binaries, 'CUDA': 'yes' if name == 'trainer-cuda' else 'no', 'VERSION': version(), 'REVISION': revision(), 'JOBS': str(os.cpu_count() or 1)})
    tool.save(building, raw)
    path = os.path.join(args.out, name + '.tar')
    archive.rewrite(raw, path + '.part', [image, latest], source_date())
    os.replace(path + '.part', path)
    os.remove(raw)
    for old in (building, image, latest):
        tool.remove(old)
    with open(os.path.join(args.out, name + '.spdx.json'), 'wb') as f:
        f.write(archive.read_file(path, 'usr/share/sbom/%s.spdx.json' % PROGRAMS[name]))
    tool.load(path)
    pulled, unpacked = archive.sizes(path)
    say('%s: %s, %.1f MB, compressed %.1f MB; layer %s' % (
        path, image, unpacked / 1e6, pulled / 1e6, archive.layers(path)[0]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--binaries', choices=('prebuilt', 'source'), default='prebuilt')
    parser.add_argument('--build', default=os.path.join(ROOT, 'build', 'release'))
    parser.add_argument('--cuda-build', default=os.path.join(ROOT, 'build', 'cuda'), help='what `make cuda` has built')
    parser.add_argument('--cublaslt', metavar='FILE', help='in place of the libcublasLt.so.N of its toolkit')
    parser.add_argument('--out', default=os.path.join(ROOT, 'build', 'images'))
    parser.add_argument('--tool', choices=tools.NAMES, help='default: the first that works here')
    parser.add_argument('images', nargs='*', metavar='operator|trainer|trainer-cuda', default=[])
    args = parser.parse_args()
    unknown = [name for name in args.images if name not in PROGRAMS]
    if unknown:
        parser.error('no image %s; there are: %s' % (', '.join(unknown), ', '.join(PROGRAMS)))
    os.makedirs(args.out, exist_ok=True)
    try:
        tool = tools.find(args.tool)
        say('building with ' + tool.name)
        for name in args.images or USUAL:
            build_image(tool, name, args)
    except BuildError as e:
        say(str(e))
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
