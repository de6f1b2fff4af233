//! A cell: the runs with equal settings, which differ only in their seeds.

use crate::figure::Figure;
use crate::run::Run;
use crate::stats::Spread;
use crate::sweep_plan::ReferenceFigure;

/// The runs with one combination of settings.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// The keys that distinguish cells, with their values.
    pub settings: Vec<(String, String)>,
    /// The settings in a few words: the shortest that distinguish this cell from all others.
    pub label: String,
    /// The label without the batch.
    pub label_without_batch: String,
    /// The label without the number of workers.
    pub label_without_workers: String,
    /// Complete runs.
    pub runs: Vec<Run>,
    /// Number of runs that failed.
    pub failed: usize,
    /// Published figures for these settings.
    pub references: Vec<ReferenceFigure>,
}

/// Keys that labels never drop, because charts are drawn over them.
const MAIN_KEYS: [&str; 4] =
    ["cluster.mode", "cluster.workers", "train.batch", "train.global_batch"];

/// Whether labels never drop this key.
pub(crate) fn is_main_key(key: &str) -> bool {
    MAIN_KEYS.contains(&key)
}

/// The settings of a cell in the order in which tables show them: the main ones first.
pub fn in_table_order(settings: &[(String, String)]) -> Vec<&(String, String)> {
    let mut ordered: Vec<_> = settings.iter().collect();
    ordered.sort_by_key(|(key, _)| main_rank(key));
    ordered
}

fn main_rank(key: &str) -> usize {
    MAIN_KEYS.iter().position(|main| *main == key).unwrap_or(MAIN_KEYS.len())
}

impl Cell {
    /// The mode of the runs; empty if no run is complete.
    pub fn mode(&self) -> &str {
        self.runs.first().map_or("", |run| &run.summary.mode)
    }

    /// The number of workers; 0 if no run is complete.
    pub fn workers(&self) -> u64 {
        self.runs.first().map_or(0, |run| run.summary.workers as u64)
    }

    /// The batch as the job counts it; see [`Run::batch`].
    pub fn batch(&self) -> u64 {
        self.runs.first().map_or(0, Run::batch)
    }

    /// Mean and deviation of a figure over the runs.
    pub fn figure(&self, figure: &Figure) -> Option<Spread> {
        Spread::of(self.runs.iter().filter_map(|run| figure.of(&run.summary)))
    }

    /// Mean of the figure with this name.
    pub fn mean(&self, name: &str) -> Option<f64> {
        Some(self.figure(Figure::named(name)?)?.mean)
    }

    /// Formats a figure for tables: its mean and, if runs differ, the deviation.
    pub fn format(&self, figure: &Figure) -> String {
        match self.figure(figure) {
            None => String::new(),
            Some(Spread { mean, deviation: None, .. }) => figure.format(mean),
            Some(Spread { mean, deviation: Some(0.0), .. }) => figure.format(mean),
            Some(Spread { mean, deviation: Some(deviation), .. }) => {
                figure.format_spread(mean, deviation)
            }
        }
    }

    /// The stop reasons of the runs, each once.
    pub fn stop_reasons(&self) -> String {
        let mut reasons: Vec<&str> =
            self.runs.iter().map(|run| run.summary.stop_reason.as_str()).collect();
        reasons.sort_unstable();
        reasons.dedup();
        reasons.join(", ")
    }

