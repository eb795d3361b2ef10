#!/usr/bin/env python3
"""Benchmarks the trainer beside its peers and prints Markdown tables (standard library only).

Each comparison divides a figure of ours by the same figure of the best of its peers, measured in the same
call, the runs of a repeat one after the other. Figures are min / median / max over the repeats. A rate is
taken from when every worker has done 200 steps (and 1 s has passed since the last one's first) to when the
first worker ends; CPU is user + system time of every process in that window. 'others' is the share of the
machine's CPU that went elsewhere: over 0.10 the row is disturbed."""
import argparse
import datetime
import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

import cases
import measure

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
QUICK = ('step_1thread', 'step', 'async_tcp', 'async_node', 'sync_tcp', 'start', 'memory_ps',
         'memory_worker')


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    near = os.path.join(os.path.dirname(ROOT), 'shared')
    parser.add_argument('--bin', default=f'{ROOT}/build/release', help='folder of the trainer')
    parser.add_argument('--data', default=existing(f'{near}/data/mnist'),
                        help='folder with idx files; default: MNIST where it is near, else synthesised digits')
    parser.add_argument('--peers', default=existing(f'{near}/peers'), help="folder of the peers' scripts")
    parser.add_argument('--venv', default='', help='environment with TensorFlow and PyTorch')
    parser.add_argument('--venv-jax', default='', help='environment with JAX')
    parser.add_argument('--out', default=f'{ROOT}/build/bench', help='logs and records of each run')
    parser.add_argument('--repeat', type=int, default=3)
    parser.add_argument('--scale', type=float, default=1.0, help='factor on the length of every run')
    parser.add_argument('--threads', type=int, default=1, help='threads of each worker of a cluster')
    parser.add_argument('--only', default='', help='comparisons, separated by commas')
    parser.add_argument('--all', action='store_true', help='the comparisons outside the core set too')
    parser.add_argument('--quick', action='store_true', help='ours alone, one short repeat')
    parser.add_argument('--no-peers', action='store_true', help='ours alone')
    parser.add_argument('--list', action='store_true', help='list the comparisons')
    parser.add_argument('--json', default='', help='append every run to this file, one JSON object a line')
    arguments = parser.parse_args()
    known = {c.name for c in cases.COMPARISONS}
    arguments.only = [name for name in arguments.only.split(',') if name]
    unknown = [name for name in arguments.only if name not in known]
    if unknown:
        parser.error(f'--only: no comparison {", ".join(unknown)} (see --list)')
    if arguments.quick:
        arguments.repeat, arguments.scale = 1, min(arguments.scale, 0.4)
    return arguments


def existing(path):
    return path if os.path.isdir(path) else ''


def python_of(*environments):
    """The first environment's interpreter that exists, or ''."""
    for environment in environments:
        if environment and os.access(f'{environment}/bin/python', os.X_OK):
            return os.path.abspath(f'{environment}/bin/python')
    return ''


def make_context(arguments):
    context = cases.Context(trainer=os.path.abspath(f'{arguments.bin}/trainer'),
                            threads=arguments.threads, scale=arguments.scale)
    if not os.access(context.trainer, os.X_OK):
        sys.exit(f'bench: no trainer at {context.trainer}; build it with `make build`')
    if arguments.peers and not (arguments.quick or arguments.no_peers):
        context.peers = os.path.abspath(arguments.peers)
        built = f'{ROOT}/build/peers'
        context.python = python_of(arguments.venv, f'{context.peers}/venv', f'{built}/venv')
        context.python_jax = python_of(arguments.venv_jax, f'{context.peers}/venv_np', f'{built}/venv_jax')
    context.data = unpacked(arguments.data, arguments.out) if arguments.data else synthesise(
        context, arguments.out)
    return context


def unpacked(source, out):
    """`source` itself, or a copy of its idx files without gzip, so that nobody pays for unpacking."""
    packed = [name for name in sorted(os.listdir(source)) if name.endswith('-ubyte.gz')]
    folder = os.path.abspath(f'{out}/{os.path.basename(os.path.abspath(source))}')
    if not packed:
        return os.path.abspath(source)
    os.makedirs(folder, exist_ok=True)
    for name in packed:
        with gzip.open(f'{source}/{name}') as f, open(f'{folder}/{name[:-3]}', 'wb') as copy:
            shutil.copyfileobj(f, copy)
    return folder


def synthesise(context, out):
    folder = os.path.abspath(f'{out}/digits')
    if not os.path.isdir(folder):
        subprocess.run([context.trainer, 'data', 'synthesize', f'--data_dir={folder}'], check=True,
                       stdout=subprocess.DEVNULL)
    return folder


def execute(run, context, repeat, out):
    folder = os.path.abspath(f'{out}/{run.name}.{repeat}')
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    steps = run.steps if run.target else max(600, int(run.steps * context.scale))
    environment = {k: v for k, v in os.environ.items() if 'proxy' not in k.lower()}
    environment.update(CUDA_VISIBLE_DEVICES='', TF_CPP_MIN_LOG_LEVEL='3', GRPC_VERBOSITY='ERROR',
                       PYTHONDONTWRITEBYTECODE='1')
    # A peer runs in its own folder: it writes only where it is told to.
    return measure.observe(run.make(context, folder, steps), folder, folder, environment, run.timeout,
                           cases.TARGET if run.target else None)


def best(figure, values):
    """The best of several peers: the highest rate or accuracy, the lowest cost."""
    return max(values) if figure in ('rate', 'accuracy') else min(values)


