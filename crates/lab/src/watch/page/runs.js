// The list of runs: filter it and choose runs.

import { duration, make, rounded } from './format.js';
import { runState } from './state.js';

// Longer lists are cut; the filter finds the rest.
const MAX_SHOWN = 300;

function state(card) {
  return runState(card.is_over, card.stop_reason, card.quiet_s, card.ended_at, card.failure);
}

function matches(card, words) {
  const { id, name, model, data, mode, workers, batch, verdict } = card;
  const parts = [id, name, model, data, mode, `${workers} workers`, `batch ${batch}`];
  const text = [...parts, state(card).word, verdict ?? ''].join(' ').toLowerCase();
  return words.every(word => text.includes(word));
}

// Fills the list. It calls `choose(id, isOnly)` when the reader chooses a run.
export function showList(into, count, list, filter, chosen, choose) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const found = list.filter(card => matches(card, words));
  const focused = into.contains(document.activeElement)
    ? [document.activeElement.dataset.id, document.activeElement.type]
    : null;
  count.textContent =
    found.length === list.length
      ? `${list.length} ${list.length === 1 ? 'run' : 'runs'}`
      : `${found.length} of ${list.length} runs`;
  into.replaceChildren(...found.slice(0, MAX_SHOWN).map(card => item(card, chosen, choose)));
  if (focused)
    into.querySelector(`[data-id="${CSS.escape(focused[0])}"][type="${focused[1]}"]`)?.focus();
}

function item(card, chosen, choose) {
  const { kind, word } = state(card),
    isChosen = chosen.includes(card.id);
  const box = make('input', {
    type: 'checkbox',
    'data-id': card.id,
    'aria-label': `Compare ${card.folder}`,
    onchange: () => choose(card.id, false),
  });
  box.checked = isChosen;
  const about = [
    [card.model, card.data].filter(Boolean).join(' on '),
    card.mode,
    card.workers && card.mode !== 'single' ? `${card.workers} workers` : null,
    card.batch ? `batch ${card.batch}` : null,
  ]
    .filter(Boolean)
    .join(', ');
  const figures = [
    card.test_accuracy == null ? null : (100 * card.test_accuracy).toFixed(2) + ' %',
    card.examples_per_second == null ? null : rounded(card.examples_per_second) + ' ex/s',
    card.seconds == null ? null : duration(card.seconds),
  ]
    .filter(Boolean)
    .join(' · ');
  return make(
    'li',
    { class: isChosen ? 'chosen' : '' },
    box,
    make(
      'button',
      {
        type: 'button',
        class: 'plain',
        'data-id': card.id,
        'aria-current': isChosen ? 'true' : null,
        onclick: () => choose(card.id, true),
      },
      make(
        'span',
        { class: 'name' },
        make('i', { class: `dot ${kind}`, title: word }),
        card.id === '.' ? card.folder : card.id,
      ),
      make('span', { class: 'dim' }, about),
      make('span', { class: 'dim' }, figures || word),
    ),
  );
}
