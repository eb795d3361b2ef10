#!/usr/bin/env python3
"""The operator's page in a real browser: a headless Chromium against an operator, a real API server and a fake kubelet.
Leaves pictures of what it saw.

  page.py --operator PROGRAM [--pictures FOLDER]

Ends with status 77 where no browser is installed, and with 1 instead where $CI is set: there it must not be left out."""
import argparse
import math
import os
import shutil
import sys
import tempfile
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
# pylint: disable=wrong-import-position
import binaries  # noqa: E402
import browser  # noqa: E402
import control_plane  # noqa: E402
import harness  # noqa: E402
from harness import Failure, tfjob  # noqa: E402
from kubelet import Kubelet  # noqa: E402
from mirror import Mirror  # noqa: E402
from viewer import Viewer  # noqa: E402

EVIL = '<img src=x onerror="window.harmed=1"><script>window.harmed=2</script>'
PHONE = {'width': 390, 'height': 844, 'deviceScaleFactor': 1, 'mobile': True}


def stamp(seconds_ago):
    return time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(time.time() - seconds_ago))


class Scene:
    """A cluster with jobs in every state, and the page that shows them."""

    def __init__(self, cluster, args, folder):
        self.client = cluster.client()
        self.mirror = Mirror(self.client).start()
        world = harness.World(self.client, self.mirror, Kubelet(self.client, self.mirror), cluster.kubeconfig, args, folder)
        world.cluster = cluster
        for name in ('research', 'speech'):
            self.client.create('namespaces', None, {'metadata': {'name': name}})
        self.t = harness.Test(world, 'research')
        self.port = control_plane.free_port()
        self.url = 'http://127.0.0.1:%d/' % self.port
        self.operator = self.t.start_operator('--page-bind-address=127.0.0.1:%d' % self.port, namespaced=False)

    def jobs(self):
        t = self.t
        t.create(tfjob('mnist-async', PS=1, Worker=3))
        for name in ('resnet-large', 'bert-small'):
            self.client.create('tfjobs', 'speech', tfjob(name, PS=1, Worker=2))
        t.create(tfjob('nightly', Worker=2, policy={'cleanPodPolicy': 'None'}))
        t.create(tfjob('paused', Worker=2, policy={'suspend': True}))
        t.rule('broken-worker-0', exits=[3])
        t.create(tfjob('broken', PS=1, Worker=1))
        t.rule('no-image-worker-*', waiting='ImagePullBackOff')
        t.create(tfjob('no-image', PS=1, Worker=2))
        t.wait_running('mnist-async-ps-0', 'nightly-worker-0', 'nightly-worker-1')
        for index in range(2):
            t.exit('nightly-worker-%d' % index)
        t.wait_for('Failed', 'broken')
        t.wait_for('Succeeded', 'nightly')
        self.evil()
        t.quota(pods='0')
        t.create(tfjob('over-quota', PS=1, Worker=4))
        t.wait_for('Blocked', 'over-quota')
        t.wait_for('Running', 'mnist-async')
        self.progress('mnist-async', 60)

    def evil(self):
        """A job whose every text is a script, under a manager that may write what it likes."""
        job = self.t.create(tfjob('evil', Worker=1, spec={'runPolicy': {'managedBy': 'kueue.x-k8s.io/multikueue'}}))
        condition = {'type': 'Created', 'status': 'True', 'reason': 'Odd', 'message': EVIL, 'lastUpdateTime': stamp(60),
                     'lastTransitionTime': stamp(60)}
        failure = {'pod': EVIL, 'reason': EVIL, 'message': EVIL, 'time': stamp(60)}
        self.client.patch('tfjobs', 'research', 'evil', {'status': {
            'conditions': [condition, dict(condition, type=EVIL)], 'failures': [failure]}}, 'status')
        self.client.create('events', 'research', {
            'metadata': {'name': 'evil.1'}, 'type': 'Warning', 'reason': EVIL, 'message': EVIL, 'involvedObject': {
                'kind': 'TFJob', 'namespace': 'research', 'name': 'evil', 'uid': job['metadata']['uid']},
            'lastTimestamp': stamp(30), 'firstTimestamp': stamp(30), 'count': 2})

    def progress(self, name, count):
        """As an hour of training would have left it, one status write after the other."""
        for i in range(count):
            ago, step = 50 * (count - 1 - i), 1000 * (i + 1)
            self.client.patch('tfjobs', 'research', name, {'status': {'progress': {
                'summary': '', 'globalStep': step, 'lastStep': 80000,
                'loss': round(2.2 * math.exp(-i / 14) + 0.08 + 0.05 * math.sin(i * 1.7), 5),
                'examplesPerSecond': round(11800 + 900 * math.sin(i / 5)), 'etaSeconds': 50 * (80 - i - 1),
                'lastUpdateTime': stamp(ago), 'lastStepTime': stamp(ago)}}}, 'status')

    def close(self):
        for operator in self.t.operators:
            operator.kill()
        self.mirror.stop()


