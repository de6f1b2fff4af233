//! Checks whether published findings hold for the runs of a sweep.
//!
//! A check looks at every cell (or line of cells) that the finding is about and collects one
//! observation from each. The finding holds if more than half of the observations agree with it.

use std::ops::RangeInclusive;

use crate::cell::Cell;
use crate::curve::Curve;
use crate::figure::{Figure, format_number};
use crate::finding::{CellSettings, Finding, FindingCheck, Trend};
use crate::report_data::ReportData;

/// A figure that changes by at most this share is flat.
const NOTABLE_CHANGE: f64 = 0.10;
/// Step counts that differ by at most this share are equal.
const EQUAL_STEPS: f64 = 0.02;
/// The evidence quotes at most this many observations.
const MAX_QUOTED: usize = 4;

/// Whether a finding holds here, and the figures that show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckResult {
    /// None if no complete run measured what the check needs.
    pub holds: Option<bool>,
    /// The figures, in words.
    pub evidence: String,
}

/// What one cell, or one line of cells, contributes to a check.
struct Observation {
    agrees: bool,
    text: String,
}

/// A finding, and whether it holds here.
#[derive(Clone, Debug)]
pub struct CheckedFinding<'a> {
    /// The published finding.
    pub finding: &'a Finding,
    /// What the runs say about it.
    pub result: CheckResult,
}

/// Checks every finding of the sweep's plan.
pub fn check_findings(data: &ReportData) -> Vec<CheckedFinding<'_>> {
    let findings = data.plan.iter().flat_map(|plan| &plan.findings);
    findings
        .map(|finding| CheckedFinding { finding, result: check_finding(finding, data) })
        .collect()
}

/// Checks one finding.
pub fn check_finding(finding: &Finding, data: &ReportData) -> CheckResult {
    let selected = |settings: &CellSettings| -> Vec<&Cell> {
        data.complete_cells().filter(|cell| has_settings(cell, settings)).collect()
    };
    let cells = selected(&finding.when);
    conclude(match &finding.check {
        FindingCheck::FirstWorkerLeads => cells.iter().filter_map(|c| first_leads(c)).collect(),
        FindingCheck::EqualSteps => cells.iter().filter_map(|c| equal_steps(c)).collect(),
        FindingCheck::Trend { figure, over, trend } => trends(&cells, figure, over, *trend),
        FindingCheck::Ratio { figure, against, least, most } => {
            ratios(&cells, &selected(against), figure, *least..=*most)
        }
        FindingCheck::Verdict(kind) => verdicts(&cells, kind),
    })
}

/// Combines the observations; the evidence begins with those in the minority.
fn conclude(mut observations: Vec<Observation>) -> CheckResult {
    if observations.is_empty() {
        return CheckResult { holds: None, evidence: "not measured".into() };
    }
    let all = observations.len();
    let agreeing = observations.iter().filter(|observation| observation.agrees).count();
    let holds = 2 * agreeing > all;
    observations.sort_by_key(|observation| observation.agrees == holds);
    let mut texts: Vec<_> = observations.into_iter().map(|observation| observation.text).collect();
    let more = texts.len().saturating_sub(MAX_QUOTED);
    texts.truncate(MAX_QUOTED);
    let mut evidence = texts.join("; ");
    if more > 0 {
        evidence.push_str(&format!("; and {more} more"));
    }
    if all > 1 {
        evidence = format!("in {agreeing} of {all}: {evidence}");
    }
    CheckResult { holds: Some(holds), evidence }
}

fn has_settings(cell: &Cell, settings: &CellSettings) -> bool {
    let Some(run) = cell.runs.first() else { return false };
    settings.iter().all(|(key, value)| run.job.get(key) == Some(value))
}

/// The steps of each worker; none of a run with a single worker.
fn worker_steps(cell: &Cell) -> Option<Vec<u64>> {
    let steps: Vec<u64> =
        cell.runs.first()?.summary.worker_tasks().map(|task| task.steps).collect();
    (steps.len() > 1).then_some(steps)
}

