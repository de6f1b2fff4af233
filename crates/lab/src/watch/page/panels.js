// The charts: for one run, and for several side by side.

import { themes } from './draw.js';
import { names } from './names.js';
import {
  alongside,
  firstCurve,
  taskName,
  coordinator,
  curve,
  sum,
  tasks,
  scaled,
} from './store.js';

const { roles, tags, resourceTags } = names;
// Most workers with a chart of their own, and most servers and workers that are visible in others.
const MAX_WORKERS = 8;
// Most tasks in a chart.
const MAX_TASKS = 16;
const DASH = '5 3';

// The sections of the page with the charts of these runs.
export function sections(runs, theme) {
  return runs.length === 1
    ? chartsOfOne(runs[0], themes[theme])
    : chartsOfSeveral(runs, themes[theme]);
}

function chartsOfOne(run, theme) {
  const color = i => theme.colors[i % theme.colors.length],
    lead = coordinator(run);
  const speed = curve(run, lead, tags.stepRate);
  const workers = tasks(run, roles.worker, roles.chief),
    all = run.about.tasks;
  const train = workers.map((task, i) => ({
    label: i === 0 ? 'train' : `train, ${taskName(task)}`,
    color: i === 0 ? color(0) : color(i + 1),
    smooth: true,
    hidden: i > 0,
    curve: curve(run, task, tags.trainLoss),
  }));
  const tested = tag => firstCurve(run, tag);
  const ofTests = tested(tags.testAuc) ? '%' : '% of test examples';
  const accuracy = [
    ['accuracy', tags.testAccuracy, 0],
    ['AUC', tags.testAuc, 1],
    ['precision', tags.testPrecision, 2],
  ];
  return [
    [
      'Learning',
      [
        {
          id: 'loss',
          title: 'Loss',
          axis: 'mean loss of an example',
          unit: '',
          logs: true,
          series: [
            ...train,
            {
              label: 'test',
              color: color(1),
              dots: true,
              width: 2.2,
              curve: tested(tags.testLoss),
            },
          ],
        },
        {
          id: 'accuracy',
          title: 'Test accuracy',
          axis: ofTests,
          unit: '%',
          most: 100,
          series: accuracy.map(([label, tag, i]) => ({
            label,
            color: color(i),
            dots: true,
            width: 2.2,
            curve: scaled(tested(tag), 100),
          })),
        },
      ],
    ],
    [
      'Speed',
      [
        {
          id: 'steps',
          title: 'Steps per second',
          axis: 'steps/s',
          unit: '/s',
          fromZero: true,
          series: [{ label: 'steps/s', color: color(0), curve: speed, band: false }],
        },
        {
          id: 'examples',
          title: 'Examples per second',
          axis: 'examples/s',
          unit: '/s',
          fromZero: true,
          series: [
            {
              label: 'examples/s',
              color: color(2),
              curve: scaled(speed, run.about.examples_per_step),
              band: false,
            },
          ],
        },
      ],
    ],
    [
      'Where the time goes',
      [
        ...workers.slice(0, MAX_WORKERS).map(task => phases(run, task, theme)),
        {
          id: 'gradient',
          title: 'Time to a gradient',
          axis: 'ms',
          unit: 'ms',
          fromZero: true,
          series: workers.map((task, i) => ({
            label: taskName(task),
            color: color(i),
            band: false,
            hidden: i >= MAX_WORKERS,
            curve:
              curve(run, names.firstServer, workerGradientTag(task)) ??
              curve(run, task, tags.gradientMs),
          })),
        },
        ...(tasks(run, roles.server).length
          ? [
              {
                id: 'staleness',
                title: 'Staleness',
                axis: 'updates behind',
                unit: '',
                fromZero: true,
                series: tasks(run, roles.server)
                  .slice(0, MAX_WORKERS)
                  .map((task, i) => ({
                    label: taskName(task),
                    color: color(i),
                    band: false,
                    curve: curve(run, task, tags.staleness),
                  })),
              },
            ]
          : []),
      ],
    ],
    ...(firstCurve(run, tags.keysPerStep) || firstCurve(run, tags.entries)
      ? [['Keys and entries', [...touched(run, workers, color), ...held(run, all, color)]]]
      : []),
    [
      'Resources',
      [
        perTask('cpu', 'CPU of each task', '% of a core', '%', run, all, color, [
          ['', 'taskCpu'],
        ]),
        perTask('memory', 'Memory of each task', 'bytes', 'B', run, all, color, [
          ['', 'taskMemory'],
        ]),
        // A task without others exchanges nothing.
        ...(all.length > 1
          ? [
              perTask('network', 'Network of each task', 'bytes/s', 'B/s', run, all, color, [
                [' in', 'taskReceived'],
                [' out', 'taskSent'],
              ]),
            ]
          : []),
        disks(run, color),
        machine(run, lead, theme),
      ],
    ],
  ];
}

