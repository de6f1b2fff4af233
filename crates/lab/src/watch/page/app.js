// The page as a whole: which runs it shows and how, and what it does with updates.

import { Chart } from './chart.js';
import { make } from './format.js';
import { state } from './facts.js';
import { names } from './names.js';
import { showFigures, showVerdict, showWhat } from './overview.js';
import { labels, sections } from './panels.js';
import { showList } from './runs.js';
import { dropOtherRuns, store, addUpdate, addZoom } from './store.js';
import { showComparison, showDetails } from './tables.js';

const $ = id => document.getElementById(id);
const dark = matchMedia('(prefers-color-scheme: dark)'),
  narrow = matchMedia('(max-width: 60rem)');

// Samples of a shorter run are too few for curves.
const SHORT_SECONDS = 3;

const view = {
  axis: 'step',
  range: null,
  domain: null,
  isOver: false,
  isShort: false,
  smooth: 0.6,
  log: false,
  theme: 'light',
};
// How often tables change at most.
const TABLES_EVERY_MS = 900;
const shared = {
  view,
  moveCursor,
  zoom,
  fileName: () =>
    chosen
      .map(id => id.replace(/[^\w.-]+/g, '_'))
      .join('+')
      .slice(0, 80) || 'run',
  subtitle: () => labels(shownRuns()).join(', ').slice(0, 90),
};
let chosen = [],
  charts = new Map(),
  stream = null,
  isDue = false,
  tablesAt = 0,
  tablesTimer = 0,
  zoomRequests = 0;

function shownRuns() {
  return chosen.map(id => store.runs.get(id)).filter(run => run?.about);
}

// The address holds which runs are shown and how, so that it can be bookmarked and shared.
function readAddress() {
  const asked = new URLSearchParams(location.hash.slice(1));
  chosen = asked.getAll('run').slice(0, names.maxComparedRuns);
  if (asked.get('x') === 'time' || asked.get('x') === 'step') view.axis = asked.get('x');
}

function writeAddress() {
  const asked = new URLSearchParams(chosen.map(id => ['run', id]));
  asked.set('x', view.axis);
  history.replaceState(null, '', '#' + asked);
}

function choose(id, isOnly) {
  if (isOnly) chosen = [id];
  else if (chosen.includes(id)) chosen = chosen.filter(other => other !== id);
  else chosen = [...chosen, id].slice(-names.maxComparedRuns);
  view.range = null;
  $('whole').hidden = true;
  if (isOnly && narrow.matches) showSide(false);
  writeAddress();
  connect();
  listRuns();
}

// Subscribes to updates of the runs that are shown.
function connect() {
  stream?.close();
  dropOtherRuns(chosen);
  buildCharts();
  stream = new EventSource('api/stream?' + new URLSearchParams(chosen.map(id => ['run', id])));
  stream.addEventListener('open', () => {
    $('lost').hidden = true;
  });
  stream.addEventListener('error', () => {
    $('lost').hidden = false;
  });
  stream.addEventListener('runs', event => {
    store.list = JSON.parse(event.data);
    const isThere = store.list.some(card => chosen.includes(card.id));
    if (!isThere && store.list.length) return choose(store.list[0].id, true);
    listRuns();
  });
  stream.addEventListener('run', event => {
    addUpdate(JSON.parse(event.data));
    redraw();
  });
}

function listRuns() {
  const isAlone = store.list.length === 1 && store.list[0].id === '.';
  document.body.classList.toggle('alone', isAlone);
  showList($('list'), $('count'), store.list, $('filter').value, chosen, choose);
  $('empty').hidden = store.list.length > 0;
}

// Redraws once for all updates that arrive before the next frame.
function redraw() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => {
    isDue = false;
    show();
  });
}

