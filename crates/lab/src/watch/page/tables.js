// What is said in words and numbers: state, verdict, key figures, who is slow, tasks, job and log.

import { themes } from './draw.js';
import { bytes, duration, figure, grouped, make } from './format.js';
import { labels } from './panels.js';
import { anyones, called, chief, last, tasks } from './store.js';

const SHARES = ['compute', 'input', 'network', 'server', 'stragglers', 'evaluation'];
const PHASES = ['input', 'pull', 'compute', 'push', 'wait'];
const percent = (x, digits = 1) => x == null ? '–' : (100 * x).toFixed(digits) + ' %';

// How a run stands, in a word and a sentence.
export function state(about) {
  if (about.is_over) {
    const reason = about.summary.stop_reason;
    return reason === 'interrupted' ? ['ended', 'interrupted'] : ['done', `finished (${reason})`];
  }
  return about.quiet_s ? ['quiet', `no news for ${duration(about.quiet_s)}`] : ['live', 'running'];
}

// The figures of a run, whether it is over or not.
export function facts(run) {
  const { about } = run, end = about.summary, lead = chief(run);
  const final = anyones({ ...run, near: null }, 'test/accuracy'), loss = anyones({ ...run, near: null }, 'test/loss');
  const steps = run.curves.get(`${lead}|resources/task_cpu_percent`) ?? run.curves.get(`${lead}|train/loss`);
  const of = curve => curve?.v.length ? curve.v[curve.v.length - 1] : null;
  const speed = last(run, lead, 'pace/steps_per_second'), seen = about.tasks.flatMap(task => {
    const any = run.curves.get(`${task}|resources/task_cpu_percent`) ?? run.curves.get(`${task}|train/loss`);
    return any?.t.length ? [any.t[any.t.length - 1]] : [];
  });
  return {
    step: end?.global_steps ?? (steps?.s.length ? steps.s[steps.s.length - 1] : null),
    seconds: end?.seconds ?? (seen.length ? Math.max(...seen) : null),
    trainLoss: end?.train_loss ?? recent(run.curves.get(`${lead}|train/loss`)),
    testLoss: end?.test_loss ?? of(loss),
    accuracy: end?.test_accuracy ?? of(final),
    stepsPerSecond: end?.steps_per_second ?? speed,
    examplesPerSecond: end?.examples_per_second ?? (speed == null || about.examples_per_step == null ? null : speed * about.examples_per_step),
    mode: about.job['cluster.mode'] ?? end?.mode,
    workers: end?.workers ?? (tasks(run, 'worker', 'chief').length || null),
    servers: end?.servers ?? tasks(run, 'ps').length,
    done: about.is_over ? 1 : progress(about, steps, seen),
  };
}

// The mean of the last values, as one batch says little.
function recent(curve) {
  if (!curve?.v.length) return null;
  const values = curve.v.slice(-50);
  return values.reduce((sum, x) => sum + x, 0) / values.length;
}

// How much of a run is done, if its job tells.
function progress(about, steps, seen) {
  const number = key => about.job[key] == null ? null : +about.job[key];
  const step = steps?.s.length ? steps.s[steps.s.length - 1] : 0, seconds = seen.length ? Math.max(...seen) : 0;
  const examples = number('data.train_examples'), epochs = number('train.stop.epochs');
  const shares = [number('train.stop.steps') && step / number('train.stop.steps'),
    number('train.stop.seconds') && seconds / number('train.stop.seconds'),
    epochs && examples && about.examples_per_step && step * about.examples_per_step / (epochs * examples)];
  const known = shares.filter(Number.isFinite).filter(share => share > 0);
  return known.length ? Math.min(1, Math.max(...known)) : null;
}

