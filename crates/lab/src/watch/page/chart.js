// A chart on the page: the drawing, legend, cursor, zoom, table and saved files.

import { draw, picture, prepare } from './draw.js';
import { duration, grouped, make, valued } from './format.js';

const HEIGHT = 258;
// Most rows of a chart's table.
const MAX_ROWS = 200;

export class Chart {
  // `shared` has the view (axis, range, smoothing, theme) and the callbacks of all charts.
  constructor(spec, shared) {
    this.spec = spec;
    this.shared = shared;
    this.hidden = new Set(spec.series.filter(series => series.hidden).map(series => series.label));
    this.cursor = null;
    this.isSeen = false;
    this.isTable = false;
    this.build();
  }

  build() {
    const button = (label, title, action) =>
      make(
        'button',
        {
          class: 'plain',
          type: 'button',
          title,
          'aria-label': `${title}: ${this.spec.title}`,
          onclick: action,
        },
        label,
      );
    this.tableButton = button('Table', 'Numbers as a table', () => this.showTable(!this.isTable));
    this.tableButton.setAttribute('aria-pressed', 'false');
    this.heading = make('h3', {}, this.spec.title);
    this.at = make('span', { class: 'at' });
    const tools = make(
      'span',
      { class: 'tools' },
      this.tableButton,
      button('SVG', 'Save as SVG', () => this.save('svg')),
      button('PNG', 'Save as PNG', () => this.save('png')),
      button('CSV', 'Save as CSV', () => this.save('csv')),
    );
    this.svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    this.svg.setAttribute('aria-hidden', 'true');
    this.line = make('div', { class: 'cursor', hidden: true });
    this.brush = make('div', { class: 'brush', hidden: true });
    this.plot = make(
      'div',
      { class: 'plot', tabindex: '0', role: 'group', 'aria-roledescription': 'chart' },
      this.svg,
      this.line,
      this.brush,
    );
    this.said = make('p', { class: 'said', 'aria-live': 'polite' });
    this.table = make('div', { class: 'numbers', tabindex: '0', hidden: true });
    this.legend = make('div', { class: 'legend', role: 'group', 'aria-label': 'Curves' });
    this.element = make(
      'figure',
      { class: 'chart', 'data-chart': this.spec.id },
      make('header', {}, this.heading, this.at, tools),
      this.plot,
      this.table,
      this.legend,
      this.said,
    );
    this.listen();
  }

  listen() {
    const place = event => event.clientX - this.plot.getBoundingClientRect().left;
    let from = null;
    this.plot.addEventListener('pointermove', event => {
      if (from != null) this.showBrush(from, place(event));
      this.shared.moveCursor(this.drawn?.fromX(place(event)));
    });
    this.plot.addEventListener('pointerleave', () => {
      if (from == null) this.shared.moveCursor(null);
    });
    this.plot.addEventListener('pointerdown', event => {
      if (event.button !== 0 || event.pointerType === 'touch') return;
      from = place(event);
      this.plot.setPointerCapture(event.pointerId);
    });
    this.plot.addEventListener('pointerup', event => {
      const to = place(event);
      this.brush.hidden = true;
      if (from != null && Math.abs(to - from) > 6) {
        const ends = [this.drawn.fromX(Math.min(from, to)), this.drawn.fromX(Math.max(from, to))];
        this.shared.zoom([
          Math.max(ends[0], this.drawn.xs[0]),
          Math.min(ends[1], this.drawn.xs[1]),
        ]);
      }
      from = null;
    });
    this.plot.addEventListener('dblclick', () => this.shared.zoom(null));
    this.plot.addEventListener('keydown', event => this.key(event));
    this.plot.addEventListener('blur', () => this.shared.moveCursor(null));
  }

