"""The chart's alerts and dashboards, judged by what they are for: promtool reads each query and lets each alert fire, and
every metric that a query names is one that the running operator, or a running trainer, exports."""
import glob
import json
import os
import re
import subprocess
import tempfile
import urllib.request

import yaml

import binaries
from chart_rights import until
from control_plane import PATIENCE, ROOT, die_with_parent, free_port
from harness import Failure
from helm import CHART

ALERTS = os.path.join(CHART, 'alerts', 'trainyard.yaml')
# The kinds of the Prometheus operator, as it ships them.
MODULE = 'github.com/prometheus-operator/prometheus-operator@v0.85.0'
KINDS = ('servicemonitors', 'prometheusrules', 'podmonitors')
ADDED = {'namespace', 'pod', 'job', 'instance'}  # labels of what is scraped
WORDS = {'and', 'or', 'unless', 'by', 'without', 'on', 'ignoring', 'group_left', 'group_right', 'bool', 'offset'}


def _call(command, folder, what):
    try:
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300 * PATIENCE,
                              check=False)
    except OSError as e:
        raise binaries.BuildError('%s: %s' % (what, e)) from None
    return done.returncode, done.stdout.decode()


def promtool():
    """Its path: out of Debian's package, which is unpacked into the cache and not installed."""
    folder = os.path.join(binaries.cache_root(), 'debian', 'prometheus')
    program = os.path.join(folder, 'usr', 'bin', 'promtool')
    if not os.path.exists(program):
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryDirectory() as scratch:
            code, text = _call(['apt-get', 'download', '-q', 'prometheus'], scratch, 'promtool')
            if code != 0 and os.geteuid() == 0:  # the lists of packages may be absent
                _call(['apt-get', 'update', '-q'], scratch, 'promtool')
                code, text = _call(['apt-get', 'download', '-q', 'prometheus'], scratch, 'promtool')
            if code != 0:
                raise binaries.BuildError('promtool comes with Debian\'s package prometheus, and `apt-get download '
                                          'prometheus` failed (does `apt-get update` help?):\n' + text[-1000:])
            package = glob.glob(os.path.join(scratch, '*.deb'))[0]
            code, text = _call(['dpkg-deb', '-x', package, folder], scratch, 'promtool')
            if code != 0:
                raise binaries.BuildError('dpkg-deb -x %s: %s' % (package, text[-1000:]))
    return program


def prometheus_operator_kinds(folder):
    """The CustomResourceDefinitions of KINDS, out of the Go module that ships them."""
    go, _ = binaries.find_go(os.path.join(os.path.dirname(__file__), 'tools', 'helm', 'go.mod'))
    code, text = _call([go, 'mod', 'download', '-json', MODULE], folder, MODULE)
    if code != 0:
        raise binaries.BuildError('go mod download %s: %s' % (MODULE, text[-1000:]))
    home = os.path.join(json.loads(text)['Dir'], 'example', 'prometheus-operator-crd')
    out = []
    for kind in KINDS:
        with open(os.path.join(home, 'monitoring.coreos.com_%s.yaml' % kind)) as f:
            out.append(yaml.safe_load(f))
    return out


def alerts_fire_where_they_should():
    for command in (('check', 'rules', ALERTS), ('test', 'rules', 'alerts.test.yaml')):
        code, text = _call([promtool(), *command], os.path.join(CHART, 'testdata'), 'promtool')
        if code != 0:
            raise Failure('promtool %s: %s' % (' '.join(command), text[-2000:]))
    with open(os.path.join(CHART, 'testdata', 'alerts.test.yaml')) as f:
        fired = {case['alertname'] for test in yaml.safe_load(f)['tests'] for case in test['alert_rule_test']
                 if case['exp_alerts']}
    missing = {rule['alert'] for rule in rules()} - fired
    if missing:
        raise Failure('testdata/alerts.test.yaml lets these never fire: %s' % sorted(missing))


def rules():
    with open(ALERTS) as f:
        return [rule for group in yaml.safe_load(f)['groups'] for rule in group['rules']]


def dashboards():
    """{file name: text}."""
    out = {}
    for path in sorted(glob.glob(os.path.join(CHART, 'dashboards', '*.json'))):
        with open(path) as f:
            out[os.path.basename(path)] = f.read()
    return out