// What a step of a sparse model touches.
function touched(run, workers, color) {
  const shown = workers.slice(0, MAX_WORKERS);
  const series = (tag, suffix, shift) =>
    shown.map((task, i) => ({
      label: taskName(task) + suffix,
      color: color(i + shift),
      band: false,
      dash: shift ? DASH : null,
      curve: curve(run, task, tag),
    }));
  return [
    {
      id: 'keys',
      title: 'Keys per step',
      axis: 'keys',
      unit: '',
      fromZero: true,
      series: series(tags.keysPerStep, '', 0),
    },
    {
      id: 'key-bytes',
      title: 'Bytes of keys and values per step',
      axis: 'bytes',
      unit: 'B',
      fromZero: true,
      series: [
        ...series(tags.keyBytesPerStep, ' keys', 0),
        ...series(tags.valueBytesPerStep, ' values', 1),
      ],
    },
  ];
}

// What servers hold of a sparse model, or workers if there are none.
function held(run, all, color) {
  const holders = all.filter(task => curve(run, task, tags.entries)).slice(0, MAX_TASKS);
  const panel = (id, title, axis, unit, tag) => ({
    id,
    title,
    axis,
    unit,
    fromZero: true,
    series: holders.map((task, i) => ({
      label: taskName(task),
      color: color(i),
      band: false,
      curve: curve(run, task, tag),
    })),
  });
  return [
    panel('entries', 'Entries in memory', 'keys', '', tags.entries),
    panel('entry-bytes', 'Memory of entries and their index', 'bytes', 'B', tags.entryBytes),
  ];
}

// The tag of a worker's time to a gradient as the first server measures it.
function workerGradientTag(task) {
  return tags.workerGradientMs.replace(names.taskPlaceholder, task);
}

function phases(run, task, theme) {
  const series = (phase, part) => ({ label: phase, color: theme.phases[phase], curve: part });
  const parts = names.phases.map(phase => series(phase, curve(run, task, names.phaseTags[phase])));
  // A worker that tests records this time as a part of waiting.
  const waiting = parts.find(part => part.label === names.wait);
  const testing = alongside(waiting.curve, curve(run, task, tags.evaluationPercent));
  if (takesTime(testing)) {
    const v = waiting.curve.v.map((percent, i) => Math.max(0, percent - testing.v[i]));
    waiting.curve = { ...waiting.curve, v };
    parts.push(series(names.evaluation, testing));
  }
  return {
    id: `phases-${task}`,
    title: `Phases of ${taskName(task)}`,
    axis: '% of the time',
    unit: '%',
    kind: 'stack',
    series: parts.filter(part => run.about.tasks.length > 1 || takesTime(part.curve)),
  };
}

// Whether a phase ever takes half a percent of the time: a task alone exchanges nothing.
function takesTime(phase) {
  return phase?.v.some(percent => percent >= 0.5) ?? false;
}

function perTask(id, title, axis, unit, run, all, color, columns) {
  return {
    id,
    title,
    axis,
    unit,
    fromZero: true,
    series: all.slice(0, MAX_TASKS).flatMap((task, i) =>
      columns.map(([suffix, column], j) => ({
        label: taskName(task) + suffix,
        color: color(i),
        dash: j ? DASH : null,
        band: false,
        curve: curve(run, task, resourceTags[column]),
      })),
    ),
  };
}