fn steps_text(cell: &Cell, steps: &[u64]) -> String {
    let steps: Vec<_> = steps.iter().map(|&steps| format_number(steps as f64, 0)).collect();
    labelled(&cell.label, &steps.join(" / "))
}

fn labelled(label: &str, text: &str) -> String {
    if label.is_empty() { text.to_owned() } else { format!("{label}: {text}") }
}

fn first_leads(cell: &Cell) -> Option<Observation> {
    let steps = worker_steps(cell)?;
    let others = steps[1..].iter().max()?;
    Some(Observation { agrees: steps[0] > *others, text: steps_text(cell, &steps) })
}

fn equal_steps(cell: &Cell) -> Option<Observation> {
    let steps = worker_steps(cell)?;
    let (least, most) = (*steps.iter().min()? as f64, *steps.iter().max()? as f64);
    let agrees = most <= least * (1.0 + EQUAL_STEPS);
    Some(Observation { agrees, text: steps_text(cell, &steps) })
}

/// The value of a job key as a number.
fn numeric_setting(cell: &Cell, key: &str) -> Option<f64> {
    // A single process is one worker, though its job has no such key.
    if key == "cluster.workers" {
        return Some(cell.workers() as f64);
    }
    cell.runs.first()?.job.get(key)?.parse().ok()
}

/// Cells that differ only in the key along which a figure is followed.
struct FigureLine {
    settings: CellSettings,
    points: Curve,
}

