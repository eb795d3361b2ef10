"""Rules of the job's own that say when it has succeeded."""
from harness import case, tfjob


def ruled(*rules, **job):
    return tfjob(policy={'successPolicy': {'rules': list(rules)}}, **job)


@case()
def rule_of_success_ends_the_job(t):
    t.create(ruled({'replicaTypes': ['Worker'], 'succeededIndexes': '0-1', 'succeededCount': 2},
                   {'replicaTypes': ['worker'], 'succeededCount': 3}, PS=1, Worker=4))
    t.wait_running('j-ps-0', 'j-worker-0', 'j-worker-1', 'j-worker-2', 'j-worker-3')
    t.exit('j-worker-0')
    t.exit('j-worker-2')
    t.wait_counts('Worker', active=2, succeeded=2)
    t.stays('the job goes on', lambda: not t.is_true('Succeeded'))
    t.exit('j-worker-3')
    condition = t.wait_for('Succeeded')
    t.expect('reason', condition['reason'], 'TFJobSucceeded')
    t.expect('the rule in: ' + condition['message'], 'rule 1 of spec.runPolicy.successPolicy' in condition['message'])
    t.wait('no parameter server', lambda: 'j-ps-0' not in t.pods())


@case()
def chief_alone_does_not_end_a_job_with_a_rule(t):
    t.create(ruled({'replicaTypes': ['Chief', 'Evaluator'], 'succeededCount': 1}, Chief=1, Worker=1, Evaluator=1))
    t.wait_running('j-chief-0', 'j-evaluator-0', 'j-worker-0')
    t.exit('j-chief-0')
    t.wait_counts('Chief', succeeded=1)
    t.stays('the job goes on', lambda: not t.is_true('Succeeded'))
    t.exit('j-evaluator-0')
    t.wait_for('Succeeded')


@case()
def rules_of_success_that_make_no_sense_are_refused(t):
    for rule, text in (({'succeededCount': 1}, 'replicaTypes'), ({'replicaTypes': ['Worker']}, 'must have succeededIndexes'),
                       ({'replicaTypes': ['Worker'], 'succeededCount': 0}, 'greater than or equal to 1'),
                       ({'replicaTypes': ['Worker'], 'succeededIndexes': '0-'}, 'succeededIndexes')):
        t.refused(ruled(rule, Worker=2), text)
