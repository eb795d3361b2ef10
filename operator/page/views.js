// What is shown of the operator's answers. Knows no requests.
import {bar, between, clock, duration, h, number, pill, table} from './dom.js';
import {curve} from './curve.js';

const ORDER = ['Blocked', 'Stalled', 'Queued', 'Restarting', 'New', 'Created', 'Running', 'Suspended', 'Failed', 'Succeeded'];

// The address of a view of this page.
export function address(parameters) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) if (value) query.set(name, value);
  return '#' + query.toString();
}

const stateOf = (job) => (job.deleting ? 'Deleting' : job.state);

function progressOf(job, now) {
  const progress = job.progress;
  if (!progress) return '';
  const eta = job.ended || progress.etaSeconds === undefined ? '' :
      ' · ' + duration(Math.max(0, progress.etaSeconds - (Date.parse(now) - Date.parse(progress.lastUpdateTime)) / 1000)) + ' left';
  return h('div', null, progress.summary, h('span', {class: 'soft'}, eta),
           progress.lastStep ? bar(progress.globalStep / progress.lastStep) : null);
}

const replicasOf = (job) => job.replicas.map((each) =>
  each.type.toLowerCase() + ' ' + (each.running + each.succeeded) + '/' + each.wanted).join(', ');

const tookOf = (job, now) => between(job.started || job.created, job.ended || now);

function states(answer, at) {
  const all = Object.values(answer.states).reduce((sum, count) => sum + count, 0);
  const link = (state, count) => h(
      'a', {href: address({...at, state, offset: ''}), 'aria-current': String((at.state || '') === state)}, state || 'All', h('b', null, count));
  return h('nav', {class: 'states', 'aria-label': 'states'}, link('', all),
           ORDER.filter((state) => answer.states[state]).map((state) => link(state, answer.states[state])));
}

function pager(answer, at) {
  const end = answer.offset + answer.jobs.length;
  if (answer.total === answer.jobs.length) return null;
  const link = (offset, word) => h('a', {href: address({...at, offset})}, word);
  return h('div', {class: 'pager'}, h('span', {class: 'soft'}, (answer.offset + 1) + '–' + end + ' of ' + number(answer.total)),
           answer.offset > 0 ? link(Math.max(0, answer.offset - 100), '‹ back') : null,
           end < answer.total ? link(end, 'more ›') : null);
}

// `at`: the parameters of the view that is shown.
export function list(answer, at) {
  const rows = answer.jobs.map((job) => [
    h('a', {href: address({namespace: at.namespace, of: job.namespace, job: job.name})}, job.name), job.namespace, pill(stateOf(job)),
    progressOf(job, answer.now), replicasOf(job), job.restarts || '', tookOf(job, answer.now)]);
  const none = at.state || at.name ? 'No TFJob is like that.' : 'There are no TFJobs' + (at.namespace ? ' in this namespace.' : '.');
  return [
    h('h1', null, 'TFJobs' + (at.namespace ? ' of ' + at.namespace : '')), states(answer, at),
    h('section', {class: 'card'},
      rows.length ? table(['Name', 'Namespace', 'State', 'Progress', 'Replicas', 'Restarts', 'Time'], rows) : h('p', {class: 'soft'}, none),
      pager(answer, at))];
}

const QUANTITIES = [['loss', 'Loss', 2], ['step', 'Steps', 1], ['rate', 'Examples/s', 3]];

// `kept`: what the user has chosen, over refreshes.
function curves(job, kept) {
  const known = QUANTITIES.filter(([, , column]) => job.curve.some((row) => row[column] !== null));
  const title = h('h2', null, 'The last hour');
  if (!known.length) {
    return h('section', {class: 'card', id: 'curve'}, title, h('p', {class: 'soft'}, job.progress ?
      'Nothing was read since this operator started.' : 'This job tells no progress.'));
  }
  const [id, label, column] = known.find(([each]) => each === kept.quantity) || known[0];
  const points = job.curve.filter((row) => row[column] !== null).map((row) => ({time: row[0], value: row[column], step: row[1]}));
  const readout = h('div', {class: 'readout'});
  const tell = (point) => {
    const shown = point || points[points.length - 1];
    readout.textContent = clock(shown.time) + ' · step ' + number(shown.step) + (id === 'step' ? '' : ' · ' + label.toLowerCase() + ' ' + number(shown.value));
  };
  tell(null);
  const choose = known.map(([each, word]) => h('button', {
    type: 'button', 'aria-pressed': String(each === id), click: () => { kept.quantity = each; kept.redraw(); }}, word));
  return h('section', {class: 'card', id: 'curve'}, h('div', {class: 'row'}, title, h('div', {class: 'choice'}, choose)),
           curve(points, label, tell), readout);
}

