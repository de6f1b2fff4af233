// What is below the charts: details of one run, or a comparison of several.

import { themes } from './draw.js';
import { evaluation } from './evaluation.js';
import { facts, state } from './facts.js';
import { bytes, duration, figure, grouped, head, make, percent, rounded, wide } from './format.js';
import { names } from './names.js';
import { labels } from './panels.js';
import { firstCurve, taskName, last, tasks } from './store.js';

const { roles, tags, resourceTags } = names;

// Shows what is below the charts of one run.
export function showDetails(into, run) {
  const { about } = run,
    open = new Map([...into.querySelectorAll('details')].map(d => [d.dataset.part, d.open]));
  const scrolled = new Map(
    [...into.querySelectorAll('pre.log')].map(pre => [
      pre.dataset.task,
      pre.scrollTop + pre.clientHeight < pre.scrollHeight - 4 ? pre.scrollTop : null,
    ]),
  );
  const part = (id, title, content, isOpen) =>
    make(
      'details',
      { 'data-part': id, open: open.get(id) ?? isOpen },
      make('summary', {}, make('h2', {}, title)),
      content,
    );
  into.replaceChildren(
    // A worker alone is neither slow nor fast.
    ...(tasks(run, roles.worker, roles.chief).length > 1
      ? [part('slow', 'Slow workers', ranking(about.ranking ?? []), true)]
      : []),
    part('tasks', 'Tasks', taskTable(run), true),
    ...(about.evaluation
      ? [part('evaluation', 'Evaluation', evaluation(about.evaluation), true)]
      : []),
    part('log', 'Log', logs(about.logs), true),
    part('job', 'Job', make('pre', { class: 'job', tabindex: '0' }, about.job_text), false),
  );
  for (const pre of into.querySelectorAll('pre.log'))
    pre.scrollTop = scrolled.get(pre.dataset.task) ?? pre.scrollHeight;
}

// The workers by their time to a gradient.
function ranking(ranks) {
  if (!ranks.length) return make('p', { class: 'dim' }, 'No worker has reported yet.');
  const most = Math.max(...ranks.map(rank => rank.gradient_ms)) || 1;
  return wide(
    'Slow workers',
    make(
      'table',
      {},
      head(['Worker', 'Time to a gradient', '', 'Relative to the others']),
      make(
        'tbody',
        {},
        ...ranks.map(rank => {
          const bar = make('i', { class: rank.behind > names.behind ? 'meter behind' : 'meter' });
          bar.style.width = (12 * rank.gradient_ms) / most + 'rem';
          return make(
            'tr',
            {},
            make('th', { scope: 'row' }, rank.task),
            make('td', {}, rounded(rank.gradient_ms) + ' ms'),
            make('td', { class: 'left' }, bar),
            make(
              'td',
              {},
              rank.behind.toFixed(2),
              rank.behind > names.behind ? make('span', { class: 'warn' }, ' behind') : null,
            ),
          );
        }),
      ),
    ),
  );
}

// The colors of phases. Phases of workers and servers that are alike have one color.
function phaseKey(phases) {
  const alike = new Map();
  for (const phase of phases) {
    const color = names.palette.light.phases[phase];
    alike.set(color, [...(alike.get(color) ?? []), phase]);
  }
  const item = list => make('span', {}, make('i', { class: `phase-${list[0]}` }), list.join(' / '));
  return make('p', { class: 'key phases' }, ...[...alike.values()].map(item));
}

// The tasks, with the colors of their phases.
function taskTable(run) {
  const list = run.about.summary?.tasks;
  const taken = task => Object.keys(task.phases).filter(phase => task.phases[phase] > 0);
  const seen = new Set(list ? list.flatMap(taken) : names.phases);
  const known = Object.keys(names.palette.light.phases).filter(phase => seen.has(phase));
  const inOrder = [...names.phases.filter(phase => seen.has(phase)), ...known];
  return make('div', {}, phaseKey([...new Set(inOrder)]), list ? ended(list) : running(run));
}

