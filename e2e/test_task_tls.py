"""TLS between the tasks of a job: whose pods get it, and the Secret that they share."""
import base64
import os
import ssl
import subprocess
import tempfile

from harness import LABEL, case, template, tfjob

ANNOTATION = 'trainyard.dev/task-tls'
VOLUME = 'trainyard-task-tls'
PODS = ('j-ps-0', 'j-worker-0', 'j-worker-1')
TRAINER = template(image='registry.example.com:5000/trainyard/trainer:1')


def training(name='j', pod=TRAINER, tls=None, **replicas):
    metadata = {'annotations': {ANNOTATION: tls}} if tls else None
    return tfjob(name, restart='ExitCode', pod=pod, metadata=metadata, **(replicas or {'PS': 1, 'Worker': 2}))


def secret_name(job):
    return '%s-tls-%s' % (job['metadata']['name'], job['metadata']['uid'][-8:])


def secrets(t):
    return [s['metadata']['name'] for s in t.client.list('secrets', t.ns)['items']]


def mounted(t, *pods):
    """{the Secret that the pod's volume names, None without one}"""
    return {next((v['secret']['secretName'] for v in t.pod(pod)['spec'].get('volumes', []) if v['name'] == VOLUME), None)
            for pod in pods}


def decoded(secret):
    return {key: base64.b64decode(value).decode() for key, value in secret['data'].items()}


