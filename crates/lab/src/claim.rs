//! What others found, as something that can be checked against our own measurements.
//!
//! A claim is a sentence and one check of it: who did the steps, how a figure goes with a key,
//! how many times one deployment's figure is another's, or what held the runs back. What comes
//! out is whether it holds here, and the figures that say so.

use serde::{Deserialize, Serialize};

use crate::cell::Cell;
use crate::figure::{Figure, show};
use crate::findings::Findings;
use crate::run::Curve;

/// A change by less than this share is none.
const NOTABLE: f64 = 0.10;
/// Steps that differ by less than this share are equal.
const EQUAL: f64 = 0.02;
/// Evidence beyond so many cells is left out.
const MOST_SHOWN: usize = 4;

/// Keys and the values that a cell's job has for them.
pub type Settings = Vec<(String, String)>;

/// A finding of others.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Claim {
    /// What they found, in a sentence.
    pub says: String,
    /// The cells that it is about.
    pub when: Settings,
    /// How it is checked.
    pub check: Check,
    /// Why it does not hold here, if it does not.
    pub why: String,
}

/// How a claim is checked.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// The first worker makes more steps than any other.
    #[default]
    FirstWorkerLeads,
    /// All workers make as many steps.
    EqualSteps,
    /// A figure grows, falls or stays as a key grows.
    Trend {
        /// The figure's name.
        figure: String,
        /// The key that the cells are put in order by.
        over: String,
        /// How it goes.
        trend: Trend,
    },
    /// A figure is so many times that of the cells with other settings.
    Ratio {
        /// The figure's name.
        figure: String,
        /// What the other cells have in place of `when`.
        against: Settings,
        /// At least so many times.
        least: f64,
        /// At most so many times.
        most: f64,
    },
    /// What held the runs back, by its first word.
    Verdict(String),
}

/// How a figure goes.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Trend {
    /// Up.
    Grows,
    /// Down.
    Falls,
    /// Neither.
    Flat,
}

impl Trend {
    /// The trend of this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "grows" => Some(Trend::Grows),
            "falls" => Some(Trend::Falls),
            "flat" => Some(Trend::Flat),
            _ => None,
        }
    }
}

/// Whether a claim holds, and what says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// None if nothing was measured that could say.
    pub holds: Option<bool>,
    /// The figures.
    pub evidence: String,
}

/// One cell's or line's part in a judgement.
type Part = (bool, String);

impl Claim {
    /// Holds the claim against what was found.
    pub fn judge(&self, findings: &Findings) -> Judgement {
        let cells: Vec<&Cell> = findings.complete().filter(|cell| has(cell, &self.when)).collect();
        let parts = match &self.check {
            Check::FirstWorkerLeads => cells.iter().filter_map(|cell| leads(cell)).collect(),
            Check::EqualSteps => cells.iter().filter_map(|cell| equal(cell)).collect(),
            Check::Trend { figure, over, trend } => trends(&cells, figure, over, *trend),
            Check::Ratio { figure, against, least, most } => {
                let others = findings.complete().filter(|cell| has(cell, against));
                ratio(&cells, &others.collect::<Vec<_>>(), figure, *least..=*most)
            }
            Check::Verdict(kind) => verdicts(&cells, kind),
        };
        conclude(parts)
    }
}

/// It holds if it does in most cells; those where it does not are shown first.
fn conclude(mut parts: Vec<Part>) -> Judgement {
    if parts.is_empty() {
        return Judgement { holds: None, evidence: "not measured".into() };
    }
    let all = parts.len();
    let held = parts.iter().filter(|(holds, _)| *holds).count();
    let holds = 2 * held > all;
    parts.sort_by_key(|(part, _)| *part == holds);
    let mut texts: Vec<_> = parts.into_iter().map(|(_, text)| text).collect();
    let more = texts.len().saturating_sub(MOST_SHOWN);
    texts.truncate(MOST_SHOWN);
    let mut evidence = texts.join("; ");
    if more > 0 {
        evidence.push_str(&format!("; and {more} more"));
    }
    if all > 1 {
        evidence = format!("in {held} of {all}: {evidence}");
    }
    Judgement { holds: Some(holds), evidence }
}

/// Whether a cell's job has these values.
fn has(cell: &Cell, settings: &Settings) -> bool {
    let Some(run) = cell.runs.first() else { return false };
    settings.iter().all(|(key, value)| run.job.get(key) == Some(value))
}

