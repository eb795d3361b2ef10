"""docs/features.md names a test for each feature and each answered complaint, docs/cli.md for each fault that
`trainyard describe` is tried on: the names are those of tests that exist.

A test is a case of e2e/test_*.py, a function of e2e/pods/test_*.py, a unit test Suite.Name, or a file of this
repository that ctest runs. Rows that say `not there`, `not answered` or `measured` may name none."""
import glob
import os
import re

from project import ROOT

PAGE = os.path.join(ROOT, 'docs', 'features.md')
ROW = re.compile(r'^\| (\d+) \|(.*)\|$', re.M)
NAME = re.compile(r'`([^`]+)`')
FAULT = re.compile(r'^\| ([^|]+) \| [^|]+ \| `([\w.]+)` \|$', re.M)
WITHOUT = ('not there', 'not answered', 'measured')
FEATURES, COMPLAINTS, FAULTS = 66, 42, 20


def read(path):
    with open(path) as f:
        return f.read()


def tests():
    found = set()
    for path in glob.glob(os.path.join(ROOT, 'e2e', 'test_*.py')):
        found.update(re.findall(r'^@case\(.*(?:\n    .*)*\ndef (\w+)\(', read(path), re.M))
    for path in glob.glob(os.path.join(ROOT, 'e2e', 'pods', 'test_*.py')):
        found.update(re.findall(r'^def (test_\w+)\(', read(path), re.M))
    for folder in ('base', 'operator', 'trainer'):
        for path in glob.glob(os.path.join(ROOT, folder, '**', '*_test.cc'), recursive=True):
            found.update('%s.%s' % names for names in re.findall(
                r'^TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\)', read(path), re.M))
    with open(os.path.join(ROOT, 'CMakeLists.txt')) as f:
        found.update(name for name in re.findall(r'\$\{PROJECT_SOURCE_DIR\}/([\w/]+\.py)', f.read()))
    return found


def tables():
    """[[(number, cells)]] of the page's two tables."""
    parts = read(PAGE).split('\n## ')
    return [[(int(number), [cell.strip() for cell in rest.split('|')]) for number, rest in ROW.findall(part)]
            for part in parts if ROW.search(part)]


def problems():
    known = tests()
    found = tables()
    counts = [[number for number, _ in table] for table in found]
    for table, wanted in zip(counts, (FEATURES, COMPLAINTS)):
        missing = sorted(set(range(1, wanted + 1)) - set(table))
        if missing or len(table) != wanted:
            yield 'docs/features.md: rows that are missing or twice, of %d: %s' % (
                wanted, missing or sorted(n for n in table if table.count(n) > 1))
    if len(counts) != 2:
        yield 'docs/features.md has %d tables with numbered rows, not 2' % len(counts)
    for number, cells in (row for table in found for row in table):
        names = NAME.findall(cells[-1])
        if not names and not any(word in cells[-1] or word in cells[-2] for word in WITHOUT):
            yield 'docs/features.md: row %d (%s) names no test' % (number, cells[0])
        for name in names:
            if name not in known:
                yield 'docs/features.md: row %d (%s): there is no test %s' % (number, cells[0], name)
    faults = FAULT.findall(read(os.path.join(ROOT, 'docs', 'cli.md')))
    if len(faults) < FAULTS:
        yield 'docs/cli.md: %d faults with a test, not %d' % (len(faults), FAULTS)
    for fault, name in faults:
        if name not in known:
            yield 'docs/cli.md: %s: there is no test %s' % (fault, name)
