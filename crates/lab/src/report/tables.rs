//! The tables of a report, which HTML and Markdown share.

use paceline_record::UtcTime;

use super::table::ReportTable;
use crate::cell::{self, Cell};
use crate::figure::{FIGURES, Figure, format_number};
use crate::finding_check::{CheckedFinding, check_findings};
use crate::link_prediction::LinkPrediction;
use crate::report_data::ReportData;

/// A table with its heading.
pub(super) struct TableSection {
    pub(super) title: &'static str,
    /// How to read the table; may be empty.
    pub(super) note: &'static str,
    pub(super) table: ReportTable,
}

/// The tables of a report that have rows. The table of results comes first.
pub(super) fn all_tables(data: &ReportData) -> Vec<TableSection> {
    let section = |title, note, table| TableSection { title, note, table };
    let has_keys = |cell: &Cell| {
        FIGURES.iter().any(|figure| is_sparse(figure) && cell.figure(figure).is_some())
    };
    let mut sections = vec![
        section("Results", RESULTS_NOTE, results(data, is_main)),
        section("Published figures", "", references(data)),
        section("Published findings", "", findings(data)),
        section("Predicted from the links", PREDICTIONS_NOTE, predictions(data)),
        section("What limited the runs", "", verdicts(data)),
        section("Steps and resources", RESOURCES_NOTE, results(data, is_other)),
    ];
    // Dense models have neither.
    let sparse: Vec<Cell> = data.cells.iter().filter(|cell| has_keys(cell)).cloned().collect();
    if !sparse.is_empty() {
        let (at, sparse) = (sections.len() - 1, ReportData { cells: sparse, ..data.clone() });
        sections.insert(at, section("Keys and entries", SPARSE_NOTE, results(&sparse, is_sparse)));
    }
    sections.retain(|section| section.title == "Results" || !section.table.rows.is_empty());
    sections
}

/// The figures of the table of results; the other figures have a table of their own, so that the
/// results fit on a screen.
const MAIN_FIGURES: [&str; 5] =
    ["seconds", "examples_per_second", "test_loss", "test_accuracy", "test_auc"];

fn is_main(figure: &Figure) -> bool {
    MAIN_FIGURES.contains(&figure.name)
}

/// The figures that only sparse models have.
const SPARSE_FIGURES: [&str; 5] =
    ["keys_per_step", "key_bytes_per_step", "value_bytes_per_step", "entries", "entry_bytes"];

fn is_sparse(figure: &Figure) -> bool {
    SPARSE_FIGURES.contains(&figure.name)
}

fn is_other(figure: &Figure) -> bool {
    !is_main(figure) && !is_sparse(figure)
}

/// Figures that the table of results shows only if a reference names them.
const RARE_FIGURES: [&str; 3] = ["examples", "peak_network_bytes_per_second", "peak_cpu_percent"];

/// One row for each cell: settings, number of runs, and those figures that any cell has.
fn results(data: &ReportData, is_shown: impl Fn(&Figure) -> bool) -> ReportTable {
    let keys = cell::keys(&data.cells);
    let (leading, trailing) = around_figures(&keys);
    let named = |figure: &Figure| {
        let named = data.cells.iter().flat_map(|cell| &cell.references);
        named.into_iter().any(|reference| reference.figure == figure.name)
    };
    let figures: Vec<&Figure> = FIGURES
        .iter()
        .filter(|figure| is_shown(figure))
        .filter(|figure| data.cells.iter().any(|cell| cell.figure(figure).is_some()))
        .filter(|figure| !RARE_FIGURES.contains(&figure.name) || named(figure))
        .collect();
    let mut head: Vec<String> = leading.iter().map(|key| short(key, &keys)).collect();
    head.push("runs".into());
    head.extend(figures.iter().map(|figure| figure.title.to_owned()));
    head.push("stopped by".into());
    head.extend(trailing.iter().map(|key| short(key, &keys)));
    let row = |cell: &Cell| {
        let setting = |key: &String| shown_setting(cell, key);
        let mut row: Vec<String> = leading.iter().map(setting).collect();
        row.push(match cell.failed {
            0 => cell.runs.len().to_string(),
            failed => format!("{} ({failed} failed)", cell.runs.len()),
        });
        row.extend(figures.iter().map(|figure| cell.format(figure)));
        row.push(cell.stop_reasons());
        row.extend(trailing.iter().map(setting));
        row
    };
    ReportTable { head, rows: data.cells.iter().map(row).collect(), word_columns: leading.len() }
}

/// The most keys before the figures of a cell.
const MOST_LEADING: usize = 7;
/// The keys that lead if not all can, beside those that distinguish most cells.
const LEADING: [&str; 5] =
    ["model.kind", "data.kind", "data.path", "train.optimizer.kind", "train.optimizer.rate"];