function facts(job, now) {
  const progress = job.progress || {};
  const pairs = [
    ['Replicas', replicasOf(job)], ['Restarts', number(job.restarts)], ['Step', number(progress.globalStep)],
    ['Loss', number(progress.loss)], ['Examples/s', number(progress.examplesPerSecond)], ['Time', tookOf(job, now)],
    ['Created', between(job.created, now) + ' ago'], job.ended ? ['Ended', between(job.ended, now) + ' ago'] : null];
  return h('dl', {class: 'facts'}, pairs.filter((pair) => pair && pair[1] && pair[1] !== '–').map(
      ([name, value]) => h('div', null, h('dt', null, name), h('dd', null, value))));
}

const section = (id, title, content) => h('section', {class: 'card', id}, h('h2', null, title), content);

function pods(job) {
  if (job.podsRefused) return section('pods', 'Pods', h('p', {class: 'soft'}, 'Not shown: ' + job.podsRefused + '.'));
  if (!job.pods.total) return section('pods', 'Pods', h('p', {class: 'soft'}, 'There are none.'));
  const rows = job.pods.rows.map((pod) => [
    pod.name, pill(pod.deleting ? 'Deleting' : pod.phase), pod.exitCode === undefined ? '' : 'exit ' + pod.exitCode, pod.restarts || '',
    [pod.waiting, pod.reason, pod.message].filter(Boolean).join(': ')]);
  const hidden = job.pods.total - rows.length;
  return section('pods', 'Pods', [table(['Pod', 'Phase', 'Ended', 'Restarts', 'Why'], rows),
                                  hidden ? h('p', {class: 'soft'}, 'and ' + hidden + ' more') : null]);
}

function events(told, now) {
  if (!told) return section('events', 'Events', h('p', {class: 'soft'}, 'Reading …'));
  if (told.error) return section('events', 'Events', h('p', {class: 'soft'}, 'Not shown: ' + told.error));
  if (!told.events.length) return section('events', 'Events', h('p', {class: 'soft'}, 'The cluster keeps none, or no longer.'));
  return section('events', 'Events', table(['Last', 'Type', 'Reason', 'Message'], told.events.map((event) => [
    between(event.last, now) + ' ago', pill(event.type), event.reason + (event.count > 1 ? ' ×' + event.count : ''), event.message])));
}

// `told`: the job's events, or {error}, or null while they are read.
export function detail(job, told, kept) {
  const conditions = table(['Condition', 'Status', 'Since', 'Message'], [...job.conditions].reverse().map((each) =>
    [each.type, each.status, between(each.since, job.now) + ' ago', each.message]));
  const failures = () => table(['Pod', 'Exit', 'When', 'Reason', 'Last words'], job.failures.map((each) =>
    [each.pod, each.exitCode ?? '', each.time ? between(each.time, job.now) + ' ago' : '', each.reason, each.message]));
  return [
    h('p', null, h('a', {href: address({namespace: kept.namespace})}, '‹ all jobs')),
    h('h1', null, job.name, ' ', pill(stateOf(job))),
    h('section', {class: 'card'}, h('div', {class: 'soft'}, 'namespace ', job.namespace), progressOf(job, job.now), facts(job, job.now)),
    job.waits.length ? h('section', {class: 'card waits', id: 'waits'}, h('h2', null, 'Why it waits'),
                         h('ul', null, job.waits.map((text) => h('li', null, text)))) : null,
    curves(job, kept), job.failures.length ? section('failures', 'Failures', failures()) : null, pods(job),
    events(told, job.now), job.conditions.length ? section('conditions', 'Conditions', conditions) : null].filter(Boolean);
}
