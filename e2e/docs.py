#!/usr/bin/env python3
"""README.md and docs/ tell what is true: their TFJobs are valid, their links lead somewhere, the images that they and
the examples name are those that `make images` makes, the symptoms are ones that the operator shows, and the tests that
they name exist (features.py). chart.py judges what they say of the chart and of metrics.

  docs.py --trainyard PROGRAM"""
import argparse
import glob
import os
import re
import subprocess
import sys

import yaml

import features
import project
from project import ROOT

FENCE = re.compile(r'^( *)```yaml\n(.*?)^\1```$', re.M | re.S)
LINK = re.compile(r'\]\(([^)\s]+)\)')
OURS = re.compile(r'\btrainyard/(?:trainer|operator)(?::([\w.-]+))?(?=[\s"\'}]|$)')


def read(path):
    with open(path) as f:
        return f.read()


def pages():
    return [os.path.join(ROOT, 'README.md'), *sorted(glob.glob(os.path.join(ROOT, 'docs', '*.md'))),
            os.path.join(ROOT, 'examples', 'README.md')]


def blocks():
    """(page:line, text) of each YAML block."""
    for page in pages():
        text = read(page)
        for found in FENCE.finditer(text):
            line = text.count('\n', 0, found.start(2)) + 1
            yield '%s:%d' % (os.path.relpath(page, ROOT), line), found.group(2)


def objects():
    """(page:line, object) of each Kubernetes object in them."""
    for where, text in blocks():
        for item in yaml.safe_load_all(text):
            if isinstance(item, dict) and 'apiVersion' in item and 'kind' in item:
                yield where, item


def values():
    """(page:line, text) of the blocks that are values of the chart: they begin with `# values`."""
    return [(where, text) for where, text in blocks() if text.startswith('# values\n')]


def chart_flags():
    """(page, words for helm) of each --set and --set-json that a page shows."""
    for page in pages():
        for flag, quoted, plain in re.findall(r"(--set(?:-json)?) (?:\\\n *)?(?:'([^']*)'|([^\s`']+))", read(page)):
            yield os.path.relpath(page, ROOT), (flag, quoted or plain)


def anchors(page):
    """GitHub's, of its headings."""
    return {re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-')
            for heading in re.findall(r'^#+ (.*)$', read(page), re.M)}


def broken_links():
    for page in pages():
        for link in LINK.findall(read(page)):
            if '://' in link:
                continue
            path, _, anchor = link.partition('#')
            target = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
            if not os.path.exists(target):
                yield '%s: %s: no such file' % (os.path.relpath(page, ROOT), link)
            elif anchor and anchor not in anchors(target):
                yield '%s: %s: no such heading' % (os.path.relpath(page, ROOT), link)


def invalid_jobs(program):
    count = 0
    for where, text in blocks():
        if not any(isinstance(item, dict) and item.get('kind') == 'TFJob' for item in yaml.safe_load_all(text)):
            continue
        count += 1
        done = subprocess.run([program, 'validate', '-'], input=text.encode(), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=60, check=False)
        if done.returncode != 0 or b'warning' in done.stdout:
            yield '%s: %s' % (where, done.stdout.decode())
    if count < 3:
        yield 'only %d TFJobs were found in the docs' % count


def images_without_our_version():
    """A tag `latest`, or none, makes nodes ask a registry even where the image is loaded."""
    version = project.version()
    examples = sorted(glob.glob(os.path.join(ROOT, 'examples', '*.yaml')))
    texts = [(os.path.relpath(path, ROOT), read(path)) for path in examples]
    for where, text in texts + list(blocks()):
        for line in re.findall(r'\bimage: *(.*)$', text, re.M):
            found = OURS.search(line)
            if found and found.group(1) not in (version, version + '-cuda'):
                yield '%s: image %s: must have the tag %s' % (where, found.group(0), version)


def unknown_reasons():
    """Reasons of conditions and events that docs/troubleshooting.md names and the operator does not."""
    known = set(re.findall(r'"(\w+)"', read(os.path.join(ROOT, 'operator', 'api', 'names.h'))))
    named = set(re.findall(r'`(TFJob[A-Z]\w+|SetPod\w+|Failed[A-Z]\w+|PodGroup\w+|\w+NameTaken|ExitedWithCode)`',
                           read(os.path.join(ROOT, 'docs', 'troubleshooting.md'))))
    if len(named) < 8:
        yield 'docs/troubleshooting.md names only %s' % sorted(named)
    for reason in sorted(named - known):
        yield 'docs/troubleshooting.md: the operator has no reason %s' % reason


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--trainyard', required=True)
    args = parser.parse_args()
    wrong = [*broken_links(), *invalid_jobs(args.trainyard), *images_without_our_version(), *unknown_reasons(),
             *features.problems()]
    for line in wrong:
        print('docs: ' + line)
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