/// The keys before the figures and those after them: runs that differ in many keys would push the
/// figures off the screen.
fn around_figures(keys: &[String]) -> (Vec<String>, Vec<String>) {
    if keys.len() <= MOST_LEADING {
        return (keys.to_vec(), Vec::new());
    }
    let leads = |key: &&String| cell::is_main_key(key) || LEADING.contains(&key.as_str());
    let leading: Vec<_> = keys.iter().filter(leads).take(MOST_LEADING).cloned().collect();
    let trailing = keys.iter().filter(|key| !leading.contains(key)).cloned().collect();
    (leading, trailing)
}

/// The value of a key, without the directories of a path.
fn shown_setting(cell: &Cell, key: &str) -> String {
    match cell.setting(key) {
        None => "–".to_owned(),
        Some(path) if key == "data.path" => path.rsplit('/').next().unwrap_or(path).to_owned(),
        Some(value) => value.to_owned(),
    }
}

/// Published figures beside those measured here.
pub(super) fn references(data: &ReportData) -> ReportTable {
    let head = ["cell", "figure", "published", "here", "ratio", "from"].map(String::from).to_vec();
    let mut rows = Vec::new();
    for cell in &data.cells {
        for reference in &cell.references {
            let Some(figure) = Figure::named(&reference.figure) else { continue };
            let here = cell.figure(figure);
            rows.push(vec![
                cell.label.clone(),
                figure.title.to_owned(),
                figure.format(reference.value),
                cell.format(figure),
                here.map_or("–".into(), |here| ratio(figure, reference.value, here.mean)),
                reference.from.clone(),
            ]);
        }
    }
    ReportTable { head, rows, word_columns: 2 }
}

/// Published findings, and whether they hold here.
pub(super) fn findings(data: &ReportData) -> ReportTable {
    let head = ["finding", "holds here", "evidence"].map(String::from).to_vec();
    let row = |CheckedFinding { finding, result }: CheckedFinding<'_>| {
        let (word, why) = match result.holds {
            Some(true) => ("yes", ""),
            Some(false) => ("no", finding.why.as_str()),
            None => ("–", ""),
        };
        let gap = if why.is_empty() { "" } else { ". " };
        vec![finding.says.clone(), word.into(), format!("{}{gap}{why}", result.evidence)]
    };
    ReportTable { head, rows: check_findings(data).into_iter().map(row).collect(), word_columns: 3 }
}

/// The verdict of each cell's first run.
fn verdicts(data: &ReportData) -> ReportTable {
    let row = |cell: &Cell| {
        let verdict = cell.runs.first()?.summary.verdict_text();
        (!verdict.is_empty()).then(|| vec![cell.label.clone(), verdict.to_owned()])
    };
    let rows = data.complete_cells().filter_map(row).collect();
    ReportTable { head: ["cell", "verdict"].map(String::from).to_vec(), rows, word_columns: 2 }
}

/// Predicted and measured time of a step, for runs on emulated hosts.
pub(super) fn predictions(data: &ReportData) -> ReportTable {
    let head = ["cell", "link Mbit/s", "MB/step", "gradient s", "link s", "predicted s/step"];
    let mut head = head.map(String::from).to_vec();
    head.extend(["measured s/step", "measured / predicted"].map(String::from));
    let row = |cell: &Cell| {
        let found = LinkPrediction::of(cell.runs.first()?)?;
        let mut row = vec![cell.label.clone(), format_number(found.link_bytes_per_s * 8e-6, 0)];
        row.push(format_number(found.bytes * 1e-6, 3));
        let seconds = [found.gradient_s, found.link_s, found.step_s, found.measured_s];
        row.extend(
            seconds.map(|seconds| format_number(seconds, if seconds < 0.1 { 5 } else { 2 })),
        );
        row.push(format_number(found.measured_s / found.step_s, 2));
        Some(row)
    };
    ReportTable { head, rows: data.cells.iter().filter_map(row).collect(), word_columns: 1 }
}

const RESULTS_NOTE: &str = "Means, and the standard deviation of repeats.";

const SPARSE_NOTE: &str = "Keys are counted in a worker's step, on average; their bytes are as \
     they are sent, or 4 for each key if they are not. Entries are the keys in memory at the end, \
     on all servers, or on one worker if there are no servers; their bytes include state and \
     index.";

const RESOURCES_NOTE: &str = "Processor time is the sum over all tasks, memory that of the \
     largest task.";

const PREDICTIONS_NOTE: &str = "A step is a gradient, whose time is measured, and an exchange of \
     M bytes in both directions at once. The exchange takes max(M/B, nM/(kB)) over links of B \
     bytes/s with n workers and k servers. A server on a worker's host needs no link for that \
     worker's chunks. In async the busiest link may never be idle; its time alone is then the \
     time of a step.";

/// Compares a figure with the published one; seconds and rates as faster or slower.
fn ratio(figure: &Figure, published: f64, here: f64) -> String {
    let times = |factor: f64| match factor {
        f if f >= 1.0 => format!("{} × faster", format_number(f, 1)),
        f => format!("{} × slower", format_number(1.0 / f, 1)),
    };
    match figure.name {
        "seconds" if here > 0.0 => times(published / here),
        // More traffic is not faster.
        name if name.ends_with("_per_second") && !name.contains("network") => {
            times(here / published)
        }
        _ => format!("{} × published", format_number(here / published, 2)),
    }
}

