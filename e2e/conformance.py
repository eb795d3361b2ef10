"""The table of behaviours that a drop-in TFJob operator must show, each with the tests that show it.

Behaviours are in behaviours.tsv; integration cases name their ids in @case, unit tests in a comment beside
TEST(...). A row without a test is a failure."""
import glob
import os
import re
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
UNIT = re.compile(r'^TEST(?:_[FP])?\((\w+), (\w+)\)[^\n]*//([^\n]*)', re.M)
ID = re.compile(r'\b[A-K]\d{1,2}\b')

TEXT = """# Conformance

What `kubeflow.org/v1` TFJob means, as behaviours, and the tests that show that Trainyard's operator has them.
Integration cases (`e2e/test_*.py`) run the operator against a real kube-apiserver with a fake kubelet; unit tests are
named by suite. This table is written by `make conformance`, which runs them.

%d behaviours, each shown by tests.

| id | behaviour | tests | result |
|---|---|---|---|
%s
"""


def rows():
    with open(os.path.join(HERE, 'behaviours.tsv')) as f:
        return [line.rstrip('\n').split('\t') for line in f if line.strip()]


def unit_tests():
    """{id: ["Suite.Name"]} from the sources."""
    found = {}
    for path in sorted(glob.glob(os.path.join(ROOT, 'operator', '**', '*_test.cc'), recursive=True)):
        with open(path) as f:
            for suite, name, comment in UNIT.findall(f.read()):
                for one in ID.findall(comment):
                    found.setdefault(one, []).append('%s.%s' % (suite, name))
    return found


def run_units(folder, names):
    """The unit tests among `names` that did not pass."""
    passed, failed = set(), set()
    for program in sorted(glob.glob(os.path.join(folder, 'operator_*_test'))):
        patterns = ['%s:*/%s/*' % (name, name) for name in names]  # the second form is that of TEST_P
        done = subprocess.run([program, '--gtest_filter=' + ':'.join(patterns)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=300, cwd=ROOT, check=False)
        text = done.stdout.decode('utf-8', 'replace')
        passed.update(re.findall(r'^\[ +OK \] (?:\w+/)?(\w+\.\w+)', text, re.M))
        failed.update(re.findall(r'^\[ +FAILED +\] (?:\w+/)?(\w+\.\w+)', text, re.M))
    return [name for name in names if name not in passed or name in failed]


def table(cases, results, unit_failures):
    """(text of the table, ids that fail)."""
    units = unit_tests()
    lines, failed = [], []
    for one, behaviour in rows():
        mine = [c for c in cases if one in c.ids]
        tests = ['`%s`' % c.name for c in mine] + ['`%s`' % name for name in units.get(one, [])]
        bad = [c.name for c in mine if results.get(c.name, 'not run')]
        bad += [name for name in units.get(one, []) if name in unit_failures]
        if not tests or bad:
            result = 'FAILED'
            failed.append('%s (%s)' % (one, ', '.join(bad) or 'no test'))
        else:
            result = 'passed'
        lines.append('| %s | %s | %s | %s |' % (one, behaviour.replace('|', '\\|'), '<br>'.join(tests), result))
    return TEXT % (len(lines), '\n'.join(lines)), failed


def conclude(cases, results, args):
    """Writes or checks the table; returns what is wrong with it."""
    names = sorted({name for found in unit_tests().values() for name in found})
    unit_failures = run_units(args.gtests, names) if args.gtests else []
    text, failed = table(cases, results, unit_failures)
    if args.report:
        with open(args.report, 'w') as f:
            f.write(text)
    problems = ['conformance ' + one for one in failed]
    if args.check_report:
        with open(args.check_report) as f:
            if f.read() != text and not failed:
                problems.append('%s is out of date: make conformance' % args.check_report)
    return problems