  showBrush(from, to) {
    const { left, right } = this.drawn.plot,
      clamp = px => Math.max(left, Math.min(right, px));
    this.brush.hidden = Math.abs(to - from) < 3;
    this.brush.style.left = clamp(Math.min(from, to)) + 'px';
    this.brush.style.width = Math.abs(clamp(to) - clamp(from)) + 'px';
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.drawn) return;
    const act = {
      ArrowLeft: () => this.step(event.shiftKey ? -20 : -1),
      ArrowRight: () => this.step(event.shiftKey ? 20 : 1),
      Home: () => this.step(-Infinity),
      End: () => this.step(Infinity),
      '+': () => this.zoomBy(0.5),
      '=': () => this.zoomBy(0.5),
      '-': () => this.zoomBy(2),
      Escape: () => this.shared.moveCursor(null),
      t: () => this.showTable(!this.isTable),
      s: () => this.save('svg'),
      p: () => this.save('png'),
    }[event.key];
    if (!act) return;
    act();
    event.preventDefault();
    event.stopPropagation();
  }

  // Moves the cursor by some points of the curve with the most points.
  step(by) {
    const { lines, xs } = this.drawn;
    const x = lines
      .reduce((most, line) => (line.x.length > most.length ? line.x : most), [])
      .filter(x => x >= xs[0] && x <= xs[1]);
    if (!x.length) return;
    const now = this.cursor == null ? (by < 0 ? x.length : -1) : nearest(x, this.cursor);
    const next = Math.max(0, Math.min(x.length - 1, now + by));
    this.shared.moveCursor(x[Number.isFinite(next) ? next : by < 0 ? 0 : x.length - 1]);
    this.said.textContent = this.readout();
  }

  zoomBy(factor) {
    // Drawing follows later: quick presses add up.
    const { range, domain } = this.shared.view,
      [low, high] = range ?? domain ?? this.drawn.xs,
      middle = this.cursor ?? (low + high) / 2,
      half = ((high - low) * factor) / 2;
    this.shared.zoom([middle - half, middle + half]);
  }

  // Redraws the chart if it is on the screen.
  update(spec) {
    this.spec = spec ?? this.spec;
    if (!this.isSeen) return;
    const width = Math.max(240, this.plot.clientWidth);
    this.drawn = draw(this.spec, {
      ...this.shared.view,
      width,
      height: HEIGHT,
      hidden: this.hidden,
    });
    this.svg.setAttribute('viewBox', `0 0 ${width} ${HEIGHT}`);
    this.svg.setAttribute('width', width);
    this.svg.setAttribute('height', HEIGHT);
    this.svg.innerHTML = this.drawn.svg;
    this.heading.textContent = this.spec.title;
    this.updateLegend();
    this.moveTo(this.cursor);
    this.plot.setAttribute('aria-label', `${this.spec.title}. ${this.readout()}`);
    if (this.isTable) this.fillTable();
  }

  updateLegend() {
    const shown = this.spec.series.filter(series => series.curve?.v.length);
    const key = shown.map(series => series.label + series.color).join('|');
    if (key !== this.legendKey) {
      this.legendKey = key;
      this.values = new Map();
      this.legend.replaceChildren(...shown.map(series => this.legendItem(series)));
    }
    this.fillValues();
  }

  legendItem(series) {
    const value = make('b', {}),
      swatch = make('i', { class: series.dash ? 'dash' : '' });
    swatch.style.setProperty('--c', series.color);
    this.values.set(series.label, value);
    const item = make(
      'button',
      {
        type: 'button',
        class: 'item',
        'aria-pressed': String(!this.hidden.has(series.label)),
        title: 'Show or hide',
        onclick: () => {
          if (!this.hidden.delete(series.label)) this.hidden.add(series.label);
          item.setAttribute('aria-pressed', String(!this.hidden.has(series.label)));
          this.update();
        },
      },
      swatch,
      series.label,
      value,
    );
    return item;
  }

  // Shows the values at the cursor, or the last ones.
  fillValues() {
    for (const [label, value] of this.values) {
      const line = this.drawn.lines.find(line => line.label === label);
      value.textContent = line ? valued(this.valueAt(line), this.spec.unit) : '';
    }
    this.at.textContent = this.cursor == null ? '' : this.placed(this.cursor);
  }

  valueAt(line) {
    const at = this.cursor == null ? line.v.length - 1 : nearest(line.x, this.cursor);
    return line.v[at];
  }

  placed(x) {
    return this.shared.view.axis === 'time' ? duration(x) : 'step ' + grouped(x);
  }

  readout() {
    const { lines } = this.drawn;
    if (!lines.length) return 'No data yet';
    const place = this.cursor == null ? 'Latest' : this.placed(this.cursor);
    return (
      place +
      ': ' +
      lines.map(line => `${line.label} ${valued(this.valueAt(line), this.spec.unit)}`).join(', ')
    );
  }

  // Moves the cursor to a position of the axis, or hides it.
  moveTo(x) {
    this.cursor = x;
    if (!this.isSeen || !this.drawn) return;
    const { plot, toX, xs } = this.drawn,
      isIn = x != null && x >= xs[0] && x <= xs[1];
    this.line.hidden = !isIn;
    if (isIn) {
      this.line.style.left = toX(x) + 'px';
      this.line.style.top = plot.top + 'px';
      this.line.style.height = plot.bottom - plot.top + 'px';
    }
    this.fillValues();
  }

  showTable(isTable) {
    this.isTable = isTable;
    this.tableButton.setAttribute('aria-pressed', String(isTable));
    this.plot.hidden = isTable;
    this.table.hidden = !isTable;
    if (isTable) {
      this.fillTable();
      this.table.focus();
    } else {
      this.update();
      this.plot.focus();
    }
  }

  fillTable() {
    const rows = this.rows(MAX_ROWS),
      [head, ...body] = rows;
    this.table.replaceChildren(
      make(
        'table',
        {},
        make('thead', {}, make('tr', {}, ...head.map(cell => make('th', { scope: 'col' }, cell)))),
        make(
          'tbody',
          {},
          ...body.map(row =>
            make(
              'tr',
              {},
              ...row.map((cell, i) =>
                make(
                  'td',
                  {},
                  i === 0 ? this.placed(cell) : cell == null ? '' : valued(cell, this.spec.unit),
                ),
              ),
            ),
          ),
        ),
      ),
    );
  }

  // The numbers behind the drawing: a row for each point of the longest curve, at most `most`.
  rows(most) {
    const lines = prepare(this.spec, { ...this.shared.view, hidden: this.hidden });
    const head = [
      this.shared.view.axis === 'time' ? 'seconds' : 'step',
      ...lines.map(line => line.label),
    ];
    const x = lines.reduce(
      (longest, line) => (line.x.length > longest.length ? line.x : longest),
      [],
    );
    const every = Math.max(1, Math.ceil(x.length / most));
    const body = x
      .filter((_, i) => i % every === 0 || i === x.length - 1)
      .map(place => [
        place,
        ...lines.map(line => {
          const at = nearest(line.x, place);
          return line.x.length === x.length || line.x[at] === place || every > 1
            ? line.v[at]
            : null;
        }),
      ]);
    return [head, ...body];
  }

  async save(kind) {
    const name = `${this.shared.fileName()}-${this.spec.id}.${kind}`;
    if (kind === 'csv') {
      const quoted = cell =>
        /[",\n]/.test(cell) ? `"${String(cell).replaceAll('"', '""')}"` : (cell ?? '');
      return download(
        new Blob(
          [
            this.rows(Infinity)
              .map(row => row.map(quoted).join(','))
              .join('\n') + '\n',
          ],
          { type: 'text/csv' },
        ),
        name,
      );
    }
    const made = picture(
      this.spec,
      { ...this.shared.view, hidden: this.hidden },
      this.shared.subtitle(),
    );
    const blob = new Blob([made.svg], { type: 'image/svg+xml' });
    download(kind === 'svg' ? blob : await raster(blob, made), name);
  }
}

async function raster(blob, { width, height }) {
  const url = URL.createObjectURL(blob),
    image = new Image(width, height);
  image.src = url;
  await image.decode();
  const canvas = make('canvas', { width: 2 * width, height: 2 * height });
  canvas.getContext('2d').drawImage(image, 0, 0, 2 * width, 2 * height);
  URL.revokeObjectURL(url);
  return new Promise(done => canvas.toBlob(done, 'image/png'));
}

function download(blob, name) {
  const link = make('a', { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// The index of the nearest value; the values ascend.
export function nearest(x, to) {
  let low = 0,
    high = x.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (x[middle] < to) low = middle;
    else high = middle;
  }
  return Math.abs(x[low] - to) <= Math.abs(x[high] - to) ? low : high;
}