def queries(dashboard):
    """PromQL of each panel, with Grafana's variables given values."""
    return [target['expr'].replace('$__rate_interval', '5m').replace('$namespace', 'n').replace('$job', 'j')
            for panel in json.loads(dashboard)['panels'] for target in panel['targets']]


def names(query):
    """The metrics that a query names: identifiers that are no function, keyword, label or value."""
    bare = re.sub(r'\{[^{}]*\}|\[[^\[\]]*\]|"[^"]*"', ' ', query)
    bare = re.sub(r'\b(by|without|on|ignoring)\s*\([^()]*\)', ' ', bare)
    return {name for name, call in re.findall(r'\b([a-zA-Z_:][\w:]*)(\s*\()?', bare) if not call and name not in WORDS}


def queries_are_sound(exprs, series):
    """promtool can read them; metrics, label values that are asked for and labels that are summed by are those of series
    (as /metrics writes them), or labels that Prometheus adds."""
    with tempfile.NamedTemporaryFile('w', suffix='.yaml') as f:
        yaml.safe_dump({'groups': [{'name': 'q', 'rules': [{'record': 'q%d' % i, 'expr': expr}
                                                           for i, expr in enumerate(exprs)]}]}, f)
        f.flush()
        code, text = _call([promtool(), 'check', 'rules', f.name], os.path.dirname(f.name), 'promtool')
        if code != 0:
            raise Failure('promtool cannot read a query: ' + text[-2000:])
    for expr in exprs:
        wanted = names(expr)
        missing = wanted - exported_names(series)
        if not wanted or missing:
            raise Failure('nobody exports %s, which this query names: %s' % (sorted(missing) or 'anything', expr))
        theirs = [one for one in series if one.partition('{')[0] in wanted]
        for metric, matchers in re.findall(r'(\w+)\{([^{}]*)\}', expr):
            for label, value in re.findall(r'(\w+)="([^"]*)"', matchers):
                if label not in ADDED and not any(one.startswith(metric + '{') and '%s="%s"' % (label, value) in one
                                                  for one in theirs):
                    raise Failure('no series of %s has %s="%s", as this query asks: %s' % (metric, label, value, expr))
        for labels in re.findall(r'\bby \(([^()]*)\)', expr):
            unknown = [label for label in re.findall(r'\w+', labels)
                       if label not in ADDED and not any(label + '="' in one for one in theirs)]
            if unknown:
                raise Failure('no series has the label %s, by which this query sums: %s' % (unknown, expr))


def exported_names(series):
    """Of series as /metrics writes them."""
    return {line.partition('{')[0].partition(' ')[0] for line in series if line and not line.startswith('#')}


def families(series):
    """The metrics of these series, as people name them."""
    return {re.sub('_(bucket|sum|count)$', '', name) for name in exported_names(series)}


def documented():
    """The metrics in the tables of docs/monitoring.md."""
    with open(os.path.join(ROOT, 'docs', 'monitoring.md')) as f:
        rows = re.findall(r'^\| ((?:`[a-z_]+`(?:, )?)+) \|', f.read(), re.M)
    return {name for row in rows for name in re.findall('`([a-z_]+)`', row)}


def trainer_series(program):
    """Those of a trainer's /metrics: of a parameter server that waits for its worker."""
    ports = [free_port() for _ in range(3)]
    process = subprocess.Popen(  # pylint: disable=consider-using-with
        [program, '--job_name=ps', '--task_index=0', '--ps_hosts=127.0.0.1:%d' % ports[0],
         '--worker_hosts=127.0.0.1:%d' % ports[1], '--metrics_port=%d' % ports[2]],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=die_with_parent)

    def page():
        if process.poll() is not None:
            raise Failure('the trainer whose metrics were to be read ended with status %d' % process.returncode)
        try:
            with urllib.request.urlopen('http://127.0.0.1:%d/metrics' % ports[2], timeout=5) as answer:
                return answer.read().decode()
        except OSError:
            return None
    try:
        lines = until('the metrics of a trainer', page).splitlines()
        return {line.rpartition(' ')[0] for line in lines if line and not line.startswith('#')}
    finally:
        process.kill()
        process.wait()
