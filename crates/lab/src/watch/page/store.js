// What the page knows of runs: told by the server, whole at first and then what is new.

// More points of a curve than this are put together, two and two.
const MOST_POINTS = 3000;

export const store = { list: [], runs: new Map() };

// Takes what the server has told of a run.
export function take(news) {
  const run = store.runs.get(news.run) ?? { id: news.run, about: null, curves: new Map(), near: null };
  store.runs.set(news.run, run);
  if (news.about) run.about = news.about;
  for (const part of news.curves) {
    const key = part.task + '|' + part.tag, known = run.curves.get(key);
    if (known && !part.replace) append(known, part);
    else run.curves.set(key, part);
  }
  return run;
}

// Curves of a part of a run, finer than the whole.
export function takeNear(run, answer) {
  run.near = new Map(answer.curves.map(part => [part.task + '|' + part.tag, part]));
}

// Only the runs that are shown are kept.
export function keepOnly(ids) {
  for (const id of store.runs.keys()) if (!ids.includes(id)) store.runs.delete(id);
}

function append(curve, part) {
  if (part.lo || curve.lo) {
    curve.lo = (curve.lo ?? curve.v.slice()).concat(part.lo ?? part.v);
    curve.hi = (curve.hi ?? curve.v.slice()).concat(part.hi ?? part.v);
  }
  for (const column of ['s', 't', 'v']) for (const x of part[column]) curve[column].push(x);
  if (curve.v.length > MOST_POINTS) halve(curve);
}

function halve(curve) {
  const lo = curve.lo ?? curve.v, hi = curve.hi ?? curve.v, half = { s: [], t: [], v: [], lo: [], hi: [] };
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

// A curve of a run, of the part that is looked at if there is one.
export function curve(run, task, tag) {
  const key = task + '|' + tag;
  return run.near?.get(key) ?? run.curves.get(key) ?? null;
}

// The last value of a curve, of the whole run.
export function last(run, task, tag) {
  const found = run.curves.get(task + '|' + tag);
  return found && found.v.length ? found.v[found.v.length - 1] : null;
}

// The tasks of a run whose name begins so.
export function tasks(run, ...roles) {
  return (run.about?.tasks ?? []).filter(task => roles.some(role => task.startsWith(role + '_')));
}

// Who leads the run.
export function chief(run) {
  return tasks(run, 'chief')[0] ?? tasks(run, 'worker')[0] ?? null;
}

// The curve of a tag by whichever task has it first.
export function anyones(run, tag) {
  for (const task of run.about?.tasks ?? []) {
    const found = curve(run, task, tag);
    if (found?.v.length) return found;
  }
  return null;
}

// A task as people call it.
export function called(folder) {
  return folder.replace(/_(\d+)$/, ':$1');
}

// The sum of several curves, at the points of the first; each counts with what it last had.
export function sum(curves) {
  curves = curves.filter(c => c && c.v.length);
  if (curves.length < 2) return curves[0] ?? null;
  const [first, ...others] = curves, at = others.map(() => 0), v = first.v.slice();
  for (let i = 0; i < v.length; i++)
    others.forEach((other, o) => {
      while (at[o] + 1 < other.t.length && other.t[at[o] + 1] <= first.t[i]) at[o]++;
      if (other.t[at[o]] <= first.t[i] + 1) v[i] += other.v[at[o]];
    });
  return { s: first.s, t: first.t, v };
}

export function times(curve, factor) {
  if (!curve || factor == null) return null;
  const scale = column => column?.map(x => x * factor);
  return { ...curve, v: scale(curve.v), lo: scale(curve.lo), hi: scale(curve.hi) };
}

// A moving mean that forgets by and by, without the pull of its beginning.
export function smoothed(values, weight) {
  if (!(weight > 0)) return values;
  let mean = 0, known = 0;
  return values.map(x => {
    mean = mean * weight + x * (1 - weight);
    known = known * weight + (1 - weight);
    return mean / known;
  });
}
