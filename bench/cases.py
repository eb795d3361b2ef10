"""What is measured: the runs (our trainer and its peers on the same work) and the comparisons between
them, each with the goal that it must reach. Knows command lines; measures nothing."""
import dataclasses
import os
from typing import Callable

from measure import Process, free_ports

TARGET = 0.98


@dataclasses.dataclass
class Context:
    """Where things are."""
    trainer: str = ''
    data: str = ''
    peers: str = ''        # the peers' scripts; '' = none
    python: str = ''       # has TensorFlow and PyTorch; '' = none
    python_jax: str = ''
    threads: int = 1       # of a worker of a cluster
    scale: float = 1.0     # of every run's length


@dataclasses.dataclass
class Run:
    """One way to do a piece of work. make(context, folder, steps) -> processes, chief first among workers."""
    name: str
    make: Callable
    steps: int
    needs: str = 'trainer'   # trainer | python | python_jax
    timeout: int = 120
    target: bool = False     # runs until TARGET; its length is not scaled


@dataclasses.dataclass
class Comparison:
    """A figure of one run over the same figure of another (the best of several), or alone."""
    name: str
    what: str
    ours: str                # run
    figure: str              # key of measure.observe's figures
    against: tuple = ()      # runs; () = the figure itself
    goal: str = ''
    at_least: float = None   # the goal as a bound on the median; None = none
    at_most: float = None
    unit: str = '×'
    scale: float = 1.0       # of a figure alone: bytes to MB
    core: bool = True


def ours(ps=0, workers=1, preset='mnist-mlp', flags=(), log_every=100, data=True, save=True):
    def make(context, folder, steps):
        command = [context.trainer, f'--preset={preset}', f'--train_steps={steps}',
                   '--log_format=json', f'--log_every={log_every}', '--summary_steps=0']
        if data:
            command.append(f'--data_dir={context.data}')
        if ps == 0:
            return [Process('worker0', command + list(flags))]
        hosts = [f'127.0.0.1:{port}' for port in free_ports(ps + workers)]
        command += [f'--ps_hosts={",".join(hosts[:ps])}', f'--worker_hosts={",".join(hosts[ps:])}',
                    f'--num_threads={context.threads}']
        if save:   # as the peers: a checkpoint at the start and at the end
            command += [f'--checkpoint_dir={folder}/save', '--save_checkpoint_secs=60',
                        '--save_checkpoint_steps=0']
        command += flags
        return [Process(f'{job}{i}', command + [f'--job_name={job}', f'--task_index={i}'])
                for job, count in (('ps', ps), ('worker', workers)) for i in range(count)]
    return make


def peer_alone(script, *flags, python='python'):
    def make(context, folder, steps):
        record = f'{folder}/worker0.json'
        return [Process('worker0', [getattr(context, python), f'{context.peers}/{script}',
                                    '--data_dir', context.data, '--stats', record,
                                    '--training_steps', str(steps), *flags], record)]
    return make


def tensorflow(script, ps, workers, *flags, index='task_id', steps_flag='training_steps', save=True,
               data=True, sync=False):
    """A TensorFlow ps/worker cluster. Its sync chief hangs in its last step when the other worker has
    left, so the others get a later last step and are ended."""
    def make(context, folder, steps):
        hosts = [f'127.0.0.1:{port}' for port in free_ports(ps + workers)]
        command = [context.python, f'{context.peers}/{script}', '--ps_hosts', ','.join(hosts[:ps]),
                   '--worker_hosts', ','.join(hosts[ps:]), *flags]
        if data:
            command += ['--data_dir', context.data]
        if save:
            command += ['--save_dir', f'{folder}/save']
        processes = []
        for job, count in (('ps', ps), ('worker', workers)):
            for i in range(count):
                record = f'{folder}/worker{i}.json' if job == 'worker' else ''
                last = steps + (1000 if sync and job == 'worker' and i > 0 else 0)
                processes.append(Process(
                    f'{job}{i}', command + ['--job_name', job, f'--{index}', str(i),
                                            f'--{steps_flag}', str(last)] +
                    (['--stats', record] if record else []), record))
        return processes
    return make


