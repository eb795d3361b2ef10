"""The suite of real pods: options, one cluster for the whole run, a namespace for each case, evidence where one fails.

Cases run beside each other (pytest-xdist); those marked `alone` have the cluster to themselves, because they measure
time or disturb what others need. docs/testing.md says how to run it."""
import fcntl
import os
import re
import secrets
import subprocess
import sys
import time

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
# pylint: disable=wrong-import-position
import evidence  # noqa: E402
import project  # noqa: E402
import providers  # noqa: E402
from manifests import ROOT  # noqa: E402
from space import Space  # noqa: E402
from stage import Stage  # noqa: E402

MNIST = os.path.join(ROOT, '..', 'shared', 'data', 'mnist')
FAILED = os.path.join(ROOT, 'build', 'e2e', 'failed')
OPTIONS = ('provider', 'kubeconfig', 'storage_class', 'images', 'operator_image', 'trainer_image', 'digits', 'keep')


def pytest_addoption(parser):
    group = parser.getgroup('trainyard')
    group.addoption('--provider', choices=providers.names(), default='local', help='where the cluster comes from')
    group.addoption('--kubeconfig', help='of provider kubeconfig')
    group.addoption('--storage-class', help='of volumes that several pods may write; default: the cluster\'s')
    group.addoption('--images', default=os.path.join(ROOT, 'build', 'images'),
                    help='folder with operator.tar and trainer.tar')
    group.addoption('--operator-image', default='trainyard/operator:' + project.version())
    group.addoption('--trainer-image', default='trainyard/trainer:' + project.version())
    group.addoption('--digits', default=os.path.abspath(MNIST) if os.path.isdir(MNIST) else '',
                    help='folder with idx files for provider local; default: ../shared/data/mnist, else drawn ones')
    group.addoption('--trainyard', default=os.path.join(ROOT, 'build', 'release', 'trainyard'))
    group.addoption('--keep', action='store_true', help='leave the cluster and all namespaces')


def pytest_configure(config):
    config.addinivalue_line('markers', 'alone: has the cluster to itself')


def pytest_sessionstart(session):
    config = session.config
    if config.option.collectonly:
        return
    if hasattr(config, 'workerinput'):
        config.stage = Stage(config.workerinput['options'], config.workerinput['folder']).attach()
        return
    base = os.path.join(ROOT, 'build', 'e2e')
    os.makedirs(base, exist_ok=True)
    folder = os.path.join(base, 'e2e-' + secrets.token_hex(3))
    os.makedirs(folder)
    config.stage = Stage({name: getattr(config.option, name) for name in OPTIONS}, folder)
    try:
        config.stage.up()
    except providers.Unsupported as e:
        pytest.exit('e2e: %s' % e, returncode=2)
    except Exception as e:  # pylint: disable=broad-except
        pytest.exit('e2e: nothing to test on: %s\nlogs: %s' % (
            e, evidence.collect(config.stage, None, os.path.join(FAILED, 'setup'))), returncode=2)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    node.workerinput.update(options=node.config.stage.options, folder=node.config.stage.folder)


def pytest_unconfigure(config):
    stage = getattr(config, 'stage', None)
    if stage and not hasattr(config, 'workerinput'):
        if config.option.keep:
            print('the cluster is left: export KUBECONFIG=%s%s' % (stage.provider.kubeconfig, stage.provider.ending()))
        else:
            stage.down()


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: bool(item.get_closest_marker('alone')))  # last, when nobody else is left to wait for


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    outcome = yield
    report = outcome.get_result()
    if report.when == 'call' and report.failed:
        space = item.funcargs.get('space')
        if space:
            folder = evidence.collect(space.stage, space.name, os.path.join(FAILED, space.name))
            report.sections.append(('evidence', 'logs, events and objects: ' + folder))


def pytest_terminal_summary(terminalreporter):
    for report in terminalreporter.getreports('passed'):
        for name, value in report.user_properties:
            terminalreporter.write_line('%s: %s' % (name, value))


@pytest.fixture
def stage(request):
    return request.config.stage


@pytest.fixture(autouse=True)
def turn(request, stage):
    """One case alone, or several others, at a time."""
    alone = request.node.get_closest_marker('alone')
    with open(os.path.join(stage.folder, 'turn'), 'w') as f:
        fcntl.flock(f, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        deadline = time.monotonic() + 60
        while alone and not request.config.option.keep and not stage.quiet() and time.monotonic() < deadline:
            time.sleep(0.5)
        yield


@pytest.fixture
def space(request, stage, turn):
    """The case's namespace; what it asks of a provider that cannot do it skips the case with the reason."""
    name = '%s-%s' % (stage.mark, re.sub(r'[^a-z0-9]+', '-', request.node.name.removeprefix('test_')).strip('-'))
    made = Space(stage, name[:60].rstrip('-'))
    made.create()
    yield made
    if not request.config.option.keep:
        made.remove()


@pytest.fixture
def cli(request, space):
    """Starts `trainyard WORDS` in the case's namespace."""
    def start(*words):
        return subprocess.Popen(
            [request.config.getoption('trainyard'), *words, '--kubeconfig', space.stage.provider.kubeconfig,
             '-n', space.name], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return start


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    outcome = yield
    if outcome.excinfo and issubclass(outcome.excinfo[0], providers.Unsupported):
        outcome.force_exception(pytest.skip.Exception(str(outcome.excinfo[1])))
