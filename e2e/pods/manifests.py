"""TFJobs of the cases: the manifests of examples/, and changes to them. Values in, values out; knows no cluster."""
import copy
import os

import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def example(name):
    with open(os.path.join(ROOT, 'examples', name + '.yaml')) as f:
        return yaml.safe_load(f)


def containers(job, *kinds):
    """The containers of these replica types, or of all."""
    specs = job['spec']['tfReplicaSpecs']
    return [c for kind in specs if not kinds or kind in kinds for c in specs[kind]['template']['spec']['containers']]


def with_flags(job, *flags, kinds=()):
    """A copy with these flags of the trainer, in place of those of the same name."""
    job = copy.deepcopy(job)
    names = {flag.partition('=')[0] for flag in flags}
    for container in containers(job, *kinds):
        container['args'] = [a for a in container['args'] if a.partition('=')[0] not in names] + list(flags)
    return job


def with_policy(job, **policy):
    job = copy.deepcopy(job)
    job['spec'].setdefault('runPolicy', {}).update(policy)
    return job


def with_limits(job, kinds=(), **limits):
    job = copy.deepcopy(job)
    for container in containers(job, *kinds):
        container.setdefault('resources', {}).setdefault('limits', {}).update(limits)
    return job


def named(job, name):
    """A copy of that name, with its own checkpoints."""
    job = copy.deepcopy(job)
    job['metadata']['name'] = name
    return with_flags(job, '--checkpoint_dir=/checkpoints/' + name)


def small(name, steps=10000, workers=2, cpu='100m', **policy):
    """A job that takes long by the clock and little of the machine: linear regression, its workers held back by a limit
    on their CPU (500 to 2,000 steps a second). A line every 100 steps, a checkpoint every 500."""
    job = named(example('linear-regression'), name)
    job = with_flags(job, '--train_steps=%d' % steps, '--steps_to_validate=100', kinds=('Worker',))
    job = with_flags(job, '--save_checkpoint_steps=500')
    job['spec']['tfReplicaSpecs']['Worker']['replicas'] = workers
    if cpu:
        job = with_limits(job, ('Worker',), cpu=cpu)
    return with_policy(job, **policy)