fn steps(cell: &Cell) -> Option<Vec<u64>> {
    let steps: Vec<u64> = cell.runs.first()?.summary.workers().map(|task| task.steps).collect();
    (steps.len() > 1).then_some(steps)
}

fn told(cell: &Cell, steps: &[u64]) -> String {
    let steps: Vec<_> = steps.iter().map(|&steps| show(steps as f64, 0)).collect();
    named(&cell.label, &steps.join(" / "))
}

fn named(label: &str, text: &str) -> String {
    if label.is_empty() { text.to_owned() } else { format!("{label}: {text}") }
}

fn leads(cell: &Cell) -> Option<Part> {
    let steps = steps(cell)?;
    let others = steps[1..].iter().max()?;
    Some((steps[0] > *others, told(cell, &steps)))
}

fn equal(cell: &Cell) -> Option<Part> {
    let steps = steps(cell)?;
    let (least, most) = (*steps.iter().min()? as f64, *steps.iter().max()? as f64);
    Some((most <= least * (1.0 + EQUAL), told(cell, &steps)))
}

/// A number that a cell's job has for a key.
fn number(cell: &Cell, key: &str) -> Option<f64> {
    match key {
        // A single process is one worker, though its job does not say so.
        "cluster.workers" => Some(cell.workers() as f64),
        _ => cell.runs.first()?.job.get(key)?.parse().ok(),
    }
}

/// A cell's settings but for one key.
fn without(cell: &Cell, left_out: &[&str]) -> Settings {
    let kept = cell.settings.iter().filter(|(key, _)| !left_out.contains(&key.as_str()));
    kept.cloned().collect()
}

fn trends(cells: &[&Cell], figure: &str, over: &str, trend: Trend) -> Vec<Part> {
    let mut lines: Vec<(Settings, Curve)> = Vec::new();
    for cell in cells {
        // How long a run is may go with the key; what is compared is said by the claim.
        let rest = without(cell, &[over, "train.stop"]);
        let Some((x, y)) = number(cell, over).zip(cell.mean(figure)) else { continue };
        match lines.iter_mut().find(|(key, _)| *key == rest) {
            Some((_, line)) => line.push((x, y)),
            None => lines.push((rest, vec![(x, y)])),
        }
    }
    let known = Figure::named(figure);
    let judge = |(rest, line): &mut (Settings, Curve)| {
        line.sort_by(|a, b| a.0.total_cmp(&b.0));
        let ([(_, first), .., (_, last)], Some(figure)) = (&line[..], known) else {
            return None;
        };
        let holds = match trend {
            Trend::Grows => *last > first * (1.0 + NOTABLE),
            Trend::Falls => *last < first * (1.0 - NOTABLE),
            Trend::Flat => (*last - first).abs() <= NOTABLE * first.abs(),
        };
        let ys: Vec<_> = line.iter().map(|(_, y)| figure.show(*y)).collect();
        let xs: Vec<_> = line.iter().map(|(x, _)| show(*x, 0)).collect();
        let name = over.rsplit('.').next().unwrap_or_default().replace('_', " ");
        let text = format!("{} {} at {name} {}", figure.title, ys.join(" / "), xs.join(" / "));
        let values: Vec<_> = rest.iter().map(|(_, value)| value.as_str()).collect();
        Some((holds, named(&values.join(", "), &text)))
    };
    lines.iter_mut().filter_map(judge).collect()
}

fn ratio(
    cells: &[&Cell],
    others: &[&Cell],
    figure: &str,
    range: std::ops::RangeInclusive<f64>,
) -> Vec<Part> {
    let paired = |cell: &&Cell| {
        // Beside it stands what has most settings in common with it.
        let common = |other: &&&Cell| {
            cell.settings.iter().filter(|pair| other.settings.contains(pair)).count()
        };
        let other = others.iter().rev().max_by_key(common)?;
        let (ours, theirs) = (cell.mean(figure)?, other.mean(figure)?);
        let known = Figure::named(figure)?;
        let times = ours / theirs;
        let text = format!(
            "{} {} against {}: {} times",
            known.title,
            known.show(ours),
            known.show(theirs),
            show(times, 2)
        );
        Some((range.contains(&times), named(&cell.label, &text)))
    };
    cells.iter().filter_map(paired).collect()
}

