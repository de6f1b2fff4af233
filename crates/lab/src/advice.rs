//! Conclusions from the measurements: the cell that reaches a loss first, the batch beyond which
//! throughput hardly grows, the number of workers beyond which more do not help.
//!
//! Every sentence quotes the figures that it follows from, and says so if repeats deviate too much
//! for it to be sure.

use crate::cell::Cell;
use crate::cell_line::{CellLine, CellPoint, by_batch, by_workers};
use crate::figure::{Figure, format_number};
use crate::report_data::ReportData;
use crate::workload::{WorkloadCells, by_workload};

/// Growth by a smaller share does not count.
const NOTABLE_GROWTH: f64 = 0.10;
/// Rates of runs that train for a shorter time, in seconds, say little.
const SHORT_SECONDS: f64 = 1.0;
/// A run with fewer tests does not show when it reached a loss.
const MIN_TESTS: usize = 5;

/// Returns the conclusions as sentences, the most important first.
pub fn advice(data: &ReportData) -> Vec<String> {
    let cells: Vec<&Cell> = data.complete_cells().collect();
    let threads = data.machine().map_or(0, |machine| machine.threads);
    let mut sentences: Vec<String> = Vec::new();
    for workload in by_workload(&cells) {
        let prefix = workload.prefix();
        let found = workload_advice(&workload, threads).into_iter();
        sentences.extend(found.map(|sentence| capitalized(&format!("{prefix}{sentence}"))));
    }
    if sentences.is_empty() {
        sentences.push("A single cell gives nothing to compare.".into());
    }
    sentences
}

fn workload_advice(WorkloadCells { cells, .. }: &WorkloadCells<'_>, threads: usize) -> Vec<String> {
    let mut sentences = Vec::new();
    sentences.extend(fastest(cells));
    sentences.extend(best(cells));
    sentences.extend(by_batch(cells).iter().filter_map(batch_advice));
    sentences.extend(by_workers(cells).iter().filter_map(|line| worker_advice(line, threads)));
    sentences.extend(main_phases(cells));
    sentences.extend(short_runs(cells));
    sentences
}

/// A warning about cells whose rates say little because their runs are short.
fn short_runs(cells: &[&Cell]) -> Option<String> {
    let is_short = |cell: &&&Cell| cell.mean("seconds").is_some_and(|mean| mean < SHORT_SECONDS);
    let (short, all) = (cells.iter().filter(is_short).count(), cells.len());
    let which =
        if short == all { "All runs".into() } else { format!("Runs of {short} of {all} cells") };
    (short > 0 && all > 1).then(|| {
        format!("{which} train for less than 1 s, so their throughput and phases say little.")
    })
}

/// The same text with a capital first letter.
pub(crate) fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// When a cell reached the loss at which cells are compared.
pub(crate) struct Arrival<'a> {
    pub(crate) seconds: f64,
    pub(crate) label: &'a str,
}

/// When each cell reached what cells are compared at, the first to arrive first.
pub(crate) struct Race<'a> {
    /// What they reached, in words.
    pub(crate) target: String,
    pub(crate) arrivals: Vec<Arrival<'a>>,
}

/// The race to the target of the runs or, if they did not stop at one, to the lowest test loss that
/// all cells reached.
pub(crate) fn race<'a>(cells: &[&'a Cell]) -> Option<Race<'a>> {
    if cells.len() < 2 {
        return None;
    }
    let stopped_at_target = cells.iter().all(|cell| cell.stop_reasons() == "test_loss");
    let (mut arrivals, target) = if stopped_at_target {
        let seconds = cells.iter().filter_map(|cell| Some((cell, cell.mean("seconds")?)));
        let arrivals = seconds.map(|(cell, seconds)| Arrival { seconds, label: &cell.label });
        (arrivals.collect(), common_target(cells))
    } else {
        let loss = lowest_common_loss(cells)?;
        let target = format!("test loss {loss:.4}, the lowest that all reached,");
        (arrivals_at(cells, loss), target)
    };
    arrivals.sort_by(|a: &Arrival<'_>, b| a.seconds.total_cmp(&b.seconds));
    Some(Race { target, arrivals })
}

/// The loss at which the runs of all cells stop, in words.
fn common_target(cells: &[&Cell]) -> String {
    let loss = |cell: &&Cell| cell.runs.first()?.job.get("train.stop.test_loss").cloned();
    match cells.first().and_then(loss) {
        Some(first) if cells.iter().all(|cell| loss(cell).as_ref() == Some(&first)) => {
            format!("test loss {first}, the target,")
        }
        _ => "the target".to_owned(),
    }
}