/// The last part of a key if no other key ends with it and no figure has that title, else the whole
/// key.
fn short(key: &str, keys: &[String]) -> String {
    let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let is_figure = FIGURES.iter().any(|figure| figure.title == last(key));
    let alone = !is_figure && keys.iter().filter(|other| last(other) == last(key)).count() == 1;
    if alone { last(key).replace('_', " ") } else { key.to_owned() }
}

/// What was run: names and values.
pub(super) fn about(data: &ReportData) -> Vec<(&'static str, String)> {
    let mut lines = vec![("runs", run_counts(data))];
    if let Some(plan) = &data.plan {
        lines.push(("version", format!("paceline {}", plan.version)));
        lines.push(("machine", plan.machine.describe()));
        lines.push(("started", UtcTime::at(plan.started_seconds).to_string()));
        lines.push(("command", plan.command.clone()));
        if plan.quick {
            let text =
                "quick: the runs are shortened, so only rates are compared with published figures";
            lines.push(("mode", text.into()));
        }
    }
    lines
}

/// What was run, in one line.
pub(super) fn summary_line(data: &ReportData) -> String {
    match data.machine() {
        Some(machine) => format!("{}, on {}", run_counts(data), machine.describe()),
        None => run_counts(data),
    }
}

fn run_counts(data: &ReportData) -> String {
    let many =
        |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let mut text =
        format!("{} complete in {}", many(data.run_count(), "run"), many(data.cells.len(), "cell"));
    if !data.failures.is_empty() {
        let what = if data.plan.is_some() { "failed" } else { "without results" };
        text.push_str(&format!(", {} {what}", data.failures.len()));
    }
    if data.missing > 0 {
        text.push_str(&format!(", {} still to run", data.missing));
    }
    text
}

#[cfg(test)]
mod tests {
    use paceline_record::StoredSummary;

    use super::*;
    use crate::run::Run;

    #[test]
    fn ratios_of_times_and_rates_say_faster_or_slower() {
        let of = |name, published, here| ratio(Figure::named(name).unwrap(), published, here);
        assert_eq!(of("seconds", 291.9, 2.919), "100 × faster");
        assert_eq!(of("seconds", 1.0, 4.0), "4.0 × slower");
        assert_eq!(of("examples_per_second", 14.3, 28.6), "2.0 × faster");
        assert_eq!(of("global_steps", 7100.0, 7400.0), "1.04 × published");
        assert_eq!(of("network_bytes_per_second", 2e6, 1e6), "0.50 × published");
    }

    #[test]
    fn figures_come_before_most_of_many_keys() {
        let few = ["cluster.mode", "train.batch"].map(String::from);
        assert_eq!(around_figures(&few), (few.to_vec(), vec![]));
        let many: Vec<String> = ["cluster.mode", "checkpoint.every_steps", "data.path"]
            .map(String::from)
            .into_iter()
            .chain((0..10).map(|column| format!("data.columns.{column}")))
            .collect();
        let (leading, trailing) = around_figures(&many);
        assert_eq!((leading, trailing.len()), (vec![many[0].clone(), many[2].clone()], 11));
        let settings = vec![("data.path".to_owned(), "/a/b/flowers.csv".to_owned())];
        let cell = Cell { settings, ..Cell::default() };
        assert_eq!(shown_setting(&cell, "data.path"), "flowers.csv");
    }

    #[test]
    fn only_cells_of_sparse_models_are_in_the_table_of_keys() {
        let cell = |batch: u64, more: &str| {
            let text = format!(r#"{{"mode": "single", "batch": {batch}, "seconds": 2{more}}}"#);
            let summary = StoredSummary::parse(&text).unwrap();
            let settings = vec![("train.batch".to_owned(), batch.to_string())];
            Cell { settings, runs: vec![Run { summary, ..Run::default() }], ..Cell::default() }
        };
        let tasks = r#", "tasks": [{"task": "worker:0", "steps": 3, "keys": 30}]"#;
        let cells = vec![cell(10, ""), cell(60, tasks)];
        let sections = all_tables(&ReportData { cells, ..ReportData::default() });
        let keys = sections.iter().find(|section| section.title == "Keys and entries").unwrap();
        let rows = &keys.table.rows;
        assert!(rows.len() == 1 && rows[0].contains(&"60".to_owned()), "{rows:?}");
    }

    #[test]
    fn keys_are_short_unless_that_is_ambiguous() {
        let keys = ["train.batch", "train.optimizer.kind", "data.kind"].map(String::from);
        assert_eq!(short("train.batch", &keys), "batch");
        assert_eq!(short("data.kind", &keys), "data.kind");
        assert_eq!(short("train.stop.seconds", &keys), "train.stop.seconds", "a figure's title");
    }
}