// The tasks of a run that has ended.
function ended(list) {
  const staleness = list.some(task => task.staleness_mean != null);
  // A process alone exchanges nothing, and few runs drop gradients.
  const some = field => list.some(task => task[field] > 0);
  const [exchanged, dropped] = [some('received_bytes') || some('sent_bytes'), some('dropped')];
  const titles = [
    'Task',
    'Steps',
    'Time',
    'Phases',
    'CPU',
    'Peak memory',
    ...(exchanged ? ['Received', 'Sent'] : []),
    ...(dropped ? ['Dropped gradients'] : []),
    ...(staleness ? ['Staleness'] : []),
  ];
  return wide(
    'Tasks',
    make(
      'table',
      {},
      head(titles),
      make(
        'tbody',
        {},
        ...list.map(task =>
          make(
            'tr',
            {},
            make('th', { scope: 'row' }, task.task),
            make('td', {}, grouped(task.steps)),
            make('td', {}, duration(task.seconds)),
            make('td', { class: 'left' }, phaseBar(Object.entries(task.phases))),
            make('td', {}, duration(task.cpu_seconds)),
            make('td', {}, bytes(task.peak_pss_bytes ?? task.peak_rss_bytes)),
            exchanged ? make('td', {}, bytes(task.received_bytes)) : null,
            exchanged ? make('td', {}, bytes(task.sent_bytes)) : null,
            dropped ? make('td', {}, grouped(task.dropped)) : null,
            staleness
              ? make(
                  'td',
                  {},
                  task.staleness_mean == null
                    ? ''
                    : `${task.staleness_mean.toFixed(2)}, max ${task.staleness_max}`,
                )
              : null,
          ),
        ),
      ),
    ),
  );
}

// The tasks of a run that has not ended.
function running(run) {
  const rows = run.about.tasks.map(task => {
    const now = column => last(run, task, resourceTags[column]);
    return make(
      'tr',
      {},
      make('th', { scope: 'row' }, taskName(task)),
      make(
        'td',
        { class: 'left' },
        phaseBar(names.phases.map(phase => [phase, last(run, task, names.phaseTags[phase]) ?? 0])),
      ),
      make('td', {}, now('taskCpu') == null ? '–' : now('taskCpu').toFixed(0) + ' %'),
      make('td', {}, bytes(now('taskMemory'))),
      make('td', {}, bytes(now('taskReceived')) + '/s'),
      make('td', {}, bytes(now('taskSent')) + '/s'),
    );
  });
  return wide(
    'Tasks',
    make(
      'table',
      {},
      head(['Task', 'Phases', 'CPU', 'Memory', 'Receives', 'Sends']),
      make('tbody', {}, ...rows),
    ),
  );
}

// A bar with the shares of a task's phases.
function phaseBar(phases) {
  const all = phases.reduce((sum, [, x]) => sum + x, 0);
  if (!(all > 0)) return make('span', { class: 'dim' }, '–');
  const words = phases.map(([name, x]) => `${name} ${percent(x / all, 0)}`).join(', ');
  const bar = make('span', {
    class: 'shares small',
    role: 'img',
    'aria-label': words,
    title: words,
  });
  for (const [name, x] of phases) {
    const part = make('i', { class: `phase-${name}` });
    part.style.width = (100 * x) / all + '%';
    bar.append(part);
  }
  return bar;
}

function logs(list) {
  const withLines = list.filter(log => log.lines.length);
  if (!withLines.length) return make('p', { class: 'dim' }, 'The logs are empty.');
  return make(
    'div',
    { class: 'logs' },
    ...withLines.map(log =>
      make(
        'div',
        {},
        make('h3', {}, log.task),
        make(
          'pre',
          {
            class: 'log',
            tabindex: '0',
            'data-task': log.task,
            'aria-label': `Log of ${log.task}`,
          },
          // Each line in a block of its own, whose wrapped lines are indented.
          ...log.lines.map(line => make('span', {}, line + '\n')),
        ),
      ),
    ),
  );
}

// Whether runs train the same model on the same data, so that their quality can be compared.
const sameTask = runs =>
  ['model.kind', 'data.kind', 'data.path', 'data.test_path', 'data.test_examples'].every(
    key => new Set(runs.map(run => run.about.job[key])).size === 1,
  );

