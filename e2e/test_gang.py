"""Gang scheduling: PodGroups of Volcano and of scheduler-plugins (K)."""
import gang
from harness import case, template, tfjob

OTHER = 'SetPodTemplateSchedulerName'


def gang_of(count, **policy):
    return {'schedulingPolicy': dict({'minAvailable': count}, **policy)}


@case('K1', operator='none')
def gang_stays_created_until_its_pod_group_fits(t):
    gang.install(t.client, gang.VOLCANO)
    with gang.Scheduler(t, gang.VOLCANO, room=4) as scheduler:
        operator = t.start_operator('--gang-scheduler-name=volcano')
        t.create(tfjob(Worker=1, policy=gang_of(10, queue='gpu', priorityClass='high'),
                       pod=template(container={'resources': {'requests': {'cpu': '500m'}}})))
        scheduler.wait('its PodGroup', lambda: scheduler.group())
        t.expect('its spec', scheduler.group()['spec'], {
            'minMember': 10, 'queue': 'gpu', 'priorityClassName': 'high', 'minResources': {'cpu': '500m'}})
        t.expect('its owner', scheduler.group()['metadata']['ownerReferences'], [t.owner(t.job())])
        t.wait_for('Queued')
        scheduler.wait('the scheduler to say no', lambda: scheduler.group().get('status', {}).get('phase') == 'Pending')
        t.wait('/debug/jobs to say why', lambda: 'room for 4 pods, 10 wanted' in (operator.page('/debug/jobs') or ''))
        t.stays('it is Created and has nothing', lambda: not t.made('pods') and not t.made('services') and
                [c[0] for c in t.conditions()] == ['Created', 'Queued'], 10)
        operator.kill()
        t.start_operator('--gang-scheduler-name=volcano')
        t.stays('so after a restart', lambda: not t.made('pods') and not t.ever('Running'), 5)
        t.wait('the event', lambda: t.events('PodGroupPending'))
        t.expect('events', [(e['type'], e.get('count', 1)) for e in t.events('PodGroupPending')], [('Normal', 1)])
        t.expect('startTime', t.status().get('startTime'), None)

        t.patch('j', {'runPolicy': gang_of(1)})
        t.wait_running('j-worker-0')
        pod = t.pod('j-worker-0')
        t.expect('scheduler', pod['spec']['schedulerName'], 'volcano')
        t.expect('its gang', {k: v for k, v in pod['metadata']['annotations'].items() if 'volcano' in k or 'group' in k},
                 {'scheduling.k8s.io/group-name': 'j', 'volcano.sh/task-spec': 'worker'})
        t.wait_for('Running')
        t.expect('Queued', t.condition('Queued'), None)
        t.exit('j-worker-0')
        t.wait_for('Succeeded')
        scheduler.wait('its PodGroup to go', lambda: not scheduler.group())
        t.wait('the event of that', lambda: t.events('SuccessfulDeletePodGroup'))
        t.mirror.wait(t.ns, lambda: False, 1.5)
        t.expect('PodGroups made', len(scheduler.made()), 1)
        t.expect('deletions told', sum(e.get('count', 1) for e in t.events('SuccessfulDeletePodGroup')), 1)


@case(operator='none')
def end_of_a_gang_is_told_once_however_often_its_job_is_looked_at(t):
    """trainer#1011, trainer#1426: a PodGroup that is deleted again and again, with an event each time."""
    gang.install(t.client, gang.VOLCANO)
    with gang.Scheduler(t, gang.VOLCANO, room=4) as scheduler:
        t.start_operator('--gang-scheduler-name=volcano')
        t.create(tfjob(Worker=1))
        t.wait_running('j-worker-0')
        t.exit('j-worker-0')
        t.wait_for('Succeeded')
        scheduler.wait('its PodGroup to go', lambda: not scheduler.group())
        for look in range(5):
            t.client.patch('tfjobs', t.ns, 'j', {'metadata': {'annotations': {'look': str(look)}}})
            t.mirror.wait(t.ns, lambda: False, 0.5)
        t.wait('the event of that', lambda: t.events('SuccessfulDeletePodGroup'))
        t.stays('deletions told: one', lambda: sum(e.get('count', 1) for e in t.events('SuccessfulDeletePodGroup')) == 1, 2)


