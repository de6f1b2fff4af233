//! The tables that the page and the text share.

use crate::cell::{self, Cell};
use crate::figure::{FIGURES, Figure, format_number};
use crate::finding::Finding;
use crate::finding_check::{CheckResult, check_findings};
use crate::link_prediction::LinkPrediction;
use crate::report_data::ReportData;

/// A table of text; the first columns say what a row is about.
pub(super) struct ReportTable {
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
    /// How many columns are words, flush left.
    pub(super) words: usize,
}

/// Figures that only stand in the table if somebody has others' beside them.
const RARE: [&str; 3] = ["examples", "peak_network_bytes_per_second", "peak_cpu_percent"];

/// One row a cell: settings, how many runs, and every figure that any cell has.
pub(super) fn results(data: &ReportData) -> ReportTable {
    let keys = cell::keys(&data.cells);
    let named = |figure: &Figure| {
        let named = data.cells.iter().flat_map(|cell| &cell.references);
        named.into_iter().any(|reference| reference.figure == figure.name)
    };
    let figures: Vec<&Figure> = FIGURES
        .iter()
        .filter(|figure| data.cells.iter().any(|cell| cell.figure(figure).is_some()))
        .filter(|figure| !RARE.contains(&figure.name) || named(figure))
        .collect();
    let mut head: Vec<String> = keys.iter().map(|key| short(key, &keys)).collect();
    head.push("runs".into());
    head.extend(figures.iter().map(|figure| figure.title.to_owned()));
    head.push("stopped by".into());
    let row = |cell: &Cell| {
        let setting = |key: &String| cell.setting(key).unwrap_or("–").to_owned();
        let mut row: Vec<String> = keys.iter().map(setting).collect();
        row.push(match cell.failed {
            0 => cell.runs.len().to_string(),
            failed => format!("{} ({failed} failed)", cell.runs.len()),
        });
        row.extend(figures.iter().map(|figure| cell.format(figure)));
        row.push(cell.stop_reasons());
        row
    };
    ReportTable { head, rows: data.cells.iter().map(row).collect(), words: keys.len() }
}

/// What others measured beside what was measured here.
pub(super) fn references(data: &ReportData) -> ReportTable {
    let head = ["cell", "figure", "theirs", "ours", "ratio", "from"].map(String::from).to_vec();
    let mut rows = Vec::new();
    for cell in &data.cells {
        for reference in &cell.references {
            let Some(figure) = Figure::named(&reference.figure) else { continue };
            let ours = cell.figure(figure);
            rows.push(vec![
                cell.label.clone(),
                figure.title.to_owned(),
                figure.format(reference.value),
                cell.format(figure),
                ours.map_or("–".into(), |ours| ratio(figure, reference.value, ours.mean)),
                reference.from.clone(),
            ]);
        }
    }
    ReportTable { head, rows, words: 2 }
}

/// What others found, and whether it holds here.
pub(super) fn claims(data: &ReportData) -> ReportTable {
    let head = ["they found", "holds here", "as measured"].map(String::from).to_vec();
    let row = |(claim, judgement): (&Finding, CheckResult)| {
        let (word, why) = match judgement.holds {
            Some(true) => ("yes", ""),
            Some(false) => ("no", claim.why.as_str()),
            None => ("–", ""),
        };
        let gap = if why.is_empty() { "" } else { ". " };
        vec![claim.says.clone(), word.into(), format!("{}{gap}{why}", judgement.evidence)]
    };
    ReportTable { head, rows: check_findings(data).into_iter().map(row).collect(), words: 3 }
}

/// What held each cell back, where its runs have said.
pub(super) fn verdicts(data: &ReportData) -> ReportTable {
    let row = |cell: &Cell| {
        let verdict = &cell.runs.first()?.summary.verdict;
        (!verdict.is_empty()).then(|| vec![cell.label.clone(), verdict.clone()])
    };
    let rows = data.complete_cells().filter_map(row).collect();
    ReportTable { head: ["cell", "verdict"].map(String::from).to_vec(), rows, words: 2 }
}

