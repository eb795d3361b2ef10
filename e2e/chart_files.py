"""What of the chart can be judged without a cluster: lint, golden renders, refused values, the package, the alerts and
dashboards that it carries, and the Kustomize base that is made of it."""
import difflib
import os
import re
import tarfile

import yaml

import docs
import helm
import kustomize
import monitoring
import project
from control_plane import ROOT
from harness import Failure

SETS = ('least', 'namespaces', 'full')
# (flags of helm, what its message must name)
WRONG = (
    (('--set', 'image.repository='), '/image/repository'),
    (('--set', 'image.digest=sha256:12'), '/image/digest'),
    (('--set', 'image.pulPolicy=Always'), 'pulPolicy'),
    (('--set', 'replicas=two'), '/replicas'),
    (('--set', 'namespaces={Team_A}'), '/namespaces/0'),
    (('--set', 'log.format=xml'), '/log/format'),
    (('--set', 'gangScheduler=a b'), '/gangScheduler'),
    (('--set', 'extraArgs={leader-elect}'), '/extraArgs/0'),
    (('--set', 'serviceAccount.create=false'), 'serviceAccount.name: name the one'),
    (('--set', 'metrics.prometheusRule.enabled=yes'), '/metrics/prometheusRule/enabled'),
    (('--set', 'metrics.prometheusRule.interval=1m'), 'interval'),
    (('--set', 'metrics.dashboards.labels.a=1'), '/metrics/dashboards/labels/a'),
    (('--set', 'metrics.dashboard.enabled=true'), 'dashboard'),
    (('--set', 'page.enabled=yes'), '/page/enabled'),
    (('--set', 'networkPolicy.egressTo=10.0.0.1'), '/networkPolicy/egressTo'),
    (('--set', 'tensorBoards[0].name=curves'), '/tensorBoards/0'),
    (('--set-json', 'tensorBoards=[{"name": "a b", "claimName": "c", "image": "i"}]'), '/tensorBoards/0/name'),
    (('--set-json', 'tensorBoards=[{"name": "a", "claimName": "c", "image": "i", "path": "../d"}]'), '/tensorBoards/0/path'),
    (('--set-json', 'tensorBoards=[{"name": "a", "claimName": "c", "image": "i", "runAsUser": 0}]'), '/0/runAsUser'))


def expect(what, got, wanted=True):
    if got != wanted:
        raise Failure('%s: wanted %r, got %r' % (what, wanted, got))


def read(*path):
    with open(os.path.join(ROOT, *path)) as f:
        return f.read()


def same(path, text, rewrite):
    """The file is this text; `rewrite` makes it so first."""
    if rewrite:
        with open(path, 'w') as f:
            f.write(text)
    lines = [side.splitlines(keepends=True) for side in (read(path), text)]
    difference = ''.join(difflib.unified_diff(*lines, path, 'rendered now'))
    if difference:
        raise Failure('e2e/chart.py --rewrite records what the chart renders now:\n' + difference)


def lints(tools):
    for name in SETS:
        tools.run('lint', '--strict', helm.CHART, '--kube-version', helm.KUBE_VERSION, '-f', helm.values(name))


def renders_as_recorded(tools, rewrite):
    for name in SETS:
        same(os.path.join(helm.CHART, 'testdata', name + '.golden.yaml'), tools.render(name), rewrite)


def kustomize_base_is_the_chart(tools, rewrite):
    base = kustomize.base_of(tools)
    same(kustomize.OPERATOR, base, rewrite)
    built = kustomize.build(tools)
    kinds = sorted(item['kind'] for item in yaml.safe_load_all(base)) + ['CustomResourceDefinition', 'Namespace']
    expect('kinds of the base as Kustomize builds it', sorted(item['kind'] for item in built), sorted(kinds))
    crd = next(item for item in built if item['kind'] == 'CustomResourceDefinition')
    expect('its CRD is ours', crd == yaml.safe_load(read('crds', 'tfjob.yaml')))


def schema_refuses_wrong_values(tools):
    for flags, text in WRONG:
        message = tools.refused(*tools.template(), *flags)
        expect('%r in helm\'s message on %s: %s' % (text, flags, message), text in message)


def package_has_the_crd_and_the_version(tools):
    """The chart's CRD is a link; Helm packs what it leads to."""
    tools.run('package', helm.CHART, '--destination', tools.folder)
    version = project.version()
    expect('appVersion', re.findall(r'^appVersion: (\S+)$', read(helm.CHART, 'Chart.yaml'), re.M), [version])
    with tarfile.open(os.path.join(tools.folder, 'trainyard-%s.tgz' % version)) as package:
        member = package.getmember('trainyard/crds/tfjob.yaml')
        expect('the packaged CRD is a file', member.isfile())
        expect('the packaged CRD is ours', package.extractfile(member).read().decode() == read('crds', 'tfjob.yaml'))
        expect('test data in the package', [name for name in package.getnames() if 'testdata' in name], [])


def carries_alerts_and_dashboards(tools):
    """Their files reach the cluster as they are; the goldens leave these long objects out."""
    rendered = tools.render('least', '--set', 'metrics.prometheusRule.enabled=true,metrics.dashboards.enabled=true',
                            '--show-only', 'templates/monitoring.yaml')
    made = {item['kind']: item for item in yaml.safe_load_all(rendered)}
    config = made['ConfigMap']
    expect('the PrometheusRule has the alerts', made['PrometheusRule']['spec'] == yaml.safe_load(read(monitoring.ALERTS)))
    expect('the ConfigMap has the dashboards', config['data'] == monitoring.dashboards())
    expect('the label that Grafana\'s side-car looks for', config['metadata']['labels'].get('grafana_dashboard'), '1')


def takes_the_values_that_docs_show(tools):
    shown = docs.values()
    for where, text in shown:
        path = os.path.join(tools.folder, 'documented.yaml')
        with open(path, 'w') as f:
            f.write(text)
        code, _, err = tools.call(*tools.template(), '-f', path)
        expect('helm\'s error on the values at %s' % where, err if code else '', '')
    flags = list(docs.chart_flags())
    for page, words in flags:
        code, _, err = tools.call(*tools.template(), *words)
        expect('helm\'s error on %s of %s' % (words, page), err if code else '', '')
    expect('values and flags in the docs', bool(shown and flags))