fn figure_lines(cells: &[&Cell], figure: &str, over: &str) -> Vec<FigureLine> {
    // The length of a run may change along with the key without making another line.
    let left_out = [over, "train.stop"];
    let mut lines: Vec<FigureLine> = Vec::new();
    for cell in cells {
        let rest = cell.settings.iter().filter(|(key, _)| !left_out.contains(&key.as_str()));
        let settings: CellSettings = rest.cloned().collect();
        let Some(point) = numeric_setting(cell, over).zip(cell.mean(figure)) else { continue };
        match lines.iter_mut().find(|line| line.settings == settings) {
            Some(line) => line.points.push(point),
            None => lines.push(FigureLine { settings, points: vec![point] }),
        }
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    lines
}

fn trends(cells: &[&Cell], figure: &str, over: &str, trend: Trend) -> Vec<Observation> {
    let Some(known) = Figure::named(figure) else { return Vec::new() };
    let observe = |line: &FigureLine| {
        let [(_, first), .., (_, last)] = &line.points[..] else { return None };
        let agrees = match trend {
            Trend::Grows => *last > first * (1.0 + NOTABLE_CHANGE),
            Trend::Falls => *last < first * (1.0 - NOTABLE_CHANGE),
            Trend::Flat => (*last - first).abs() <= NOTABLE_CHANGE * first.abs(),
        };
        let ys: Vec<_> = line.points.iter().map(|(_, y)| known.format(*y)).collect();
        let xs: Vec<_> = line.points.iter().map(|(x, _)| format_number(*x, 0)).collect();
        let name = over.rsplit('.').next().unwrap_or_default().replace('_', " ");
        let text = format!("{} {} at {name} {}", known.title, ys.join(" / "), xs.join(" / "));
        let values: Vec<_> = line.settings.iter().map(|(_, value)| value.as_str()).collect();
        Some(Observation { agrees, text: labelled(&values.join(", "), &text) })
    };
    figure_lines(cells, figure, over).iter().filter_map(observe).collect()
}

fn ratios(
    cells: &[&Cell],
    others: &[&Cell],
    figure: &str,
    range: RangeInclusive<f64>,
) -> Vec<Observation> {
    let Some(known) = Figure::named(figure) else { return Vec::new() };
    let observe = |cell: &&Cell| {
        // Compare with the cell that has the most settings in common.
        let common = |other: &&&Cell| {
            cell.settings.iter().filter(|pair| other.settings.contains(pair)).count()
        };
        let other = others.iter().rev().max_by_key(common)?;
        let (this, that) = (cell.mean(figure)?, other.mean(figure)?);
        let ratio = this / that;
        let text = format!(
            "{} {} against {}: {} times",
            known.title,
            known.format(this),
            known.format(that),
            format_number(ratio, 2)
        );
        Some(Observation { agrees: range.contains(&ratio), text: labelled(&cell.label, &text) })
    };
    cells.iter().filter_map(observe).collect()
}

fn verdicts(cells: &[&Cell], kind: &str) -> Vec<Observation> {
    let observe = |cell: &&Cell| {
        let summary = &cell.runs.first()?.summary;
        let (found, _) = summary.verdict_text().split_once(": ")?;
        let evidence = summary.verdict_evidence();
        let text = labelled(&cell.label, &format!("{found}, {evidence}"));
        Some(Observation { agrees: found == kind, text })
    };
    cells.iter().filter_map(observe).collect()
}

#[cfg(test)]
mod tests {
    use paceline_record::StoredSummary;

    use super::*;
    use crate::cell::assign_labels;
    use crate::run::Run;

    fn cell(mode: &str, batch: u64, seconds: f64, steps: &[u64]) -> Cell {
        let task = |(index, steps): (usize, &u64)| {
            format!(r#"{{"task": "worker:{index}", "steps": {steps}}}"#)
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
        let summary = StoredSummary::parse(&text).unwrap();
        let runs = vec![Run { summary, job, ..Run::default() }];
        Cell { settings: settings.to_vec(), runs, ..Cell::default() }
    }

    fn data() -> ReportData {
        let mut cells = vec![
            cell("async", 10, 9.0, &[800, 40, 40]),
            cell("async", 60, 3.0, &[300, 290, 290]),
            cell("sync", 10, 20.0, &[100, 100, 100]),
            cell("sync", 60, 20.5, &[100, 100, 99]),
        ];
        assign_labels(&mut cells);
        ReportData { cells, ..ReportData::default() }
    }

    fn checked(mode: &str, check: FindingCheck) -> CheckResult {
        let when = vec![("cluster.mode".to_owned(), mode.to_owned())];
        let finding = Finding { when, check, ..Finding::default() };
        check_finding(&finding, &data())
    }

    #[test]
    fn steps_are_compared_between_workers() {
        let lead = checked("async", FindingCheck::FirstWorkerLeads);
        assert_eq!(lead.holds, Some(true));
        assert!(lead.evidence.starts_with("in 2 of 2: async, batch 10: 800 / 40 / 40"), "{lead:?}");
        assert_eq!(checked("sync", FindingCheck::FirstWorkerLeads).holds, Some(false));
        assert_eq!(checked("sync", FindingCheck::EqualSteps).holds, Some(true));
        assert_eq!(checked("single", FindingCheck::EqualSteps).holds, None);
    }

    #[test]
    fn a_trend_follows_cells_that_differ_in_nothing_else() {
        let trend = |mode, trend| {
            let (figure, over) = ("seconds".to_owned(), "train.batch".to_owned());
            checked(mode, FindingCheck::Trend { figure, over, trend })
        };
        assert_eq!(trend("async", Trend::Falls).holds, Some(true));
        assert_eq!(trend("async", Trend::Flat).holds, Some(false));
        assert_eq!(trend("sync", Trend::Flat).holds, Some(true));
        let text = trend("async", Trend::Grows).evidence;
        assert_eq!(text, "async: seconds 9.00 / 3.00 at batch 10 / 60");
    }

    #[test]
    fn a_ratio_compares_the_cells_with_the_most_settings_in_common() {
        let against = vec![("cluster.mode".to_owned(), "async".to_owned())];
        let check =
            FindingCheck::Ratio { figure: "seconds".into(), against, least: 2.0, most: 7.0 };
        let found = checked("sync", check);
        assert_eq!(found.holds, Some(true));
        assert!(
            found.evidence.contains("batch 60: seconds 20.50 against 3.00: 6.83 times"),
            "{found:?}"
        );
    }

    #[test]
    fn a_verdict_is_recognized_by_its_kind() {
        assert_eq!(checked("sync", FindingCheck::Verdict("network".into())).holds, Some(true));
        assert_eq!(checked("sync", FindingCheck::Verdict("compute".into())).holds, Some(false));
    }
}
