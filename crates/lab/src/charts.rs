//! Which charts a report has: everything that the findings have at least two points for.

use std::collections::BTreeMap;

use crate::cell::Cell;
use crate::curve::Curve;
use crate::figure::Figure;
use crate::report_data::ReportData;
use crate::run::Run;
use crate::svg::{Bar, BarChart, ChartLine, LineChart};

/// Bars beyond these cannot be read any more; the tables have all.
const MOST_BARS: usize = 40;
/// Panels of curves likewise.
const MOST_PANELS: usize = 6;
/// Lines in one panel likewise.
const MOST_LINES: usize = 16;

/// Charts that belong together.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChartGroup {
    /// What they are about.
    pub(crate) title: String,
    /// What to know when reading them; may be empty.
    pub(crate) note: String,
    /// The charts, as HTML.
    pub(crate) figures: Vec<String>,
}

/// All charts.
pub(crate) fn charts(data: &ReportData) -> Vec<ChartGroup> {
    let cells: Vec<&Cell> = data.complete_cells().collect();
    let groups = [
        over_batch(&cells),
        over_workers(&cells),
        shares(&cells),
        curves(&cells),
        resources(&cells),
    ];
    groups.into_iter().filter(|group| !group.figures.is_empty()).collect()
}

/// Cells that differ in what goes across alone, as one line each; in the order they come in.
fn lines_of<'a>(
    cells: &[&'a Cell],
    label: impl Fn(&Cell) -> &str,
    x: impl Fn(&Cell) -> u64,
) -> Vec<(String, Vec<(u64, &'a Cell)>)> {
    let mut lines: Vec<(String, Vec<(u64, &Cell)>)> = Vec::new();
    for &cell in cells {
        let line = lines.iter().position(|(name, _)| name == label(cell)).unwrap_or_else(|| {
            lines.push((label(cell).to_owned(), Vec::new()));
            lines.len() - 1
        });
        lines[line].1.push((x(cell), cell));
    }
    for (_, line) in &mut lines {
        line.sort_by_key(|(x, _)| *x);
        line.dedup_by_key(|(x, _)| *x);
    }
    lines.retain(|(_, line)| line.len() > 1);
    lines
}

/// Cells as lines over the batch.
pub(crate) fn by_batch<'a>(cells: &[&'a Cell]) -> Vec<(String, Vec<(u64, &'a Cell)>)> {
    lines_of(cells, |cell| &cell.deploy, Cell::batch)
}

/// Cells as lines over the number of workers.
pub(crate) fn by_workers<'a>(cells: &[&'a Cell]) -> Vec<(String, Vec<(u64, &'a Cell)>)> {
    lines_of(cells, |cell| &cell.without_workers, Cell::workers)
}

fn over_batch(cells: &[&Cell]) -> ChartGroup {
    let lines = by_batch(cells);
    let figures = [("seconds", "seconds"), ("examples_per_second", "examples/s")];
    let charts = figures.iter().map(|(name, title)| {
        chart(&lines, name, format!("{} over batch size", capital(title)), "batch", title)
    });
    ChartGroup {
        title: "Batch size".into(),
        note: String::new(),
        figures: charts.filter(|chart| !chart.is_empty()).map(|chart| chart.figure()).collect(),
    }
}

fn over_workers(cells: &[&Cell]) -> ChartGroup {
    let lines = by_workers(cells);
    let figures = [("seconds", "seconds"), ("examples_per_second", "examples/s")];
    let mut charts: Vec<LineChart> = figures
        .iter()
        .map(|(name, title)| {
            chart(&lines, name, format!("{} over workers", capital(title)), "workers", title)
        })
        .collect();
    charts.push(speed_up(cells, &lines));
    ChartGroup {
        title: "Workers".into(),
        note: "Speed-up is in examples/s, against one worker in the same mode or, if there was \
               none, against single with the same settings or the fewest workers."
            .into(),
        figures: charts.iter().filter(|c| !c.is_empty()).map(LineChart::figure).collect(),
    }
}

fn chart(
    lines: &[(String, Vec<(u64, &Cell)>)],
    name: &str,
    title: String,
    x_title: &str,
    y_title: &str,
) -> LineChart {
    let figure = Figure::named(name);
    let series = |(label, line): &(String, Vec<(u64, &Cell)>)| {
        let spread = |(x, cell): &(u64, &Cell)| Some((*x, cell.figure(figure?)?));
        let found: Vec<_> = line.iter().filter_map(spread).collect();
        ChartLine {
            label: label.clone(),
            points: found.iter().map(|(x, spread)| (*x as f64, spread.mean)).collect(),
            spread: found.iter().map(|(_, spread)| spread.deviation.unwrap_or(0.0)).collect(),
            is_ideal: false,
        }
    };
    LineChart {
        title,
        x_title: x_title.into(),
        y_title: y_title.into(),
        series: lines.iter().take(MOST_LINES).map(series).collect(),
        is_sparse: true,
        from_zero: true,
    }
}

/// Examples/s against the fewest workers, beside what ideal scaling would give.
fn speed_up(cells: &[&Cell], lines: &[(String, Vec<(u64, &Cell)>)]) -> LineChart {
    let rate = |cell: &Cell| cell.mean("examples_per_second");
    let mut series = Vec::new();
    let mut most = 1;
    for (label, line) in lines.iter().take(MOST_LINES) {
        let Some((first, base)) = line.first().and_then(|(x, cell)| Some((*x, rate(cell)?))) else {
            continue;
        };
        let alone = cells
            .iter()
            .find(|cell| cell.mode() == "single" && first > 1 && cell.batch() == line[0].1.batch());
        // One worker is the unit; where it was not tried, the fewest stand for their number.
        let (unit, alone) = match alone.and_then(|cell| rate(cell)) {
            Some(single) => (single, Some((1.0, 1.0))),
            None => (base / first as f64, None),
        };
        let points = line.iter().filter_map(|(x, cell)| Some((*x as f64, rate(cell)? / unit)));
        most = most.max(line.last().map_or(1, |(x, _)| *x));
        series.push(ChartLine {
            label: label.clone(),
            points: alone.into_iter().chain(points).collect(),
            ..ChartLine::default()
        });
    }
    series.push(ChartLine {
        label: "ideal".into(),
        points: vec![(1.0, 1.0), (most as f64, most as f64)],
        is_ideal: true,
        ..ChartLine::default()
    });
    LineChart {
        title: "Speed-up over workers".into(),
        x_title: "workers".into(),
        y_title: "times".into(),
        series,
        is_sparse: true,
        from_zero: true,
    }
}

/// Who did the steps, and where the time went.
fn shares(cells: &[&Cell]) -> ChartGroup {
    let steps: Vec<Bar> = cells.iter().filter_map(|cell| steps_bar(cell)).take(MOST_BARS).collect();
    let most = steps.iter().map(|bar| bar.parts.len()).max().unwrap_or_default();
    let mut figures = Vec::new();
    let (names, bars) = phase_bars(cells);
    if !bars.is_empty() {
        figures.push(BarChart { title: "Where workers' time went".into(), names, bars }.figure());
    }
    if most > 1 {
        let names = (0..most).map(|worker| format!("worker {worker}")).collect();
        figures
            .push(BarChart { title: "Steps of each worker".into(), names, bars: steps }.figure());
    }
    let left_out = cells.len().saturating_sub(MOST_BARS);
    ChartGroup {
        title: "Time and work".into(),
        note: match left_out {
            0 => String::new(),
            n => format!("The last {n} cells are left out; the CSV file has them."),
        },
        figures,
    }
}

fn steps_bar(cell: &Cell) -> Option<Bar> {
    let run = cell.runs.first()?;
    let parts: Vec<f64> = run.summary.workers().map(|task| task.steps as f64).collect();
    (parts.len() > 1).then(|| Bar { label: cell.label.clone(), parts })
}

/// The phases of all workers of all runs of each cell. What no phase accounts for is not drawn.
fn phase_bars(cells: &[&Cell]) -> (Vec<String>, Vec<Bar>) {
    let mut names: Vec<String> = Vec::new();
    let mut bars = Vec::new();
    for cell in cells.iter().take(MOST_BARS) {
        let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
        let workers = cell.runs.iter().flat_map(|run| run.summary.workers());
        for (phase, seconds) in workers.flat_map(|task| &task.phases) {
            *sums.entry(phase).or_default() += seconds;
            if !names.contains(phase) {
                names.push(phase.clone());
            }
        }
        let part = |name: &String| sums.get(name.as_str()).copied().unwrap_or_default();
        bars.push((cell.label.clone(), names.iter().map(part).collect::<Vec<f64>>()));
    }
    bars.retain(|(_, parts)| parts.iter().sum::<f64>() > 0.0);
    let bars = bars.into_iter().map(|(label, parts)| Bar { label, parts }).collect();
    (names, bars)
}

/// How tests came out, over steps and over time: cells of one batch in one panel.
fn curves(cells: &[&Cell]) -> ChartGroup {
    let mut panels: BTreeMap<u64, Vec<&Cell>> = BTreeMap::new();
    cells.iter().for_each(|cell| panels.entry(cell.batch()).or_default().push(cell));
    let few = panels.values().all(|panel| panel.len() == 1);
    let panels: Vec<(String, Vec<&Cell>)> = match few {
        true => vec![(String::new(), cells.to_vec())],
        false => panels.into_iter().map(|(batch, p)| (format!(", batch {batch}"), p)).collect(),
    };
    let left_out = panels.len().saturating_sub(MOST_PANELS);
    let mut figures = Vec::new();
    for (suffix, panel) in panels.iter().take(MOST_PANELS) {
        for (name, title) in [("accuracy", "Test accuracy"), ("loss", "Test loss")] {
            let title = format!("{title}{suffix}");
            let step = |run: &Run| run.by_step.get(name).cloned();
            let time = |run: &Run| run.by_time.get(name).cloned();
            let charts = [
                ("global steps", panel_lines(panel, few, step)),
                ("seconds", panel_lines(panel, few, time)),
            ];
            for (x_title, series) in charts {
                let y_title = String::new();
                let chart = LineChart {
                    title: title.clone(),
                    x_title: x_title.into(),
                    y_title,
                    series,
                    ..LineChart::default()
                };
                if !chart.is_empty() {
                    figures.push(chart.figure());
                }
            }
        }
    }
    let mut note = "Of each cell the first run.".to_owned();
    if left_out > 0 {
        note.push_str(&format!(" The {left_out} largest batches are left out."));
    }
    ChartGroup { title: "Learning".into(), note, figures }
}

fn panel_lines(
    panel: &[&Cell],
    whole_label: bool,
    curve: impl Fn(&Run) -> Option<Curve>,
) -> Vec<ChartLine> {
    let series = |cell: &&Cell| {
        let points = curve(cell.runs.first()?)?;
        let label = if whole_label { &cell.label } else { &cell.deploy };
        Some(ChartLine { label: label.clone(), points, ..ChartLine::default() })
    };
    panel.iter().filter_map(series).take(MOST_LINES).collect()
}

/// What the machine was doing, if the runs have noted it.
fn resources(cells: &[&Cell]) -> ChartGroup {
    let mut titles: Vec<&str> = Vec::new();
    for (title, _) in cells.iter().flat_map(|cell| &cell.runs).flat_map(|run| &run.resources) {
        if !titles.contains(title) {
            titles.push(title);
        }
    }
    let chart = |title: &&str| {
        let series = |cell: &&Cell| {
            let (_, points) =
                cell.runs.first()?.resources.iter().find(|(name, _)| name == title)?;
            Some(ChartLine {
                label: cell.label.clone(),
                points: points.clone(),
                ..ChartLine::default()
            })
        };
        LineChart {
            title: capital(title),
            x_title: "seconds".into(),
            series: cells
                .iter()
                .filter_map(series)
                .filter(|s| s.points.len() > 1)
                .take(MOST_LINES)
                .collect(),
            from_zero: true,
            ..LineChart::default()
        }
    };
    let charts = titles.iter().map(chart).filter(|chart| !chart.is_empty());
    ChartGroup {
        title: "Resources".into(),
        note: "Of worker 0's machine, and worker 0's own network, or its host's where hosts are \
               emulated; of each cell the first run."
            .into(),
        figures: charts.map(|chart| chart.figure()).collect(),
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
