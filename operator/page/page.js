// Who looks, at what, and when it is asked again. The token stays in this tab (sessionStorage).
import {h} from './dom.js';
import {address, detail, list} from './views.js';

const REFRESH = 5000, EVENTS_EVERY = 15000, PATIENCE = 15000;
const $ = (id) => document.getElementById(id);
const kept = {token: sessionStorage.getItem('token') || '', proxied: false, told: null, toldAt: 0, shown: '', drawnAt: 0, quantity: null,
  triedOwn: false};
let timer = 0;
let turn = 0;  // answers of earlier turns are not shown

class Refused extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

async function ask(path, parameters) {
  const headers = kept.token ? {Authorization: 'Bearer ' + kept.token} : {};
  const answer = await fetch(path + '?' + new URLSearchParams(parameters || {}),
                             {headers, cache: 'no-store', signal: AbortSignal.timeout(PATIENCE)});
  const body = await answer.json().catch(() => ({error: 'the answer is none of the operator\'s (' + answer.status + ')'}));
  if (!answer.ok) throw new Refused(answer.status, body.error || 'refused (' + answer.status + ')');
  return body;
}

const where = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));

// Shows a view, also the one that is there: something may have changed.
function visit(parameters) {
  const target = address(parameters);
  if ((location.hash || '#') === target) look();
  else location.hash = target;
}

function notice(text) {
  $('notice').textContent = text;
  $('notice').hidden = !text;
}

function show(nodes, signedIn) {
  $('main').replaceChildren(...nodes);
  $('filters').hidden = !signedIn;
  $('leave').hidden = !signedIn || kept.proxied;
}

function forget() {
  kept.token = '';
  sessionStorage.removeItem('token');
  history.replaceState(null, '', '#');
}

function enter(problem) {
  clearTimeout(timer);
  notice('');
  kept.shown = '';
  const input = h('input', {id: 'token', type: 'password', autocomplete: 'off', spellcheck: 'false', required: true});
  const submit = (event) => {
    event.preventDefault();
    kept.token = input.value.trim();
    if (kept.token) {
      sessionStorage.setItem('token', kept.token);
      kept.triedOwn = false;
      look();
    }
  };
  show([h('form', {class: 'card entry', submit}, h('h1', null, 'Who are you?'),
          problem ? h('p', {class: 'wrong', id: 'problem'}, problem) : null,
          h('label', {for: 'token'}, 'A token of the cluster\'s API server'), input,
          h('button', {class: 'primary', type: 'submit'}, 'Look'),
          h('p', {class: 'soft'}, 'For example of ', h('code', null, 'kubectl create token NAME'),
            '. The API server says what it may see; it stays in this tab, and only until the tab is closed.'))], false);
  input.focus();
}

// The namespace that a service account's token names, or ''.
function ownNamespace() {
  try {
    const claims = JSON.parse(atob(kept.token.split('.')[1].replace(/-/g, '+').replace(/_/g, '/')));
    return (claims['kubernetes.io'] || {}).namespace || '';
  } catch (error) {
    return '';
  }
}

function chooseNamespace(message) {
  kept.shown = '';
  const input = h('input', {id: 'choose', autocomplete: 'off', spellcheck: 'false', required: true, value: where().namespace || ''});
  const submit = (event) => {
    event.preventDefault();
    visit({namespace: input.value.trim()});
  };
  show([h('form', {class: 'card entry', submit}, h('h1', null, 'Which namespace?'), h('p', {class: 'wrong', id: 'problem'}, message),
          h('label', {for: 'choose'}, 'One whose TFJobs you may list'), input,
          h('button', {class: 'primary', type: 'submit'}, 'Show'))], true);
}

// What trying again would not change.
function refused(error, at) {
  if (error.code === 401) {
    forget();
    return enter(error.message + '.');
  }
  notice('');
  if (error.code === 403 && !at.namespace && !at.job && !kept.triedOwn && ownNamespace()) {
    kept.triedOwn = true;
    location.hash = address({namespace: ownNamespace()});
    return undefined;
  }
  if (error.code === 403) return chooseNamespace(error.message + '.');
  kept.shown = '';
  return show([h('section', {class: 'card'}, h('p', null, error.message + '.'),
                 h('a', {href: address({namespace: at.namespace})}, '‹ all jobs'))], true);
}

// Draws unless it is what is there already: a text that somebody selects must not go away.
function draw(answer, nodes) {
  const text = JSON.stringify([{...answer, now: 0}, kept.told, kept.quantity, location.hash]);
  if (text === kept.shown && Date.now() - kept.drawnAt < 30000) return;
  kept.shown = text;
  kept.drawnAt = Date.now();
  show(nodes(), true);
}

async function lookAtJob(at, mine) {
  const name = {namespace: at.of, name: at.job};
  const job = await ask('api/job', name);
  if (mine !== turn) return;
  document.title = job.name + ' · Trainyard';
  kept.namespace = at.namespace;
  kept.redraw = () => draw(job, () => detail(job, kept.told, kept));
  kept.redraw();
  if (kept.told && Date.now() - kept.toldAt < EVENTS_EVERY) return;
  const told = await ask('api/events', name).catch((error) => ({error: error.message}));
  if (mine !== turn) return;
  [kept.told, kept.toldAt] = [told, Date.now()];
  kept.redraw();
}

async function lookAtList(at, mine) {
  const {namespace = '', state = '', name = '', offset = ''} = at;
  const answer = await ask('api/jobs', {namespace, state, name, offset});
  if (mine !== turn) return;
  document.title = 'Trainyard';
  const seen = namespace ? [] : [...new Set(answer.jobs.map((job) => job.namespace))].sort();
  $('namespaces').replaceChildren(...seen.map((value) => h('option', {value})));
  draw(answer, () => list(answer, at));
}

async function look() {
  clearTimeout(timer);
  const mine = ++turn;
  const at = where();
  if (document.hidden) return;  // asked again when it is looked at
  if (!kept.token && !kept.proxied) return enter('');
  for (const id of ['namespace', 'name']) if (document.activeElement !== $(id)) $(id).value = at[id] || '';
  try {
    await (at.job ? lookAtJob(at, mine) : lookAtList(at, mine));
    if (mine === turn) notice('');
  } catch (error) {
    if (mine !== turn) return;
    if ([400, 401, 403, 404].includes(error.code)) return refused(error, at);
    notice((error instanceof Refused ? error.message : 'The operator does not answer') + '. Trying again …');
  }
  if (mine === turn && (kept.token || kept.proxied)) timer = setTimeout(look, REFRESH);
}

$('filters').addEventListener('submit', (event) => {
  event.preventDefault();
  document.activeElement.blur();
  visit({namespace: $('namespace').value.trim(), name: $('name').value.trim()});
});
$('leave').addEventListener('click', () => {
  forget();
  enter('');
});
addEventListener('hashchange', () => {
  [kept.told, kept.quantity] = [null, null];
  look();
});
document.addEventListener('visibilitychange', look);

ask('api/session').then((session) => {
  kept.proxied = session.hasToken && !kept.token;
}).catch(() => {}).finally(look);