def torch_ranks(script, ps, workers, *flags):
    """PyTorch processes that meet by rank: rank 0 is the parameter server where there is one."""
    def make(context, folder, steps):
        command = [context.python, f'{context.peers}/{script}', '--data_dir', context.data, '--world',
                   str(ps + workers), '--port', str(free_ports(1)[0]), '--training_steps', str(steps),
                   *flags]
        processes = [Process('ps0', command + ['--rank', '0'])] if ps else []
        for i in range(workers):
            record = f'{folder}/worker{i}.json'
            processes.append(Process(
                f'worker{i}', command + ['--rank', str(i + ps), '--stats', record], record))
        return processes
    return make


TCP = ('--same_node=false',)
SYNC = ('--sync_replicas',)
FAST = ('--learning_rate=0.8',)
TO_TARGET = FAST + ('--eval_every_steps=200', f'--target_accuracy={TARGET}')
PEER_TO_TARGET = ('--lr', '0.8', '--eval_every', '200', '--target', str(TARGET))
RETRY = ('--recovery_wait', '1')   # TensorFlow's own default lets a late worker sleep for 30 s
DIST = dict(index='task_index', steps_flag='train_steps', save=False)
CHECKPOINTS = TCP + ('--save_checkpoint_steps=500',)

RUNS = [
    Run('step_1thread', ours(flags=('--num_threads=1',)), 4000),
    Run('step_2threads', ours(flags=('--num_threads=2',)), 6000),
    Run('step_1thread_bf16', ours(flags=('--num_threads=1', '--compute_dtype=bf16')), 6000),
    Run('step_2threads_bf16', ours(flags=('--num_threads=2', '--compute_dtype=bf16')), 9000),
    Run('accuracy_f32', ours(flags=FAST), 6000),
    Run('accuracy_bf16', ours(flags=FAST + ('--compute_dtype=bf16',)), 6000),
    Run('async_1ps2w_tcp', ours(1, 2, flags=TCP), 6000),
    Run('async_1ps2w', ours(1, 2), 8000),
    Run('async_2ps2w_tcp', ours(2, 2, flags=TCP), 6000),
    Run('async_2ps2w', ours(2, 2), 8000),
    Run('async_1ps2w_bf16wire', ours(1, 2, flags=TCP + ('--wire_dtype=bf16',)), 6000),
    Run('async_1ps2w_bf16', ours(1, 2, flags=('--wire_dtype=bf16', '--compute_dtype=bf16')), 8000),
    Run('async_1ps2w_checkpoints', ours(1, 2, flags=CHECKPOINTS), 6000),
    Run('sync_1ps2w_tcp', ours(1, 2, flags=TCP + SYNC), 3500),
    Run('sync_1ps2w', ours(1, 2, flags=SYNC), 4500),
    Run('distmnist_async_tcp', ours(1, 2, 'dist-mnist', TCP, save=False), 20000),
    Run('distmnist_async', ours(1, 2, 'dist-mnist', save=False), 25000),
    Run('distmnist_sync_tcp', ours(1, 2, 'dist-mnist', TCP + SYNC, save=False), 10000),
    Run('distmnist_sync', ours(1, 2, 'dist-mnist', SYNC, save=False), 12000),
    Run('sigmoid', ours(1, 2, 'sigmoid-mnist', save=False), 20000),
    Run('sigmoid_tcp', ours(1, 2, 'sigmoid-mnist', TCP, save=False), 20000),
    Run('linreg', ours(1, 2, 'linear-regression', data=False, save=False), 400000),
    Run('linreg_tcp', ours(1, 2, 'linear-regression', TCP, data=False, save=False), 150000),
    Run('start_1ps2w', ours(1, 2, log_every=1), 400),
    Run('to98_alone', ours(flags=TO_TARGET), 12000, target=True),
    Run('to98_async', ours(1, 2, flags=TO_TARGET), 12000, target=True),
    Run('to98_sync', ours(1, 2, flags=TO_TARGET + SYNC), 12000, target=True),

    Run('torch_1thread', peer_alone('torch_single.py', '--threads', '1'), 2500, 'python'),
    Run('torch_2threads', peer_alone('torch_single.py', '--threads', '2'), 3000, 'python'),
    Run('jax', peer_alone('jax_single.py', python='python_jax'), 3000, 'python_jax'),
    Run('tf_alone', peer_alone('tf_single.py'), 2500, 'python'),
    Run('tf_async_1ps2w', tensorflow('tf_dist_async.py', 1, 2, *RETRY), 2400, 'python'),
    Run('tf_async_2ps2w', tensorflow('tf_dist_async.py', 2, 2, *RETRY), 2400, 'python'),
    Run('tf_sync_1ps2w', tensorflow('tf_dist_sync.py', 1, 2, *RETRY, sync=True), 1200, 'python'),
    Run('tf_distmnist_async', tensorflow('tf_dist_mnist.py', 1, 2, **DIST), 3500, 'python'),
    Run('tf_distmnist_sync', tensorflow('tf_dist_mnist.py', 1, 2, '--sync_replicas', sync=True, **DIST),
        1800, 'python'),
    Run('tf_sigmoid', tensorflow('tf_sigmoid.py', 1, 2, **DIST), 3500, 'python'),
    Run('tf_linreg', tensorflow('tf_linreg.py', 1, 2, data=False, **DIST), 6000, 'python'),
    Run('torch_rpc_async', torch_ranks('torch_rpc_ps.py', 1, 2, '--transports', 'uv'), 2500, 'python'),
    Run('torch_rpc_sync', torch_ranks('torch_rpc_ps.py', 1, 2, '--sync', '1'), 1500, 'python'),
    Run('torch_ddp', torch_ranks('torch_ddp.py', 0, 2), 1600, 'python'),
    Run('to98_torch', peer_alone('torch_single.py', '--threads', '2', *PEER_TO_TARGET), 12000,
        'python', target=True),
    Run('to98_tf_async', tensorflow('tf_dist_async.py', 1, 2, *RETRY, *PEER_TO_TARGET), 12000,
        'python', target=True),
    Run('to98_tf_sync', tensorflow('tf_dist_sync.py', 1, 2, *RETRY, *PEER_TO_TARGET), 12000,
        'python', target=True),
]


