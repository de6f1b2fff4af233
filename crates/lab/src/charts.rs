//! The charts of a report: everything for which the data has at least two points.

use std::collections::BTreeMap;

use crate::advice::{Arrival, capitalized, race, seconds_text};
use crate::cell::Cell;
use crate::cell_line::{CellLine, CellPoint, by_batch, by_workers};
use crate::curve::Curve;
use crate::figure::{Figure, format_number};
use crate::report_data::ReportData;
use crate::resources::ResourceCurve;
use crate::run::Run;
use crate::svg::{Bar, BarChart, ChartLine, LineChart, ValueBar, ValueBars};
use crate::workload::by_workload;

// More bars, panels or lines than these cannot be read any more; the tables show all cells.
const MAX_BARS: usize = 40;
const MAX_PANELS: usize = 6;
const MAX_LINES: usize = 16;
/// Most bars of a chart on the first screen.
const MAX_FIRST_BARS: usize = 10;

/// Charts under one heading.
pub(crate) struct ChartGroup {
    pub(crate) title: String,
    /// How to read the charts; may be empty.
    pub(crate) note: String,
    /// The charts, as HTML.
    pub(crate) charts: Vec<String>,
}

/// All charts of a report. Different models or data sets share none.
pub(crate) fn chart_groups(data: &ReportData) -> Vec<ChartGroup> {
    let cells: Vec<&Cell> = data.complete_cells().collect();
    let mut groups = Vec::new();
    for workload in by_workload(&cells) {
        let cells = &workload.cells;
        let own = [
            over_batch(cells),
            over_workers(cells),
            time_and_work(cells),
            learning(cells),
            sparse_tables(cells),
            resources(cells),
        ];
        groups.extend(own.into_iter().filter(|group| !group.charts.is_empty()).map(|group| {
            let title = capitalized(&format!("{}{}", workload.prefix(), group.title));
            ChartGroup { title, ..group }
        }));
    }
    groups
}

/// The charts of the first screen: time to the target and throughput of each cell, as HTML. Runs
/// that were tested too seldom for the first of them are compared by their final tests.
pub(crate) fn first_charts(data: &ReportData) -> Vec<String> {
    let cells: Vec<&Cell> = data.complete_cells().collect();
    let mut charts = Vec::new();
    for workload in by_workload(&cells) {
        if workload.cells.len() < 2 {
            continue;
        }
        let prefix = workload.prefix();
        let cells = &workload.cells;
        let bars = [time_bars(cells).or_else(|| loss_bars(cells)), throughput_bars(cells)];
        for mut chart in bars.into_iter().flatten() {
            chart.title = capitalized(&format!("{prefix}{}", chart.title));
            if chart.bars.len() > MAX_FIRST_BARS {
                let all = chart.bars.len();
                chart.title.push_str(&format!(", the best {MAX_FIRST_BARS} of {all}"));
                chart.bars.truncate(MAX_FIRST_BARS);
            }
            charts.push(chart.to_html());
        }
    }
    charts
}

/// The time of each cell to what all cells reached.
fn time_bars(cells: &[&Cell]) -> Option<ValueBars> {
    let race = race(cells)?;
    let bar = |arrival: Arrival<'_>| ValueBar {
        label: arrival.label.to_owned(),
        value: arrival.seconds,
        text: seconds_text(arrival.seconds),
    };
    let target = race.target.split(',').next().unwrap_or_default();
    let title = format!("time to {target} (s)");
    Some(ValueBars { title, bars: race.arrivals.into_iter().map(bar).collect() })
}

/// The loss of each cell in its final tests.
fn loss_bars(cells: &[&Cell]) -> Option<ValueBars> {
    let bar = |cell: &&Cell| {
        let value = cell.mean("test_loss").filter(|loss| loss.is_finite())?;
        Some(ValueBar { label: cell.label.clone(), value, text: format!("{value:.4}") })
    };
    let mut bars: Vec<ValueBar> = cells.iter().filter_map(bar).collect();
    bars.sort_by(|a, b| a.value.total_cmp(&b.value));
    let title = "loss in the final test".into();
    (!bars.is_empty()).then_some(ValueBars { title, bars })
}

fn throughput_bars(cells: &[&Cell]) -> Option<ValueBars> {
    let bar = |cell: &&Cell| {
        let value = cell.mean("examples_per_second")?;
        let text = format!("{}/s", format_number(value, 0));
        Some(ValueBar { label: cell.label.clone(), value, text })
    };
    let mut bars: Vec<ValueBar> = cells.iter().filter_map(bar).collect();
    bars.sort_by(|a, b| b.value.total_cmp(&a.value));
    (!bars.is_empty()).then(|| ValueBars { title: "throughput (examples/s)".into(), bars })
}

