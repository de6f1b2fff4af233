// The state and the key figures of a run.

import { names } from './names.js';
import { runState } from './state.js';
import { coordinator, curveKey, firstCurve, last, tasks } from './store.js';

const { roles, tags, resourceTags } = names;

// The state of a run that the page shows.
export function state(about) {
  const { is_over, summary, quiet_s, ended_at, failure } = about;
  return runState(is_over, summary?.stop_reason, quiet_s, ended_at, failure);
}

// The key figures of a run: from its summary or, before there is one, from its curves.
export function facts(run) {
  const { about } = run,
    end = about.summary,
    lead = coordinator(run);
  const final = firstCurve({ ...run, zoomed: null }, tags.testAccuracy),
    loss = firstCurve({ ...run, zoomed: null }, tags.testLoss),
    area = firstCurve({ ...run, zoomed: null }, tags.testAuc);
  const steps =
    run.curves.get(curveKey(lead, resourceTags.taskCpu)) ??
    run.curves.get(curveKey(lead, tags.trainLoss));
  const of = curve => (curve?.v.length ? curve.v[curve.v.length - 1] : null);
  const speed = steadyRate(last(run, lead, tags.stepRate), steps),
    seen = about.tasks.flatMap(task => {
      const any =
        run.curves.get(curveKey(task, resourceTags.taskCpu)) ??
        run.curves.get(curveKey(task, tags.trainLoss));
      return any?.t.length ? [any.t[any.t.length - 1]] : [];
    });
  return {
    step: end?.global_steps ?? (steps?.s.length ? steps.s[steps.s.length - 1] : null),
    seconds: end?.seconds ?? (seen.length ? Math.max(...seen) : null),
    trainLoss: end?.train_loss ?? recent(run.curves.get(curveKey(lead, tags.trainLoss))),
    testLoss: end?.test_loss ?? of(loss),
    accuracy: end?.test_accuracy ?? of(final),
    auc: end?.test_auc ?? of(area),
    stepsPerSecond: end?.steps_per_second ?? speed,
    examplesPerSecond:
      end?.examples_per_second ??
      (speed == null || about.examples_per_step == null ? null : speed * about.examples_per_step),
    mode: about.job['cluster.mode'] ?? end?.mode,
    workers: end?.workers ?? (tasks(run, roles.worker, roles.chief).length || null),
    servers: end?.servers ?? tasks(run, roles.server).length,
    done: about.is_over ? 1 : about.ended_at != null ? null : progress(about, steps, seen),
  };
}

// Steps per second; over the last 20 s if steps take so long that a sample has one or none.
function steadyRate(rate, steps) {
  const end = (steps?.s.length ?? 0) - 1;
  if (rate == null || rate >= 5 || end < 1) return rate;
  let start = end - 1;
  while (start > 0 && steps.t[end] - steps.t[start] < 20) start -= 1;
  const seconds = steps.t[end] - steps.t[start];
  return seconds > 0 ? (steps.s[end] - steps.s[start]) / seconds : rate;
}

// The mean of the last values, because one batch says little.
function recent(curve) {
  if (!curve?.v.length) return null;
  const values = curve.v.slice(-50);
  return values.reduce((sum, x) => sum + x, 0) / values.length;
}

// The share of a run that is done, as far as its stop conditions say.
function progress(about, steps, seen) {
  const number = key => (about.job[key] == null ? null : +about.job[key]);
  const step = steps?.s.length ? steps.s[steps.s.length - 1] : 0,
    seconds = seen.length ? Math.max(...seen) : 0;
  const examples = number('data.train_examples'),
    epochs = number('train.stop.epochs');
  const shares = [
    number('train.stop.steps') && step / number('train.stop.steps'),
    number('train.stop.seconds') && seconds / number('train.stop.seconds'),
    epochs &&
      examples &&
      about.examples_per_step &&
      (step * about.examples_per_step) / (epochs * examples),
  ];
  const known = shares.filter(Number.isFinite).filter(share => share > 0);
  return known.length ? Math.min(1, Math.max(...known)) : null;
}