@case('K2', operator='none')
def other_schedulers_are_left_alone_with_a_warning(t):
    """None of the templates names a scheduler, all do, or one does."""
    gang.install(t.client, gang.VOLCANO)
    mine = {'replicas': 1, 'template': template(schedulerName='mine')}
    with gang.Scheduler(t, gang.VOLCANO, room=4):
        t.start_operator('--gang-scheduler-name=volcano')
        t.create(tfjob('none', Worker=1, PS=1))
        t.create(tfjob('ours', Worker=1, PS=1, pod=template(schedulerName='volcano')))
        t.create(tfjob('all', Worker=mine, PS=mine))
        t.create(tfjob('one', Worker=mine, PS=1))
        for name in ('none', 'ours', 'all', 'one'):
            t.wait_running(name + '-worker-0', name + '-ps-0')
        for name in ('all', 'one'):
            t.wait('the warning on ' + name, lambda name=name: t.events(OTHER, name))
        t.expect('warnings', [(e['type'], e.get('count', 1), e['message'].rpartition(': ')[2])
                              for name in ('all', 'one') for e in t.events(OTHER, name)],
                 [('Warning', 1, 'PS (mine), Worker (mine)'), ('Warning', 1, 'Worker (mine)')])
        t.expect('no warnings', t.events(OTHER, 'none') + t.events(OTHER, 'ours'), [])
        t.expect('schedulers', {name: t.pod(name)['spec']['schedulerName'] for name in (
            'none-ps-0', 'none-worker-0', 'all-ps-0', 'all-worker-0', 'one-ps-0', 'one-worker-0')}, {
                'none-ps-0': 'volcano', 'none-worker-0': 'volcano', 'all-ps-0': 'mine', 'all-worker-0': 'mine',
                'one-ps-0': 'volcano', 'one-worker-0': 'mine'})


@case(operator='none')
def gang_of_scheduler_plugins_is_made_behind_its_pod_group(t):
    """No other case needs this CRD: first there is none."""
    if not t.client.serves(gang.PLUGINS):
        operator = t.start_operator('--gang-scheduler-name=coscheduler', wait=False)
        t.expect('exit status without the CRD', operator.process.wait(60), 2)
        t.expect('advice in ' + operator.tail(), 'install that scheduler and its CRDs' in operator.tail())
    gang.install(t.client, gang.PLUGINS)
    t.rule('*', hold=True)
    with gang.Scheduler(t, gang.PLUGINS, room=4) as scheduler:
        t.start_operator('--gang-scheduler-name=coscheduler')
        t.create(tfjob(PS=1, Worker=2, policy={'schedulingPolicy': {'scheduleTimeoutSeconds': 60}}))
        t.wait_running('j-ps-0', 'j-worker-0', 'j-worker-1')
        group = scheduler.group()
        t.expect('its spec', group['spec'], {'minMember': 3, 'scheduleTimeoutSeconds': 60})
        first = min((pod['metadata'] for pod in t.mirror.all('pods', t.ns)), key=lambda m: m['creationTimestamp'])
        t.expect('PodGroup before pods', group['metadata']['creationTimestamp'] <= first['creationTimestamp'])
        pod = t.pod('j-ps-0')
        t.expect('scheduler', pod['spec']['schedulerName'], 'coscheduler')
        t.expect('label', pod['metadata']['labels'].get(gang.POD_LABEL), 'j')

        t.patch('j', {'tfReplicaSpecs': {'Worker': {'replicas': 3}}})
        scheduler.wait('it to grow', lambda: scheduler.group()['spec']['minMember'] == 4)
        t.wait_running('j-worker-2')
        t.patch('j', {'runPolicy': {'suspend': True}})
        scheduler.wait('it to go with a suspension', lambda: not scheduler.group())
        t.wait_pods()
        t.patch('j', {'runPolicy': {'suspend': False}})
        t.wait_running('j-ps-0', 'j-worker-0', 'j-worker-1', 'j-worker-2')
        t.expect('PodGroups made', len(scheduler.made()), 2)
        t.exit('j-worker-0')
        t.wait_for('Succeeded')
        scheduler.wait('its end', lambda: not scheduler.group())


@case(operator='none')
def pod_group_of_v19_is_taken_over(t):
    gang.install(t.client, gang.VOLCANO)
    with gang.Scheduler(t, gang.VOLCANO, room=4) as scheduler:
        job = t.create(tfjob(Worker=2))
        t.client.create(gang.VOLCANO, t.ns, {
            'apiVersion': 'scheduling.volcano.sh/v1beta1', 'kind': 'PodGroup',
            'metadata': {'name': 'j', 'ownerReferences': [t.owner(job)]}, 'spec': {'minMember': 1, 'queue': 'theirs'}})
        scheduler.wait('it to be admitted', lambda: scheduler.group() and
                       scheduler.group().get('status', {}).get('phase') == 'Inqueue')
        t.start_operator('--gang-scheduler-name=volcano')
        t.wait_running('j-worker-0', 'j-worker-1')
        t.expect('its spec', scheduler.wait('its spec', lambda: scheduler.group()['spec']['minMember'] == 2 and
                                            scheduler.group()['spec']), {'minMember': 2, 'queue': 'theirs'})
        t.expect('PodGroups', len(scheduler.made()), 1)
