// What is below the charts: details of one run, or a comparison of several.

import { themes } from './draw.js';
import { facts, state } from './facts.js';
import { bytes, duration, figure, grouped, make, percent } from './format.js';
import { names } from './names.js';
import { labels } from './panels.js';
import { taskName, last, tasks } from './store.js';

const { roles, resourceTags } = names;

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
    part('slow', 'Slow workers', ranking(about.ranking ?? []), true),
    part('tasks', 'Tasks', about.summary?.tasks ? ended(about.summary.tasks) : running(run), true),
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
  return make(
    'div',
    { class: 'wide' },
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
            make('td', {}, figure(rank.gradient_ms) + ' ms'),
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

function head(titles) {
  return make(
    'thead',
    {},
    make('tr', {}, ...titles.map(title => make('th', { scope: 'col' }, title))),
  );
}

// The tasks of a run that has ended.
function ended(list) {
  const staleness = list.some(task => task.staleness_mean != null);
  const titles = [
    'Task',
    'Steps',
    'Time',
    'Phases',
    'CPU',
    'Peak memory',
    'Received',
    'Sent',
    'Dropped',
    ...(staleness ? ['Staleness'] : []),
  ];
  return make(
    'div',
    { class: 'wide' },
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
            make('td', {}, bytes(task.peak_rss_bytes)),
            make('td', {}, bytes(task.received_bytes)),
            make('td', {}, bytes(task.sent_bytes)),
            make('td', {}, grouped(task.dropped)),
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
  return make(
    'div',
    { class: 'wide' },
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
          log.lines.join('\n'),
        ),
      ),
    ),
  );
}

// The rows of the comparison: title, value, format, and whether larger (1) or smaller (-1) is
// better.
const ROWS = [
  ['State', run => state(run.about).phrase],
  ['Mode', run => facts(run).mode ?? '–'],
  ['Workers', run => facts(run).workers ?? '–'],
  ['Servers', run => facts(run).servers ?? '–'],
  ['Steps', run => facts(run).step, grouped, 0],
  ['Time', run => facts(run).seconds, duration, -1],
  ['Train loss', run => facts(run).trainLoss, figure, -1],
  ['Test loss', run => facts(run).testLoss, figure, -1],
  ['Accuracy', run => facts(run).accuracy, x => percent(x, 2), 1],
  ['Steps/s', run => facts(run).stepsPerSecond, figure, 1],
  ['Examples/s', run => facts(run).examplesPerSecond, figure, 1],
  [
    'CPU',
    run => run.about.summary?.tasks?.reduce((sum, task) => sum + (task.cpu_seconds ?? 0), 0),
    duration,
    -1,
  ],
  [
    'Peak memory',
    run => run.about.summary?.tasks?.reduce((sum, task) => sum + (task.peak_rss_bytes ?? 0), 0),
    bytes,
    -1,
  ],
  ['Bytes per step', run => run.about.summary?.bytes_per_step, bytes, -1],
  ['Held back by', run => run.about.verdict?.kind ?? '–'],
];

// Shows several runs side by side: figures, phases, and the keys in which their jobs differ.
export function showComparison(into, runs, theme) {
  const runLabels = labels(runs);
  const columns = make(
    'thead',
    {},
    make(
      'tr',
      {},
      make('th', {}),
      ...runLabels.map((label, i) => {
        const swatch = make('i', { class: 'swatch' });
        swatch.style.setProperty('--c', themes[theme].colors[i % themes[theme].colors.length]);
        return make('th', { scope: 'col' }, swatch, label);
      }),
    ),
  );
  const rows = ROWS.map(([name, of, say = String, better = 0]) => {
    const values = runs.map(of),
      numbers = values.filter(Number.isFinite);
    const best =
      better && numbers.length > 1 ? (better > 0 ? Math.max : Math.min)(...numbers) : null;
    return make(
      'tr',
      {},
      make('th', { scope: 'row' }, name),
      ...values.map(value =>
        make(
          'td',
          { class: value != null && value === best ? 'best' : '' },
          value == null ? '–' : say(value),
        ),
      ),
    );
  });
  rows.push(
    make(
      'tr',
      {},
      make('th', { scope: 'row' }, 'Phases of workers'),
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
  into.replaceChildren(
    make('h2', {}, 'Side by side'),
    make(
      'div',
      { class: 'wide' },
      make('table', { class: 'compare' }, columns, make('tbody', {}, ...rows)),
    ),
    make('h2', {}, 'Differences between the jobs'),
    jobs.length
      ? make(
          'div',
          { class: 'wide' },
          make('table', { class: 'compare' }, columns.cloneNode(true), make('tbody', {}, ...jobs)),
        )
      : make('p', { class: 'dim' }, 'The jobs are equal.'),
  );
  for (const [i, swatch] of [...into.querySelectorAll('.swatch')].entries())
    swatch.style.setProperty(
      '--c',
      themes[theme].colors[(i % runs.length) % themes[theme].colors.length],
    );
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