export function showVerdict(into, run, theme) {
  const { verdict, is_over } = run.about;
  into.hidden = !verdict;
  if (!verdict) return;
  if (typeof verdict === 'string') return into.replaceChildren(make('p', {}, verdict));
  const [, rest = verdict.text] = verdict.text.match(/^\w+: (.*)$/s) ?? [];
  const evidence = rest.split('; try ')[0];
  const bar = make('div', { class: 'shares', role: 'img', 'aria-label': SHARES.map(name => `${name} ${percent(verdict.shares[name], 0)}`).join(', ') });
  const key = make('p', { class: 'key' });
  SHARES.forEach((name, i) => {
    const share = verdict.shares[name] ?? 0;
    if (share < 0.005) return;
    const part = make('i', { title: `${name} ${percent(share, 0)}` });
    part.style.width = 100 * share + '%';
    part.style.background = themes[theme].colors[i];
    bar.append(part);
    const swatch = make('i', {});
    swatch.style.setProperty('--c', themes[theme].colors[i]);
    key.append(make('span', {}, swatch, `${name} `, make('b', {}, percent(share, 0))));
  });
  into.replaceChildren(
    make('p', { class: 'kind' }, make('span', { class: 'dim' }, is_over ? 'Held back by' : 'So far held back by'), ' ', make('strong', {}, verdict.kind)),
    make('p', {}, evidence.charAt(0).toUpperCase() + evidence.slice(1) + '.'),
    bar, key,
    verdict.advice?.length ? make('p', { class: 'advice' }, make('span', { class: 'dim' }, 'Try '), verdict.advice.join(' · ')) : null);
}

export function showFigures(into, run) {
  const f = facts(run), tile = (name, value, more) => make('div', { class: 'tile' }, make('span', {}, name), make('b', { 'data-figure': name }, value), more ?? null);
  let bar = null;
  if (f.done != null && f.done < 1) {
    bar = make('progress', { max: '1', value: String(f.done), 'aria-label': 'Done' });
  }
  const left = f.done > 0.01 && f.done < 1 && f.seconds ? `, ${duration(f.seconds * (1 - f.done) / f.done)} left` : '';
  into.replaceChildren(
    tile('Step', f.step == null ? '–' : grouped(f.step), bar),
    tile('Time', duration(f.seconds), left ? make('small', {}, left.slice(2)) : null),
    tile('Train loss', figure(f.trainLoss)), tile('Test loss', figure(f.testLoss)), tile('Accuracy', percent(f.accuracy, 2)),
    tile('Steps/s', figure(f.stepsPerSecond)), tile('Examples/s', figure(f.examplesPerSecond)),
    tile('Cluster', `${f.mode ?? ''}`, make('small', {}, `${f.workers ?? '?'} ${f.workers === 1 ? 'worker' : 'workers'}${f.servers ? `, ${f.servers} ${f.servers === 1 ? 'server' : 'servers'}` : ''}`)));
}

// Everything below the charts of one run.
export function showDetails(into, run) {
  const { about } = run, open = new Map([...into.querySelectorAll('details')].map(d => [d.dataset.part, d.open]));
  const scrolled = new Map([...into.querySelectorAll('pre.log')].map(pre => [pre.dataset.task, pre.scrollTop + pre.clientHeight < pre.scrollHeight - 4 ? pre.scrollTop : null]));
  const part = (id, title, content, isOpen) => make('details', { 'data-part': id, open: open.get(id) ?? isOpen }, make('summary', {}, make('h2', {}, title)), content);
  into.replaceChildren(
    part('slow', 'Who is slow', ranking(about.ranking ?? []), true),
    part('tasks', 'Tasks', about.summary?.tasks ? ended(about.summary.tasks) : running(run), true),
    part('log', 'Log', logs(about.logs), true),
    part('job', 'Job', make('pre', { class: 'job', tabindex: '0' }, about.job_text), false));
  for (const pre of into.querySelectorAll('pre.log')) pre.scrollTop = scrolled.get(pre.dataset.task) ?? pre.scrollHeight;
}

