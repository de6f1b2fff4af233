//! Runs with equal settings, which differ in their seeds alone.

use crate::figure::Figure;
use crate::run::Run;
use crate::stats::Spread;
use crate::sweep_plan::ReferenceFigure;

/// The runs of one combination of settings.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// The keys that tell the cells apart, with their values.
    pub settings: Vec<(String, String)>,
    /// The settings in a few words; the shortest that tell it from all others.
    pub label: String,
    /// The same without the batch.
    pub deploy: String,
    /// The same without the workers.
    pub without_workers: String,
    /// Its complete runs.
    pub runs: Vec<Run>,
    /// How many of its runs failed.
    pub failed: usize,
    /// What others measured.
    pub references: Vec<ReferenceFigure>,
}

/// Keys that are always shown, as what they stand for is drawn.
const MAIN: [&str; 4] = ["cluster.mode", "cluster.workers", "train.batch", "train.global_batch"];

impl Cell {
    /// How workers shared the parameters; empty if no run is complete.
    pub fn mode(&self) -> &str {
        self.runs.first().map_or("", |run| &run.summary.mode)
    }

    /// How many workers there were.
    pub fn workers(&self) -> u64 {
        self.runs.first().map_or(0, |run| run.summary.workers)
    }

    /// Examples a step, as the job counts them.
    pub fn batch(&self) -> u64 {
        self.runs.first().map_or(0, Run::batch)
    }

    /// A figure's mean and spread over the runs.
    pub fn figure(&self, figure: &Figure) -> Option<Spread> {
        Spread::of(self.runs.iter().filter_map(|run| figure.of(&run.summary)))
    }

    /// The mean of a figure that is known by its name.
    pub fn mean(&self, name: &str) -> Option<f64> {
        Some(self.figure(Figure::named(name)?)?.mean)
    }

    /// A figure as tables show it: mean and, of several runs, the spread.
    pub fn format(&self, figure: &Figure) -> String {
        match self.figure(figure) {
            None => String::new(),
            Some(Spread { mean, deviation: None, .. }) => figure.format(mean),
            Some(Spread { mean, deviation: Some(0.0), .. }) => figure.format(mean),
            Some(Spread { mean, deviation: Some(deviation), .. }) => {
                format!("{} ± {}", figure.format(mean), figure.format(deviation))
            }
        }
    }

    /// What ended the runs, each reason once.
    pub fn stop_reasons(&self) -> String {
        let mut reasons: Vec<&str> =
            self.runs.iter().map(|run| run.summary.stop_reason.as_str()).collect();
        reasons.sort_unstable();
        reasons.dedup();
        reasons.join(", ")
    }

    /// The value of a setting.
    pub fn setting(&self, key: &str) -> Option<&str> {
        self.settings.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

/// All keys that any cell sets: the main ones first, the others in the order they come in.
pub(crate) fn keys(cells: &[Cell]) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for (key, _) in cells.iter().flat_map(|cell| &cell.settings) {
        if !keys.contains(key) {
            keys.push(key.clone());
        }
    }
    let rank = |key: &String| MAIN.iter().position(|main| main == key).unwrap_or(MAIN.len());
    keys.sort_by_key(rank);
    keys
}

/// Gives every cell its labels: of the keys that tell cells apart as few as will do.
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
    for key in keys(cells).iter().rev().filter(|key| !MAIN.contains(&key.as_str())) {
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
        let labels = [&[][..], &MAIN[2..], &MAIN[1..2]].map(without);
        [cell.label, cell.deploy, cell.without_workers] = labels;
    }
}

fn values<'a>(cell: &'a Cell, keys: &[String]) -> Vec<Option<&'a str>> {
    keys.iter().map(|key| cell.setting(key)).collect()
}

/// Settings in words: "async, 2 workers, batch 10".
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
    fn labels_say_no_more_than_tells_cells_apart() {
        // How a run stops follows from its mode here, so it is not said.
        let mut cells = [
            cell(&[("cluster.mode", "async"), ("train.stop", "{a}"), ("train.batch", "10")]),
            cell(&[("cluster.mode", "async"), ("train.stop", "{a}"), ("train.batch", "30")]),
            cell(&[("cluster.mode", "sync"), ("train.stop", "{b}"), ("train.batch", "10")]),
            cell(&[("cluster.mode", "sync"), ("train.stop", "{b}"), ("train.batch", "30")]),
        ];
        assign_labels(&mut cells);
        assert_eq!(cells[3].label, "sync, batch 30");
        assert_eq!(cells[3].deploy, "sync");
    }

    #[test]
    fn a_key_that_not_all_cells_heed_is_still_said() {
        let mut cells = [
            cell(&[("cluster.mode", "single")]),
            cell(&[("cluster.mode", "async"), ("cluster.workers", "2")]),
            cell(&[("cluster.mode", "async"), ("cluster.workers", "3")]),
        ];
        assign_labels(&mut cells);
        let labels = cells.each_ref().map(|cell| cell.label.as_str());
        assert_eq!(labels, ["single", "async, 2 workers", "async, 3 workers"]);
        assert_eq!(cells[2].without_workers, "async");
    }

    #[test]
    fn one_cell_needs_no_label() {
        let mut cells = [cell(&[("train.batch", "10")])];
        assign_labels(&mut cells);
        assert_eq!(cells[0].label, "");
    }
}
