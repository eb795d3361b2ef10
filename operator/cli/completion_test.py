#!/usr/bin/env python3
"""Completion as a user has it: bash, zsh and fish source what `trainyard completion` prints and are asked to complete a
line; kubectl asks `kubectl_complete-trainyard`. A server in this process is the cluster. Shells that are not installed
are skipped, each by name.   completion_test.py TRAINYARD"""
import http.server
import json
import os
import pty
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

PROGRAM = None
JOBS = ['mnist-async', 'mnist-sync']
OBJECTS = {'/apis/kubeflow.org/v1/namespaces/default/tfjobs': JOBS,
           '/apis/kubeflow.org/v1/namespaces/team/tfjobs': ['other'],
           '/api/v1/namespaces': ['default', 'team'],
           '/api/v1/namespaces/default/pods': ['mnist-sync-ps-0', 'mnist-sync-worker-0']}


class Api(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        names = OBJECTS.get(self.path.partition('?')[0], [])
        body = json.dumps({'metadata': {'resourceVersion': '1'}, 'items': [{'metadata': {'name': n}} for n in names]})
        self.send_response(200)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *args):
        pass


class CompletionTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix='completion-')
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ('trainyard', 'kubectl-trainyard', 'kubectl_complete-trainyard'):
            os.symlink(PROGRAM, os.path.join(self.folder, name))
        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Api)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.environment = {'PATH': self.folder + ':' + os.environ['PATH'], 'HOME': self.folder, 'TERM': 'dumb', 'LANG': 'C.UTF-8',
                            'KUBECONFIG': self.kubeconfig('config', server.server_address[1])}
        self.environment.update({k: v for k, v in os.environ.items() if k.endswith('SAN_OPTIONS')})

    def kubeconfig(self, name, port):
        path = os.path.join(self.folder, name)
        with open(path, 'w') as f:
            json.dump({'apiVersion': 'v1', 'kind': 'Config', 'current-context': 'c', 'users': [{'name': 'u', 'user': {}}],
                       'contexts': [{'name': 'c', 'context': {'cluster': 'k', 'user': 'u'}}],
                       'clusters': [{'name': 'k', 'cluster': {'server': 'http://127.0.0.1:%d' % port}}]}, f)
        return path

    def run_program(self, *words, seconds=30):
        return subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=seconds, cwd=self.folder)

    def complete(self, *words):
        """(words that are offered, whether files may be)"""
        result = self.run_program('trainyard', '__complete', *words)
        self.assertEqual((result.returncode, result.stderr), (0, ''))
        lines = result.stdout.splitlines()
        return [line.partition('\t')[0] for line in lines[:-1]], lines[-1] == ':0'

    def test_offers_what_goes_on(self):
        commands = self.complete('')[0]
        self.assertLessEqual({'run', 'validate', 'convert', 'list', 'describe', 'completion'}, set(commands))
        for words, offered in (
                (['des'], ['describe']),
                (['nonsense', ''], []),
                (['list', '--all'], ['--all-namespaces']),
                (['list', '-o', ''], ['wide', 'json', 'yaml']),
                (['list', '--output=j'], ['--output=json']),
                (['wait', 'x', '--for', 'F'], ['Failed']),
                (['completion', ''], ['bash', 'zsh', 'fish']),
                (['scale', 'x', '--type', 'W'], ['Worker']),
                (['describe', ''], JOBS),
                (['describe', 'mnist-s'], ['mnist-sync']),
                (['describe', '-n', 'team', ''], ['other']),
                (['describe', '-nteam', ''], ['other']),
                (['describe', '--namespace=team', ''], ['other']),
                (['describe', '-n', ''], ['default', 'team']),
                (['describe', 'mnist-sync', ''], []),
                (['logs', 'mnist-sync', 'mnist-sync-w'], ['mnist-sync-worker-0']),
                (['delete', '--wait', '--', ''], JOBS)):
            with self.subTest(words=words):
                self.assertEqual(self.complete(*words), (offered, False))
        self.assertNotIn('--wait', self.complete('delete', '--wait', '--')[0], 'it is there already')
        for words in (['run', ''], ['validate', 'a.yaml', 'b'], ['list', '--kubeconfig', '']):
            self.assertEqual(self.complete(*words), ([], True), words)

    def test_a_cluster_that_does_not_answer_costs_little_and_says_nothing(self):
        with socket.socket() as silent:
            silent.bind(('127.0.0.1', 0))
            silent.listen()
            for kubeconfig in (self.kubeconfig('silent', silent.getsockname()[1]), '/no/such/file', self.kubeconfig('nobody', 1)):
                start = time.monotonic()
                self.assertEqual(self.complete('describe', '--kubeconfig', kubeconfig, ''), ([], False))
                self.assertLess(time.monotonic() - start, 10)

    def need(self, program):
        if not shutil.which(program):
            self.skipTest(program + ' is not installed')

    def type_and_tab(self, shell, prepare, line):
        """What the line is after a tab, in a shell on a terminal."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execvpe(shell[0], shell, self.environment)
        try:
            # Only at its prompt a shell reads keys.
            os.write(terminal, (prepare + "; PS1='re''ady> '\n").encode())
            self.read_until(terminal, 'ready> ')
            os.write(terminal, (line + '\t').encode())
            os.write(terminal, b'END')
            shown = self.read_until(terminal, 'END')
            return re.sub(' +', ' ', re.sub(r'\x1b\[[0-9;?]*[a-zA-Z]|[\x07\x08\r]', '', shown))
        finally:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            os.close(terminal)

    def read_until(self, terminal, pattern):
        text = ''
        deadline = time.monotonic() + 20
        while not re.search(pattern, text):
            self.assertLess(time.monotonic(), deadline, 'the shell shows only: ' + text)
            if select.select([terminal], [], [], 0.2)[0]:
                text += os.read(terminal, 4096).decode(errors='replace')
        return text

    LINES = (('trainyard desc', 'trainyard describe '), ('trainyard describe mnist-s', 'trainyard describe mnist-sync '),
             ('trainyard wait x --for=Fa', 'trainyard wait x --for=Failed '), ('trainyard list --kubeconfig con', 'config '))

    def test_bash(self):
        self.need('bash')
        for line, wanted in self.LINES:
            shown = self.type_and_tab(['bash', '--norc', '-i'], 'source <(trainyard completion bash)', line)
            self.assertIn(wanted + 'END', shown)

    def test_zsh(self):
        self.need('zsh')
        for line, wanted in self.LINES:
            shown = self.type_and_tab(['zsh', '-f', '-i'],
                                      'autoload -U compinit; compinit -u; source <(trainyard completion zsh)', line)
            self.assertIn(wanted + 'END', shown)

    def test_fish(self):
        self.need('fish')
        for line, wanted in (('trainyard desc', 'describe'), ('trainyard describe mnist-s', 'mnist-sync'),
                             ('trainyard wait x --for=Fa', '--for=Failed'), ('trainyard list --kubeconfig con', 'config')):
            result = self.run_program('fish', '--no-config', '-c', 'trainyard completion fish | source; complete -C "%s"' % line)
            self.assertEqual([text.partition('\t')[0] for text in result.stdout.splitlines()], [wanted], result.stderr)

    def test_kubectl(self):
        self.need('kubectl')
        result = self.run_program('kubectl', '__complete', 'trainyard', 'describe', 'mnist-s')
        self.assertEqual(result.stdout.splitlines(), ['mnist-sync', ':4'], result.stderr)


if __name__ == '__main__':
    PROGRAM = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1], verbosity=2)