function show() {
  const runs = shownRuns();
  $('shown').hidden = !runs.length;
  if (!runs.length) return;
  const one = runs.length === 1 ? runs[0] : null,
    runLabels = labels(runs);
  const title = one ? (one.id === '.' ? one.about.name : runLabels[0]) : `${runs.length} runs`;
  $('title').textContent = title;
  document.title = `${title} – Paceline`;
  const { kind, phrase } = one ? state(one.about) : { kind: '', phrase: runLabels.join(', ') };
  if ($('state').textContent !== phrase) $('state').textContent = phrase;
  $('state').className = `state ${kind}`;
  $('figures').hidden = !one;
  $('verdict').hidden = !one;
  $('what').hidden = !one;
  if (one) {
    showWhat($('what'), one);
    showVerdict($('verdict'), one, view.theme);
    showFigures($('figures'), one);
  }
  view.domain = domain(runs);
  view.isOver = runs.every(run => run.about.is_over || run.about.ended_at != null);
  const isShort = ({ summary, job }) =>
    summary?.seconds < SHORT_SECONDS && job['observe.sample_ms'] !== '0';
  view.isShort = runs.every(run => isShort(run.about));
  buildCharts();
  for (const [spec, chart] of specs(runs)) chart.update(spec);
  // Tables may lag behind the charts, and must not change while the reader selects text in them.
  const isHeld = $('tables').contains(document.activeElement) || String(getSelection());
  const wait = tablesAt + TABLES_EVERY_MS - Date.now();
  clearTimeout(tablesTimer);
  if ((wait > 0 || isHeld) && $('tables').children.length) {
    // No further update may come.
    tablesTimer = setTimeout(redraw, isHeld ? TABLES_EVERY_MS : wait);
  } else {
    tablesAt = Date.now();
    if (one) showDetails($('tables'), one);
    else showComparison($('tables'), runs, view.theme);
  }
}

// All charts share one axis, from 0 to the last point of any run.
function domain(runs) {
  const column = view.axis === 'time' ? 't' : 's';
  let end = 0;
  for (const run of runs)
    for (const curve of run.curves.values())
      end = Math.max(end, curve[column][curve[column].length - 1] ?? 0);
  return end > 0 ? [0, end] : null;
}

function specs(runs) {
  const pairs = [];
  for (const [, list] of sections(runs, view.theme))
    for (const spec of list) if (charts.has(spec.id)) pairs.push([spec, charts.get(spec.id)]);
  return pairs;
}

const seen = new IntersectionObserver(
  entries => {
    for (const entry of entries) {
      const chart = charts.get(entry.target.dataset.chart);
      if (!chart) continue;
      const wasSeen = chart.isSeen;
      chart.isSeen = entry.isIntersecting;
      if (chart.isSeen && !wasSeen) redraw();
    }
  },
  { rootMargin: '300px' },
);
const sized = new ResizeObserver(() => redraw());

// Creates the charts of the shown runs, unless they exist.
function buildCharts() {
  const runs = shownRuns(),
    wanted = runs.length ? sections(runs, view.theme) : [];
  const key =
    chosen.length +
    wanted.map(([title, list]) => title + list.map(spec => spec.id).join()).join('|');
  if (key === buildCharts.key) return;
  buildCharts.key = key;
  charts = new Map();
  seen.disconnect();
  sized.disconnect();
  $('tables').replaceChildren();
  $('charts').replaceChildren(
    ...wanted.map(([title, list]) =>
      make(
        'section',
        {},
        make('h2', {}, title),
        make(
          'div',
          { class: chosen.length > 1 ? 'grid three' : 'grid' },
          ...list.map(spec => {
            const chart = new Chart(spec, shared);
            charts.set(spec.id, chart);
            return chart.element;
          }),
        ),
      ),
    ),
  );
  for (const chart of charts.values()) {
    seen.observe(chart.element);
    sized.observe(chart.plot);
  }
}

function moveCursor(x) {
  for (const chart of charts.values()) chart.moveTo(x ?? null);
}

