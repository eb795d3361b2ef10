"""The operator under test as a process: started, asked, stopped and killed. Touches no process but its own."""
import http.client
import os
import signal
import subprocess
import time
import urllib.request

from control_plane import PATIENCE, die_with_parent, free_port


class OperatorError(Exception):
    """The operator did not start, or ended; with the end of its log."""


def _status_mib(pid, field):
    with open('/proc/%d/status' % pid) as f:
        return next(int(line.split()[1]) for line in f if line.startswith(field)) / 1024


def resident_mib(pid):
    return _status_mib(pid, 'VmRSS')


def cpu_and_peak(pid):
    """(CPU seconds, peak resident MiB) of a process until now."""
    with open('/proc/%d/stat' % pid) as f:
        fields = f.read().rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK'), _status_mib(pid, 'VmHWM')


class Operator:
    """`flags` come after those that every test needs, so that they may override them."""

    def __init__(self, program, kubeconfig, log, flags=(), environment=None, leader_elect=False):
        self.program = program
        self.kubeconfig = kubeconfig
        self.log = log
        self.flags = list(flags)
        self.environment = environment or {}
        self.leader_elect = leader_elect
        self.process = None
        self.metrics_port = self.health_port = None

    def start(self, wait=True):
        self.metrics_port, self.health_port = free_port(), free_port()
        environment = {k: v for k, v in os.environ.items() if k not in ('KUBECONFIG', 'KUBEFLOW_NAMESPACE')}
        with open(self.log, 'ab') as log:
            self.process = subprocess.Popen(
                [self.program, '--kubeconfig=' + self.kubeconfig,
                 '--metrics-bind-address=127.0.0.1:%d' % self.metrics_port,
                 '--health-probe-bind-address=127.0.0.1:%d' % self.health_port,
                 '--leader-elect=' + ('true' if self.leader_elect else 'false'), *self.flags],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, preexec_fn=die_with_parent,
                env=dict(environment, **self.environment))
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self, seconds=20):
        deadline = time.monotonic() + seconds * PATIENCE
        while not self.ready():
            if self.process.poll() is not None:
                raise OperatorError('the operator ended with status %d before it was ready:\n%s' % (
                    self.process.returncode, self.tail()))
            if time.monotonic() > deadline:
                raise OperatorError('the operator was not ready after %d s:\n%s' % (seconds * PATIENCE, self.tail()))
            time.sleep(0.02)

    def ready(self):
        return self._get(self.health_port, '/readyz') is not None

    def metrics(self):
        """{series as written: value}."""
        text = self._get(self.metrics_port, '/metrics') or ''
        return {line.rpartition(' ')[0]: float(line.rpartition(' ')[2])
                for line in text.splitlines() if line and not line.startswith('#')}

    def page(self, path):
        return self._get(self.metrics_port, path) or self._get(self.health_port, path)

    @staticmethod
    def _get(port, path):
        try:
            with urllib.request.urlopen('http://127.0.0.1:%d%s' % (port, path), timeout=5) as answer:
                return answer.read().decode()
        except (OSError, http.client.HTTPException):
            return None

    def running(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        if self.running():
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)

    def stop(self, seconds=20):
        """SIGTERM; the exit status, or an error where it does not end."""
        if self.running():
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds * PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise OperatorError('the operator did not end %d s after SIGTERM:\n%s' % (seconds, self.tail())) from None

    def used(self):
        """(CPU seconds, peak resident MiB) until now."""
        return cpu_and_peak(self.process.pid)

    def tail(self, size=3000):
        try:
            with open(self.log, errors='replace') as f:
                return f.read()[-size:]
        except OSError:
            return ''