/// The first and last cell to arrive.
fn fastest(cells: &[&Cell]) -> Option<String> {
    let Race { target, arrivals } = race(cells)?;
    let [first, second, ..] = arrivals.as_slice() else { return None };
    let last = arrivals.last()?;
    let is_close = second.seconds / first.seconds.max(1e-9) < 1.0 + NOTABLE_GROWTH;
    Some(format!(
        "Fastest to {target} is {} with {}, before {} with {}{}; slowest is {} with {}.",
        first.label,
        seconds_text(first.seconds),
        second.label,
        seconds_text(second.seconds),
        if is_close { " (too close to call)" } else { "" },
        last.label,
        seconds_text(last.seconds),
    ))
}

/// The cell with the lowest loss and the one with the highest accuracy in the final tests, unless
/// all stopped at one loss.
fn best(cells: &[&Cell]) -> Option<String> {
    if cells.len() < 2 || cells.iter().all(|cell| cell.stop_reasons() == "test_loss") {
        return None;
    }
    let least = |a: &(f64, &str), b: &(f64, &str)| a.0.total_cmp(&b.0);
    let (loss, lowest) = means(cells, "test_loss").into_iter().min_by(least)?;
    let (accuracy, highest) = means(cells, "test_accuracy").into_iter().max_by(least)?;
    let percent = 100.0 * accuracy;
    Some(if lowest == highest {
        format!("Best in the final test is {lowest}: loss {loss:.4}, accuracy {percent:.2} %.")
    } else {
        format!(
            "Lowest loss in the final test: {loss:.4} with {lowest}; highest accuracy: \
             {percent:.2} % with {highest}."
        )
    })
}

/// The mean of a figure for each cell that has it, with the cell's label.
fn means<'a>(cells: &[&'a Cell], name: &str) -> Vec<(f64, &'a str)> {
    let mean = |cell: &&'a Cell| Some((cell.mean(name)?, cell.label.as_str()));
    let means = cells.iter().filter_map(mean);
    means.filter(|(mean, _)| mean.is_finite()).collect()
}

/// The lowest test loss that all cells reached; none if a cell has too few tests.
fn lowest_common_loss(cells: &[&Cell]) -> Option<f64> {
    let mut common = f64::NEG_INFINITY;
    for cell in cells {
        let losses = cell.runs.first()?.by_time.get("loss")?;
        if losses.len() < MIN_TESTS {
            return None;
        }
        let lowest = losses.iter().map(|point| point.1).min_by(f64::total_cmp)?;
        common = common.max(lowest);
    }
    Some(common)
}

fn arrivals_at<'a>(cells: &[&'a Cell], loss: f64) -> Vec<Arrival<'a>> {
    let arrival = |cell: &&'a Cell| {
        let losses = cell.runs.first()?.by_time.get("loss")?;
        let reached = losses.iter().find(|point| point.1 <= loss)?;
        Some(Arrival { seconds: reached.0, label: &cell.label })
    };
    cells.iter().filter_map(arrival).collect()
}

pub(crate) fn seconds_text(value: f64) -> String {
    format!("{} s", format_number(value, if value < 1.0 { 3 } else { 2 }))
}

/// Throughput along a line of cells.
struct Throughput {
    /// Batch or workers, and examples/s.
    points: Vec<(u64, f64)>,
    /// The largest relative deviation of repeats.
    deviation: f64,
}

/// Where throughput stops growing.
struct Knee {
    /// The smallest x that no larger one beats notably.
    x: u64,
    /// Examples/s at x, as text.
    rate: String,
    largest_x: u64,
}

impl Throughput {
    fn of(line: &CellLine<'_>) -> Option<Self> {
        let figure = Figure::named("examples_per_second")?;
        let spread = |point: &CellPoint<'_>| Some((point.x, point.cell.figure(figure)?));
        let spreads: Vec<_> = line.points.iter().filter_map(spread).collect();
        Some(Self {
            points: spreads.iter().map(|(x, spread)| (*x, spread.mean)).collect(),
            deviation: spreads.iter().map(|(_, spread)| spread.relative()).fold(0.0, f64::max),
        })
    }

