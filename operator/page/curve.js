// The curve of one quantity over the last hour, as SVG.
import {clock, number, s} from './dom.js';

const HEIGHT = 240, LEFT = 58, RIGHT = 14, TOP = 12, BOTTOM = 26;

// About five round numbers from `low` to `high`.
function ticks(low, high) {
  const raw = (high - low) / 5;
  const power = Math.pow(10, Math.floor(Math.log10(raw)));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= raw);
  const out = [];
  for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; ++i) out.push(Number((i * step).toPrecision(12)));
  return out;
}

function scales(points) {
  const width = matchMedia('(max-width: 700px)').matches ? 380 : 860;  // of the drawing; letters keep their size
  const values = points.map((point) => point.value);
  let low = Math.min(...values), high = Math.max(...values);
  if (low === high) [low, high] = [low - (Math.abs(low) || 1) * 0.1, high + (Math.abs(high) || 1) * 0.1];
  const margin = (high - low) * 0.06;
  low = low >= 0 ? Math.max(0, low - margin) : low - margin;
  high += margin;
  const first = points[0].time, last = Math.max(points[points.length - 1].time, first + 60);
  return {
    low, high, first, last, width,
    x: (time) => LEFT + (width - LEFT - RIGHT) * (time - first) / (last - first),
    y: (value) => HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / (high - low),
  };
}

function axes(scale) {
  const lines = ticks(scale.low, scale.high).map((value) => [
    s('line', {class: 'grid', x1: LEFT, x2: scale.width - RIGHT, y1: scale.y(value), y2: scale.y(value)}),
    s('text', {x: LEFT - 8, y: scale.y(value) + 4, 'text-anchor': 'end'}, number(value)),
  ]);
  const times = (scale.width > 400 ? [0, 0.25, 0.5, 0.75, 1] : [0, 0.5, 1]).map((part) => {
    const time = scale.first + part * (scale.last - scale.first);
    const anchor = part === 0 ? 'start' : part === 1 ? 'end' : 'middle';
    return s('text', {x: scale.x(time), y: HEIGHT - 8, 'text-anchor': anchor}, clock(time).slice(0, 5));
  });
  return [...lines, ...times];
}

// `points`: {time, value, step} by time, values finite, at least one. `tell` gets the point under the pointer, or null.
export function curve(points, label, tell) {
  const scale = scales(points);
  const path = points.map((p, i) => (i ? 'L' : 'M') + scale.x(p.time).toFixed(1) + ' ' + scale.y(p.value).toFixed(1)).join('');
  const floor = HEIGHT - BOTTOM, last = points[points.length - 1];
  const area = path + 'L' + scale.x(last.time).toFixed(1) + ' ' + floor + 'L' + scale.x(points[0].time).toFixed(1) + ' ' + floor + 'Z';
  const cross = s('line', {class: 'cross', y1: TOP, y2: floor, visibility: 'hidden'});
  const dot = s('circle', {class: 'dot', r: 4, cx: scale.x(last.time), cy: scale.y(last.value)});
  const svg = s('svg', {viewBox: '0 0 ' + scale.width + ' ' + HEIGHT, role: 'img', 'aria-label': label + ' over time'},
                axes(scale), s('path', {class: 'area', d: area}), s('path', {class: 'line', d: path}), cross, dot);
  const point = (shown) => {
    dot.setAttribute('cx', scale.x((shown || last).time));
    dot.setAttribute('cy', scale.y((shown || last).value));
    cross.setAttribute('visibility', shown ? 'visible' : 'hidden');
    if (shown) for (const end of ['x1', 'x2']) cross.setAttribute(end, scale.x(shown.time));
    tell(shown);
  };
  svg.addEventListener('pointermove', (event) => {
    const box = svg.getBoundingClientRect();
    const at = (event.clientX - box.left) * scale.width / box.width;
    point(points.reduce((best, p) => (Math.abs(scale.x(p.time) - at) < Math.abs(scale.x(best.time) - at) ? p : best)));
  });
  svg.addEventListener('pointerleave', () => point(null));
  return svg;
}