// The examples that a run has trained on at each of its tests.
function testedAt(run, tag) {
  const curve = firstCurve({ ...run, zoomed: null }, tag),
    each = run.about.examples_per_step;
  if (!curve || !each) return [];
  return curve.v.map((value, i) => ({ examples: curve.s[i] * each, t: curve.t[i], value }));
}

// The greatest number of examples after which every run has been tested; null if there is none.
function equalWork(runs) {
  const ends = runs.map(run => testedAt(run, tags.testLoss).pop()?.examples ?? null);
  return ends.every(end => end > 0) ? Math.min(...ends) : null;
}

// The last test of a run after at most this number of examples.
function atWork(run, tag, work) {
  return work == null
    ? null
    : (testedAt(run, tag).findLast(test => test.examples <= work * 1.0001) ?? null);
}

const summed = (run, field) =>
  run.about.summary?.tasks?.reduce((sum, task) => sum + (task[field] ?? 0), 0);

// A mean of the workers' steps of a sparse model.
const keysPerStep = run => summed(run, 'keys') / stepsWithKeys(run);
const stepsWithKeys = run =>
  run.about.summary?.tasks?.reduce((sum, task) => sum + (task.keys ? task.steps : 0), 0);

// What all servers hold at the end, or else the worker that holds most, as in reports.
function held(run, field) {
  const all = (run.about.summary?.tasks ?? []).filter(task => task[field]);
  const ofServers = all.filter(task => task.task.startsWith('ps:')).map(task => task[field]);
  return ofServers.length ? ofServers.reduce((sum, more) => sum + more)
    : Math.max(...all.map(task => task[field]));
}

// Rows that only some runs have.
const sparseRows = [
  ['Last AUC', run => facts(run).auc, figure],
  ['Keys per step', keysPerStep, grouped],
  ['Entries', run => held(run, 'entries'), grouped],
  ['Memory of entries', run => held(run, 'entry_bytes'), bytes],
];

// The rows of the comparison: title, value, format, and which value is best ('lowest', 'highest'
// or none). Only what does not depend on the length of a run has a best value.
function comparedRows(runs, work) {
  const sparse = sparseRows.filter(([, of]) => runs.some(run => Number.isFinite(of(run))));
  const after = `after ${grouped(work ?? 0)} examples`;
  const equal = work == null ? [] : [
    [`Test loss ${after}`, run => atWork(run, tags.testLoss, work)?.value, figure, 'lowest'],
    [
      `Accuracy ${after}`,
      run => atWork(run, tags.testAccuracy, work)?.value,
      x => percent(x, 2),
      'highest',
    ],
    [`Time ${after}`, run => atWork(run, tags.testLoss, work)?.t, duration, 'lowest'],
  ];
  return [
    ['State', run => state(run.about).phrase],
    ['Mode', run => facts(run).mode ?? '–'],
    ['Workers', run => facts(run).workers ?? '–'],
    ['Servers', run => facts(run).servers ?? '–'],
    ...equal,
    ['Examples/s', run => facts(run).examplesPerSecond, rounded, 'highest'],
    [
      'CPU per 1,000 examples',
      run => (summed(run, 'cpu_seconds') * 1000) / run.about.summary?.examples,
      seconds => rounded(1000 * seconds) + ' ms',
      'lowest',
    ],
    [
      'Peak memory',
      run => summed(run, 'peak_pss_bytes') || summed(run, 'peak_rss_bytes'),
      bytes,
      'lowest',
    ],
    ['Steps', run => facts(run).step, grouped],
    ['Steps/s', run => facts(run).stepsPerSecond, rounded],
    ['Bytes per step', run => run.about.summary?.bytes_per_step, bytes],
    ['Time', run => facts(run).seconds, duration],
    ['Last train loss', run => facts(run).trainLoss, figure],
    ['Last test loss', run => facts(run).testLoss, figure],
    ['Last accuracy', run => facts(run).accuracy, x => percent(x, 2)],
    ...sparse,
    ['Held back by', run => run.about.verdict?.kind ?? '–'],
  ];
}