    fn knee(&self) -> Option<Knee> {
        let (largest_x, _) = *self.points.last()?;
        self.points.iter().enumerate().find_map(|(i, &(x, rate))| {
            let best = self.points[i..].iter().map(|point| point.1).fold(0.0, f64::max);
            let is_knee = best <= rate * (1.0 + NOTABLE_GROWTH);
            is_knee.then(|| Knee { x, rate: format_number(rate, 0), largest_x })
        })
    }

    /// A warning if repeats deviate as much as what the advice is about.
    fn warning(&self) -> String {
        if self.deviation <= NOTABLE_GROWTH {
            return String::new();
        }
        format!(" Repeats deviate by up to {:.0} %, so this is uncertain.", 100.0 * self.deviation)
    }
}

fn subject(line: &CellLine<'_>) -> String {
    if line.label.is_empty() { String::new() } else { format!("{}: ", line.label) }
}

fn batch_advice(line: &CellLine<'_>) -> Option<String> {
    let throughput = Throughput::of(line)?;
    let Knee { x, rate, largest_x } = throughput.knee()?;
    let conclusion = if x == largest_x {
        format!("throughput still grows at the largest batch tried, {x} ({rate} examples/s)")
    } else {
        format!(
            "throughput stops growing at batch {x} ({rate} examples/s); no larger batch, up to \
             {largest_x}, gives {:.0} % more",
            100.0 * NOTABLE_GROWTH
        )
    };
    Some(format!("{}{conclusion}.{}", subject(line), throughput.warning()))
}

fn worker_advice(line: &CellLine<'_>, threads: usize) -> Option<String> {
    let throughput = Throughput::of(line)?;
    let Knee { x, rate, largest_x } = throughput.knee()?;
    let workers = format!("{x} worker{}", if x == 1 { "" } else { "s" });
    let conclusion = if x == largest_x {
        format!("adding workers helps up to the most tried, {workers} ({rate} examples/s)")
    } else {
        format!("adding workers stops helping at {workers} ({rate} examples/s)")
    };
    let reason = if threads > 0 && largest_x as usize > threads {
        format!("; the machine has {threads} threads for up to {largest_x} workers")
    } else {
        String::new()
    };
    Some(format!("{}{conclusion}{reason}.{}", subject(line), throughput.warning()))
}

