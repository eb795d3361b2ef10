"""The first process of a node, in namespaces of its own: gives the node a file system view in which it disturbs nothing of
this machine, starts containerd, kubelet and kube-proxy, starts them again when they end, and reaps orphans.

Usage: init.py CONFIG.json (written by node.py). Ends only by being killed; everything in its namespaces ends then."""
import json
import os
import resource
import socket
import subprocess
import sys
import time

# Settings of the whole kernel that kubelet writes; the node gets files instead, so that the machine keeps its own.
KERNEL = {'vm/overcommit_memory': '1', 'vm/panic_on_oom': '0', 'kernel/panic': '10', 'kernel/panic_on_oops': '1',
          'kernel/keys/root_maxkeys': '1000000', 'kernel/keys/root_maxbytes': '25000000'}
NETWORK = ('net/ipv4/ip_forward', 'net/ipv4/conf/all/route_localnet')


def mount(*args):
    subprocess.run(['mount', *args], check=True, timeout=60)


def write(path, text):
    with open(path, 'w') as f:
        f.write(text)


def raise_file_limit():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def arrange(config):
    """Folders that programs have fixed names for become folders of the node."""
    folder = config['folder']
    mount('--make-rshared', '/')
    mount('--bind', os.path.join(folder, 'lib'), '/var/lib')
    mount('--bind', os.path.join(folder, 'log'), '/var/log')
    mount('-t', 'tmpfs', '-o', 'mode=755', 'tmpfs', '/run')
    for path in ('/run/lock', '/run/kernel'):
        os.makedirs(path)
    mount('--bind', os.path.join(folder, 'resolv.conf'), os.path.realpath('/etc/resolv.conf'))
    for setting, value in KERNEL.items():
        stand_in = '/run/kernel/' + setting.replace('/', '_')
        write(stand_in, value + '\n')
        mount('--bind', stand_in, '/proc/sys/' + setting)
    for setting in NETWORK:
        write('/proc/sys/' + setting, '1')
    # Beyond the cluster a pod speaks as its node; within it as itself, so that policies know who speaks.
    subprocess.run(['iptables', '--wait', '-t', 'nat', '-A', 'POSTROUTING', '-s', config['pods'], '!', '-d', config['pods'],
                    '-j', 'MASQUERADE'], check=True, timeout=60)
    socket.sethostname(config['name'])
    raise_file_limit()


def start(name, command):
    with open('/var/log/%s.log' % name, 'ab') as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)


def load_images(config):
    deadline = time.monotonic() + config['patience']
    while subprocess.run(['ctr', 'version'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                         check=False).returncode:
        if time.monotonic() > deadline:
            sys.exit('containerd does not answer after %d s; its log: containerd.log' % config['patience'])
        time.sleep(0.05)
    for path in config['images']:
        subprocess.run(['ctr', '-n', 'k8s.io', 'images', 'import', path], check=True, stdout=subprocess.DEVNULL)


def main():
    with open(sys.argv[1]) as f:
        config = json.load(f)
    arrange(config)
    programs = dict(config['programs'])
    running = {start('containerd', programs['containerd']).pid: 'containerd'}
    load_images(config)
    running.update((start(name, programs[name]).pid, name) for name in programs if name != 'containerd')
    while True:
        pid, status = os.wait()
        if pid in running:
            name = running.pop(pid)
            print('%s ended with status %d; starting it again' % (name, os.waitstatus_to_exitcode(status)), flush=True)
            time.sleep(1)
            running[start(name, programs[name]).pid] = name


if __name__ == '__main__':
    main()