function ranking(ranks) {
  if (!ranks.length) return make('p', { class: 'dim' }, 'Nothing is known yet.');
  const most = Math.max(...ranks.map(rank => rank.gradient_ms)) || 1;
  return make('div', { class: 'wide' }, make('table', {}, head(['Worker', 'Time to a gradient', '', 'Times the others']), make('tbody', {}, ...ranks.map(rank => {
    const bar = make('i', { class: rank.behind > 1.5 ? 'meter behind' : 'meter' });
    bar.style.width = 12 * rank.gradient_ms / most + 'rem';
    return make('tr', {}, make('th', { scope: 'row' }, rank.task), make('td', {}, figure(rank.gradient_ms) + ' ms'), make('td', { class: 'left' }, bar),
      make('td', {}, rank.behind.toFixed(2), rank.behind > 1.5 ? make('span', { class: 'warn' }, ' behind') : null));
  }))));
}

function head(names) {
  return make('thead', {}, make('tr', {}, ...names.map(name => make('th', { scope: 'col' }, name))));
}

function ended(list) {
  const staleness = list.some(task => task.staleness_mean != null);
  const names = ['Task', 'Steps', 'Time', 'Where it went', 'CPU', 'Peak memory', 'Received', 'Sent', 'Dropped', ...(staleness ? ['Staleness'] : [])];
  return make('div', { class: 'wide' }, make('table', {}, head(names), make('tbody', {}, ...list.map(task => make('tr', {},
    make('th', { scope: 'row' }, task.task), make('td', {}, grouped(task.steps)), make('td', {}, duration(task.seconds)),
    make('td', { class: 'left' }, phaseBar(Object.entries(task.phases))), make('td', {}, duration(task.cpu_seconds)),
    make('td', {}, bytes(task.peak_rss_bytes)), make('td', {}, bytes(task.received_bytes)), make('td', {}, bytes(task.sent_bytes)),
    make('td', {}, grouped(task.dropped)), staleness ? make('td', {}, task.staleness_mean == null ? '' : `${task.staleness_mean.toFixed(2)} (at most ${task.staleness_max})`) : null)))));
}

function running(run) {
  const rows = run.about.tasks.map(task => {
    const now = column => last(run, task, `resources/${column}`);
    return make('tr', {}, make('th', { scope: 'row' }, called(task)),
      make('td', { class: 'left' }, phaseBar(PHASES.map(phase => [phase, last(run, task, `phases/${phase}_percent`) ?? 0]))),
      make('td', {}, now('task_cpu_percent') == null ? '–' : now('task_cpu_percent').toFixed(0) + ' %'), make('td', {}, bytes(now('task_memory_bytes'))),
      make('td', {}, bytes(now('task_received_bytes_per_s')) + '/s'), make('td', {}, bytes(now('task_sent_bytes_per_s')) + '/s'));
  });
  return make('div', { class: 'wide' }, make('table', {}, head(['Task', 'Where its time goes', 'CPU', 'Memory', 'Receives', 'Sends']), make('tbody', {}, ...rows)));
}

// Shares of a task's time, as a bar.
function phaseBar(phases) {
  const all = phases.reduce((sum, [, x]) => sum + x, 0);
  if (!(all > 0)) return make('span', { class: 'dim' }, '–');
  const words = phases.map(([name, x]) => `${name} ${percent(x / all, 0)}`).join(', ');
  const bar = make('span', { class: 'shares small', role: 'img', 'aria-label': words, title: words });
  for (const [name, x] of phases) {
    const part = make('i', { class: `phase-${name}` });
    part.style.width = 100 * x / all + '%';
    bar.append(part);
  }
  return bar;
}

function logs(list) {
  const withLines = list.filter(log => log.lines.length);
  if (!withLines.length) return make('p', { class: 'dim' }, 'Nothing has been said.');
  return make('div', { class: 'logs' }, ...withLines.map(log => make('div', {}, make('h3', {}, log.task),
    make('pre', { class: 'log', tabindex: '0', 'data-task': log.task, 'aria-label': `Log of ${log.task}` }, log.lines.join('\n')))));
}

