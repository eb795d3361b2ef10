"""A claim for each replica: made before its pod, used again by its replacement, kept or deleted as its policy says."""
import kube
from harness import LABEL, case, template, tfjob

SCRATCH = {'metadata': {'name': 'scratch', 'labels': {'kept': 'yes'}},
           'spec': {'accessModes': ['ReadWriteOnce'], 'resources': {'requests': {'storage': '1Gi'}}}}


def workers(count, deleted=None, scaled=None, restart='ExitCode', **pod):
    policy = {key: value for key, value in (('whenDeleted', deleted), ('whenScaled', scaled)) if value}
    out = {'replicas': count, 'restartPolicy': restart, 'template': template(**pod), 'volumeClaimTemplates': [SCRATCH]}
    return dict(out, **({'persistentVolumeClaimRetentionPolicy': policy} if policy else {}))


def claims(t):
    """Those that nobody has asked to go: nothing here takes away what protects them."""
    return {c['metadata']['name']: c for c in t.client.list('persistentvolumeclaims', t.ns)['items']
            if not c['metadata'].get('deletionTimestamp')}


@case()
def each_replica_has_a_claim_and_keeps_it(t):
    pod = {'container': {'volumeMounts': [{'name': 'scratch', 'mountPath': '/scratch'}]},
           'volumes': [{'name': 'scratch', 'emptyDir': {}}, {'name': 'other', 'emptyDir': {}}]}
    t.create(tfjob(PS=1, Worker=workers(2, **pod)))
    t.wait_running('j-ps-0', 'j-worker-0', 'j-worker-1')
    made = claims(t)
    t.expect('claims', sorted(made), ['scratch-j-worker-0', 'scratch-j-worker-1'])
    claim = made['scratch-j-worker-1']
    t.expect('as the template says', claim['spec']['resources'], {'requests': {'storage': '1Gi'}})
    labels = claim['metadata']['labels']
    t.expect('labels', [labels.get(key) for key in ('kept', LABEL + 'job-name', LABEL + 'replica-index')], ['yes', 'j', '1'])
    t.expect('no owner', 'ownerReferences' in claim['metadata'], False)
    volumes = {v['name']: v for v in t.pod('j-worker-1')['spec']['volumes']}
    t.expect('volume', volumes['scratch'].get('persistentVolumeClaim'), {'claimName': 'scratch-j-worker-1'})
    t.expect('the other volume', 'emptyDir' in volumes['other'])
    first = t.pod('j-worker-1')['metadata']['uid']
    t.exit('j-worker-1', 137)
    t.wait('a replacement', lambda: 'j-worker-1' in t.pods('Running') and
           t.pod('j-worker-1')['metadata']['uid'] != first)
    t.expect('the same claim', claims(t)['scratch-j-worker-1']['metadata']['uid'], claim['metadata']['uid'])
    t.exit('j-worker-0')
    t.wait_for('Succeeded')
    t.client.delete('tfjobs', t.ns, 'j')
    t.wait_pods()
    t.expect('claims of the job that is gone', sorted(claims(t)), sorted(made))


@case()
def claims_go_with_the_job_where_their_policy_says_so(t):
    job = t.create(tfjob(Worker=workers(1, deleted='Delete')))
    t.wait_running('j-worker-0')
    t.expect('owner', claims(t)['scratch-j-worker-0']['metadata']['ownerReferences'], [t.owner(job)])
    t.client.delete('tfjobs', t.ns, 'j')
    t.wait('no claim', lambda: not claims(t), 30)


@case()
def claims_of_replicas_that_are_scaled_away_go_where_their_policy_says_so(t):
    t.create(tfjob('kept', Worker=workers(2)))
    t.create(tfjob(Worker=workers(2, scaled='Delete')))
    t.wait_running('j-worker-0', 'j-worker-1', 'kept-worker-1')
    for name in ('j', 'kept'):
        t.patch(name, {'tfReplicaSpecs': {'Worker': {'replicas': 1}}})
    t.wait_pods('j-worker-0', 'kept-worker-0')
    t.wait('one claim less', lambda: sorted(claims(t)) == ['scratch-j-worker-0', 'scratch-kept-worker-0',
                                                           'scratch-kept-worker-1'])


@case()
def claim_that_is_there_already_is_used_and_told(t):
    t.client.create('persistentvolumeclaims', t.ns, dict(SCRATCH, metadata={'name': 'scratch-j-worker-0'}))
    uid = claims(t)['scratch-j-worker-0']['metadata']['uid']
    t.create(tfjob(Worker=workers(1)))
    t.wait_running('j-worker-0')
    t.expect('the same claim', claims(t)['scratch-j-worker-0']['metadata']['uid'], uid)
    event = t.wait('the event', lambda: t.events('ExistingClaim'))[0]
    t.expect('its name in: ' + event['message'], 'scratch-j-worker-0' in event['message'])


@case()
def claim_that_a_quota_refuses_blocks_the_job(t):
    t.quota(persistentvolumeclaims='1')
    t.create(tfjob(Worker=workers(2)))
    message = t.wait_for('Blocked')['message']
    t.expect('advice in: ' + message, 'raise the quota' in message)
    t.wait_pods()
    t.quota(persistentvolumeclaims='2')
    t.wait_running('j-worker-0', 'j-worker-1', seconds=40)


@case()
def claims_that_make_no_sense_are_refused(t):
    def with_templates(*templates, **more):
        return tfjob(Worker=dict(workers(1), volumeClaimTemplates=list(templates), **more))
    t.refused(with_templates({'spec': {}}), 'metadata: Required value')
    t.refused(with_templates({'metadata': {'name': 'a'}}), 'spec: Required value')
    t.refused(with_templates({'metadata': {'name': 'A'}, 'spec': {}}), 'volumeClaimTemplates')
    t.refused(with_templates(SCRATCH, SCRATCH), 'must have different names')
    t.refused(with_templates(SCRATCH, persistentVolumeClaimRetentionPolicy={'whenDeleted': 'Keep'}), 'whenDeleted')
    try:
        t.client.create('tfjobs', t.ns, with_templates(SCRATCH), dryRun='All')
    except kube.ApiError as e:
        t.expect('admission of the good one: %s' % e, False)
