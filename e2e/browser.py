"""A headless Chromium, driven over WebDriver (https://www.w3.org/TR/webdriver2/) with the standard library alone. It
reaches loopback and nothing else; its profile is a temporary folder."""
import base64
import http.client
import json
import os
import shutil
import subprocess
import tempfile
import time

from control_plane import PATIENCE, die_with_parent, free_port
from harness import Failure

ELEMENT = 'element-6066-11e4-a52e-4f735466cecf'  # the specification's key of an element's id
INSTALL = 'make browser-deps installs it'


def missing():
    """Why no browser can run here, or ''."""
    for program in ('chromium', 'chromedriver'):
        if not shutil.which(program):
            return 'there is no %s; %s' % (program, INSTALL)
    return ''


class Browser:
    def __init__(self, width=1280, height=900):
        self.folder = tempfile.mkdtemp(prefix='trainyard-browser-')
        self.port = free_port()
        self.log = os.path.join(self.folder, 'chromedriver.log')
        self.session = None
        with open(self.log, 'wb') as log:
            self.driver = subprocess.Popen(
                [shutil.which('chromedriver'), '--port=%d' % self.port], stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, preexec_fn=die_with_parent, env=dict(os.environ, HOME=self.folder, TZ='UTC'))
        try:
            self._await_driver()
            self.session = self._call('POST', '/session', {'capabilities': {'alwaysMatch': {
                'browserName': 'chrome', 'goog:loggingPrefs': {'browser': 'ALL', 'performance': 'ALL'},
                'goog:chromeOptions': {'binary': shutil.which('chromium'), 'args': self._flags(width, height)}}}})['sessionId']
            self.go('about:blank')
            self.console()
            self.requests()  # those of the browser's own first page
        except BaseException:
            self.close()
            raise

    def _flags(self, width, height):
        flags = ['--headless=new', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run', '--disable-sync',
                 '--disable-background-networking', '--disable-component-update', '--hide-scrollbars',
                 '--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1', '--window-size=%d,%d' % (width, height),
                 '--user-data-dir=' + os.path.join(self.folder, 'profile')]
        return flags + (['--no-sandbox'] if os.geteuid() == 0 else [])  # root has no sandbox

    def _await_driver(self):
        deadline = time.monotonic() + 30 * PATIENCE
        while True:
            try:
                if self._call('GET', '/status')['ready']:
                    return
            except OSError:
                pass
            if self.driver.poll() is not None or time.monotonic() > deadline:
                with open(self.log, errors='replace') as f:
                    raise Failure('chromedriver is not ready: ' + f.read()[-1000:])
            time.sleep(0.05)

    def _call(self, method, path, body=None):
        if self.session:
            path = '/session/' + self.session + path
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=60 * PATIENCE)
        try:
            connection.request(method, path, json.dumps(body).encode() if body is not None else None,
                               {'Content-Type': 'application/json'})
            answer = json.loads(connection.getresponse().read())['value']
        finally:
            connection.close()
        if isinstance(answer, dict) and 'error' in answer:
            raise Failure('the browser, on %s %s: %s: %s' % (method, path, answer['error'], answer['message'][:500]))
        return answer

    def close(self):
        try:
            if self.session:
                self._call('DELETE', '')
        except (OSError, Failure, http.client.HTTPException):
            pass
        self.session = None
        self.driver.terminate()
        try:
            self.driver.wait(20)
        except subprocess.TimeoutExpired:
            self.driver.kill()
            self.driver.wait(20)
        shutil.rmtree(self.folder, ignore_errors=True)

    # Acting.

    def go(self, url):
        self._call('POST', '/url', {'url': url})

    def element(self, css):
        return self._call('POST', '/element', {'using': 'css selector', 'value': css})[ELEMENT]

    def click(self, css):
        self._call('POST', '/element/%s/click' % self.element(css), {})

    def write(self, css, text):
        element = self.element(css)
        self._call('POST', '/element/%s/clear' % element, {})
        self._call('POST', '/element/%s/value' % element, {'text': text})

    def hover(self, css):
        self._call('POST', '/actions', {'actions': [{'type': 'pointer', 'id': 'mouse', 'actions': [
            {'type': 'pointerMove', 'duration': 0, 'x': 0, 'y': 0, 'origin': {ELEMENT: self.element(css)}}]}]})

    def emulate(self, command, **parameters):
        """A command of the DevTools protocol."""
        self._call('POST', '/goog/cdp/execute', {'cmd': command, 'params': parameters})

    # Looking.

    def run(self, script, *arguments):
        return self._call('POST', '/execute/sync', {'script': script, 'args': list(arguments)})

    def text(self, css='body'):
        return self.run('const e = document.querySelector(arguments[0]); return e ? e.innerText : ""', css)

    def wait(self, what, predicate, seconds=20):
        deadline = time.monotonic() + seconds * PATIENCE
        while True:
            value = predicate()
            if value:
                return value
            if time.monotonic() > deadline:
                raise Failure('waited %g s in vain for: %s; the page says: %s' % (seconds * PATIENCE, what, self.text()[:2000]))
            time.sleep(0.1)

    def wait_text(self, text, css='body', seconds=20):
        self.wait('%r in %s' % (text, css), lambda: text in self.text(css), seconds)

    def screenshot(self, path):
        """Of the whole page, as high as it is."""
        size = self.run('return [innerWidth, Math.max(document.documentElement.scrollHeight, innerHeight)]')
        answer = self._call('POST', '/goog/cdp/execute', {'cmd': 'Page.captureScreenshot', 'params': {
            'captureBeyondViewport': True, 'clip': {'x': 0, 'y': 0, 'width': size[0], 'height': size[1], 'scale': 1}}})
        with open(path, 'wb') as f:
            f.write(base64.b64decode(answer['data']))

    def console(self):
        """Warnings and errors since the last call."""
        return [entry['message'] for entry in self._call('POST', '/se/log', {'type': 'browser'})
                if entry['level'] in ('WARNING', 'SEVERE')]

    def requests(self):
        """URLs that were asked for since the last call."""
        events = [json.loads(entry['message'])['message'] for entry in self._call('POST', '/se/log', {'type': 'performance'})]
        return [event['params']['request']['url'] for event in events if event['method'] == 'Network.requestWillBeSent']