class Look:
    """One browser and what it sees, in order."""

    def __init__(self, scene, pictures):
        self.scene = scene
        self.t = scene.t
        self.pictures = pictures
        self.count = 0
        self.b = browser.Browser()

    def picture(self, name):
        self.count += 1
        self.b.screenshot(os.path.join(self.pictures, '%d-%s.png' % (self.count, name)))

    def is_clean(self, allowed=''):
        """No complaint of the browser but what was provoked, no script of others, no request to others."""
        complaints = [text for text in self.b.console() if not allowed or allowed not in text]
        self.t.expect('complaints in the console', complaints, [])
        strangers = [url for url in self.b.requests() if not url.startswith((self.scene.url, 'data:'))]
        self.t.expect('requests to others', strangers, [])
        self.t.expect('what a script of the cluster did', self.b.run('return window.harmed || 0'), 0)

    def sign_in(self, token):
        self.b.wait('the field', lambda: self.b.run('return !!document.querySelector("#token")'))
        self.b.write('#token', token)
        self.b.click('button.primary')

    def asks_for_a_token(self):
        self.b.go(self.scene.url)
        self.b.wait_text('Who are you?')
        self.is_clean()
        self.picture('token')

    def refuses_a_wrong_token(self):
        self.sign_in('wrong')
        self.b.wait_text('does not know this token', '#problem')
        self.t.expect('what is kept of it', self.b.run('return sessionStorage.length + localStorage.length'), 0)
        self.is_clean(allowed='401')

    def shows_the_jobs(self):
        self.sign_in(self.scene.everybody.token)
        for name in ('mnist-async', 'resnet-large', 'over-quota', 'nightly', 'evil'):
            self.b.wait_text(name, 'table')
        self.b.wait_text('60000/80000 75%', 'table')
        self.t.expect('where the token is', self.b.run('return [Object.keys(sessionStorage).join(), localStorage.length, document.cookie]'),
                      ['token', 0, ''])
        self.t.expect('the first row', self.b.text('tbody tr td'), 'over-quota')
        self.is_clean()
        self.picture('jobs')

    def narrows_the_list(self):
        self.b.write('#name', 'res')
        self.b.write('#namespace', 'speech')
        self.b.click('#filters button')
        self.b.wait_text('TFJobs of speech', 'h1')
        self.b.wait('one row', lambda: self.b.run('return document.querySelectorAll("tbody tr").length') == 1)
        self.b.go(self.scene.url + '#state=Blocked')
        self.b.wait('one row', lambda: self.b.run('return document.querySelectorAll("tbody tr").length') == 1)
        self.b.wait_text('over-quota', 'tbody')

    def shows_a_job(self):
        self.b.go(self.scene.url + '#')
        self.b.wait_text('mnist-async', 'table')
        self.b.run('[...document.querySelectorAll("td a")].find((a) => a.textContent === "mnist-async").click()')
        self.b.wait_text('mnist-async-worker-2', '#pods')
        self.b.wait_text('SuccessfulCreatePod', '#events')
        self.b.wait_text('step 60,000', '.readout')
        points = self.b.run('return document.querySelector("path.line").getAttribute("d").split("L").length')
        self.t.expect('points of the curve', points, 60)
        self.b.hover('svg')
        self.b.wait('the point under the pointer', lambda: 'step 60,000' not in self.b.text('.readout') and 'loss' in self.b.text('.readout'))
        self.is_clean()
        self.picture('job')
        self.b.run('[...document.querySelectorAll(".choice button")].find((b) => b.textContent === "Examples/s").click()')
        self.b.wait_text('examples/s', '.readout')
        for scheme in ('dark', 'light'):
            self.b.emulate('Emulation.setEmulatedMedia', features=[{'name': 'prefers-color-scheme', 'value': scheme}])
            if scheme == 'dark':
                self.picture('job-dark')

    def follows_the_job(self):
        """Without a reload."""
        self.scene.progress('mnist-async', 61)
        self.b.wait_text('61000/80000 76%', 'main', 30)

    def says_why_a_job_waits(self):
        for name, words in (('over-quota', 'exceeded quota'), ('no-image', 'ImagePullBackOff'), ('paused', 'Suspended')):
            self.b.go(self.scene.url + '#of=research&job=' + name)
            self.b.wait_text(words, '#waits')
        self.b.go(self.scene.url + '#of=research&job=over-quota')
        self.b.wait_text('exceeded quota', '#waits')
        self.picture('waits')
        self.is_clean()

    def texts_of_the_cluster_stay_text(self):
        self.b.go(self.scene.url + '#of=research&job=evil')
        for part in ('#failures', '#events', '#conditions'):
            self.b.wait_text(EVIL, part)
        self.t.expect('images and scripts that it made', self.b.run(
            'return document.querySelectorAll("main img, main script").length'), 0)
        self.is_clean()
        self.picture('texts')
        self.b.go(self.scene.url + '#of=research&job=' + EVIL.replace('"', '%22').replace(' ', '%20'))
        self.b.wait_text('is no name')
        self.is_clean(allowed='400')

    def fits_a_phone(self):
        self.b.emulate('Emulation.setDeviceMetricsOverride', **PHONE)
        for name, address, text in (('phone-jobs', '#', 'mnist-async'), ('phone-job', '#of=research&job=mnist-async', 'worker-2')):
            self.b.go(self.scene.url + address)
            self.b.wait_text(text, 'main')
            self.t.expect('what is wider than the screen', self.b.run('return document.documentElement.scrollWidth'), PHONE['width'])
            self.picture(name)
        self.b.emulate('Emulation.clearDeviceMetricsOverride')

    def one_namespace_is_all_that_its_viewer_sees(self):
        self.b.click('#leave')
        self.sign_in(self.scene.team.token)  # its token names its namespace, which is tried
        self.b.wait_text('TFJobs of speech', 'h1')
        self.b.wait_text('bert-small', 'table')
        self.b.go(self.scene.url + '#of=speech&job=bert-small')
        self.b.wait_text('may not list pods', '#pods')
        self.b.wait_text('forbidden', '#events')
        self.b.go(self.scene.url + '#namespace=research')
        self.b.wait_text('may not list tfjobs in namespace research', '#problem')
        self.picture('namespace')
        self.is_clean(allowed='403')
        self.b.click('button.primary')  # the same again: its viewer may have got the right meanwhile
        self.b.wait('another question', lambda: any('namespace=research' in url for url in self.b.requests()))

    def says_when_the_operator_is_gone(self):
        self.b.go(self.scene.url + '#namespace=speech')
        self.b.wait_text('bert-small', 'table')
        self.scene.operator.stop()
        self.b.wait_text('does not answer. Trying again', '#notice', 30)
        self.t.expect('the jobs are still shown', 'bert-small' in self.b.text('table'))

    def steps(self):
        return (self.asks_for_a_token, self.refuses_a_wrong_token, self.shows_the_jobs, self.narrows_the_list, self.shows_a_job,
                self.follows_the_job, self.says_why_a_job_waits, self.texts_of_the_cluster_stay_text, self.fits_a_phone,
                self.one_namespace_is_all_that_its_viewer_sees, self.says_when_the_operator_is_gone)


