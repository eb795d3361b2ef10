"""charts/kustomize: the chart with its defaults as plain manifests, for those without Helm."""
import os
import re
import subprocess

import yaml

from control_plane import ROOT
from harness import Failure

FOLDER = os.path.join(ROOT, 'charts', 'kustomize')
OPERATOR = os.path.join(FOLDER, 'operator.yaml')
HEADER = '# Written by `python3 e2e/chart.py --rewrite`: charts/trainyard with its defaults.\n'


def base_of(tools):
    """The text of operator.yaml: what Helm renders, but for the labels that name Helm and for its test."""
    text = tools.run(*tools.template(), '--skip-tests')
    text = re.sub(r'^ +(helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n', '', text, flags=re.M)
    return HEADER + re.sub(r'^# Source: .*\n', '', text, flags=re.M)


def build(tools):
    """The objects that `kubectl apply -k` would send."""
    program = os.path.join(os.path.dirname(tools.program), 'kustomize')
    done = subprocess.run([program, 'build', FOLDER], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300,
                          check=False)
    if done.returncode != 0:
        raise Failure('kustomize build %s: %s' % (FOLDER, done.stderr.decode()[-2000:]))
    return list(yaml.safe_load_all(done.stdout))
