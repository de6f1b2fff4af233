// The charts: for one run, and for several side by side.

import { themes } from './draw.js';
import { names } from './names.js';
import { firstCurve, taskName, coordinator, curve, sum, tasks, scaled } from './store.js';

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
          unit: '/s',
          fromZero: true,
          series: [{ label: 'steps/s', color: color(0), curve: speed, band: false }],
        },
        {
          id: 'examples',
          title: 'Examples per second',
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
                title: 'Staleness (updates behind)',
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
    [
      'Resources',
      [
        perTask('cpu', 'CPU of each task (100 % is a core)', '%', run, all, color, [
          ['', 'taskCpu'],
        ]),
        perTask('memory', 'Memory of each task', 'B', run, all, color, [['', 'taskMemory']]),
        perTask('network', 'Network of each task', 'B/s', run, all, color, [
          [' in', 'taskReceived'],
          [' out', 'taskSent'],
        ]),
        perTask('disk', "Disks of each task's machine", 'B/s', run, all, color, [
          [' read', 'diskRead'],
          [' written', 'diskWritten'],
        ]),
        machine(run, lead, theme),
      ],
    ],
  ];
}

// The tag of a worker's time to a gradient as the first server measures it.
function workerGradientTag(task) {
  return tags.workerGradientMs.replace(names.taskPlaceholder, task);
}

function phases(run, task, theme) {
  return {
    id: `phases-${task}`,
    title: `Phases of ${taskName(task)}`,
    unit: '%',
    kind: 'stack',
    series: names.phases.map(phase => ({
      label: phase,
      color: theme.phases[phase],
      curve: curve(run, task, names.phaseTags[phase]),
    })),
  };
}

function perTask(id, title, unit, run, all, color, columns) {
  return {
    id,
    title,
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
  const perRun = (id, title, unit, more, pick) => ({
    id,
    title,
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
          '',
          { logs: true, line: { dots: true, width: 2.2 } },
          run => firstCurve(run, tags.testLoss),
        ),
        perRun(
          'accuracy',
          'Test accuracy',
          '%',
          { most: 100, line: { dots: true, width: 2.2 } },
          run => scaled(firstCurve(run, tags.testAccuracy), 100),
        ),
        perRun('train-loss', 'Train loss', '', { logs: true, line: { smooth: true } }, run =>
          curve(run, coordinator(run), tags.trainLoss),
        ),
      ],
    ],
    [
      'Speed',
      [
        perRun('steps', 'Steps per second', '/s', plain, speed),
        perRun('examples', 'Examples per second', '/s', plain, run =>
          scaled(speed(run), run.about.examples_per_step),
        ),
        perRun('staleness', 'Staleness', '', plain, run => firstCurve(run, tags.staleness)),
      ],
    ],
    [
      'Resources of all tasks together (100 % is a core)',
      [
        perRun('cpu', 'CPU', '%', plain, summed('taskCpu')),
        perRun('memory', 'Memory', 'B', plain, summed('taskMemory')),
        perRun('network', 'Network, received', 'B/s', plain, summed('taskReceived')),
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