const ROWS = [
  ['State', run => state(run.about)[1]], ['Mode', run => facts(run).mode ?? '–'], ['Workers', run => facts(run).workers ?? '–'], ['Servers', run => facts(run).servers ?? '–'],
  ['Steps', run => facts(run).step, grouped, 0], ['Time', run => facts(run).seconds, duration, -1],
  ['Train loss', run => facts(run).trainLoss, figure, -1], ['Test loss', run => facts(run).testLoss, figure, -1],
  ['Accuracy', run => facts(run).accuracy, x => percent(x, 2), 1], ['Steps/s', run => facts(run).stepsPerSecond, figure, 1],
  ['Examples/s', run => facts(run).examplesPerSecond, figure, 1],
  ['CPU', run => run.about.summary?.tasks?.reduce((sum, task) => sum + (task.cpu_seconds ?? 0), 0), duration, -1],
  ['Peak memory', run => run.about.summary?.tasks?.reduce((sum, task) => sum + (task.peak_rss_bytes ?? 0), 0), bytes, -1],
  ['Bytes a step', run => run.about.summary?.bytes_per_step, bytes, -1],
  ['Held back by', run => run.about.verdict?.kind ?? '–'],
];

// Several runs beside each other: figures, phases, and where their jobs differ.
export function showComparison(into, runs, theme) {
  const names = labels(runs);
  const columns = make('thead', {}, make('tr', {}, make('th', {}), ...names.map((name, i) => {
    const swatch = make('i', { class: 'swatch' });
    swatch.style.setProperty('--c', themes[theme].colors[i % themes[theme].colors.length]);
    return make('th', { scope: 'col' }, swatch, name);
  })));
  const rows = ROWS.map(([name, of, say = String, better = 0]) => {
    const values = runs.map(of), numbers = values.filter(Number.isFinite);
    const best = better && numbers.length > 1 ? (better > 0 ? Math.max : Math.min)(...numbers) : null;
    return make('tr', {}, make('th', { scope: 'row' }, name), ...values.map(value => make('td', { class: value != null && value === best ? 'best' : '' }, value == null ? '–' : say(value))));
  });
  rows.push(make('tr', {}, make('th', { scope: 'row' }, 'Phases of workers'), ...runs.map(run => make('td', {}, phaseBar(phasesOf(run))))));
  const keys = [...new Set(runs.flatMap(run => Object.keys(run.about.job)))].sort();
  const differing = keys.filter(key => new Set(runs.map(run => run.about.job[key])).size > 1);
  const jobs = differing.map(key => make('tr', {}, make('th', { scope: 'row' }, make('code', {}, key)), ...runs.map(run => make('td', {}, run.about.job[key] ?? '–'))));
  into.replaceChildren(
    make('h2', {}, 'Side by side'), make('div', { class: 'wide' }, make('table', { class: 'compare' }, columns, make('tbody', {}, ...rows))),
    make('h2', {}, 'Where the jobs differ'),
    jobs.length ? make('div', { class: 'wide' }, make('table', { class: 'compare' }, columns.cloneNode(true), make('tbody', {}, ...jobs))) : make('p', { class: 'dim' }, 'Nowhere.'));
  for (const [i, swatch] of [...into.querySelectorAll('.swatch')].entries())
    swatch.style.setProperty('--c', themes[theme].colors[i % runs.length % themes[theme].colors.length]);
}

function phasesOf(run) {
  const list = run.about.summary?.tasks?.filter(task => 'compute' in task.phases);
  if (list) return PHASES.map(phase => [phase, list.reduce((sum, task) => sum + (task.phases[phase] ?? 0), 0)]);
  return PHASES.map(phase => [phase, tasks(run, 'worker', 'chief').reduce((sum, task) => sum + (last(run, task, `phases/${phase}_percent`) ?? 0), 0)]);
}
