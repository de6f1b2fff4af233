// Draws a chart as SVG text for the screen, for print and for files. The colors are part of the
// drawing, so that a saved picture needs no style sheet.

import { duration, logTicks, safe, tick, ticks, timeTicks } from './format.js';
import { names } from './names.js';
import { smoothed } from './store.js';

// The colors come from the server, which shares them with reports and timelines.
const themed = (name, more) => ({
  colors: names.palette[name].series,
  phases: names.palette[name].phases,
  ...more,
});
export const themes = {
  light: themed('light', { text: '#1c2430', dim: '#5b6675', grid: '#e3e7ec', ground: '#ffffff' }),
  dark: themed('dark', { text: '#e4e8ee', dim: '#9aa5b3', grid: '#2a323d', ground: '#171c23' }),
};

const LEFT = 58,
  RIGHT = 12,
  TOP = 22,
  BOTTOM = 38,
  BAR = 10;
// What the horizontal axis shows, with its unit.
function axisTitle(axis, end) {
  if (axis !== 'time') return 'global steps';
  const unit = end < 60 ? 's' : end < 3600 ? 'min:s' : 'h:min:s';
  return `time since the first step (${unit})`;
}
const FONT = 'system-ui, -apple-system, Segoe UI, Roboto, Noto Sans, sans-serif';

// The visible curves, with the positions and values to draw.
export function prepare(spec, view) {
  return spec.series
    .filter(series => series.curve?.v.length && !view.hidden.has(series.label))
    .map(series => {
      const { curve } = series;
      const v = series.smooth ? smoothed(curve.v, view.smooth) : curve.v;
      return {
        ...series,
        x: view.axis === 'time' ? curve.t : curve.s,
        v,
        raw: curve.v,
        lo: curve.lo,
        hi: curve.hi,
      };
    });
}

// Draws a chart; returns the picture and the mapping between positions and pixels.
export function draw(spec, view) {
  const theme = themes[view.theme],
    lines = prepare(spec, view);
  const { width, height } = view,
    plot = {
      left: LEFT,
      top: TOP + (view.top ?? 0),
      right: width - RIGHT,
      bottom: height - BOTTOM - (view.bottom ?? 0),
    };
  const xs = view.range ?? view.domain ?? extent(lines.map(line => line.x));
  const stack = spec.kind === 'stack' ? stacked(lines) : null;
  const isLog = view.log && spec.logs && lines.length > 0;
  const found = stack ? [0, 100] : valueRange(spec, lines, xs, isLog);
  const ys = found ?? (isLog ? [0.1, 1] : [0, 1]);
  const toX = x => plot.left + ((x - xs[0]) / (xs[1] - xs[0] || 1)) * (plot.right - plot.left);
  const part = isLog
    ? y => Math.log(Math.max(y, ys[0]) / ys[0]) / Math.log(ys[1] / ys[0])
    : y => (y - ys[0]) / (ys[1] - ys[0] || 1);
  const toY = y => plot.bottom - part(y) * (plot.bottom - plot.top);
  const fromX = px => xs[0] + ((px - plot.left) / (plot.right - plot.left)) * (xs[1] - xs[0]);
  const clip = safe(`clip-${spec.id}${view.file ? '-file' : ''}`);
  const body = [
    axes(spec, view, theme, plot, xs, lines.length ? found : null, toX, toY, isLog),
    `<clipPath id="${clip}">`,
    svgElement('rect', {
      x: plot.left,
      y: plot.top - 2,
      width: Math.max(0, plot.right - plot.left + 2),
      height: Math.max(0, plot.bottom - plot.top + 3),
    }),
    '</clipPath>',
    `<g clip-path="url(#${clip})">`,
    stack ? areas(stack, toX, toY) : curves(lines, toX, toY),
    '</g>',
  ];
  if (!lines.length || !found)
    body.push(
      text(
        (plot.left + plot.right) / 2,
        (plot.top + plot.bottom) / 2,
        lines.length ? 'no data in this range' : absence(spec, view),
        theme.dim,
        'middle',
      ),
    );
  return { svg: body.join(''), plot, xs, lines, toX, toY, fromX, stack };
}

// Why a chart has nothing to show.
function absence(spec, view) {
  if (!view.isOver) return 'no data yet';
  const isSampled = spec.fromZero || spec.kind === 'stack';
  return view.isShort && isSampled ? 'the run was too short for samples' : 'no data was recorded';
}

function extent(columns) {
  let low = Infinity,
    high = -Infinity;
  for (const column of columns) {
    if (!column.length) continue;
    low = Math.min(low, column[0]);
    high = Math.max(high, column[column.length - 1]);
  }
  return low < high ? [low, high] : Number.isFinite(low) ? [low, low + 1] : [0, 1];
}

