"""The life of a job through Kubeflow's Python client; run by test_bookkeeping.py in a virtual environment.

  sdk_flow.py KUBECONFIG NAMESPACE"""
import sys

from kubeflow.training import (KubeflowOrgV1ReplicaSpec, KubeflowOrgV1TFJob, KubeflowOrgV1TFJobSpec,
                               KubeflowOrgV1RunPolicy, TrainingClient, constants)
from kubernetes import client as k8s


def replica(count):
    return KubeflowOrgV1ReplicaSpec(replicas=count, restart_policy='Never', template=k8s.V1PodTemplateSpec(
        spec=k8s.V1PodSpec(containers=[k8s.V1Container(name='tensorflow', image='train:1')])))


def check(what, value, wanted=True):
    if value != wanted:
        sys.exit('%s: wanted %r, got %r' % (what, wanted, value))
    print('ok', what, flush=True)


def main():
    config, namespace = sys.argv[1:]
    training = TrainingClient(config_file=config, namespace=namespace, job_kind=constants.TFJOB_KIND)
    job = KubeflowOrgV1TFJob(
        api_version='kubeflow.org/v1', kind='TFJob', metadata=k8s.V1ObjectMeta(name='sdk'),
        spec=KubeflowOrgV1TFJobSpec(run_policy=KubeflowOrgV1RunPolicy(clean_pod_policy='None'), tf_replica_specs={
            'Chief': replica(1), 'PS': replica(1), 'Worker': replica(2)}))
    training.create_job(job, namespace=namespace)
    training.wait_for_job_conditions('sdk', expected_conditions={'Running', 'Succeeded'}, wait_timeout=30, polling_interval=1)
    check('created', training.is_job_created('sdk'))
    check('all pods', sorted(training.get_job_pod_names('sdk')), ['sdk-chief-0', 'sdk-ps-0', 'sdk-worker-0', 'sdk-worker-1'])
    check('the master', training.get_job_pod_names('sdk', is_master=True), ['sdk-chief-0'])
    check('worker 1', training.get_job_pod_names('sdk', replica_type='worker', replica_index=1), ['sdk-worker-1'])
    done = training.wait_for_job_conditions('sdk', wait_timeout=60, polling_interval=1)
    check('at least two conditions', len(done.status.conditions) >= 2)
    check('succeeded', training.is_job_succeeded('sdk'))
    for question in ('running', 'restarting', 'failed'):
        check('not ' + question, getattr(training, 'is_job_' + question)('sdk'), False)
    logs, _ = training.get_job_logs('sdk', is_master=True)
    check('logs of the master', list(logs), ['sdk-chief-0'])
    check('what they say', 'sdk-chief-0' in logs['sdk-chief-0'])
    training.delete_job('sdk')
    print('deleted', flush=True)


if __name__ == '__main__':
    main()