/// The figures that are drawn over the batch and over the workers: name and title.
const FIGURES_OVER: [(&str, &str); 2] =
    [("seconds", "seconds"), ("examples_per_second", "examples/s")];

fn over_batch(cells: &[&Cell]) -> ChartGroup {
    let lines = by_batch(cells);
    let charts = FIGURES_OVER.map(|(name, title)| LineChart {
        title: format!("{} over batch size", capitalized(title)),
        x_title: "batch".into(),
        y_title: title.into(),
        lines: figure_lines(&lines, name),
        is_sparse: true,
        from_zero: true,
    });
    ChartGroup { title: "Batch size".into(), note: String::new(), charts: drawn(&charts) }
}

fn over_workers(cells: &[&Cell]) -> ChartGroup {
    let lines = by_workers(cells);
    let chart = |title: String, y_title: &str, lines: Vec<ChartLine>| LineChart {
        title,
        x_title: "workers".into(),
        y_title: y_title.into(),
        lines,
        is_sparse: true,
        from_zero: true,
    };
    let mut charts: Vec<LineChart> = Vec::new();
    for (name, title) in FIGURES_OVER {
        let full_title = format!("{} over workers", capitalized(title));
        charts.push(chart(full_title, title, figure_lines(&lines, name)));
    }
    charts.push(chart("Speed-up over workers".into(), "times", speed_up_lines(cells, &lines)));
    ChartGroup {
        title: "Workers".into(),
        note: "Speed-up compares examples/s with one worker in the same mode. If one worker was \
               not measured, it compares with single and the same batch, or else with the fewest \
               workers."
            .into(),
        charts: drawn(&charts),
    }
}

fn drawn(charts: &[LineChart]) -> Vec<String> {
    charts.iter().filter(|chart| !chart.is_empty()).map(LineChart::to_html).collect()
}

/// The mean and spread of a figure along each line of cells.
fn figure_lines(lines: &[CellLine<'_>], name: &str) -> Vec<ChartLine> {
    let Some(figure) = Figure::named(name) else { return Vec::new() };
    let chart_line = |line: &CellLine<'_>| {
        let spread = |point: &CellPoint<'_>| Some((point.x, point.cell.figure(figure)?));
        let found: Vec<_> = line.points.iter().filter_map(spread).collect();
        ChartLine {
            label: line.label.clone(),
            points: found.iter().map(|(x, spread)| (*x as f64, spread.mean)).collect(),
            spread: found.iter().map(|(_, spread)| spread.deviation.unwrap_or(0.0)).collect(),
            is_ideal: false,
        }
    };
    lines.iter().take(MAX_LINES).map(chart_line).collect()
}

/// Examples/s relative to one worker, and the ideal line.
fn speed_up_lines(cells: &[&Cell], lines: &[CellLine<'_>]) -> Vec<ChartLine> {
    let rate = |cell: &Cell| cell.mean("examples_per_second");
    let mut chart_lines = Vec::new();
    let mut most = 1;
    for line in lines.iter().take(MAX_LINES) {
        let [first, .., last] = &line.points[..] else { continue };
        let Some(first_rate) = rate(first.cell) else { continue };
        let single = cells.iter().find(|cell| {
            cell.mode() == "single" && first.x > 1 && cell.batch() == first.cell.batch()
        });
        // Without a measurement of one worker, the unit is the rate per worker of the fewest.
        let (unit, start) = match single.and_then(|cell| rate(cell)) {
            Some(single_rate) => (single_rate, Some((1.0, 1.0))),
            None => (first_rate / first.x as f64, None),
        };
        let speed_up = |point: &CellPoint<'_>| Some((point.x as f64, rate(point.cell)? / unit));
        most = most.max(last.x);
        chart_lines.push(ChartLine {
            label: line.label.clone(),
            points: start.into_iter().chain(line.points.iter().filter_map(speed_up)).collect(),
            ..ChartLine::default()
        });
    }
    chart_lines.push(ChartLine {
        label: "ideal".into(),
        points: vec![(1.0, 1.0), (most as f64, most as f64)],
        is_ideal: true,
        ..ChartLine::default()
    });
    chart_lines
}

/// How workers spent their time, and how many steps each took.
fn time_and_work(cells: &[&Cell]) -> ChartGroup {
    let mut charts = Vec::new();
    let phases = phase_chart(cells);
    if !phases.bars.is_empty() {
        charts.push(phases.to_html());
    }
    let bars: Vec<Bar> = cells.iter().filter_map(|cell| steps_bar(cell)).take(MAX_BARS).collect();
    let workers = bars.iter().map(|bar| bar.parts.len()).max().unwrap_or_default();
    if workers > 1 {
        let part_names = (0..workers).map(|worker| format!("worker {worker}")).collect();
        charts.push(BarChart { title: "Steps of each worker".into(), part_names, bars }.to_html());
    }
    let note = match cells.len().saturating_sub(MAX_BARS) {
        0 => String::new(),
        n => format!("The last {n} cells are left out; the CSV file has them."),
    };
    ChartGroup { title: "Time and work".into(), note, charts }
}

fn steps_bar(cell: &Cell) -> Option<Bar> {
    let run = cell.runs.first()?;
    let parts: Vec<f64> = run.summary.worker_tasks().map(|task| task.steps as f64).collect();
    (parts.len() > 1).then(|| Bar { label: cell.label.clone(), parts })
}

/// The phases of all workers of all runs of each cell. Time outside all phases is not drawn.
fn phase_chart(cells: &[&Cell]) -> BarChart {
    let mut part_names: Vec<String> = Vec::new();
    let mut bars = Vec::new();
    for cell in cells.iter().take(MAX_BARS) {
        let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
        for task in cell.runs.iter().flat_map(|run| run.summary.worker_tasks()) {
            for phase in task.phases.keys() {
                *sums.entry(phase).or_default() += task.phase_seconds(phase);
                if !part_names.contains(phase) {
                    part_names.push(phase.clone());
                }
            }
        }
        let seconds = |name: &String| sums.get(name.as_str()).copied().unwrap_or_default();
        let parts: Vec<f64> = part_names.iter().map(seconds).collect();
        if parts.iter().sum::<f64>() > 0.0 {
            bars.push(Bar { label: cell.label.clone(), parts });
        }
    }
    BarChart { title: "Where the workers' time went".into(), part_names, bars }
}

/// Cells whose curves share a chart.
struct CurvePanel<'a> {
    title_suffix: String,
    cells: Vec<&'a Cell>,
}

