#!/usr/bin/env python3
"""runc for a Docker daemon that may not give what `docker run --privileged` promises: the capabilities that this machine
withholds from every process (its bounding set) are taken out of each container's specification first.

Called as runc is; ends as it."""
import json
import os
import sys

# The kernel's numbers of those that are withheld in practice (linux/capability.h).
NUMBERS = {'CAP_SYS_MODULE': 16, 'CAP_SYS_RAWIO': 17, 'CAP_SYS_BOOT': 22, 'CAP_SYS_RESOURCE': 24, 'CAP_SYS_TIME': 25,
           'CAP_MAC_OVERRIDE': 32, 'CAP_MAC_ADMIN': 33, 'CAP_SYSLOG': 34, 'CAP_WAKE_ALARM': 35, 'CAP_BLOCK_SUSPEND': 36,
           'CAP_AUDIT_READ': 37, 'CAP_PERFMON': 38, 'CAP_BPF': 39, 'CAP_CHECKPOINT_RESTORE': 40}


def withheld():
    with open('/proc/self/status') as f:
        bounding = int(next(line for line in f if line.startswith('CapBnd:')).split()[1], 16)
    return {name for name, number in NUMBERS.items() if not bounding >> number & 1}


def option(arguments, *names):
    """The value of `--name VALUE` or `--name=VALUE`, or None."""
    for i, argument in enumerate(arguments):
        name, equals, value = argument.partition('=')
        if name in names:
            return value if equals else arguments[i + 1]
    return None


def described(arguments):
    """The file that says what the new process may do, or None: config.json of a bundle, or the process of an exec."""
    if 'create' in arguments or 'run' in arguments:
        return os.path.join(option(arguments, '--bundle', '-b') or '.', 'config.json')
    if 'exec' in arguments:
        return option(arguments, '--process', '-p')
    return None


def restrict(path, names):
    with open(path) as f:
        found = json.load(f)
    process = found.get('process', found)
    for kind, capabilities in (process.get('capabilities') or {}).items():
        process['capabilities'][kind] = [name for name in capabilities if name not in names]
    with open(path, 'w') as f:
        json.dump(found, f)


def main():
    path, names = described(sys.argv[1:]), withheld()
    if path and names:
        restrict(path, names)
    os.execvp('runc', ['runc', *sys.argv[1:]])


if __name__ == '__main__':
    main()
