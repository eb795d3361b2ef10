#!/usr/bin/env python3
"""Runs a program in an unpacked image as a strict container runtime would: as user 65532 without capabilities or new
privileges, on a read-only root, with a /dev and /dev/shm of its own and nothing of the machine's files but what is
bound. It keeps the machine's network, and its process id: signals reach the program itself.

  sandbox.py [--bind FROM:TO]... [--env NAME=VALUE]... ROOT PROGRAM [ARGUMENT...]

Needs root. ROOT gets the missing mount points, as a runtime makes them too. --bind: writable where user 65532 may write."""
import argparse
import ctypes
import os
import signal
import sys

USER = 65532
LIBC = ctypes.CDLL(None, use_errno=True)
MS_RDONLY, MS_NOSUID, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 32, 4096, 16384, 1 << 18
CLONE_NEWNS = 0x20000
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 24, 38


def _check(what, result):
    if result != 0:
        raise OSError(ctypes.get_errno(), '%s: %s' % (what, os.strerror(ctypes.get_errno())))


def _mount(source, target, kind=None, flags=0, data=None):
    encoded = [text.encode() if text else None for text in (source, target, kind, data)]
    _check('mount of %s at %s' % (source, target),
           LIBC.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]))


def _mount_point(path, like):
    if os.path.isdir(like):
        os.makedirs(path, exist_ok=True)
    elif not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w'):
            pass


def enter(root, binds):
    """This process then has `root` as its /."""
    root = os.path.realpath(root)
    _check('a mount namespace', LIBC.unshare(CLONE_NEWNS))
    _mount('none', '/', flags=MS_REC | MS_PRIVATE)
    _mount(root, root, flags=MS_BIND)
    for source, target in [('/proc', '/proc'), *binds]:
        _mount_point(root + target, source)
    os.makedirs(root + '/dev', exist_ok=True)
    _mount('none', root, flags=MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID)
    _mount('tmpfs', root + '/dev', 'tmpfs', MS_NOSUID, 'mode=755')
    for device in ('null', 'zero', 'random', 'urandom'):
        _mount_point(root + '/dev/' + device, '/dev/' + device)
        _mount('/dev/' + device, root + '/dev/' + device, flags=MS_BIND)
    os.mkdir(root + '/dev/shm')
    _mount('tmpfs', root + '/dev/shm', 'tmpfs', MS_NOSUID, 'mode=1777,size=64m')  # a pod's default size
    for source, target in [('/proc', '/proc'), *binds]:
        _mount(source, root + target, flags=MS_BIND | MS_REC)
    os.chroot(root)


def drop_privileges():
    with open('/proc/sys/kernel/cap_last_cap') as f:
        for capability in range(int(f.read()) + 1):
            LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    os.setgroups([])
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, USER)
    _check('no new privileges', LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _check('to end with our parent', LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--bind', action='append', default=[], metavar='FROM:TO')
    parser.add_argument('--env', action='append', default=[], metavar='NAME=VALUE')
    parser.add_argument('root')
    parser.add_argument('command', nargs=argparse.REMAINDER)
    args = parser.parse_args()
    environment = dict(variable.split('=', 1) for variable in args.env)
    enter(args.root, [bind.split(':', 1) for bind in args.bind])
    drop_privileges()
    os.chdir('/home/nonroot')
    os.execve(args.command[0], args.command, environment)


if __name__ == '__main__':
    sys.exit(main())
