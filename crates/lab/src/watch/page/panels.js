// Which charts there are, for one run and for several side by side.

import { themes } from './draw.js';
import { anyones, called, chief, curve, sum, tasks, times } from './store.js';

const PHASES = ['input', 'pull', 'compute', 'push', 'wait'];
// Workers that get a chart of their own before somebody asks for the rest.
const MOST_WORKERS = 8;
const DASH = '5 3';

// Sections with their charts. `runs` are those that are shown.
export function sections(runs, theme) {
  return runs.length === 1 ? ofOne(runs[0], themes[theme]) : ofSeveral(runs, themes[theme]);
}

function ofOne(run, theme) {
  const color = i => theme.colors[i % theme.colors.length], lead = chief(run);
  const speed = curve(run, lead, 'pace/steps_per_second');
  const workers = tasks(run, 'worker', 'chief'), all = run.about.tasks;
  const train = workers.map((task, i) => ({
    label: i === 0 ? 'train' : `train, ${called(task)}`, color: i === 0 ? color(0) : color(i + 1), smooth: true, off: i > 0,
    curve: curve(run, task, 'train/loss'),
  }));
  const judged = tag => anyones(run, tag);
  const accuracy = [['accuracy', 'test/accuracy', 0], ['AUC', 'test/auc', 1], ['precision', 'test/precision', 2]];
  return [
    ['Learning', [
      { id: 'loss', title: 'Loss', unit: '', logs: true, series: [...train, { label: 'test', color: color(1), dots: true, width: 2.2, curve: judged('test/loss') }] },
      { id: 'accuracy', title: 'Test accuracy', unit: '%', most: 100,
        series: accuracy.map(([label, tag, i]) => ({ label, color: color(i), dots: true, width: 2.2, curve: times(judged(tag), 100) })) },
    ]],
    ['Speed', [
      { id: 'steps', title: 'Steps per second', unit: '/s', fromZero: true, series: [{ label: 'steps/s', color: color(0), curve: speed, band: false }] },
      { id: 'examples', title: 'Examples per second', unit: '/s', fromZero: true,
        series: [{ label: 'examples/s', color: color(2), curve: times(speed, run.about.examples_per_step), band: false }] },
    ]],
    ['Where the time goes', [
      ...workers.slice(0, MOST_WORKERS).map(task => phases(run, task, theme)),
      { id: 'gradient', title: 'Time to a gradient', unit: 'ms', fromZero: true, series: workers.map((task, i) => ({
        label: called(task), color: color(i), band: false, off: i >= MOST_WORKERS,
        curve: curve(run, 'ps_0', `pace/${task}/gradient_ms`) ?? curve(run, task, 'pace/gradient_ms') })) },
      ...(tasks(run, 'ps').length ? [{ id: 'staleness', title: 'Staleness (updates a gradient is late)', unit: '', fromZero: true,
        series: tasks(run, 'ps').slice(0, MOST_WORKERS).map((task, i) => ({ label: called(task), color: color(i), band: false, curve: curve(run, task, 'pace/staleness') })) }] : []),
    ]],
    ['Resources', [
      each('cpu', 'CPU of each task (100 % is a core)', '%', run, all, color, [['', 'task_cpu_percent']]),
      each('memory', 'Memory of each task', 'B', run, all, color, [['', 'task_memory_bytes']]),
      each('network', 'Network of each task', 'B/s', run, all, color, [[' in', 'task_received_bytes_per_s'], [' out', 'task_sent_bytes_per_s']]),
      each('disk', "Disks of each task's machine", 'B/s', run, all, color, [[' read', 'disk_read_bytes_per_s'], [' written', 'disk_written_bytes_per_s']]),
      machine(run, lead, theme),
    ]],
  ];
}

function phases(run, task, theme) {
  return { id: `phases-${task}`, title: `Phases of ${called(task)}`, unit: '%', kind: 'stack', series: PHASES.map(phase => ({
    label: phase, color: theme.phases[phase], curve: curve(run, task, `phases/${phase}_percent`) })) };
}

function each(id, title, unit, run, all, color, columns) {
  return { id, title, unit, fromZero: true, series: all.slice(0, 16).flatMap((task, i) => columns.map(([suffix, column], j) => ({
    label: called(task) + suffix, color: color(i), dash: j ? DASH : null, band: false, curve: curve(run, task, `resources/${column}`) }))) };
}

// What the chief's machine was doing, all programs on it counted.
function machine(run, lead, theme) {
  const parts = [['programs', 'cpu_usr_percent', 0], ['kernel', 'cpu_sys_percent', 1], ['waiting for disks', 'cpu_wait_percent', 5]];
  return { id: 'machine', title: "CPU of the chief's machine", unit: '%', kind: 'stack', series: parts.map(([label, column, i]) => ({
    label, color: theme.colors[i], curve: curve(run, lead, `resources/${column}`) })) };
}

function ofSeveral(runs, theme) {
  const names = labels(runs);
  const per = (id, title, unit, more, pick) => ({ id, title, unit, ...more, series: runs.map((run, i) => ({
    label: names[i], color: theme.colors[i % theme.colors.length], dash: i >= theme.colors.length ? DASH : null, ...more.line, curve: pick(run) })) });
  const summed = column => run => sum(run.about.tasks.map(task => curve(run, task, `resources/${column}`)));
  const speed = run => curve(run, chief(run), 'pace/steps_per_second');
  const plain = { fromZero: true, line: { band: false } };
  return [
    ['Learning', [
      per('test-loss', 'Test loss', '', { logs: true, line: { dots: true, width: 2.2 } }, run => anyones(run, 'test/loss')),
      per('accuracy', 'Test accuracy', '%', { most: 100, line: { dots: true, width: 2.2 } }, run => times(anyones(run, 'test/accuracy'), 100)),
      per('train-loss', 'Train loss', '', { logs: true, line: { smooth: true } }, run => curve(run, chief(run), 'train/loss')),
    ]],
    ['Speed', [
      per('steps', 'Steps per second', '/s', plain, speed),
      per('examples', 'Examples per second', '/s', plain, run => times(speed(run), run.about.examples_per_step)),
      per('staleness', 'Staleness', '', plain, run => anyones(run, 'pace/staleness')),
    ]],
    ['Resources of all tasks together (100 % is a core)', [
      per('cpu', 'CPU', '%', plain, summed('task_cpu_percent')),
      per('memory', 'Memory', 'B', plain, summed('task_memory_bytes')),
      per('network', 'Network, received', 'B/s', plain, summed('task_received_bytes_per_s')),
    ]],
  ];
}

// Short names that tell runs apart: what their paths do not have in common.
export function labels(runs) {
  const parts = runs.map(run => run.id.split('/'));
  const names = parts.map(part => part[part.length - 1]);
  return new Set(names).size === names.length ? names : runs.map(run => run.id);
}