// Shows several runs side by side: figures, phases, and the keys in which their jobs differ.
export function showComparison(into, runs, theme) {
  const isSame = sameTask(runs),
    work = isSame ? equalWork(runs) : null;
  const rows = comparedRows(runs, work).map(([name, of, say = String, best = '']) =>
    comparedRow(name, runs.map(of), say, isSame ? best : ''),
  );
  rows.push(
    make(
      'tr',
      {},
      make('th', { scope: 'row' }, 'Phases of workers'),
      make('td', { class: 'rule' }),
      ...runs.map(run => make('td', {}, phaseBar(phasesOf(run)))),
    ),
  );
  const keys = [...new Set(runs.flatMap(run => Object.keys(run.about.job)))].sort();
  const differing = keys.filter(key => new Set(runs.map(run => run.about.job[key])).size > 1);
  const jobs = differing.map(key =>
    make(
      'tr',
      {},
      make('th', { scope: 'row' }, make('code', {}, key)),
      ...runs.map(run => make('td', {}, run.about.job[key] ?? '–')),
    ),
  );
  const note = !isSame
    ? 'The runs differ in model or data, so none is called the best.'
    : work == null
      ? 'Quality is compared once every run has been tested.'
      : `Quality is compared at equal work: at the last test within ${grouped(work)} examples, ` +
        'which every run has trained on.';
  into.replaceChildren(
    make('h2', {}, 'Side by side'),
    make('p', { class: 'dim criterion' }, note),
    wide(
      'Runs side by side',
      make(
        'table',
        { class: 'compare' },
        runHead(runs, theme, ['Best is']),
        make('tbody', {}, ...rows),
      ),
    ),
    phaseKey([...names.phases, ...(runs.some(tests) ? [names.evaluation] : [])]),
    make('h2', {}, 'Differences between the jobs'),
    jobs.length
      ? wide(
          'Differences between the jobs',
          make('table', { class: 'compare' }, runHead(runs, theme, []), make('tbody', {}, ...jobs)),
        )
      : make('p', { class: 'dim' }, 'The jobs are equal.'),
  );
}

function comparedRow(name, values, say, better) {
  const numbers = values.filter(Number.isFinite);
  const pick = { lowest: Math.min, highest: Math.max }[better];
  const best = pick && numbers.length > 1 ? pick(...numbers) : null;
  return make(
    'tr',
    {},
    // Phones have no room for a column that says what is best.
    make(
      'th',
      { scope: 'row' },
      name,
      better ? make('small', { class: 'below dim' }, `${better} is best`) : null,
    ),
    make('td', { class: 'left dim rule' }, better),
    ...values.map(value => {
      const isKnown = typeof value === 'number' ? Number.isFinite(value) : value != null;
      const isBest = isKnown && value === best;
      return make('td', { class: isBest ? 'best' : '' }, isKnown ? say(value) : '–');
    }),
  );
}

function runHead(runs, theme, more) {
  const { colors } = themes[theme];
  return make(
    'thead',
    {},
    make(
      'tr',
      {},
      make('th', {}),
      ...more.map(title => make('th', { scope: 'col', class: 'left rule' }, title)),
      ...labels(runs).map((label, i) => {
        const swatch = make('i', { class: 'swatch' });
        swatch.style.setProperty('--c', colors[i % colors.length]);
        return make('th', { scope: 'col' }, swatch, label);
      }),
    ),
  );
}

// Whether the phases of a run include tests.
function tests(run) {
  return phasesOf(run).some(([phase, share]) => phase === names.evaluation && share > 0);
}

function phasesOf(run) {
  const list = run.about.summary?.tasks?.filter(
    task => task.phases && names.phases.some(phase => phase in task.phases),
  );
  if (list)
    return [...names.phases, names.evaluation].map(phase => [
      phase,
      list.reduce((sum, task) => sum + (task.phases[phase] ?? 0), 0),
    ]);
  return names.phases.map(phase => [
    phase,
    tasks(run, roles.worker, roles.chief).reduce(
      (sum, task) => sum + (last(run, task, names.phaseTags[phase]) ?? 0),
      0,
    ),
  ]);
}