def look(scene, pictures):
    seen = Look(scene, pictures)
    try:
        for step in seen.steps():
            started = time.monotonic()
            try:
                step()
            except BaseException:
                print('FAIL %5.1f s  %s' % (time.monotonic() - started, step.__name__), flush=True)
                seen.picture('failure')
                raise
            print('ok   %5.1f s  %s' % (time.monotonic() - started, step.__name__), flush=True)
    finally:
        seen.b.close()


def run(args, folder):
    cluster = control_plane.ControlPlane(os.path.join(folder, 'cluster'))
    try:
        cluster.up()
        scene = Scene(cluster, args, folder)
        try:
            scene.jobs()
            scene.everybody = Viewer(scene.client, 'research', 'viewer', ['tfjobs', 'pods', 'events'])
            scene.team = Viewer(scene.client, 'speech', 'team', ['tfjobs'], 'speech')
            look(scene, args.pictures)
        finally:
            scene.close()
    finally:
        cluster.down(wipe=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--operator', required=True)
    parser.add_argument('--pictures', default=os.path.join(control_plane.ROOT, 'build', 'ci', 'page'))
    args = parser.parse_args()
    args.operator = os.path.abspath(args.operator)
    problem = browser.missing()
    if problem:
        print('%s: the page was not tried in a browser: %s' % ('FAIL' if os.environ.get('CI') else 'SKIPPED', problem))
        return 1 if os.environ.get('CI') else 77
    shutil.rmtree(args.pictures, ignore_errors=True)
    os.makedirs(args.pictures)
    folder = tempfile.mkdtemp(prefix='trainyard-page-')
    started = time.monotonic()
    try:
        run(args, folder)
    except (Failure, binaries.BuildError, control_plane.ClusterError) as e:
        print('page: %s\nlogs are in %s, pictures in %s' % (e, folder, args.pictures))
        return 1
    except Exception:  # pylint: disable=broad-except
        print('page: %s\nlogs are in %s, pictures in %s' % (traceback.format_exc(), folder, args.pictures))
        return 1
    shutil.rmtree(folder)
    print('the page holds, %.0f s; pictures are in %s' % (time.monotonic() - started, args.pictures))
    return 0


if __name__ == '__main__':
    sys.exit(main())
