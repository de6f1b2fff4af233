// The list of runs: find some, choose some.

import { duration, figure, make } from './format.js';

// Longer lists are cut; the filter finds the rest.
const MOST_SHOWN = 300;

// How a run of the list stands.
function standing(card) {
  if (card.is_over) return card.stop_reason === 'interrupted' ? ['ended', 'interrupted'] : ['done', 'finished'];
  return card.quiet_s != null && card.quiet_s < 15 ? ['live', 'running'] : ['quiet', 'no news'];
}

function matches(card, words) {
  const text = `${card.id} ${card.name} ${card.model} ${card.data} ${card.mode} ${card.workers} workers batch ${card.batch} ${standing(card)[1]} ${card.verdict ?? ''}`.toLowerCase();
  return words.every(word => text.includes(word));
}

// Fills the list. `choose(id, isOnly)` is called with what somebody has chosen.
export function showList(into, count, list, filter, chosen, choose) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const found = list.filter(card => matches(card, words));
  const focused = into.contains(document.activeElement) ? [document.activeElement.dataset.id, document.activeElement.type] : null;
  count.textContent = found.length === list.length ? `${list.length} ${list.length === 1 ? 'run' : 'runs'}` : `${found.length} of ${list.length} runs`;
  into.replaceChildren(...found.slice(0, MOST_SHOWN).map(card => item(card, chosen, choose)));
  if (focused) into.querySelector(`[data-id="${CSS.escape(focused[0])}"][type="${focused[1]}"]`)?.focus();
}

function item(card, chosen, choose) {
  const [kind, word] = standing(card), isChosen = chosen.includes(card.id);
  const box = make('input', { type: 'checkbox', 'data-id': card.id, 'aria-label': `Compare ${card.folder}`, onchange: () => choose(card.id, false) });
  box.checked = isChosen;
  const about = [card.mode, card.workers && card.mode !== 'single' ? `${card.workers} workers` : null, card.batch ? `batch ${card.batch}` : null].filter(Boolean).join(', ');
  const figures = [card.test_accuracy == null ? null : (100 * card.test_accuracy).toFixed(2) + ' %', card.examples_per_second == null ? null : figure(card.examples_per_second) + ' ex/s',
    card.seconds == null ? null : duration(card.seconds)].filter(Boolean).join(' · ');
  return make('li', { class: isChosen ? 'chosen' : '' }, box,
    make('button', { type: 'button', class: 'plain', 'data-id': card.id, 'aria-current': isChosen ? 'true' : null, onclick: () => choose(card.id, true) },
      make('span', { class: 'name' }, make('i', { class: `dot ${kind}`, title: word }), card.id === '.' ? card.folder : card.id),
      make('span', { class: 'dim' }, about), make('span', { class: 'dim' }, figures || word)));
}