def faster(name, what, run, against, factor, **more):
    goal = f'≥ {factor} ×' if factor else ''
    return Comparison(name, what, run, 'rate', against, goal, at_least=factor, **more)


COMPARISONS = [
    faster('step', 'One process, 2 threads, steps/s', 'step_2threads',
           ('torch_2threads', 'jax', 'tf_alone'), 1.4),
    faster('step_1thread', 'One process, 1 thread, steps/s', 'step_1thread', ('torch_1thread',), None),
    faster('bf16', 'bf16 over f32 arithmetic, 2 threads, steps/s', 'step_2threads_bf16',
           ('step_2threads',), 1.5),
    faster('bf16_1thread', 'bf16 over f32 arithmetic, 1 thread, steps/s', 'step_1thread_bf16',
           ('step_1thread',), 1.5),
    Comparison('bf16_accuracy', 'bf16 over f32 test accuracy, 6,000 steps', 'accuracy_bf16', 'accuracy',
               ('accuracy_f32',), 'within 0.2 points', at_least=0.998),
    faster('async_tcp', 'async 1 ps + 2 workers, TCP, global steps/s', 'async_1ps2w_tcp',
           ('tf_async_1ps2w',), 4.5),
    Comparison('async_cpu', 'async 1 ps + 2 workers, TCP, CPU per step', 'async_1ps2w_tcp', 'cpu',
               ('tf_async_1ps2w',), '≤ 0.25 ×', at_most=0.25),
    faster('async_node', 'async 1 ps + 2 workers, same node, global steps/s', 'async_1ps2w',
           ('tf_async_1ps2w',), 6),
    faster('async_rpc', "the same over TCP, against PyTorch's RPC parameter server", 'async_1ps2w_tcp',
           ('torch_rpc_async',), 1),
    Comparison('overhead_tcp', 'arithmetic share of the CPU of an async step, TCP', 'step_1thread', 'cpu',
               ('async_1ps2w_tcp',), '≥ 0.55', at_least=0.55),
    Comparison('overhead_node', 'arithmetic share of the CPU of an async step, same node',
               'step_1thread', 'cpu', ('async_1ps2w',), '≥ 0.70', at_least=0.70),
    faster('two_ps', '2 ps over 1 ps, 2 workers, TCP, global steps/s', 'async_2ps2w_tcp',
           ('async_1ps2w_tcp',), 1),
    faster('two_ps_node', '2 ps over 1 ps, 2 workers, same node, global steps/s', 'async_2ps2w',
           ('async_1ps2w',), 1),
    faster('two_ps_tf', 'async 2 ps + 2 workers, TCP, global steps/s', 'async_2ps2w_tcp',
           ('tf_async_2ps2w',), 4.5, core=False),
    faster('bf16_cluster', 'bf16 over f32, 1 ps + 2 workers, same node', 'async_1ps2w_bf16',
           ('async_1ps2w',), None, core=False),
    faster('sync_tcp', 'sync 1 ps + 2 workers, TCP, global steps/s', 'sync_1ps2w_tcp',
           ('tf_sync_1ps2w',), 5),
    faster('sync_node', 'sync 1 ps + 2 workers, same node, global steps/s', 'sync_1ps2w',
           ('tf_sync_1ps2w',), 5),
    faster('sync_rpc', "sync over TCP, against PyTorch's RPC parameter server", 'sync_1ps2w_tcp',
           ('torch_rpc_sync',), 1),
    faster('sync_ddp', 'sync, same node, against PyTorch DDP (gloo)', 'sync_1ps2w', ('torch_ddp',), None,
           core=False),
    faster('distmnist_async', 'dist-mnist async, TCP, global steps/s', 'distmnist_async_tcp',
           ('tf_distmnist_async',), 6),
    faster('distmnist_async_node', 'dist-mnist async, same node, global steps/s', 'distmnist_async',
           ('tf_distmnist_async',), 6),
    faster('distmnist_sync', 'dist-mnist sync, TCP, global steps/s', 'distmnist_sync_tcp',
           ('tf_distmnist_sync',), 6),
    faster('distmnist_sync_node', 'dist-mnist sync, same node, global steps/s', 'distmnist_sync',
           ('tf_distmnist_sync',), 6),
    faster('sigmoid', 'sigmoid-mnist async, TCP, global steps/s', 'sigmoid_tcp', ('tf_sigmoid',), None),
    faster('sigmoid_node', 'sigmoid-mnist async, same node, global steps/s', 'sigmoid', ('tf_sigmoid',),
           None, core=False),
    faster('linreg', 'linear regression, TCP, global steps/s', 'linreg_tcp', ('tf_linreg',), 10),
    faster('linreg_node', 'linear regression, same node, global steps/s', 'linreg', ('tf_linreg',), 10),
    Comparison('wire', 'bytes of a step on the wire, bf16 over f32', 'async_1ps2w_bf16wire',
               'wire_bytes', ('async_1ps2w_tcp',), '≤ 0.5 ×', at_most=0.51),
    Comparison('start', 'start of the command to the first step, 1 ps + 2 workers', 'start_1ps2w',
               'first_step', (), '≤ 0.5 s', at_most=0.5, unit='s'),
    Comparison('memory_ps', 'peak memory of the ps', 'async_1ps2w_tcp', 'rss_ps', (),
               '≤ 46.4 MB (40 MB + 4 × its variables)', at_most=46.4, unit='MB', scale=1e-6),
    Comparison('memory_worker', 'peak memory of a worker', 'async_1ps2w_tcp', 'rss_worker', (),
               '≤ 115 MB (60 MB + 55 MB of data)', at_most=115, unit='MB', scale=1e-6),
    Comparison('checkpoints', 'steps/s with a checkpoint every 500 steps over none',
               'async_1ps2w_checkpoints', 'rate', ('async_1ps2w_tcp',), '≥ 0.95 ×', at_least=0.95),
    Comparison('to98_alone', 'time to 98.0 %, one process', 'to98_alone', 'time_to_target',
               ('to98_torch',), '≤ 0.333 ×', at_most=1 / 3),
    Comparison('to98_async', 'time to 98.0 %, async 1 ps + 2 workers', 'to98_async', 'time_to_target',
               ('to98_tf_async',), '≤ 0.25 ×', at_most=0.25),
    Comparison('to98_sync', 'time to 98.0 %, sync 1 ps + 2 workers', 'to98_sync', 'time_to_target',
               ('to98_tf_sync',), '≤ 0.25 ×', at_most=0.25, core=False),
]


def find_run(name):
    return next(run for run in RUNS if run.name == name)


def missing(run, context):
    """Why `run` cannot be made here, or ''."""
    if run.needs == 'trainer':
        return '' if os.access(context.trainer, os.X_OK) else f'no trainer at {context.trainer}'
    if not context.peers:
        return 'no folder of peers (--peers)'
    if not getattr(context, run.needs):
        return 'no environment for peers (make bench-peers, or --venv)'
    return ''