// The disks of each machine, as its first task samples them.
function disks(run, color) {
  const { machines = {}, tasks: all } = run.about,
    hosts = [...new Set(all.map(task => machines[task] ?? ''))];
  const series = hosts.slice(0, MAX_TASKS).flatMap((name, i) => {
    const own = all.filter(task => (machines[task] ?? '') === name);
    const label = hosts.length > 1 && name ? `${name} ` : '';
    return [
      ['read', 'diskRead'],
      ['written', 'diskWritten'],
    ].map(([suffix, column], j) => ({
      label: label + suffix,
      color: color(hosts.length > 1 ? i : j),
      dash: j ? DASH : null,
      band: false,
      curve: own.map(task => curve(run, task, resourceTags[column])).find(c => c?.v.length) ?? null,
    }));
  });
  const title = hosts.length > 1 ? 'Disks of each machine' : 'Disks of the machine';
  return { id: 'disk', title, axis: 'bytes/s', unit: 'B/s', fromZero: true, series };
}

// How busy the coordinator's machine is, with all programs on it.
function machine(run, lead, theme) {
  const parts = [
    ['programs', 'cpuUser', 0],
    ['kernel', 'cpuKernel', 1],
    ['waiting for disks', 'cpuDiskWait', 5],
  ];
  return {
    id: 'machine',
    title: "CPU of the coordinator's machine",
    axis: '% of all cores',
    unit: '%',
    kind: 'stack',
    series: parts.map(([label, column, i]) => ({
      label,
      color: theme.colors[i],
      curve: curve(run, lead, resourceTags[column]),
    })),
  };
}

function chartsOfSeveral(runs, theme) {
  const runLabels = labels(runs);
  const perRun = (id, title, axis, unit, more, pick) => ({
    id,
    title,
    axis,
    unit,
    ...more,
    series: runs.map((run, i) => ({
      label: runLabels[i],
      color: theme.colors[i % theme.colors.length],
      dash: i >= theme.colors.length ? DASH : null,
      ...more.line,
      curve: pick(run),
    })),
  });
  const summed = column => run =>
    sum(run.about.tasks.map(task => curve(run, task, resourceTags[column])));
  const speed = run => curve(run, coordinator(run), tags.stepRate);
  const plain = { fromZero: true, line: { band: false } };
  return [
    [
      'Learning',
      [
        perRun(
          'test-loss',
          'Test loss',
          'mean loss of an example',
          '',
          { logs: true, line: { dots: true, width: 2.2 } },
          run => firstCurve(run, tags.testLoss),
        ),
        perRun(
          'accuracy',
          'Test accuracy',
          '% of test examples',
          '%',
          { most: 100, line: { dots: true, width: 2.2 } },
          run => scaled(firstCurve(run, tags.testAccuracy), 100),
        ),
        ...(runs.some(run => firstCurve(run, tags.testAuc))
          ? [
              perRun(
                'auc',
                'Test AUC',
                'area under the ROC curve',
                '',
                { most: 1, line: { dots: true, width: 2.2 } },
                run => firstCurve(run, tags.testAuc),
              ),
            ]
          : []),
        perRun(
          'train-loss',
          'Train loss',
          'mean loss of an example',
          '',
          { logs: true, line: { smooth: true } },
          run => curve(run, coordinator(run), tags.trainLoss),
        ),
      ],
    ],
    [
      'Speed',
      [
        perRun('steps', 'Steps per second', 'steps/s', '/s', plain, speed),
        perRun('examples', 'Examples per second', 'examples/s', '/s', plain, run =>
          scaled(speed(run), run.about.examples_per_step),
        ),
        perRun('staleness', 'Staleness', 'updates behind', '', plain, run =>
          firstCurve(run, tags.staleness),
        ),
      ],
    ],
    [
      'Resources of all tasks together',
      [
        perRun('cpu', 'CPU', '% of a core', '%', plain, summed('taskCpu')),
        perRun('memory', 'Memory', 'bytes', 'B', plain, summed('taskMemory')),
        perRun('network', 'Network, received', 'bytes/s', 'B/s', plain, summed('taskReceived')),
      ],
    ],
  ];
}

// Short names of runs: the last part of their paths, or all of it if that is ambiguous.
export function labels(runs) {
  const parts = runs.map(run => run.id.split('/'));
  const lastParts = parts.map(part => part[part.length - 1]);
  return new Set(lastParts).size === lastParts.length ? lastParts : runs.map(run => run.id);
}