// The part of a range that has data; null if that is everything.
function within(range, domain) {
  if (!range || !domain) return null;
  const width = Math.min(range[1] - range[0], domain[1] - domain[0]);
  const from = Math.max(domain[0], Math.min(range[0], domain[1] - width));
  const isAll = width >= (domain[1] - domain[0]) * 0.999;
  return isAll || !(width > 0) ? null : [from, from + width];
}

// Shows a part of the axis, with finer curves from the server.
async function zoom(wanted) {
  const range = within(wanted, view.domain);
  view.range = range;
  $('whole').hidden = !range;
  const asked = ++zoomRequests,
    runs = shownRuns();
  if (!range) for (const run of runs) run.zoomed = null;
  redraw();
  if (!range) return;
  const around = (range[1] - range[0]) * 0.02;
  await Promise.all(
    runs.map(async run => {
      const query = new URLSearchParams({
        run: run.id,
        x: view.axis,
        from: range[0] - around,
        to: range[1] + around,
      });
      const answer = await fetch('api/zoom?' + query);
      if (answer.ok && asked === zoomRequests) addZoom(run, await answer.json());
    }),
  );
  redraw();
}

function setAxis(axis) {
  view.axis = axis;
  $('by-step').setAttribute('aria-pressed', String(axis === 'step'));
  $('by-time').setAttribute('aria-pressed', String(axis === 'time'));
  zoom(null);
}

function setTheme(theme) {
  view.theme = theme;
  document.documentElement.dataset.theme = theme;
  tablesAt = 0;
  redraw();
}

function showSide(isShown) {
  document.body.classList.toggle('folded', !isShown);
  $('menu').setAttribute('aria-expanded', String(isShown));
}

function begin() {
  const kept = localStorage.getItem('theme');
  setTheme(kept ?? (dark.matches ? 'dark' : 'light'));
  dark.addEventListener('change', () => {
    if (!localStorage.getItem('theme')) setTheme(dark.matches ? 'dark' : 'light');
  });
  readAddress();
  setAxis(view.axis);
  showSide(!narrow.matches);
  listen();
  connect();
}

function listen() {
  $('by-step').onclick = () => {
    setAxis('step');
    writeAddress();
  };
  $('by-time').onclick = () => {
    setAxis('time');
    writeAddress();
  };
  $('smooth').oninput = () => {
    view.smooth = $('smooth').value / 100;
    $('smoothed').textContent = view.smooth.toFixed(2);
    redraw();
  };
  $('log').onchange = () => {
    view.log = $('log').checked;
    redraw();
  };
  $('skip').onclick = event => {
    // The address keeps which runs are shown.
    event.preventDefault();
    $('charts').focus();
    $('charts').scrollIntoView();
  };
  $('whole').onclick = () => zoom(null);
  $('filter').oninput = listRuns;
  $('menu').onclick = () => showSide(document.body.classList.contains('folded'));
  $('help').onclick = () => $('keys').showModal();
  $('theme').onclick = () => {
    const next = view.theme === 'dark' ? 'light' : 'dark';
    localStorage.setItem('theme', next);
    setTheme(next);
  };
  addEventListener('hashchange', () => {
    readAddress();
    setAxis(view.axis);
    connect();
    listRuns();
  });
  addEventListener('beforeprint', () => {
    for (const chart of charts.values()) chart.isSeen = true;
    setTheme('light');
    show();
  });
  addEventListener('keydown', event => {
    if (
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) && event.target.type !== 'checkbox')
    )
      return;
    const act = {
      x: () => {
        setAxis(view.axis === 'step' ? 'time' : 'step');
        writeAddress();
      },
      l: () => $('log').click(),
      r: () => $('menu').click(),
      d: () => $('theme').click(),
      '/': () => {
        showSide(true);
        $('filter').focus();
      },
      0: () => zoom(null),
      '?': () => $('help').click(),
    }[event.key];
    if (act) {
      event.preventDefault();
      act();
    }
  });
}

begin();
