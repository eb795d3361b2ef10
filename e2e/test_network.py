"""How the pods of a job reach each other: one service for all of them, and ports of their own on their nodes' network."""
import json

import kube
from harness import case, template, tfjob
from test_faults import through_proxy

ALL = ('j-ps-0', 'j-worker-0', 'j-worker-1')
HOST = {'hostNetwork': True, 'dnsPolicy': 'ClusterFirstWithHostNet'}


def with_subdomain(name='j', subdomain='net', **replicas):
    return tfjob(name, spec={'network': {'subdomain': subdomain}}, **(replicas or {'PS': 1, 'Worker': 2}))


@case()
def one_service_stands_for_all_pods(t):
    t.create(with_subdomain())
    t.wait_running(*ALL)
    t.wait_services('net')
    service = t.mirror.get('services', t.ns, 'net')['spec']
    t.expect('cluster IP', service['clusterIP'], 'None')
    t.expect('not ready ones, too', service['publishNotReadyAddresses'])
    t.expect('ports', [(p['name'], p['port']) for p in service['ports']], [('tfjob-port', 2222)])
    labels = t.pod('j-ps-0')['metadata']['labels']
    t.expect('selected', all(labels.get(key) == value for key, value in service['selector'].items()))
    for name in ALL:
        spec = t.pod(name)['spec']
        t.expect('where its name comes from', (spec['hostname'], spec['subdomain']), (name, 'net'))
    cluster = json.loads(t.env('j-worker-1'))['cluster']
    t.expect('names', cluster['ps'], ['j-ps-0.net.%s.svc:2222' % t.ns])
    t.expect('the variable', t.env('j-ps-0', 'WORKER_HOSTS'),
             'j-worker-0.net.%s.svc:2222,j-worker-1.net.%s.svc:2222' % (t.ns, t.ns))
    t.patch('j', {'tfReplicaSpecs': {'Worker': {'replicas': 3}}})
    t.wait_running('j-worker-2')
    t.exit('j-worker-0')
    t.wait_for('Succeeded')
    t.wait_services('net')  # workers 1 and 2 run on: nothing was said of cleaning
    for name in ('j-worker-1', 'j-worker-2'):
        t.exit(name)
    t.wait_services()


@case(environment={'CUSTOM_CLUSTER_DOMAIN': 'cluster.test'})
def names_behind_the_service_of_a_job_have_the_clusters_domain(t):
    t.create(with_subdomain())
    t.wait_running(*ALL)
    t.expect('names', json.loads(t.env('j-worker-0'))['cluster']['ps'], ['j-ps-0.net.%s.svc.cluster.test:2222' % t.ns])


@case()
def foreign_service_of_that_name_is_left_alone(t):
    t.client.create('services', t.ns, {'metadata': {'name': 'net'}, 'spec': {'ports': [{'port': 1}]}})
    uid = t.client.get('services', t.ns, 'net')['metadata']['uid']
    t.create(with_subdomain())
    message = t.wait_for('Blocked')['message']
    t.expect('advice in: ' + message, 'Service net belongs to another owner' in message)
    t.client.delete('services', t.ns, 'net')
    t.wait('a service of the job', lambda: t.services() == ['net'] and
           t.mirror.get('services', t.ns, 'net')['metadata']['uid'] != uid, 30)
    t.wait('no obstacle', lambda: not t.condition('Blocked'), 30)


@case()
def network_cannot_be_changed(t):
    t.create(with_subdomain())
    t.create(tfjob('k', Worker=1))
    for name, network in (('j', {'subdomain': 'other'}), ('j', None), ('k', {'subdomain': 'net'})):
        try:
            t.patch(name, {'network': network})
            t.expect('refusal of %s on %s' % (network, name), 'changed', 'refused')
        except kube.ApiError as e:
            t.expect('the reason in: %s' % e, 'spec.network' in str(e) and 'field is immutable' in str(e))
    t.patch('j', {'network': {'subdomain': 'net'}})


@case(operator='none')
def one_service_saves_the_calls_of_the_others(t):
    calls = {}
    for name, job in (('with', with_subdomain('with', PS=2, Worker=8)), ('without', tfjob('without', PS=2, Worker=8))):
        proxy = through_proxy(t)
        t.create(job)
        t.wait('all to run', lambda: len(t.pods('Running')) == 10)
        t.exit(name + '-worker-0')
        t.wait_for('Succeeded', name)
        for i in range(1, 8):
            t.exit('%s-worker-%d' % (name, i))
        t.wait_services()
        t.wait_pods(*['%s-worker-%d' % (name, i) for i in range(8)])
        t.operators[-1].stop()
        calls[name] = len([c for c in proxy.writes() if c.kind == 'services'])
        proxy.stop()
        t.client.delete('tfjobs', t.ns, name)
        t.wait_pods()
    print('       calls for services of 10 replicas: %d with network.subdomain, %d without' % (
        calls['with'], calls['without']))
    t.expect('calls', calls['with'], 2)
    t.expect('%d calls without' % calls['without'], calls['without'] >= 11)


def port_of(t, name):
    port, = t.pod(name)['spec']['containers'][0]['ports']
    t.expect('the same on its node', port['hostPort'], port['containerPort'])
    return port['containerPort']


@case()
def replicas_on_their_nodes_network_get_ports_of_their_own(t):
    job = tfjob(PS=1, Worker=(2, 'ExitCode'), pod=template(**HOST),
                spec={'network': {'hostPorts': {'min': 21000, 'max': 21999}}})
    t.create(job)
    t.wait_running(*ALL)
    ports = {name: port_of(t, name) for name in ALL}
    t.expect('different ones', len(set(ports.values())), 3)
    t.expect('of the range', all(21000 <= port <= 21999 for port in ports.values()))
    cluster = json.loads(t.env('j-ps-0'))['cluster']
    for kind in ('ps', 'worker'):
        t.expect('addresses', cluster[kind], ['j-%s-%d.%s.svc:%d' % (kind, i, t.ns, ports['j-%s-%d' % (kind, i)])
                                              for i in range(len(cluster[kind]))])
    t.expect('the service', t.mirror.get('services', t.ns, 'j-worker-1')['spec']['ports'][0]['port'], ports['j-worker-1'])
    first = t.pod('j-worker-1')['metadata']['uid']
    t.exit('j-worker-1', 137)
    t.wait('a replacement', lambda: 'j-worker-1' in t.pods('Running') and
           t.pod('j-worker-1')['metadata']['uid'] != first)
    t.expect('its port', port_of(t, 'j-worker-1'), ports['j-worker-1'])


@case()
def networks_that_make_no_sense_are_refused(t):
    t.refused(with_subdomain(subdomain='a.b'), 'spec.network.subdomain')
    for ports, text in (({'min': 2, 'max': 1}, 'min must not be above max'), ({'min': 0, 'max': 9}, 'hostPorts.min'),
                        ({'min': 20000}, 'hostPorts.max'), ({'min': 20000, 'max': 20002}, 'too few ports')):
        t.refused(tfjob(PS=1, Worker=2, spec={'network': {'hostPorts': ports}}), text)
    t.client.create('tfjobs', t.ns, tfjob(PS=1, Worker=2, spec={'network': {'hostPorts': {'min': 20000, 'max': 20003}}}),
                    dryRun='All')
