"""Runs the processes of one case side by side and says what they did: steps, CPU, memory, times.
It knows /proc, our trainer's JSON lines and the peers' JSON records; nothing of cases or tables."""
import dataclasses
import json
import os
import signal
import socket
import subprocess
import threading
import time

TICKS = os.sysconf('SC_CLK_TCK')
CPUS = os.cpu_count() or 1
WARM_STEPS = 200      # a window opens when every worker has done so many steps
WARM_SECONDS = 1.0    # and this long after the last worker's first step


@dataclasses.dataclass
class Process:
    """One task. A role that starts with 'ps' is a server: it may outlive training."""
    role: str
    argv: list
    record: str = ''   # a peer's JSON record; '' = our trainer, which prints JSON lines


@dataclasses.dataclass
class Worker:
    """What one worker told: marks are (unix seconds, global step); the times are None if not seen."""
    marks: list = dataclasses.field(default_factory=list)
    first_step: float = None
    warm: float = None       # when it had done WARM_STEPS
    end: float = None
    target: float = None     # when the test accuracy asked for was reached
    target_step: int = None
    accuracy: float = None
    wire_bytes_per_step: float = None   # of this worker's own steps


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(('127.0.0.1', 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def read_our_lines(path, target):
    """A Worker from the JSON lines of our trainer."""
    worker, steps, wire = Worker(), 0, 0
    with open(path, encoding='utf-8', errors='replace') as lines:
        for line in lines:
            if not line.startswith('{'):
                continue
            try:
                item = json.loads(line)
            except ValueError:
                continue
            if item.get('event') == 'step':
                worker.marks.append((item['time'], item['global_step']))
                steps = item['step']
                worker.first_step = worker.first_step or item['time']
                if steps >= WARM_STEPS:
                    worker.warm = worker.warm or item['time']
                worker.end = item['time']
            elif item.get('event') == 'done':
                worker.accuracy = item.get('test_accuracy')
            elif item.get('msg') == 'evaluated' and target:
                if float(item['test_accuracy']) >= target and worker.target is None:
                    worker.target = parse_time(item['time'])
                    worker.target_step = int(item['step'])
            elif item.get('msg') == 'wire':
                wire = int(item['bytes_sent']) + int(item['bytes_received'])
    if wire and steps:
        worker.wire_bytes_per_step = wire / steps
    return worker


def parse_time(text):
    """Unix seconds of 2026-01-31T12:00:00.123Z."""
    import calendar
    whole, fraction = text.rstrip('Z').split('.')
    return calendar.timegm(time.strptime(whole, '%Y-%m-%dT%H:%M:%S')) + float('0.' + fraction)


def read_peer_record(path):
    """A Worker from the JSON record of a peer script; None if it left none."""
    try:
        with open(path, encoding='utf-8') as f:
            record = json.load(f)
    except (OSError, ValueError):
        return None
    marks = [tuple(mark) for mark in record['marks']]
    final = record.get('final') or {}
    target = (record.get('notes') or {}).get('target')
    return Worker(marks=marks, first_step=record.get('t_first_step'),
                  warm=marks[min(2, len(marks) - 1)][0] if marks else None,  # marks are 100 steps apart
                  end=record.get('t_train_end', marks[-1][0] if marks else None),
                  target=record.get('t_target'), target_step=target[0] if target else None,
                  accuracy=final.get('ema') or final.get('raw'))


def interpolate(samples, at, column):
    """The value of `column` at time `at`, from rows that start with their time."""
    before = samples[0]
    for row in samples:
        if row[0] >= at:
            if row[0] == before[0]:
                return row[column]
            share = (at - before[0]) / (row[0] - before[0])
            return before[column] + (row[column] - before[column]) * share
        before = row
    return samples[-1][column]


def machine_busy():
    """CPU seconds that anything on this machine has used."""
    with open('/proc/stat', encoding='ascii') as f:
        fields = [int(v) for v in f.readline().split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / TICKS


class Sampler(threading.Thread):
    """Every 50 ms: CPU seconds and peak resident bytes of each process, and the machine's CPU."""

    def __init__(self, pids):
        super().__init__(daemon=True)
        self.pids = pids
        self.rows = {role: [] for role in pids}   # (time, cpu seconds)
        self.peak = {role: 0 for role in pids}    # bytes
        self.machine = []
        self._stop_event = threading.Event()

    def run(self):
        while not self._stop_event.is_set():
            self.machine.append((time.time(), machine_busy()))
            for role, pid in self.pids.items():
                self._sample(role, pid)
            self._stop_event.wait(0.05)

    def _sample(self, role, pid):
        try:
            with open(f'/proc/{pid}/stat', encoding='ascii', errors='replace') as f:
                fields = f.read().rsplit(')', 1)[1].split()
            with open(f'/proc/{pid}/status', encoding='ascii', errors='replace') as f:
                peak = [line for line in f if line.startswith('VmHWM')]
        except (OSError, IndexError):
            return
        if fields[0] == 'Z':
            return
        self.rows[role].append((time.time(), (int(fields[11]) + int(fields[12])) / TICKS))
        if peak:
            self.peak[role] = max(self.peak[role], int(peak[0].split()[1]) * 1024)

    def stop(self):
        self._stop_event.set()
        self.join()


class Cluster:
    """The processes of one case: started together, gone when `close` returns."""

    def __init__(self, processes, folder, cwd, env):
        self.processes = processes
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        self.started = time.time()
        self.running = {}
        for process in processes:
            with open(f'{folder}/{process.role}.log', 'w', encoding='utf-8') as log:
                self.running[process.role] = subprocess.Popen(
                    process.argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=log,
                    stderr=subprocess.STDOUT)
        self.sampler = Sampler({role: p.pid for role, p in self.running.items()})
        self.sampler.start()

    def workers(self):
        return [p for p in self.processes if not p.role.startswith('ps')]

    def wait(self, timeout):
        """Until the chief has ended (and the others, 3 s more); an error text, or ''."""
        deadline = time.time() + timeout
        chief = self.workers()[0]
        while self.running[chief.role].poll() is None:
            if chief.record and os.path.exists(chief.record):
                return ''   # some peers never leave; their record is complete
            if time.time() > deadline:
                return f'no end within {timeout} s'
            time.sleep(0.01)
        deadline = min(deadline, time.time() + 3)
        while time.time() < deadline and any(p.poll() is None for p in self.running.values()):
            time.sleep(0.01)
        code = self.running[chief.role].returncode
        return f'{chief.role} ended with code {code}' if code and not chief.record else ''

    def close(self):
        for sig, patience in ((signal.SIGTERM, 1.0), (signal.SIGKILL, 5.0)):
            for process in self.running.values():
                if process.poll() is None:
                    process.send_signal(sig)
            deadline = time.time() + patience
            while time.time() < deadline and any(p.poll() is None for p in self.running.values()):
                time.sleep(0.01)
        self.sampler.stop()


def observe(processes, folder, cwd, env, timeout, target=None):
    """Runs the case once. A dict of figures; 'error' says why some are missing."""
    cluster = Cluster(processes, folder, cwd, env)
    try:
        error = cluster.wait(timeout)
    finally:
        cluster.close()
    workers = {}
    for process in cluster.workers():
        worker = (read_peer_record(process.record) if process.record
                  else read_our_lines(f'{folder}/{process.role}.log', target))
        if worker is not None and worker.marks:
            workers[process.role] = worker
    figures = summarize(cluster, workers)
    if error or not workers:
        figures['error'] = error or f'nothing was trained, see {folder}'
    elif 'rate' not in figures:
        figures['error'] = 'too short for a rate'
    return figures


def summarize(cluster, workers):
    sampler, figures = cluster.sampler, {}
    for role, peak in sampler.peak.items():
        kind = 'ps' if role.startswith('ps') else 'worker'
        figures['rss_' + kind] = max(figures.get('rss_' + kind, 0), peak)
    chief = workers.get(cluster.workers()[0].role)
    if chief is None:
        return figures
    figures['first_step'] = chief.first_step - cluster.started
    figures['accuracy'] = chief.accuracy
    figures['wire_bytes'] = chief.wire_bytes_per_step
    if chief.target:
        figures['time_to_target'] = chief.target - cluster.started
        figures['steps_to_target'] = chief.target_step
    figures.update(window(cluster, workers, chief))
    return figures


def window(cluster, workers, chief):
    """Rate and CPU between the moment when all workers are warm and the first one's end."""
    live = list(workers.values())
    if any(w.warm is None for w in live):
        return {}
    begin = max(max(w.warm for w in live), max(w.first_step for w in live) + WARM_SECONDS)
    end = min(w.end for w in live)
    if end - begin < 0.5:
        return {}
    steps = interpolate(chief.marks, end, 1) - interpolate(chief.marks, begin, 1)
    sampler, cpu = cluster.sampler, {'worker': 0.0, 'ps': 0.0}
    for role, rows in sampler.rows.items():
        if rows:
            kind = 'ps' if role.startswith('ps') else 'worker'
            cpu[kind] += interpolate(rows, end, 1) - interpolate(rows, begin, 1)
    used = sum(cpu.values())
    machine = interpolate(sampler.machine, end, 1) - interpolate(sampler.machine, begin, 1)
    steps = max(steps, 1)
    return {'rate': steps / (end - begin), 'window': end - begin,
            'cpu': 1000 * used / steps, 'cpu_worker': 1000 * cpu['worker'] / steps,
            'cpu_ps': 1000 * cpu['ps'] / steps,   # CPU seconds per 1,000 steps = CPU ms per step
            'others': max(0.0, machine - used) / (CPUS * (end - begin))}