/// What the links of emulated hosts allow beside what was measured; no rows if there are none.
pub(super) fn predictions(data: &ReportData) -> ReportTable {
    let head = ["cell", "link Mbit/s", "MB/step", "gradient s", "link s", "predicted s/step"];
    let mut head = head.map(String::from).to_vec();
    head.extend(["measured s/step", "measured / predicted"].map(String::from));
    let row = |cell: &Cell| {
        let found = LinkPrediction::of_cell(cell)?;
        let mut row = vec![cell.label.clone(), format_number(found.link_bytes_per_s * 8e-6, 0)];
        row.push(format_number(found.bytes * 1e-6, 3));
        let seconds = [found.gradient_s, found.link_s, found.step_s, found.measured_s];
        row.extend(
            seconds.map(|seconds| format_number(seconds, if seconds < 0.1 { 5 } else { 2 })),
        );
        row.push(format_number(found.measured_s / found.step_s, 2));
        Some(row)
    };
    ReportTable { head, rows: data.cells.iter().filter_map(row).collect(), words: 1 }
}

/// What the table of predictions means.
pub(super) const PREDICTED: &str = "A step is a gradient, as long as it was measured to take, and an exchange of M bytes each way \
     at once, which takes max(M/B, nM/(kB)) over links of B bytes/s with n workers and k servers; \
     a server beside a worker spares that worker's part. In async the fullest link, which never \
     rests, may be all that counts.";

/// How theirs compares with ours: in seconds and rates how many times faster ours is.
fn ratio(figure: &Figure, theirs: f64, ours: f64) -> String {
    let times = |factor: f64| match factor {
        f if f >= 1.0 => format!("{} × faster", format_number(f, 1)),
        f => format!("{} × slower", format_number(1.0 / f, 1)),
    };
    match figure.name {
        "seconds" if ours > 0.0 => times(theirs / ours),
        // More traffic is no merit.
        name if name.ends_with("_per_second") && !name.contains("network") => times(ours / theirs),
        _ => format!("{} × theirs", format_number(ours / theirs, 2)),
    }
}

/// The last part of a key where that tells it from the others.
fn short(key: &str, keys: &[String]) -> String {
    let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let alone = keys.iter().filter(|other| last(other) == last(key)).count() == 1;
    if alone { last(key).replace('_', " ") } else { key.to_owned() }
}

/// What was run, as lines of name and value.
pub(super) fn about(data: &ReportData) -> Vec<(&'static str, String)> {
    let mut lines = vec![("runs", counted(data))];
    if let Some(plan) = &data.plan {
        lines.push(("version", format!("paceline {}", plan.version)));
        lines.push(("machine", plan.machine.describe()));
        lines.push(("begun", utc(plan.started_seconds)));
        lines.push(("command", plan.command.clone()));
        if plan.quick {
            let text = "quick: the runs are shortened, so only rates stand beside others' figures";
            lines.push(("form", text.into()));
        }
    }
    lines
}

fn counted(data: &ReportData) -> String {
    let many =
        |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let mut text =
        format!("{} complete in {}", many(data.run_count(), "run"), many(data.cells.len(), "cell"));
    if !data.failures.is_empty() {
        text.push_str(&format!(", {} failed", data.failures.len()));
    }
    if data.missing > 0 {
        text.push_str(&format!(", {} not made yet", data.missing));
    }
    text
}

/// A moment in UTC, by Hinnant's algorithm for the civil calendar.
fn utc(seconds: u64) -> String {
    let (days, second) = ((seconds / 86_400) as i64 + 719_468, seconds % 86_400);
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", second / 3_600, second / 60 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_say_who_is_faster() {
        let of = |name, theirs, ours| ratio(Figure::named(name).unwrap(), theirs, ours);
        assert_eq!(of("seconds", 291.9, 2.919), "100 × faster");
        assert_eq!(of("seconds", 1.0, 4.0), "4.0 × slower");
        assert_eq!(of("examples_per_second", 14.3, 28.6), "2.0 × faster");
        assert_eq!(of("global_steps", 7100.0, 7400.0), "1.04 × theirs");
        assert_eq!(of("network_bytes_per_second", 2e6, 1e6), "0.50 × theirs");
    }

    #[test]
    fn moments_are_utc() {
        assert_eq!(utc(1_709_251_199), "2024-02-29 23:59 UTC");
    }

    #[test]
    fn keys_are_short_where_that_is_clear() {
        let keys = ["train.batch", "train.optimizer.kind", "data.kind"].map(String::from);
        assert_eq!(short("train.batch", &keys), "batch");
        assert_eq!(short("data.kind", &keys), "data.kind");
    }
}
