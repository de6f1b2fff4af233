// Formats numbers, and chooses the ticks of an axis.

// 12,345
export function grouped(x) {
  return Math.round(x)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, ',');
}

// About four significant digits.
export function figure(x) {
  if (x == null || !Number.isFinite(x)) return '–';
  const size = Math.abs(x);
  if (Number.isInteger(x) && size < 1000) return String(x);
  if (size >= 1e5) return scaled(x, ['', 'k', 'M', 'G', 'T'], 1000);
  if (size >= 1000) return grouped(x);
  if (size >= 100) return x.toFixed(1);
  if (size >= 10) return x.toFixed(2);
  if (size >= 0.001) return x.toFixed(4);
  return x.toExponential(2);
}

// Three significant digits, for rates and times.
export function rounded(x) {
  if (x == null || !Number.isFinite(x)) return '–';
  const size = Math.abs(x);
  if (size === 0 || size >= 100) return figure(Math.round(x)).replace(/\.0$/, '');
  return size >= 0.001 ? String(+x.toPrecision(3)) : x.toExponential(2);
}

function scaled(x, names, base, gap = '') {
  let at = 0;
  while (Math.abs(x) >= base * 0.9995 && at < names.length - 1) {
    x /= base;
    at++;
  }
  const digits =
    Math.abs(x) >= 100 || (at === 0 && Number.isInteger(x)) ? 0 : Math.abs(x) >= 10 ? 1 : 2;
  return x.toFixed(digits) + gap + names[at];
}

export function bytes(x) {
  return x == null || !Number.isFinite(x)
    ? '–'
    : scaled(x, ['B', 'kB', 'MB', 'GB', 'TB'], 1000, ' ');
}

// A share as a percentage.
export const percent = (x, digits = 1) => (x == null ? '–' : (100 * x).toFixed(digits) + ' %');

// Seconds: 8.2 s, 3:05, 2:00:00.
export function duration(seconds) {
  if (seconds == null || !Number.isFinite(seconds)) return '–';
  const sign = seconds < 0 ? '−' : '';
  const whole = Math.abs(seconds);
  if (whole < 10 && whole % 1 > 1e-9) return sign + whole.toFixed(1) + ' s';
  if (whole < 60) return sign + Math.round(whole) + ' s';
  const all = Math.round(whole),
    pad = n => String(n).padStart(2, '0');
  const hours = Math.floor(all / 3600),
    minutes = Math.floor(all / 60) % 60;
  return sign + (hours ? hours + ':' + pad(minutes) : minutes) + ':' + pad(all % 60);
}

// A time of day, with the date unless it is today; `seconds` since 1970.
export function clock(seconds) {
  const at = new Date(1000 * seconds),
    pad = n => String(n).padStart(2, '0');
  const time = [at.getHours(), at.getMinutes(), at.getSeconds()].map(pad).join(':');
  if (at.toDateString() === new Date().toDateString()) return time;
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${time}`;
}

// A value of a chart with its unit.
export function valued(x, unit) {
  if (x == null || !Number.isFinite(x)) return '–';
  switch (unit) {
    case 'B':
      return bytes(x);
    case 'B/s':
      return bytes(x) + '/s';
    case '%':
      return (
        (Math.abs(x) >= 100 ? x.toFixed(0) : Math.abs(x) >= 10 ? x.toFixed(1) : x.toFixed(2)) + ' %'
      );
    case 'ms':
      return rounded(x) + ' ms';
    case '/s':
      return rounded(x) + '/s';
    default:
      return figure(x);
  }
}

// The label of a tick.
export function tick(x, unit, step) {
  if (unit === 'B' || unit === 'B/s') return x === 0 ? '0' : bytes(x).replace(/\.0+(?= )/, '');
  const text =
    Math.abs(x) >= 1e4
      ? scaled(x, ['', 'k', 'M', 'G', 'T'], 1000).replace(/\.0+(?=\D|$)/, '')
      : +x.toFixed(Math.max(0, Math.min(8, -Math.floor(Math.log10(step) + 1e-9)))) + '';
  return unit === '%' ? text + ' %' : text;
}

// About `count` round values between two values.
export function ticks(low, high, count) {
  if (!(high > low)) return { at: [low], step: 1 };
  const least = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map(f => f * power).find(s => s >= least * 0.999);
  return { at: places(low, high, step), step };
}

// Ticks for seconds.
export function timeTicks(low, high, count) {
  const least = (high - low) / Math.max(1, count);
  const steps = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400,
  ];
  const step =
    least < 1 ? null : (steps.find(s => s >= least * 0.999) ?? Math.ceil(least / 86400) * 86400);
  return step ? { at: places(low, high, step), step } : ticks(low, high, count);
}

// Ticks for a logarithmic axis: powers of ten, or 1, 2 and 5 times these.
export function logTicks(low, high) {
  const at = [];
  const factors = Math.log10(high / low) > 3 ? [1] : [1, 2, 5];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++)
    for (const factor of factors) {
      const x = factor * 10 ** power;
      if (x >= low * 0.999 && x <= high * 1.001) at.push(x);
    }
  return { at: at.length > 1 ? at : [low, high], step: low };
}

function places(low, high, step) {
  const at = [];
  for (let i = Math.ceil(low / step - 1e-6); i * step <= high + step * 1e-6 && at.length < 50; i++)
    at.push(i * step);
  return at;
}

// Escapes text for HTML and SVG.
export function safe(text) {
  return String(text).replace(/[&<>"']/g, c => `&#${c.charCodeAt(0)};`);
}

// Creates an element with attributes and children.
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === 'class') element.className = value;
    else if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, '');
    else if (value != null && value !== false) element.setAttribute(key, value);
  }
  element.append(...children.filter(child => child != null && child !== false));
  return element;
}

// A table that scrolls sideways within the page if it is wider, by keyboard too.
export function wide(label, table) {
  return make('div', { class: 'wide', role: 'region', 'aria-label': label, tabindex: '0' }, table);
}

// The titles of a table's columns.
export function head(titles) {
  return make(
    'thead',
    {},
    make('tr', {}, ...titles.map(title => make('th', { scope: 'col' }, title))),
  );
}