/// One panel for each batch; one for all cells if every batch has a single cell.
fn curve_panels<'a>(cells: &[&'a Cell]) -> Vec<CurvePanel<'a>> {
    let mut by_batch: BTreeMap<u64, Vec<&Cell>> = BTreeMap::new();
    cells.iter().for_each(|cell| by_batch.entry(cell.batch()).or_default().push(cell));
    if by_batch.values().all(|cells| cells.len() == 1) {
        return vec![CurvePanel { title_suffix: String::new(), cells: cells.to_vec() }];
    }
    let panel = |(batch, cells)| CurvePanel { title_suffix: format!(", batch {batch}"), cells };
    by_batch.into_iter().map(panel).collect()
}

/// A curve of test results as charts show it.
struct TestCurve {
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    /// Factor from the recorded unit to the unit shown.
    scale: f64,
}

const TEST_CURVES: [TestCurve; 3] = [
    TestCurve { name: "accuracy", title: "Test accuracy", unit: "%", scale: 100.0 },
    TestCurve { name: "loss", title: "Test loss", unit: "mean loss", scale: 1.0 },
    TestCurve { name: "auc", title: "Test AUC", unit: "area", scale: 1.0 },
];

/// Test accuracy, loss and AUC over steps and over time.
fn learning(cells: &[&Cell]) -> ChartGroup {
    let panels = curve_panels(cells);
    let mut charts = Vec::new();
    for panel in panels.iter().take(MAX_PANELS) {
        for TestCurve { name, title, unit, scale } in TEST_CURVES {
            let chart = |x_title: &str, lines: Vec<ChartLine>| LineChart {
                title: format!("{title}{}", panel.title_suffix),
                x_title: x_title.into(),
                y_title: unit.into(),
                lines,
                ..LineChart::default()
            };
            let scaled = |curve: Option<&Curve>| -> Option<Curve> {
                Some(curve?.iter().map(|(x, y)| (*x, y * scale)).collect())
            };
            let by_step = panel.lines(|run| scaled(run.by_step.get(name)));
            let by_time = panel.lines(|run| scaled(run.by_time.get(name)));
            charts.extend([chart("global steps", by_step), chart("seconds", by_time)]);
        }
    }
    let mut note = "Curves show the first run of each cell.".to_owned();
    let left_out = panels.len().saturating_sub(MAX_PANELS);
    if left_out > 0 {
        note.push_str(&format!(" The {left_out} largest batches are left out."));
    }
    ChartGroup { title: "Learning".into(), note, charts: drawn(&charts) }
}

impl CurvePanel<'_> {
    fn lines(&self, curve: impl Fn(&Run) -> Option<Curve>) -> Vec<ChartLine> {
        let line = |cell: &&Cell| {
            let points = curve(cell.runs.first()?)?;
            let has_batch_in_title = !self.title_suffix.is_empty();
            let label = if has_batch_in_title { &cell.label_without_batch } else { &cell.label };
            Some(ChartLine { label: label.clone(), points, ..ChartLine::default() })
        };
        self.cells.iter().filter_map(line).take(MAX_LINES).collect()
    }
}

