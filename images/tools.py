"""docker, podman and buildah behind one small face: build, save and load an image, and have the base image there.

Knows nothing of our images. Only tools that answer are taken: a docker client without its daemon is none."""
import hashlib
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = ('docker', 'podman', 'buildah')


class BuildError(Exception):
    """What could not be done, why, and what to do about it."""


def say(text):
    print('images: ' + text, file=sys.stderr, flush=True)


class Tool:
    """One of NAMES, with the environment that it needs."""

    def __init__(self, name, environment=None):
        self.name = name
        self.environment = dict(os.environ, **(environment or {}))

    def run(self, *args, timeout=7200, quiet=False):
        """True where it ended well; its output goes to ours, or nowhere."""
        to = subprocess.DEVNULL if quiet else sys.stderr
        try:
            return subprocess.run([self.name, *args], env=self.environment, stdin=subprocess.DEVNULL, stdout=to,
                                  stderr=to, timeout=timeout, check=False).returncode == 0
        except (FileNotFoundError, subprocess.TimeoutExpired):
            return False

    def _must(self, what, *args):
        if not self.run(*args):
            raise BuildError('%s failed, see above: %s %s' % (what, self.name, ' '.join(args)))

    def build(self, dockerfile, context, image, build_args):
        options = ['--network=host', '-f', dockerfile, '-t', image]
        for key, value in build_args.items():
            options += ['--build-arg', '%s=%s' % (key, value)]
        if self.name != 'buildah':  # that one keeps no layers of its own accord; kept ones would hide updates of packages
            options.append('--no-cache')
        if self.name == 'podman':
            options.append('--layers=false')
        if self.name != 'docker':  # chroot: works where no containers can be made, e.g. in one
            options += ['--isolation=chroot', '--pull-never' if self.name == 'buildah' else '--pull=never']
        self._must('the build of ' + image, 'bud' if self.name == 'buildah' else 'build', *options, context)

    def save(self, image, path):
        if os.path.exists(path):
            os.remove(path)
        if self.name == 'buildah':
            self._must('saving ' + image, 'push', '-q', image, 'docker-archive:%s:%s' % (path, image))
        else:
            self._must('saving ' + image, 'save', '-o', path, image)

    def load(self, path):
        if self.name == 'buildah':
            self._must('loading ' + path, 'pull', '-q', 'docker-archive:' + path)
        else:
            self._must('loading ' + path, 'load', '-q', '-i', path)

    def remove(self, image):
        """Takes the name away; where there is none, that is what was wanted."""
        self.run('rmi', image, quiet=True, timeout=60)

    def has(self, image):
        if self.name == 'buildah':
            return self.run('inspect', '--type=image', image, quiet=True, timeout=60)
        return self.run('image', 'inspect', image, quiet=True, timeout=60)

    def pull(self, image):
        return self.run('pull', image, timeout=300)

    def import_root(self, tar, image):
        """An image of the files in `tar`."""
        if self.name != 'buildah':
            self._must('importing ' + tar, 'import', tar, image)
            return
        container = subprocess.run(['buildah', 'from', 'scratch'], env=self.environment, stdout=subprocess.PIPE,
                                   timeout=60, check=True).stdout.decode().strip()
        try:
            self._must('importing ' + tar, 'add', '-q', container, tar, '/')
            self._must('importing ' + tar, 'commit', '-q', container, image)
        finally:
            self.run('rm', container, quiet=True)


def _working(name):
    """The tool if it answers here, else None."""
    for environment in ({}, {'STORAGE_DRIVER': 'vfs'}) if name != 'docker' else ({},):
        tool = Tool(name, environment)
        if tool.run('info', quiet=True, timeout=60):
            return tool
    return None


def _install(group):
    if subprocess.run(['sh', os.path.join(HERE, '..', 'cmake', 'deps.sh'), group], stdout=sys.stderr,
                      check=False).returncode != 0:
        raise BuildError('could not install the packages of the group %s in cmake/packages.txt, see above' % group)


def find(name=None):
    """The tool of that name, or the first that works; buildah is installed where none does."""
    for candidate in [name] if name else NAMES:
        tool = _working(candidate)
        if tool:
            return tool
    if name in ('docker', 'podman'):
        raise BuildError('%s does not work here: try `%s info`' % (name, name))
    say('none of %s works here; installing buildah' % ', '.join(NAMES))
    _install('image-tool')
    tool = _working('buildah')
    if not tool:
        raise BuildError('buildah was installed and does not work: try `buildah info`')
    return tool


def _cache_root():
    base = os.environ.get('XDG_CACHE_HOME') or os.path.join(os.path.expanduser('~'), '.cache')
    return os.environ.get('TRAINYARD_CACHE') or os.path.join(base, 'trainyard')


def _debian_root():
    """A tar of a minimal Debian 12, made once from the distribution's packages (about 90 s)."""
    options = ['--variant=minbase', 'bookworm']
    path = os.path.join(_cache_root(), 'debian-%s.tar' % hashlib.sha256(repr(options).encode()).hexdigest()[:16])
    if not os.path.exists(path):
        if not shutil.which('mmdebstrap'):
            _install('image-base')
        os.makedirs(_cache_root(), exist_ok=True)
        part = '%s.%d.tar' % (path, os.getpid())
        done = subprocess.run(['mmdebstrap', '--quiet', *options, part], stdin=subprocess.DEVNULL, timeout=1800, check=False)
        if done.returncode != 0:
            raise BuildError('mmdebstrap could not make a Debian root file system, see above')
        os.rename(part, path)
    return path


def ensure_base(tool, image):
    if tool.has(image):
        return
    say('%s is not here; pulling it' % image)
    if tool.pull(image):
        return
    say('it cannot be pulled; making it of Debian\'s packages under the same name')
    tool.import_root(_debian_root(), image)