/// The phase that takes most of the workers' time, for each mode.
fn main_phases(cells: &[&Cell]) -> Option<String> {
    let mut parts = Vec::new();
    let mut modes: Vec<&str> = cells.iter().map(|cell| cell.mode()).collect();
    modes.sort_unstable();
    modes.dedup();
    for mode in modes {
        let runs = cells.iter().filter(|cell| cell.mode() == mode).flat_map(|cell| &cell.runs);
        let mut sums: Vec<(&str, f64)> = Vec::new();
        for task in runs.flat_map(|run| run.summary.worker_tasks()) {
            for phase in task.phases.keys() {
                let seconds = task.phase_seconds(phase);
                match sums.iter_mut().find(|(name, _)| name == phase) {
                    Some((_, sum)) => *sum += seconds,
                    None => sums.push((phase, seconds)),
                }
            }
        }
        let total: f64 = sums.iter().map(|(_, sum)| sum).sum();
        let Some((phase, sum)) = sums.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)) else {
            continue;
        };
        parts.push(format!("{phase} in {mode} ({:.0} %)", 100.0 * sum / total));
    }
    (!parts.is_empty())
        .then(|| format!("The phase that takes most of the workers' time: {}.", parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use paceline_record::StoredSummary;

    use super::*;
    use crate::cell::assign_labels;
    use crate::run::Run;

    fn cell(mode: &str, workers: u64, batch: u64, seconds: f64, examples_per_s: f64) -> Cell {
        let text = format!(
            r#"{{"mode": "{mode}", "workers": {workers}, "batch": {batch}, "seconds": {seconds},
                 "examples_per_second": {examples_per_s}, "stop_reason": "test_loss"}}"#
        );
        let settings = [
            ("cluster.mode", mode.to_owned()),
            ("cluster.workers", workers.to_string()),
            ("train.batch", batch.to_string()),
        ];
        let summary = StoredSummary::parse(&text).unwrap();
        Cell {
            settings: settings.map(|(key, value)| (key.to_owned(), value)).to_vec(),
            runs: vec![Run { summary, ..Run::default() }],
            ..Cell::default()
        }
    }

    fn data(mut cells: Vec<Cell>) -> ReportData {
        assign_labels(&mut cells);
        ReportData { cells, ..ReportData::default() }
    }

    #[test]
    fn the_batch_at_which_throughput_stops_growing_is_named() {
        let found = advice(&data(vec![
            cell("async", 2, 10, 3.0, 100.0),
            cell("async", 2, 60, 2.0, 400.0),
            cell("async", 2, 120, 2.5, 420.0),
            cell("async", 2, 600, 2.6, 390.0),
        ]));
        assert_eq!(
            found[0],
            "Fastest to the target is batch 60 with 2.00 s, before batch 120 with \
                              2.50 s; slowest is batch 10 with 3.00 s."
        );
        assert!(
            found[1].starts_with("Throughput stops growing at batch 60 (400 examples/s)"),
            "{found:?}"
        );
    }

    #[test]
    fn a_target_that_all_jobs_have_is_named() {
        let with_target = |batch, loss: &str| {
            let mut cell = cell("async", 2, batch, batch as f64, 100.0);
            cell.runs[0].job.insert("train.stop.test_loss".into(), loss.into());
            cell
        };
        let first = |losses: [&str; 2]| {
            advice(&data(vec![with_target(10, losses[0]), with_target(60, losses[1])]))[0].clone()
        };
        let equal = first(["0.25", "0.25"]);
        assert!(equal.starts_with("Fastest to test loss 0.25, the target, is"), "{equal}");
        let different = first(["0.25", "0.3"]);
        assert!(different.starts_with("Fastest to the target is"), "{different}");
    }

    #[test]
    fn throughput_that_still_grows_at_the_largest_batch_is_reported_so() {
        let found =
            advice(&data(vec![cell("sync", 1, 10, 1.0, 100.0), cell("sync", 1, 60, 1.02, 300.0)]));
        assert!(found[0].contains("too close to call"), "{found:?}");
        assert!(found[1].contains("still grows at the largest batch tried, 60"), "{found:?}");
    }

    #[test]
    fn the_workers_at_which_more_stop_helping_are_named() {
        let found = advice(&data(vec![
            cell("async", 1, 10, 3.0, 100.0),
            cell("async", 2, 10, 2.0, 190.0),
            cell("async", 4, 10, 2.0, 180.0),
        ]));
        assert!(
            found.iter().any(|s| s.starts_with("Adding workers stops helping at 2 workers (190")),
            "{found:?}"
        );
    }

    #[test]
    fn the_fastest_cell_follows_from_the_test_losses_if_there_are_enough() {
        let mut found =
            data(vec![cell("async", 2, 10, 3.0, 100.0), cell("sync", 2, 10, 2.0, 100.0)]);
        let tests = |pace: f64, count: u32| -> Vec<(f64, f64)> {
            (0..count).map(|i| (pace * f64::from(i), 2.0 / f64::from(i + 1))).collect()
        };
        for (cell, pace) in found.cells.iter_mut().zip([0.5, 2.0]) {
            let text = r#"{"mode": "m", "stop_reason": "steps"}"#;
            cell.runs[0].summary = StoredSummary::parse(text).unwrap();
            cell.runs[0].by_time.insert("loss".into(), tests(pace, 5));
        }
        let cells: Vec<&Cell> = found.cells.iter().collect();
        let sentence = fastest(&cells).unwrap();
        assert!(
            sentence.starts_with("Fastest to test loss 0.4000")
                && sentence.contains("async with 2.00 s"),
            "{sentence}"
        );
        found.cells[1].runs[0].by_time.insert("loss".into(), tests(2.0, 3));
        assert_eq!(fastest(&found.cells.iter().collect::<Vec<_>>()), None);
    }

    #[test]
    fn a_single_cell_gives_one_sentence() {
        assert_eq!(advice(&data(vec![cell("single", 1, 10, 1.0, 1.0)])).len(), 1);
    }

    #[test]
    fn short_runs_are_named_because_their_rates_say_little() {
        let sentences = |seconds: [f64; 2]| {
            let mut cells = seconds.map(|seconds| cell("sync", 2, seconds.to_bits(), seconds, 1.0));
            assign_labels(&mut cells);
            advice(&ReportData { cells: cells.into(), ..ReportData::default() }).join(" ")
        };
        assert!(sentences([0.5, 0.25]).contains("All runs train for less than 1 s"));
        assert!(sentences([0.5, 2.0]).contains("Runs of 1 of 2 cells train for less than 1 s"));
        assert!(!sentences([3.0, 2.0]).contains("less than 1 s"));
    }
}