/// The keys of steps and the entries in memory, where the model is sparse.
fn sparse_tables(cells: &[&Cell]) -> ChartGroup {
    ChartGroup {
        title: "Keys and entries".into(),
        note:
            "Keys are counted in worker 0's steps; their bytes are as they are sent, or 4 for each \
               key if they are not. Entries are counted on all servers, or on worker 0 if there \
               are no servers; their bytes include state and index. Curves show the first run of \
               each cell."
                .into(),
        charts: curves_over_time(cells, |run| &run.sparse),
    }
}

/// Use of the machine, where the runs recorded it.
fn resources(cells: &[&Cell]) -> ChartGroup {
    ChartGroup {
        title: "Resources".into(),
        note: "CPU, memory and disks belong to worker 0's machine. Network traffic is worker 0's \
               own, or its host's where hosts are emulated. Curves show the first run of each cell."
            .into(),
        charts: curves_over_time(cells, |run| &run.resources),
    }
}

/// A chart for each title, with a line for each cell.
fn curves_over_time(cells: &[&Cell], of: impl Fn(&Run) -> &[ResourceCurve]) -> Vec<String> {
    let mut titles: Vec<&str> = Vec::new();
    for curve in cells.iter().flat_map(|cell| &cell.runs).flat_map(&of) {
        if !titles.contains(&curve.title) {
            titles.push(curve.title);
        }
    }
    let chart = |title: &&str| {
        let line = |cell: &&Cell| {
            let curves = of(cell.runs.first()?);
            let points = curves.iter().find(|curve| curve.title == *title)?.points.clone();
            (points.len() > 1).then(|| ChartLine {
                label: cell.label.clone(),
                points,
                ..ChartLine::default()
            })
        };
        LineChart {
            title: capitalized(title),
            x_title: "seconds".into(),
            lines: cells.iter().filter_map(line).take(MAX_LINES).collect(),
            from_zero: true,
            ..LineChart::default()
        }
    };
    let charts: Vec<LineChart> = titles.iter().map(chart).collect();
    drawn(&charts)
}

#[cfg(test)]
mod tests {
    use paceline_record::StoredSummary;

    use super::*;

    fn cell(model: &str, label: &str, rate: f64) -> Cell {
        let text = format!(r#"{{"mode": "single", "examples_per_second": {rate}}}"#);
        let summary = StoredSummary::parse(&text).unwrap();
        let job = [("model.kind".to_owned(), model.to_owned())].into();
        let accuracy = vec![(0.0, 0.5), (10.0, 0.75)];
        let by_step = [("accuracy".to_owned(), accuracy)].into();
        let run = Run { job, summary, by_step, ..Run::default() };
        Cell { label: label.into(), runs: vec![run], ..Cell::default() }
    }

    #[test]
    fn different_models_share_no_chart_and_accuracy_is_in_percent() {
        let cells = vec![
            cell("softmax", "first", 1.0),
            cell("lenet", "second", 2.0),
            cell("softmax", "third", 3.0),
        ];
        let data = ReportData { cells, ..ReportData::default() };
        let groups = chart_groups(&data);
        let first = first_charts(&data);
        let charts = groups.iter().flat_map(|group| &group.charts).chain(&first);
        let mut count = 0;
        for chart in charts {
            count += 1;
            assert!(!chart.contains("first") || !chart.contains("second"), "{chart}");
        }
        assert_eq!(count, 3, "accuracy of each model, and throughput of the softmax cells");
        assert!(groups[0].title.starts_with("Softmax: "), "{}", groups[0].title);
        assert!(groups[0].charts[0].contains(">80<") && groups[0].charts[0].contains(">%<"));
        let throughput = &first[0];
        assert!(throughput.find("third") < throughput.find("first"), "the best comes first");
    }

    #[test]
    fn runs_with_few_tests_are_compared_by_their_final_tests() {
        let with_loss = |label: &str, loss: f64| {
            let text = format!(r#"{{"mode": "single", "test_loss": {loss}}}"#);
            let summary = StoredSummary::parse(&text).unwrap();
            let run = Run { summary, ..Run::default() };
            Cell { label: label.into(), runs: vec![run], ..Cell::default() }
        };
        let cells = vec![with_loss("worse", 0.5), with_loss("better", 0.25)];
        let charts = first_charts(&ReportData { cells, ..ReportData::default() });
        assert_eq!(charts.len(), 1, "{charts:?}");
        assert!(charts[0].contains("Loss in the final test"), "{charts:?}");
        assert!(charts[0].find("better</text>") < charts[0].find("worse</text>"), "{charts:?}");
    }
}