// From the least to the greatest drawn value; of the noise around a curve, the middle 94 %. Null if
// nothing is drawn in the range.
function valueRange(spec, lines, xs, isLog) {
  let low = Infinity,
    high = -Infinity;
  const noise = [];
  for (const line of lines) {
    for (const y of crossings(line, xs)) {
      if (isLog && y <= 0) continue;
      low = Math.min(low, y);
      high = Math.max(high, y);
    }
    for (let i = 0; i < line.v.length; i++) {
      if (line.x[i] < xs[0] || line.x[i] > xs[1]) continue;
      const y = line.v[i];
      if (isLog && y <= 0) continue;
      if (y < low) low = y;
      if (y > high) high = y;
      if (line.lo) noise.push(line.lo[i], line.hi[i]);
      else if (line.smooth) noise.push(line.raw[i]);
    }
  }
  if (noise.length > 20) {
    noise.sort((a, b) => a - b);
    const at = share => noise[Math.floor(share * (noise.length - 1))];
    low = Math.min(low, isLog ? Math.max(at(0.03), low / 10) : at(0.03));
    high = Math.max(high, at(0.97));
  }
  if (!(low <= high)) return null;
  if (isLog) return low < high ? [low / 1.05, high * 1.05] : [low / 2, high * 2];
  if (spec.fromZero) low = Math.min(0, low);
  // Where all values are zero, an axis of whole bytes.
  const pad = (high - low) * 0.06 || Math.abs(high) * 0.1 || (/^B/.test(spec.unit) ? 5 : 0.5);
  // Nothing that is drawn here can be negative unless a value is.
  return [
    low >= 0 ? (spec.fromZero ? 0 : Math.max(0, low - pad)) : low - pad,
    Math.min(high + pad, Math.max(spec.most ?? Infinity, high)),
  ];
}

// The values at which a line enters and leaves a range in the middle between two points.
function crossings(line, range) {
  const values = [];
  for (const edge of range) {
    const after = line.x.findIndex(x => x > edge);
    if (after <= 0 || line.x[after - 1] === edge) continue;
    const [from, to] = [line.x[after - 1], line.x[after]];
    const share = (edge - from) / (to - from);
    values.push(line.v[after - 1] + share * (line.v[after] - line.v[after - 1]));
  }
  return values;
}

function axes(spec, view, theme, plot, xs, ys, toX, toY, isLog) {
  const out = [],
    count = Math.max(2, Math.floor((plot.right - plot.left) / 75));
  // An empty chart has no values to measure.
  const vertical = !ys
    ? { at: [] }
    : isLog
    ? logTicks(...ys)
    : ticks(ys[0], ys[1], Math.max(2, Math.floor((plot.bottom - plot.top) / 38)));
  for (const y of vertical.at) {
    const py = toY(y).toFixed(1);
    out.push(
      `<path d="M${plot.left} ${py}H${plot.right}" stroke="${theme.grid}"/>`,
      text(plot.left - 6, +py + 4, tick(y, spec.unit, isLog ? y : vertical.step), theme.dim, 'end'),
    );
  }
  const across = view.axis === 'time' ? timeTicks(xs[0], xs[1], count) : ticks(xs[0], xs[1], count);
  for (const x of across.at) {
    const px = toX(x);
    const label =
      view.axis !== 'time'
        ? tick(x, '', across.step)
        : across.step < 1
          ? tick(x, '', across.step) + ' s'
          : duration(x);
    const anchor = px > plot.right - 16 ? 'end' : px < plot.left + 10 ? 'start' : 'middle';
    out.push(
      `<path d="M${px.toFixed(1)} ${plot.bottom}v4" stroke="${theme.dim}"/>`,
      text(px, plot.bottom + 17, label, theme.dim, anchor),
    );
  }
  const middle = (plot.left + plot.right) / 2,
    title = axisTitle(view.axis, xs[1]);
  out.push(
    `<path d="M${plot.left} ${plot.bottom}H${plot.right}" stroke="${theme.dim}"/>`,
    text(4, plot.top - 10, spec.axis, theme.dim, 'start', ' class="axis-y"'),
    text(middle, plot.bottom + 33, title, theme.dim, 'middle', ' class="axis-x"'),
  );
  return out.join('');
}

// An SVG element without children; attributes that are null or undefined are left out.
function svgElement(name, attributes) {
  const given = Object.entries(attributes).filter(([, value]) => value != null);
  return `<${name}${given.map(([key, value]) => ` ${key}="${value}"`).join('')}/>`;
}

function text(x, y, words, color, anchor, more = '') {
  const place = `x="${(+x).toFixed(1)}" y="${(+y).toFixed(1)}" text-anchor="${anchor}"`;
  const look = `fill="${color}" font-size="11.5" font-family="${FONT}"${more}`;
  return `<text ${place} ${look}>${safe(words)}</text>`;
}