def verify(t, data):
    """As OpenSSL and Python judge the certificate, its key and its authority."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for key, text in data.items():
            paths[key] = os.path.join(folder, key)
            with open(paths[key], 'w') as f:
                f.write(text)
        for purpose in ('sslserver', 'sslclient'):
            done = subprocess.run(['openssl', 'verify', '-purpose', purpose, '-CAfile', paths['ca.crt'], paths['tls.crt']],
                                  capture_output=True, text=True, timeout=30, check=False)
            t.expect('openssl as %s: %s' % (purpose, done.stdout + done.stderr), done.returncode, 0)
        ssl.create_default_context().load_cert_chain(paths['tls.crt'], paths['tls.key'])  # raises where they do not match


@case(flags=['--log-level=debug'])
def tasks_of_the_trainer_share_a_secret_that_is_made_first(t):
    t.create(training())
    t.wait_running(*PODS)
    job = t.job()
    name = secret_name(job)
    t.expect('Secrets', secrets(t), [name])
    secret = t.client.get('secrets', t.ns, name)
    t.expect('its owner', secret['metadata']['ownerReferences'], [t.owner(job)])
    t.expect('its labels', secret['metadata']['labels'], {
        LABEL + 'operator-name': 'tfjob-controller', LABEL + 'job-name': 'j'})
    t.expect('its kind', (secret['type'], secret['immutable']), ('kubernetes.io/tls', True))
    data = decoded(secret)
    t.expect('files', sorted(data), ['ca.crt', 'tls.crt', 'tls.key'])
    t.expect('keys in them', [key for key in sorted(data) if 'PRIVATE KEY' in data[key]], ['tls.key'])
    verify(t, data)
    first = min(int(item['metadata']['resourceVersion']) for kind, _, item in t.mirror.past(t.ns)
                if kind in ('pods', 'services'))
    t.expect('Secret before services and pods', int(secret['metadata']['resourceVersion']) < first)
    t.expect('mounts', mounted(t, *PODS), {name})
    t.expect('the variable', {t.env(pod, 'TRAINYARD_TLS_DIR') for pod in PODS}, {'/var/run/secrets/trainyard.dev/task-tls'})
    t.wait('the status to say so', lambda: t.status().get('taskTls') is True)

    t.exit('j-worker-1', 137)
    t.wait('the replacement to run', lambda: len(t.made('pods', 'j-worker-1')) == 2 and 'j-worker-1' in t.pods('Running'))
    t.expect('mount of the replacement', mounted(t, *PODS), {name})
    t.patch('j', {'runPolicy': {'suspend': True}})
    t.wait_pods()
    t.patch('j', {'runPolicy': {'suspend': False}})
    t.wait_running(*PODS)
    t.expect('mounts after a suspension', mounted(t, *PODS), {name})
    t.expect('the Secret', t.client.get('secrets', t.ns, name)['metadata']['uid'], secret['metadata']['uid'])

    with open(t.operator.log) as f:
        told = f.read() + (t.operator.page('/debug/jobs') or '') + repr(t.events()) + repr(t.job())
    lines = [line for line in data['tls.key'].splitlines() if line] + [secret['data']['tls.key'][40:80]]
    t.expect('the key in logs, events, status and /debug/jobs', [line for line in lines if line in told], [])


@case(operator='none')
def another_job_of_the_name_gets_another_secret(t):
    t.start_operator()
    datas = []
    for _ in range(2):
        job = t.create(training(Worker=1, PS=1))
        t.wait_running('j-ps-0', 'j-worker-0')
        t.expect('its mounts', mounted(t, 'j-ps-0', 'j-worker-0'), {secret_name(job)})
        datas.append(decoded(t.client.get('secrets', t.ns, secret_name(job))))
        t.client.delete('tfjobs', t.ns, 'j')
        t.wait_pods()
        t.wait('the Secret to go with its job', lambda: not secrets(t), 60)
    t.expect('files in common', [key for key in datas[0] if datas[0][key] == datas[1][key]], [])


@case()
def images_and_the_annotation_decide(t):
    foreign = template(image='tensorflow/tensorflow:2.9.0')
    t.create(training('foreign', foreign))
    t.create(training('mixed', PS={'replicas': 1, 'template': TRAINER}, Worker={'replicas': 1, 'template': foreign}))
    t.create(training('no', tls='false'))
    t.create(training('yes', foreign, tls='true'))
    for name in ('foreign', 'mixed', 'no', 'yes'):
        t.wait_running(name + '-ps-0', name + '-worker-0')
    for name in ('foreign', 'mixed', 'no'):
        t.expect('mounts of ' + name, mounted(t, name + '-ps-0', name + '-worker-0'), {None})
    t.expect('Secrets', secrets(t), [secret_name(t.job('yes'))])
    t.expect('mounts of yes', mounted(t, 'yes-ps-0', 'yes-worker-0'), {secret_name(t.job('yes'))})


@case()
def what_stands_in_the_way_is_told(t):
    own = template(volumes=[{'name': VOLUME, 'emptyDir': {}}])
    t.create(training('way', own, tls='true'))
    message = t.wait_for('Failed', 'way')['message']
    t.expect('the volume in ' + message, 'volumes[0].name: Forbidden' in message)
    t.create(training('word', tls='on'))
    message = t.wait_for('Failed', 'word')['message']
    t.expect('the value in ' + message, 'metadata.annotations[%s]' % ANNOTATION in message)


@case(operator='none')
def foreign_secret_of_the_name_blocks_the_job(t):
    job = t.create(training())
    t.client.create('secrets', t.ns, {'metadata': {'name': secret_name(job)}, 'stringData': {'tls.key': 'planted'}})
    t.start_operator()
    t.expect('why', t.wait_for('Blocked')['reason'], 'SecretNameTaken')
    t.wait('the event', lambda: t.events('SecretNameTaken'))
    t.stays('nothing is made', lambda: not t.made('pods') and not t.made('services'))
    t.client.delete('secrets', t.ns, secret_name(job))
    t.wait_running(*PODS, seconds=60)
    t.wait('Blocked to go', lambda: t.condition('Blocked') is None)


@case(operator='none')
def job_that_runs_without_goes_on_without(t):
    """It was started by training-operator v1.9; one of its pods has gone meanwhile."""
    job = t.create(training())
    for kind, index in (('ps', 0), ('worker', 0)):
        t.put_pod(job, kind, index, 'Running')
    t.wait_running('j-ps-0', 'j-worker-0')
    before = [t.pod(name)['metadata']['uid'] for name in ('j-ps-0', 'j-worker-0')]
    t.start_operator()
    t.wait_running('j-worker-1')
    t.expect('mount of the replacement', mounted(t, *PODS), {None})
    t.expect('pods', [t.pod(name)['metadata']['uid'] for name in ('j-ps-0', 'j-worker-0')], before)
    t.expect('Secrets', secrets(t), [])


@case(operator='none')
def job_that_runs_with_it_keeps_it_whoever_comes(t):
    t.start_operator()
    t.create(training())
    t.wait_running(*PODS)
    name = secret_name(t.job())
    t.operators[-1].kill()
    t.start_operator('--task-tls-images=')
    t.exit('j-worker-1', 137)
    t.wait('the replacement to run', lambda: len(t.made('pods', 'j-worker-1')) == 2 and 'j-worker-1' in t.pods('Running'))
    t.expect('mounts', mounted(t, *PODS), {name})
    t.create(training('new'))
    t.wait_running('new-ps-0')
    t.expect('mount of a new job', mounted(t, 'new-ps-0'), {None})
