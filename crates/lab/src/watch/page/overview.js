// What is above the charts of one run: the verdict and the key figures.

import { themes } from './draw.js';
import { facts } from './facts.js';
import { duration, figure, grouped, make, percent, rounded } from './format.js';
import { names } from './names.js';

const { verdictKinds } = names;
// The colors of the verdict's parts that are not phases: none is like that of a phase beside it.
const PART_COLORS = { network: 2, server: 3, stragglers: 1, cores: 6 };

// Says in one line what is trained, on what, and how.
export function showWhat(into, run) {
  const { job, summary } = run.about,
    f = facts(run);
  const cluster = [f.mode];
  if (f.mode && f.mode !== 'single') {
    cluster.push(counted(f.workers, 'worker'));
    if (f.servers) cluster.push(counted(f.servers, 'server'));
  }
  const batch = job['train.global_batch'] ?? job['train.batch'] ?? summary?.batch;
  const rate = job['train.optimizer.rate'] ?? job['train.rate'];
  const optimizer = [job['train.optimizer.kind'], rate && `rate ${rate}`];
  const more = [
    ['Batch', batch],
    ['Optimizer', optimizer.filter(Boolean).join(', ')],
    ['Seed', job.seed],
  ];
  const parts = [
    ['Model', job['model.kind'] ?? job.model],
    ['Data', dataName(job)],
    ['Mode', cluster.filter(Boolean).join(', ')],
    ...more,
  ];
  into.replaceChildren(
    ...parts
      .filter(([, value]) => value != null && value !== '')
      .map(([name, value]) => make('span', {}, make('i', {}, name), ' ', make('b', {}, value))),
  );
}

function dataName(job) {
  const path = job['data.path']?.split('/').filter(Boolean).pop(),
    count = job['data.train_examples'];
  const name = [job['data.kind'] ?? job.data, path].filter(Boolean).join(' ');
  return count ? `${name}, ${grouped(+count)} examples` : name;
}

// Shows what limits the run.
export function showVerdict(into, run, theme) {
  const { verdict, is_over } = run.about;
  into.hidden = !verdict;
  if (!verdict) return;
  if (typeof verdict === 'string') return into.replaceChildren(make('p', {}, verdict));
  const { evidence } = verdict,
    hasEnded = is_over || run.about.ended_at != null;
  const bar = make('div', {
    class: 'shares',
    role: 'img',
    'aria-label': verdictKinds
      .map(name => `${name} ${percent(verdict.shares[name], 0)}`).join(', '),
  });
  const key = make('p', { class: 'key' });
  // A part that is a phase has its color.
  verdictKinds.forEach(name => {
    const share = verdict.shares[name] ?? 0;
    if (share < 0.005) return;
    const part = make('i', { title: `${name} ${percent(share, 0)}` });
    part.style.width = 100 * share + '%';
    const color = themes[theme].phases[name] ?? themes[theme].colors[PART_COLORS[name] ?? 0];
    part.style.background = color;
    bar.append(part);
    const swatch = make('i', {});
    swatch.style.setProperty('--c', color);
    key.append(make('span', {}, swatch, `${name} `, make('b', {}, percent(share, 0))));
  });
  into.replaceChildren(
    verdict.kind === names.tooShort
      ? make('p', { class: 'kind' }, make('strong', {}, 'Too short to judge'))
      : make(
          'p',
          { class: 'kind' },
          make('span', { class: 'dim' }, hasEnded ? 'Held back by' : 'So far held back by'),
          ' ',
          make('strong', {}, verdict.kind),
        ),
    make('p', {}, withUnits(evidence.charAt(0).toUpperCase() + evidence.slice(1) + '.')),
    bar,
    key,
    verdict.advice?.length
      ? make(
          'p',
          { class: 'advice' },
          make('span', { class: 'dim' }, 'Try '),
          verdict.advice.join(' · '),
        )
      : '',
  );
}

// No line ends between a number and its unit.
function withUnits(sentence) {
  return sentence.replace(/(\d) (%|s|ms|Mbit\/s)(?![\w])/g, '$1\u00a0$2');
}

// Shows the key figures of a run.
export function showFigures(into, run) {
  const f = facts(run),
    tile = (name, value, more) =>
      make(
        'div',
        { class: 'tile' },
        make('span', {}, name),
        make('b', { 'data-figure': name }, value),
        more ?? null,
      );
  let bar = null;
  if (f.done != null && f.done < 1) {
    bar = make('progress', { max: '1', value: String(f.done), 'aria-label': 'Done' });
  }
  const left =
    f.done > 0.01 && f.done < 1 && f.seconds
      ? `${duration((f.seconds * (1 - f.done)) / f.done)} left`
      : null;
  into.replaceChildren(
    tile('Step', f.step == null ? '–' : grouped(f.step), bar),
    tile('Time', duration(f.seconds), left && make('small', {}, left)),
    tile('Train loss', figure(f.trainLoss)),
    tile('Test loss', figure(f.testLoss)),
    tile('Accuracy', percent(f.accuracy, 2)),
    ...(f.auc == null ? [] : [tile('AUC', figure(f.auc))]),
    tile('Steps/s', rounded(f.stepsPerSecond)),
    tile('Examples/s', rounded(f.examplesPerSecond)),
    tile(
      'Workers',
      `${f.workers ?? '–'}`,
      f.servers ? make('small', {}, counted(f.servers, 'server')) : null,
    ),
  );
}

function counted(count, noun) {
  return `${count ?? '?'} ${noun}${count === 1 ? '' : 's'}`;
}
