// The runs as the page knows them: the server sends everything at first and then what is new.

import { names } from './names.js';

// A curve with more points is thinned: neighbours are merged in pairs.
const MAX_POINTS = 3000;

export const curveKey = (task, tag) => task + '|' + tag;

export const store = { list: [], runs: new Map() };

// Adds an update of a run.
export function addUpdate(update) {
  const run = store.runs.get(update.run) ?? {
    id: update.run,
    about: null,
    curves: new Map(),
    zoomed: null,
  };
  store.runs.set(update.run, run);
  if (update.about) run.about = update.about;
  for (const part of update.curves) {
    const key = curveKey(part.task, part.tag),
      known = run.curves.get(key);
    if (known && !part.replace) append(known, part);
    else run.curves.set(key, part);
  }
  return run;
}

// Adds finer curves of the range that the charts show.
export function addZoom(run, answer) {
  run.zoomed = new Map(answer.curves.map(part => [curveKey(part.task, part.tag), part]));
}

// Drops all runs except those that are shown.
export function dropOtherRuns(ids) {
  for (const id of store.runs.keys()) if (!ids.includes(id)) store.runs.delete(id);
}

function append(curve, part) {
  if (part.lo || curve.lo) {
    curve.lo = (curve.lo ?? curve.v.slice()).concat(part.lo ?? part.v);
    curve.hi = (curve.hi ?? curve.v.slice()).concat(part.hi ?? part.v);
  }
  for (const column of ['s', 't', 'v']) for (const x of part[column]) curve[column].push(x);
  if (curve.v.length > MAX_POINTS) halve(curve);
}

function halve(curve) {
  const lo = curve.lo ?? curve.v,
    hi = curve.hi ?? curve.v,
    half = { s: [], t: [], v: [], lo: [], hi: [] };
  for (let i = 0; i < curve.v.length; i += 2) {
    const j = Math.min(i + 1, curve.v.length - 1);
    half.s.push(curve.s[i]);
    half.t.push(curve.t[i]);
    half.v.push((curve.v[i] + curve.v[j]) / 2);
    half.lo.push(Math.min(lo[i], lo[j]));
    half.hi.push(Math.max(hi[i], hi[j]));
  }
  Object.assign(curve, half);
}

// A curve of a run: the finer one if the charts are zoomed.
export function curve(run, task, tag) {
  const key = curveKey(task, tag);
  return run.zoomed?.get(key) ?? run.curves.get(key) ?? null;
}

// The last value of a curve of the whole run.
export function last(run, task, tag) {
  const found = run.curves.get(curveKey(task, tag));
  return found && found.v.length ? found.v[found.v.length - 1] : null;
}

// The folders of the tasks with one of these roles.
export function tasks(run, ...roles) {
  return (run.about?.tasks ?? []).filter(task => roles.some(role => task.startsWith(role + '_')));
}

// The folder of the coordinator.
export function coordinator(run) {
  return tasks(run, names.roles.chief)[0] ?? tasks(run, names.roles.worker)[0] ?? null;
}

// The curve of a tag of the first task that has one.
export function firstCurve(run, tag) {
  for (const task of run.about?.tasks ?? []) {
    const found = curve(run, task, tag);
    if (found?.v.length) return found;
  }
  return null;
}

// The name of a task: worker:0 for the folder worker_0.
export function taskName(folder) {
  return folder.replace(/_(\d+)$/, ':$1');
}

// The sum of several curves at the points of the first. Each counts with its latest value.
export function sum(curves) {
  curves = curves.filter(c => c && c.v.length);
  if (curves.length < 2) return curves[0] ?? null;
  const [first, ...others] = curves,
    at = others.map(() => 0),
    v = first.v.slice();
  for (let i = 0; i < v.length; i++)
    others.forEach((other, o) => {
      while (at[o] + 1 < other.t.length && other.t[at[o] + 1] <= first.t[i]) at[o]++;
      if (other.t[at[o]] <= first.t[i] + 1) v[i] += other.v[at[o]];
    });
  return { s: first.s, t: first.t, v };
}

// The values of another curve at the points of a curve, which may have begun earlier.
export function alongside(curve, other) {
  if (!curve?.v.length || !other?.v.length) return null;
  const { s, t } = curve,
    distance = (i, at) => Math.abs(other.t[i] - at);
  let i = 0;
  const v = t.map(at => {
    while (i + 1 < other.t.length && distance(i + 1, at) <= distance(i, at)) i++;
    // The points of one sample are written within milliseconds.
    return at < other.t[0] - 0.01 ? 0 : other.v[i];
  });
  return { s, t, v };
}

export function scaled(curve, factor) {
  if (!curve || factor == null) return null;
  const scale = column => column?.map(x => x * factor);
  return { ...curve, v: scale(curve.v), lo: scale(curve.lo), hi: scale(curve.hi) };
}

// An exponential moving mean, corrected for its start.
export function smoothed(values, weight) {
  if (!(weight > 0)) return values;
  let mean = 0,
    known = 0;
  return values.map(x => {
    mean = mean * weight + x * (1 - weight);
    known = known * weight + (1 - weight);
    return mean / known;
  });
}
