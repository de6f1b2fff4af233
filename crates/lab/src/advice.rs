//! What the measurements say: the mode that gets there first, the batch from which on
//! throughput hardly grows, the workers from which on more do not help.
//!
//! Every sentence names the figures it follows from. Where the measurements do not say, or the
//! spread of repeats is as large as what would be said, that is said instead.

use std::cmp::Ordering;

use crate::cell::Cell;
use crate::charts::{by_batch, by_workers};
use crate::figure::{Figure, format_number};
use crate::report_data::ReportData;

/// Growth below this share is none.
const WORTH: f64 = 0.10;
/// With fewer tests than this a run does not say when it reached a loss.
const LEAST_TESTS: usize = 5;

/// The sentences, in the order they matter.
pub fn advice(data: &ReportData) -> Vec<String> {
    let cells: Vec<&Cell> = data.complete_cells().collect();
    let threads = data.machine().map_or(0, |machine| machine.threads);
    let mut sentences = Vec::new();
    sentences.extend(fastest(&cells));
    sentences.extend(by_batch(&cells).iter().filter_map(|(label, line)| batch(label, line)));
    let lines = by_workers(&cells);
    sentences.extend(lines.iter().filter_map(|(label, line)| workers(label, line, threads)));
    sentences.extend(bottleneck(&cells));
    if sentences.is_empty() {
        sentences.push("One cell alone says nothing about what would be better.".into());
    }
    sentences
}

/// Who was first where all can be compared: at the target the runs stopped at, or at the lowest
/// test loss that all of them reached.
fn fastest(cells: &[&Cell]) -> Option<String> {
    if cells.len() < 2 {
        return None;
    }
    let by_target = cells.iter().all(|cell| cell.stop_reasons() == "test_loss");
    let (mut times, target) = match by_target {
        true => {
            let time = |cell: &&Cell| Some((cell.mean("seconds")?, cell.label.clone()));
            (cells.iter().filter_map(time).collect::<Vec<_>>(), "the target".to_owned())
        }
        false => {
            let tests = |cell: &&Cell| Some(cell.runs.first()?.by_time.get("loss")?.len());
            if cells.iter().any(|cell| tests(cell).is_none_or(|tests| tests < LEAST_TESTS)) {
                return None;
            }
            let lowest = |cell: &&Cell| {
                let curve = cell.runs.first()?.by_time.get("loss")?;
                curve.iter().map(|point| point.1).min_by(f64::total_cmp)
            };
            let common = cells.iter().filter_map(lowest).max_by(f64::total_cmp)?;
            let time = |cell: &&Cell| {
                let curve = cell.runs.first()?.by_time.get("loss")?;
                let reached = curve.iter().find(|point| point.1 <= common)?;
                Some((reached.0, cell.label.clone()))
            };
            let target = format!("test loss {common:.4}, the lowest that all reached,");
            (cells.iter().filter_map(time).collect(), target)
        }
    };
    times.sort_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(Ordering::Equal));
    let [(first, winner), (second, next), ..] = times.as_slice() else { return None };
    let (last, slowest) = times.last()?;
    let (shown, after) = (seconds(*first), seconds(*second));
    let lead = if second / first.max(1e-9) < 1.0 + WORTH { " (too close to call)" } else { "" };
    Some(format!(
        "Fastest to {target} is {winner} with {shown}, before {next} with {after}{lead}; slowest is \
         {slowest} with {}.",
        seconds(*last)
    ))
}

fn seconds(value: f64) -> String {
    format!("{} s", format_number(value, if value < 1.0 { 3 } else { 2 }))
}

/// The smallest x from which on no larger one gives noticeably more.
fn knee(points: &[(u64, f64)]) -> Option<(u64, f64)> {
    points.iter().enumerate().find_map(|(i, &(x, rate))| {
        let best = points[i..].iter().map(|point| point.1).fold(0.0, f64::max);
        (best <= rate * (1.0 + WORTH)).then_some((x, rate))
    })
}

