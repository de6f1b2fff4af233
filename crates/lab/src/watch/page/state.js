// The state of a run, for the list and for the run's own badge.

import { clock, duration } from './format.js';
import { names } from './names.js';

// The state of a run: a class for its color, a word, and a phrase that says more.
export function runState(isOver, stopReason, quietSeconds, endedAt, failure) {
  if (isOver)
    return stopReason === 'interrupted'
      ? { kind: 'ended', word: 'interrupted', phrase: 'interrupted' }
      : { kind: 'done', word: 'finished', phrase: `finished (${stopReason})` };
  if (failure) return { kind: 'dead', word: failure, phrase: failure };
  if (endedAt != null) {
    const phrase = `ended unexpectedly at ${clock(endedAt)}`;
    return { kind: 'dead', word: 'ended unexpectedly', phrase };
  }
  // A run without any file of a task has no time of its last one.
  return quietSeconds != null && quietSeconds < names.quietSeconds
    ? { kind: 'live', word: 'running', phrase: 'running' }
    : { kind: 'quiet', word: 'quiet', phrase: `nothing written for ${duration(quietSeconds)}` };
}
