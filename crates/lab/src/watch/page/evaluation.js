// The last evaluation of a run's model, if there was one.

import { figure, grouped, head, make, percent, wide } from './format.js';

// Matrices of more classes are not shown.
const MOST_CLASSES = 20;

// The figures of `paceline evaluate`.
export function evaluation(figures) {
  const parts = [
    make('p', { class: 'dim' }, `${grouped(figures.examples)} examples of ${figures.data}`),
    table('Figures', ['Figure', 'Value'], mainFigures(figures)),
  ];
  if (figures.per_class?.length)
    parts.push(table('Classes', ['Class', 'Examples', 'Precision', 'Recall'], classes(figures)));
  if (figures.confusion && figures.classes.length <= MOST_CLASSES)
    parts.push(
      make('h3', {}, 'Confusion matrix'),
      table(
        'Confusion matrix',
        ['Actual', ...figures.classes.map(name => `as ${name}`)],
        figures.confusion.map((row, i) => [figures.classes[i], ...row.map(grouped)]),
      ),
    );
  parts.push(
    make('h3', {}, 'Calibration by decile'),
    table(
      'Calibration by decile',
      ['Probability', 'Examples', 'Predicted', 'Observed'],
      (figures.calibration ?? []).map(bin => [
        `${figure(bin.lowest)} to ${figure(bin.highest)}`,
        grouped(bin.examples),
        figure(bin.predicted),
        figure(bin.observed),
      ]),
    ),
  );
  return make('div', { class: 'evaluation' }, ...parts);
}

function mainFigures(figures) {
  const share = value => (value == null ? 'undefined' : figure(value));
  const rows = [
    ['Log loss', figure(figures.log_loss)],
    ['Accuracy', percent(figures.accuracy)],
  ];
  if (figures.threshold != null)
    rows.push(
      ['AUC', share(figures.auc)],
      [`Precision above ${figures.threshold}`, share(figures.precision)],
      [`Recall above ${figures.threshold}`, share(figures.recall)],
    );
  if (figures.skipped) rows.push(['Bad rows skipped', grouped(figures.skipped)]);
  return rows;
}

function classes(figures) {
  const share = value => (value == null ? '–' : figure(value));
  return figures.per_class.map(one => [
    one.class,
    grouped(one.examples),
    share(one.precision),
    share(one.recall),
  ]);
}

// A table whose first column names its rows.
function table(label, titles, rows) {
  const row = ([name, ...cells]) =>
    make('tr', {}, make('th', { scope: 'row' }, name), ...cells.map(cell => make('td', {}, cell)));
  return wide(label, make('table', {}, head(titles), make('tbody', {}, ...rows.map(row))));
}