def figures_of(comparison, results, repeats):
    """Per repeat (ours, peers' best or None, ratio or None), where both were measured."""
    rows = []
    for repeat in range(repeats):
        value = results.get(comparison.ours, {}).get(repeat, {}).get(comparison.figure)
        if value is None:
            continue
        value *= comparison.scale
        others = [results.get(name, {}).get(repeat, {}).get(comparison.figure)
                  for name in comparison.against]
        others = [other * comparison.scale for other in others if other]
        if comparison.against and others:
            against = best(comparison.figure, others)
            rows.append((value, against, value / against))
        else:
            rows.append((value, None, None))
    return rows


def spread(values, digits=3):
    """min / median / max to so many significant digits."""
    if not values:
        return '—'
    texts = [significant(v, digits) for v in (min(values), statistics.median(values), max(values))]
    return texts[1] if len(values) == 1 else ' / '.join(texts)


def significant(value, digits):
    if value == 0:
        return '0'
    text = f'{value:.{digits}g}'
    return f'{float(text):,.0f}' if 'e' in text or abs(value) >= 1000 else text


def verdict(comparison, measured):
    if not measured or (comparison.at_least is None and comparison.at_most is None):
        return ''
    median = statistics.median(measured)
    good = ((comparison.at_least is None or median >= comparison.at_least) and
            (comparison.at_most is None or median <= comparison.at_most))
    return 'yes' if good else 'NO'


def print_ratios(selected, results, repeats):
    print('\n| what | ours | best peer | ours / peer: min / median / max | goal | reached |')
    print('|---|---|---|---|---|---|')
    for comparison in selected:
        rows = figures_of(comparison, results, repeats)
        ratios = [ratio for _, _, ratio in rows if ratio is not None]
        alone = not comparison.against
        measured = [value for value, _, _ in rows] if alone else ratios
        shown = '—' if alone else spread(ratios)
        unit = f' {comparison.unit}' if alone and rows else ''
        print(f'| {comparison.what} | {spread([r[0] for r in rows])}{unit} | '
              f'{spread([r[1] for r in rows if r[1] is not None])} | {shown} | '
              f'{comparison.goal or "—"} | {verdict(comparison, measured)} |')


def print_runs(runs, results):
    print('\n| run | global steps/s | CPU s / 1,000 steps (workers + ps) | peak MB worker, ps | '
          'first step s | test accuracy | others |')
    print('|---|---|---|---|---|---|---|')
    for run in runs:
        rows = list(results.get(run.name, {}).values())

        def column(key, scale=1.0, digits=3):
            return spread([row[key] * scale for row in rows if row.get(key) is not None], digits)
        cpu = f'{column("cpu")} ({column("cpu_worker")} + {column("cpu_ps")})'
        print(f'| {run.name} | {column("rate")} | {cpu} | {column("rss_worker", 1e-6)}, '
              f'{column("rss_ps", 1e-6)} | {column("first_step")} | {column("accuracy", 1, 4)} | '
              f'{column("others", 1, 2)} |')
    for run in runs:
        for repeat, row in results.get(run.name, {}).items():
            if row.get('error'):
                print(f'\n{run.name}, repeat {repeat + 1}: {row["error"]}')


def needed_runs(selected):
    names = {c.ours for c in selected} | {name for c in selected for name in c.against}
    return [run for run in cases.RUNS if run.name in names]


def select(arguments):
    if arguments.only:
        return [c for c in cases.COMPARISONS if c.name in arguments.only]
    if arguments.quick:
        return [c for c in cases.COMPARISONS if c.name in QUICK]
    return [c for c in cases.COMPARISONS if c.core or arguments.all]


def measure_all(runs, context, arguments):
    results = {run.name: {} for run in runs}
    began = time.time()
    for repeat in range(arguments.repeat):
        for run in runs:
            row = execute(run, context, repeat, arguments.out)
            results[run.name][repeat] = row
            text = ' '.join(f'{k}={v:.4g}' if isinstance(v, float) else f'{k}={v}'
                            for k, v in row.items() if v is not None)
            print(f'[{time.time() - began:5.0f} s] {run.name:24} {text}', file=sys.stderr, flush=True)
            if arguments.json:
                with open(arguments.json, 'a', encoding='utf-8') as f:
                    f.write(json.dumps({'run': run.name, 'repeat': repeat, 'time': time.time(), **row}) + '\n')
    return results


def main():
    arguments = parse_arguments()
    selected = select(arguments)
    if arguments.list:
        for c in selected if arguments.only else cases.COMPARISONS:
            print(f'{c.name:22} {c.what} [{c.ours} / {", ".join(c.against) or "alone"}]  {c.goal}')
        return
    context = make_context(arguments)
    runs, skipped = [], {}
    for run in needed_runs(selected):
        reason = cases.missing(run, context)
        if reason:
            skipped.setdefault(reason, []).append(run.name)
        else:
            runs.append(run)
    began = time.time()
    results = measure_all(runs, context, arguments)
    now = datetime.datetime.now().strftime('%Y-%m-%d')
    print(f'\n{now}, {measure.CPUS} CPUs ({processor()}), {arguments.repeat} repeat(s), '
          f'{time.time() - began:.0f} s, data {os.path.basename(context.data)}')
    print_ratios(selected, results, arguments.repeat)
    print_runs(runs, results)
    for reason, names in skipped.items():
        print(f'\nnot run: {", ".join(names)}: {reason}')


def processor():
    with open('/proc/cpuinfo', encoding='utf-8') as f:
        for line in f:
            if line.startswith('model name'):
                return line.split(':', 1)[1].strip()
    return 'unknown processor'


if __name__ == '__main__':
    main()