function curves(lines, toX, toY) {
  const out = [];
  for (const line of lines) {
    if (line.lo && line.band !== false) out.push(band(line, toX, toY));
    else if (line.smooth && line.v !== line.raw)
      out.push(
        svgElement('path', {
          d: path(line.x, line.raw, toX, toY),
          fill: 'none',
          stroke: line.color,
          'stroke-opacity': 0.25,
        }),
      );
  }
  for (const line of lines) {
    out.push(
      svgElement('path', {
        d: path(line.x, line.v, toX, toY),
        fill: 'none',
        stroke: line.color,
        'stroke-width': line.width ?? 1.8,
        'stroke-linejoin': 'round',
        'stroke-linecap': 'round',
        'stroke-dasharray': line.dash,
      }),
    );
    if ((line.dots && line.v.length <= 60) || line.v.length === 1)
      for (let i = 0; i < line.v.length; i++)
        out.push(
          svgElement('circle', {
            cx: toX(line.x[i]).toFixed(1),
            cy: toY(line.v[i]).toFixed(1),
            r: 2.6,
            fill: line.color,
          }),
        );
  }
  return out.join('');
}

function path(x, y, toX, toY) {
  const out = [];
  for (let i = 0; i < y.length; i++)
    out.push((i ? 'L' : 'M') + toX(x[i]).toFixed(1) + ' ' + toY(y[i]).toFixed(1));
  return out.join('');
}

function band(line, toX, toY) {
  const there = path(line.x, line.hi, toX, toY),
    back = [];
  for (let i = line.v.length - 1; i >= 0; i--)
    back.push('L' + toX(line.x[i]).toFixed(1) + ' ' + toY(line.lo[i]).toFixed(1));
  return `<path d="${there}${back.join('')}Z" fill="${line.color}" fill-opacity=".16"/>`;
}

// Stacks shares, which add up to 100 %.
function stacked(lines) {
  const count = Math.min(...lines.map(line => line.v.length)),
    below = new Array(Number.isFinite(count) ? count : 0).fill(0);
  return lines.map(line => {
    const from = below.slice();
    for (let i = 0; i < below.length; i++) below[i] += Math.max(0, line.v[i]);
    return { ...line, x: line.x.slice(0, below.length), from, to: below.slice() };
  });
}

function areas(stack, toX, toY) {
  return stack
    .map(area => {
      if (area.x.length === 1) return bar(area, toX, toY);
      const back = [];
      for (let i = area.x.length - 1; i >= 0; i--)
        back.push('L' + toX(area.x[i]).toFixed(1) + ' ' + toY(area.from[i]).toFixed(1));
      return `<path d="${path(area.x, area.to, toX, toY)}${back.join('')}Z" fill="${area.color}"/>`;
    })
    .join('');
}

// A single sample has no width of its own.
function bar(area, toX, toY) {
  const [x, top, bottom] = [toX(area.x[0]), toY(area.to[0]), toY(area.from[0])];
  const [width, height] = [BAR, Math.max(0, bottom - top)];
  return svgElement('rect', { x: x - BAR / 2, y: top, width, height, fill: area.color });
}

// A complete picture with title and legend, for a file.
export function picture(spec, view, subtitle) {
  const theme = themes.light,
    width = 760,
    lines = prepare(spec, { ...view, theme: 'light' });
  let x = LEFT,
    y = 0;
  const legend = [];
  for (const line of lines) {
    const wide = 26 + line.label.length * 6.6;
    if (x + wide > width - RIGHT && x > LEFT) {
      x = LEFT;
      y += 18;
    }
    legend.push(
      `<rect x="${x}" y="${y + 4}" width="12" height="4" rx="1" fill="${line.color}"/>`,
      text(x + 17, y + 10, line.label, theme.text, 'start'),
    );
    x += wide;
  }
  const top = 34,
    bottom = y + 24,
    height = 300 + top + bottom;
  const drawn = draw(spec, { ...view, theme: 'light', width, height, top, bottom, file: true });
  const title =
    text(LEFT, 20, spec.title, theme.text, 'start', ' font-weight="600"') +
    text(width - RIGHT, 20, subtitle, theme.dim, 'end');
  return {
    width,
    height,
    svg: [
      '<svg xmlns="http://www.w3.org/2000/svg"',
      ` width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">`,
      svgElement('rect', { width: '100%', height: '100%', fill: theme.ground }),
      title,
      drawn.svg,
      `<g transform="translate(0 ${height - bottom + 8})">${legend.join('')}</g></svg>`,
    ].join(''),
  };
}