    /// The value of a key that distinguishes cells.
    pub fn setting(&self, key: &str) -> Option<&str> {
        self.settings.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

/// All keys that any cell sets: the main ones first, the others in order of appearance.
pub(crate) fn keys(cells: &[Cell]) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for (key, _) in cells.iter().flat_map(|cell| &cell.settings) {
        if !keys.contains(key) {
            keys.push(key.clone());
        }
    }
    keys.sort_by_key(|key| main_rank(key));
    keys
}

/// Gives every cell its labels, with as few keys as distinguish all cells.
pub(crate) fn assign_labels(cells: &mut [Cell]) {
    let mut shown = keys(cells);
    shown.retain(|key| {
        let value = |cell: &Cell| cell.setting(key).map(str::to_owned);
        cells.windows(2).any(|pair| value(&pair[0]) != value(&pair[1]))
    });
    let differ = |shown: &[String]| {
        let mut seen: Vec<_> = cells.iter().map(|cell| values(cell, shown)).collect();
        seen.sort();
        seen.windows(2).all(|pair| pair[0] != pair[1])
    };
    for key in keys(cells).iter().rev().filter(|key| !MAIN_KEYS.contains(&key.as_str())) {
        let fewer: Vec<String> = shown.iter().filter(|other| *other != key).cloned().collect();
        if differ(&fewer) {
            shown = fewer;
        }
    }
    for cell in cells {
        let without = |left_out: &[&str]| {
            let keys = shown.iter().filter(|key| !left_out.contains(&key.as_str()));
            words(cell, keys)
        };
        let labels = [&[][..], &MAIN_KEYS[2..], &MAIN_KEYS[1..2]].map(without);
        [cell.label, cell.label_without_batch, cell.label_without_workers] = labels;
    }
}

fn values<'a>(cell: &'a Cell, keys: &[String]) -> Vec<Option<&'a str>> {
    keys.iter().map(|key| cell.setting(key)).collect()
}

/// Settings in words, such as "async, 2 workers, batch 10".
fn words<'a>(cell: &Cell, keys: impl Iterator<Item = &'a String>) -> String {
    let word = |key: &String| {
        let value = cell.setting(key)?;
        let name = key.rsplit('.').next().unwrap_or_default();
        Some(match key.as_str() {
            "cluster.mode" | "data.kind" | "model.kind" | "train.optimizer.kind" => {
                value.to_owned()
            }
            "cluster.workers" if value == "1" => "1 worker".to_owned(),
            "cluster.workers" => format!("{value} workers"),
            "train.global_batch" => format!("batch {value}"),
            _ => format!("{} {value}", name.replace('_', " ")),
        })
    };
    keys.filter_map(word).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(settings: &[(&str, &str)]) -> Cell {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Cell { settings: settings.iter().map(owned).collect(), ..Cell::default() }
    }

    #[test]
    fn labels_leave_out_keys_that_do_not_distinguish_cells() {
        // Here the stop condition follows from the mode.
        let mut cells = [
            cell(&[("cluster.mode", "async"), ("train.stop", "{a}"), ("train.batch", "10")]),
            cell(&[("cluster.mode", "async"), ("train.stop", "{a}"), ("train.batch", "30")]),
            cell(&[("cluster.mode", "sync"), ("train.stop", "{b}"), ("train.batch", "10")]),
            cell(&[("cluster.mode", "sync"), ("train.stop", "{b}"), ("train.batch", "30")]),
        ];
        assign_labels(&mut cells);
        assert_eq!(cells[3].label, "sync, batch 30");
        assert_eq!(cells[3].label_without_batch, "sync");
    }

    #[test]
    fn a_key_that_only_some_cells_have_is_still_shown() {
        let mut cells = [
            cell(&[("cluster.mode", "single")]),
            cell(&[("cluster.mode", "async"), ("cluster.workers", "2")]),
            cell(&[("cluster.mode", "async"), ("cluster.workers", "3")]),
        ];
        assign_labels(&mut cells);
        let labels = cells.each_ref().map(|cell| cell.label.as_str());
        assert_eq!(labels, ["single", "async, 2 workers", "async, 3 workers"]);
        assert_eq!(cells[2].label_without_workers, "async");
    }

    #[test]
    fn a_single_cell_has_an_empty_label() {
        let mut cells = [cell(&[("train.batch", "10")])];
        assign_labels(&mut cells);
        assert_eq!(cells[0].label, "");
    }
}
