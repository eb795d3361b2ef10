"""A pod that is not the job's, in the namespace of the job: docs/security.md says what it can and cannot do."""
import manifests

TLS_DIR = '/certificates'


def long_job(space, name, **annotations):
    """A job that outlasts the case, once it trains."""
    job = manifests.small(name, 200000)
    job['metadata']['annotations'] = annotations
    space.apply(job)
    space.wait_step(name + '-worker-0', 100)
    return name


def as_worker(space, name, server, *command, **how):
    """Runs `command` of the trainer in a pod that says it is worker 0 of this parameter server; its exit code and what it
    printed."""
    return space.run(name, *command, '--job_name=worker', '--task_index=0', '--worker_hosts=localhost:2999',
                     '--ps_hosts=' + server, '--wait_timeout=5', **how)


def stranger(space, name, job, *command, certificate_of=None):
    """Runs `command` of the trainer in a pod that says it is worker 0 of this job, with the certificate of another job
    where one is named; its exit code and what it printed."""
    mounts = {}
    if certificate_of:
        uid = space.job(certificate_of)['metadata']['uid']
        mounts[TLS_DIR] = {'secret': {'secretName': '%s-tls-%s' % (certificate_of, uid[-8:])}}
        command = (*command, '--tls_dir=' + TLS_DIR)
    return as_worker(space, name, '%s-ps-0.%s.svc:2222' % (job, space.name), *command, mounts=mounts)


def test_stranger_can_neither_read_nor_push(space):
    for name in ('guarded', 'other'):
        long_job(space, name)
    long_job(space, 'open', **{'trainyard.dev/task-tls': 'false'})
    # What follows would prove nothing if the way were closed for another reason.
    for name, job, certificate in (('to-open', 'open', None), ('with-its-own', 'guarded', 'guarded')):
        code, said = stranger(space, name, job, 'check', certificate_of=certificate)
        assert code == 0, said
    train = ('--preset=linear-regression', '--train_steps=1000000')
    for name, command, certificate, answer in (
            ('asks', ('check',), None, 'perhaps it speaks TLS'),
            ('trains', train, None, 'perhaps it speaks TLS'),
            ('asks-as-other', ('check',), 'other', 'its certificate is not of this job'),
            ('trains-as-other', train, 'other', 'its certificate is not of this job')):
        code, said = stranger(space, name, 'guarded', *command, certificate_of=certificate)
        assert code != 0 and answer in said, (name, code, said)
    assert 'refused a connection' in space.logs('guarded-ps-0')
    space.wait_step('guarded-worker-0', space.step('guarded-worker-0') + 1000)
    assert not space.job('guarded')['status']['replicaStatuses']['PS'].get('restarts')