/// Throughput along a line, and its greatest relative spread.
fn rates(line: &[(u64, &Cell)]) -> (Vec<(u64, f64)>, f64) {
    let figure = Figure::named("examples_per_second");
    let spread = |(x, cell): &(u64, &Cell)| Some((*x, cell.figure(figure?)?));
    let spreads: Vec<_> = line.iter().filter_map(spread).collect();
    let noise = spreads.iter().map(|(_, spread)| spread.relative()).fold(0.0, f64::max);
    (spreads.iter().map(|(x, spread)| (*x, spread.mean)).collect(), noise)
}

fn subject(label: &str) -> String {
    if label.is_empty() { String::new() } else { format!("{label}: ") }
}

fn doubt(noise: f64) -> String {
    match noise > WORTH {
        true => format!(" Repeats deviate by up to {:.0} %, so take it with care.", 100.0 * noise),
        false => String::new(),
    }
}

fn batch(label: &str, line: &[(u64, &Cell)]) -> Option<String> {
    let (points, noise) = rates(line);
    let (knee, rate) = knee(&points)?;
    let (largest, _) = *points.last()?;
    let rate = format_number(rate, 0);
    let what = match knee == largest {
        true => {
            format!("throughput still grows at the largest batch tried, {knee} ({rate} examples/s)")
        }
        false => format!(
            "throughput stops growing at batch {knee} ({rate} examples/s); none of the larger \
             batches, up to {largest}, gives {:.0} % more",
            100.0 * WORTH
        ),
    };
    Some(format!("{}{what}.{}", subject(label), doubt(noise)))
}

fn workers(label: &str, line: &[(u64, &Cell)], threads: usize) -> Option<String> {
    let (points, noise) = rates(line);
    let (knee, rate) = knee(&points)?;
    let (largest, _) = *points.last()?;
    let rate = format_number(rate, 0);
    let many = |count: u64| format!("{count} worker{}", if count == 1 { "" } else { "s" });
    let what = match knee == largest {
        true => {
            format!("adding workers helps up to the most tried, {} ({rate} examples/s)", many(knee))
        }
        false => format!("adding workers stops helping at {} ({rate} examples/s)", many(knee)),
    };
    let why = match threads > 0 && largest as usize > threads {
        true => format!("; the machine has {threads} threads for up to {largest} of them"),
        false => String::new(),
    };
    Some(format!("{}{what}{why}.{}", subject(label), doubt(noise)))
}