fn verdicts(cells: &[&Cell], kind: &str) -> Vec<Part> {
    let told = |cell: &&Cell| {
        let verdict = &cell.runs.first()?.summary.verdict;
        let (word, rest) = verdict.split_once(": ")?;
        let shown = rest.split("; try ").next().unwrap_or(rest);
        Some((word == kind, named(&cell.label, &format!("{word}, {shown}"))))
    };
    cells.iter().filter_map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::label;
    use crate::run::Run;
    use crate::summary::Summary;

    /// Cells of mode, batch, seconds and the workers' steps.
    fn findings(rows: &[(&str, u64, f64, &[u64])]) -> Findings {
        let cell = |&(mode, batch, seconds, steps): &(&str, u64, f64, &[u64])| {
            let task = |(i, steps): (usize, &u64)| {
                format!(r#"{{"task": "worker:{i}", "steps": {steps}}}"#)
            };
            let tasks = steps.iter().enumerate().map(task).collect::<Vec<_>>().join(",");
            let text = format!(
                r#"{{"mode": "{mode}", "seconds": {seconds}, "workers": {}, "tasks": [{tasks}],
                     "verdict": "network: full; try less"}}"#,
                steps.len()
            );
            let settings = [("cluster.mode", mode.to_owned()), ("train.batch", batch.to_string())]
                .map(|(key, value)| (key.to_owned(), value));
            let job = settings.iter().cloned().collect();
            let summary = Summary::parse(&text).unwrap();
            let runs = vec![Run { summary, job, ..Run::default() }];
            Cell { settings: settings.to_vec(), runs, ..Cell::default() }
        };
        let mut cells: Vec<Cell> = rows.iter().map(cell).collect();
        label(&mut cells);
        Findings { cells, ..Findings::default() }
    }

    fn judged(rows: &[(&str, u64, f64, &[u64])], mode: &str, check: Check) -> Judgement {
        let when = vec![("cluster.mode".to_owned(), mode.to_owned())];
        Claim { when, check, ..Claim::default() }.judge(&findings(rows))
    }

    const ROWS: &[(&str, u64, f64, &[u64])] = &[
        ("async", 10, 9.0, &[800, 40, 40]),
        ("async", 60, 3.0, &[300, 290, 290]),
        ("sync", 10, 20.0, &[100, 100, 100]),
        ("sync", 60, 20.5, &[100, 100, 99]),
    ];

    #[test]
    fn who_made_the_steps_is_read_from_the_tasks() {
        let lead = judged(ROWS, "async", Check::FirstWorkerLeads);
        assert_eq!(lead.holds, Some(true));
        assert!(lead.evidence.starts_with("in 2 of 2: async, batch 10: 800 / 40 / 40"), "{lead:?}");
        assert_eq!(judged(ROWS, "sync", Check::FirstWorkerLeads).holds, Some(false));
        assert_eq!(judged(ROWS, "sync", Check::EqualSteps).holds, Some(true));
        assert_eq!(judged(ROWS, "single", Check::EqualSteps).holds, None);
    }

    #[test]
    fn a_trend_is_along_cells_that_differ_in_nothing_else() {
        let trend = |mode, trend| {
            let (figure, over) = ("seconds".to_owned(), "train.batch".to_owned());
            judged(ROWS, mode, Check::Trend { figure, over, trend })
        };
        assert_eq!(trend("async", Trend::Falls).holds, Some(true));
        assert_eq!(trend("async", Trend::Flat).holds, Some(false));
        assert_eq!(trend("sync", Trend::Flat).holds, Some(true));
        let text = trend("async", Trend::Grows).evidence;
        assert_eq!(text, "async: seconds 9.00 / 3.00 at batch 10 / 60");
    }

    #[test]
    fn a_ratio_is_between_cells_that_have_most_in_common() {
        let against = vec![("cluster.mode".to_owned(), "async".to_owned())];
        let check = Check::Ratio { figure: "seconds".into(), against, least: 2.0, most: 7.0 };
        let found = judged(ROWS, "sync", check);
        assert_eq!(found.holds, Some(true));
        assert!(
            found.evidence.contains("batch 60: seconds 20.50 against 3.00: 6.83 times"),
            "{found:?}"
        );
    }

    #[test]
    fn a_verdict_is_known_by_its_first_word() {
        assert_eq!(judged(ROWS, "sync", Check::Verdict("network".into())).holds, Some(true));
        assert_eq!(judged(ROWS, "sync", Check::Verdict("compute".into())).holds, Some(false));
    }
}
