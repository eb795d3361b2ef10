// Elements and words. Texts of the cluster become text nodes here and nowhere anything else.

const SVG = 'http://www.w3.org/2000/svg';

function fill(node, properties, children) {
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === 'function') node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children.flat(3)) {
    if (child === undefined || child === null || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

export const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);
export const s = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);

const KINDS = {
  Running: 'run', Succeeded: 'good', Failed: 'bad', Blocked: 'bad', Stalled: 'wait', Queued: 'wait', Restarting: 'wait',
  Pending: 'wait', Warning: 'wait',
};

export const pill = (word) => h('span', {class: 'pill ' + (KINDS[word] || '')}, word);

export function bar(part) {
  const inner = h('i');
  inner.style.width = Math.max(0, Math.min(100, 100 * part)) + '%';
  return h('div', {class: 'bar'}, inner);
}

// A table whose rows become cards on narrow screens. `rows`: arrays of cells.
export function table(names, rows) {
  const isShort = (content) => typeof content === 'number' || (typeof content === 'string' && content.length <= 26);
  const kind = (content) => (content === '' ? 'none' : isShort(content) ? 'short' : null);
  const cell = (content, i) => h('td', {'data-name': names[i], class: kind(content)}, h('div', null, content));
  return h('table', {class: 'stack'}, h('thead', null, h('tr', null, names.map((name) => h('th', null, name)))),
           h('tbody', null, rows.map((row) => h('tr', null, row.map(cell)))));
}

export function duration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 120) return whole + ' s';
  const minutes = Math.floor(whole / 60);
  if (minutes < 120) return minutes + ' min';
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? hours + ' h ' + (minutes % 60) + ' min' : Math.floor(hours / 24) + ' d';
}

// Between two times as the operator writes them; '' where one is missing.
export const between = (from, to) => (from && to ? duration((Date.parse(to) - Date.parse(from)) / 1000) : '');

export function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return '–';
  if (Number.isInteger(value)) return value.toLocaleString('en');
  return Math.abs(value) >= 1000 ? Math.round(value).toLocaleString('en') : String(Number(value.toPrecision(4)));
}

export const clock = (seconds) =>
  new Date(seconds * 1000).toLocaleTimeString('en-GB', {hour: '2-digit', minute: '2-digit', second: '2-digit'});
