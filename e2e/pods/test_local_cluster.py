"""A cluster of this machine leaves nothing behind, even when whoever started it is killed."""
import glob
import os
import signal
import subprocess
import sys
import time

import pytest

from manifests import ROOT

STARTER = '''
import sys, time
sys.path.insert(0, {2!r})
import {0}
cluster = {0}.{1}(sys.argv[1]).up()
print(cluster.lan.name, flush=True)
time.sleep(600)
'''
CLUSTERS = {'local': ('local_cluster', 'LocalCluster'), 'kind': ('kind_cluster', 'KindCluster')}  # module and class


def traces(name):
    """What a cluster of that name has on this machine outside its folder."""
    return (glob.glob('/run/netns/%s' % name) + glob.glob('/run/netns/%s-*' % name) +
            glob.glob('/sys/fs/cgroup/*/%s-*' % name) + glob.glob('/sys/class/net/%s' % name.replace('-', '')))


def processes(folder):
    found = []
    for path in glob.glob('/proc/[0-9]*/cmdline'):
        try:
            with open(path, 'rb') as f:
                if folder.encode() in f.read() and os.path.dirname(path) != '/proc/%d' % os.getpid():
                    found.append(path)
        except OSError:
            pass  # it ended
    return found


def test_killed_cluster_ends_and_is_removed(stage, tmp_path):
    if stage.provider.name not in CLUSTERS:
        pytest.skip('provider %s makes no cluster on this machine' % stage.provider.name)
    module, maker = CLUSTERS[stage.provider.name]
    folder = str(tmp_path / 'cluster')
    program = STARTER.format(module, maker, os.path.join(ROOT, 'e2e'))
    starter = subprocess.Popen([sys.executable, '-c', program, folder], stdout=subprocess.PIPE)
    name = starter.stdout.readline().decode().strip()
    assert name and len(traces(name)) > 2
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    deadline = time.monotonic() + 60
    while processes(folder) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not processes(folder), 'its processes live on'
    program = os.path.join(ROOT, 'e2e', module + '.py')
    subprocess.run([sys.executable, program, 'down', '--dir', folder], check=True, timeout=120)
    assert not traces(name)
    assert not os.path.exists(folder)