/// What most of the workers' time goes to, in each mode.
fn bottleneck(cells: &[&Cell]) -> Option<String> {
    let mut parts = Vec::new();
    let mut modes: Vec<&str> = cells.iter().map(|cell| cell.mode()).collect();
    modes.sort_unstable();
    modes.dedup();
    for mode in modes {
        let runs = cells.iter().filter(|cell| cell.mode() == mode).flat_map(|cell| &cell.runs);
        let mut sums: Vec<(&str, f64)> = Vec::new();
        for (phase, seconds) in runs.flat_map(|run| run.summary.workers()).flat_map(|w| &w.phases) {
            match sums.iter_mut().find(|(name, _)| name == phase) {
                Some((_, sum)) => *sum += seconds,
                None => sums.push((phase, *seconds)),
            }
        }
        let whole: f64 = sums.iter().map(|(_, sum)| sum).sum();
        let Some((phase, sum)) = sums.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)) else {
            continue;
        };
        parts.push(format!("{mode} to {phase} ({:.0} %)", 100.0 * sum / whole));
    }
    (!parts.is_empty())
        .then(|| format!("Most of the workers' time goes, by mode: {}.", parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::assign_labels;
    use crate::run::Run;
    use crate::summary::Summary;

    /// Cells of mode, workers, batch, seconds to the target and examples/s.
    fn data(rows: &[(&str, u64, u64, f64, f64)]) -> ReportData {
        let cell = |&(mode, workers, batch, seconds, rate): &(&str, u64, u64, f64, f64)| {
            let text = format!(
                r#"{{"mode": "{mode}", "workers": {workers}, "batch": {batch}, "seconds": {seconds},
                     "examples_per_second": {rate}, "stop_reason": "test_loss"}}"#
            );
            let summary = Summary::parse(&text).unwrap();
            let settings = [
                ("cluster.mode", mode.to_owned()),
                ("cluster.workers", workers.to_string()),
                ("train.batch", batch.to_string()),
            ];
            Cell {
                settings: settings.map(|(key, value)| (key.to_owned(), value)).to_vec(),
                runs: vec![Run { summary, ..Run::default() }],
                ..Cell::default()
            }
        };
        let mut cells: Vec<Cell> = rows.iter().map(cell).collect();
        assign_labels(&mut cells);
        ReportData { cells, ..ReportData::default() }
    }

    #[test]
    fn the_batch_at_which_throughput_stops_growing_is_named() {
        let found = advice(&data(&[
            ("async", 2, 10, 3.0, 100.0),
            ("async", 2, 60, 2.0, 400.0),
            ("async", 2, 120, 2.5, 420.0),
            ("async", 2, 600, 2.6, 390.0),
        ]));
        assert_eq!(
            found[0],
            "Fastest to the target is batch 60 with 2.00 s, before batch 120 with \
                              2.50 s; slowest is batch 10 with 3.00 s."
        );
        assert!(
            found[1].starts_with("throughput stops growing at batch 60 (400 examples/s)"),
            "{found:?}"
        );
    }

    #[test]
    fn growth_up_to_the_end_is_said_to_go_on() {
        let found = advice(&data(&[("sync", 1, 10, 1.0, 100.0), ("sync", 1, 60, 1.02, 300.0)]));
        assert!(found[0].contains("too close to call"), "{found:?}");
        assert!(found[1].contains("still grows at the largest batch tried, 60"), "{found:?}");
    }

    #[test]
    fn the_workers_at_which_more_stop_helping_are_named() {
        let found = advice(&data(&[
            ("async", 1, 10, 3.0, 100.0),
            ("async", 2, 10, 2.0, 190.0),
            ("async", 4, 10, 2.0, 180.0),
        ]));
        assert!(
            found.iter().any(|s| s.starts_with("adding workers stops helping at 2 workers (190")),
            "{found:?}"
        );
    }

    #[test]
    fn who_was_first_follows_from_the_tests_if_there_are_enough() {
        let mut found = data(&[("async", 2, 10, 3.0, 100.0), ("sync", 2, 10, 2.0, 100.0)]);
        let tests = |pace: f64, count: u32| -> Vec<(f64, f64)> {
            (0..count).map(|i| (pace * f64::from(i), 2.0 / f64::from(i + 1))).collect()
        };
        for (cell, pace) in found.cells.iter_mut().zip([0.5, 2.0]) {
            let text = r#"{"mode": "m", "stop_reason": "steps"}"#;
            cell.runs[0].summary = Summary::parse(text).unwrap();
            cell.runs[0].by_time.insert("loss".into(), tests(pace, 5));
        }
        let cells: Vec<&Cell> = found.cells.iter().collect();
        let said = fastest(&cells).unwrap();
        assert!(
            said.starts_with("Fastest to test loss 0.4000") && said.contains("async with 2.00 s"),
            "{said}"
        );
        found.cells[1].runs[0].by_time.insert("loss".into(), tests(2.0, 3));
        assert_eq!(fastest(&found.cells.iter().collect::<Vec<_>>()), None);
    }

    #[test]
    fn one_cell_says_nothing() {
        assert_eq!(advice(&data(&[("single", 1, 10, 1.0, 1.0)])).len(), 1);
    }
}
