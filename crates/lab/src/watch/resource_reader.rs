//! Reads `resources.csv` while it grows, one curve for each column.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use paceline_record::names::{columns, tags};

use super::curve_set::CurveSet;
use crate::regular_file::open_regular;

/// Most bytes of a table that are read at once.
const MAX_READ_BYTES: u64 = 16 << 20;
/// Samples closer together than this say little about the speed of the run, in seconds.
const MIN_RATE_SECONDS: f64 = 0.05;
/// This number of samples without a step is a standstill, which the curves show.
const STANDSTILL_SAMPLES: usize = 5;

/// Reads a resource table from where it stopped before.
#[derive(Debug, Default)]
pub(crate) struct ResourceReader {
    offset: u64,
    head: Vec<String>,
    /// The sample from which the next step rate is computed.
    rate_start: Option<SamplePosition>,
    /// The latest step rate. It is shown once a later sample follows: the last one of a run ends
    /// after the last step, so its rate is too low.
    latest_rate: Option<StepRate>,
    /// The step of the last sample that was added.
    last_step: f64,
    /// Samples without a step since then. They are shown when steps follow or there are many; those
    /// at the end of a run only show that it has ended.
    idle: Vec<Vec<f64>>,
}

/// A point of the curve of steps a second.
#[derive(Clone, Copy, Debug)]
struct StepRate {
    at: SamplePosition,
    steps_per_second: f32,
}

/// When a sample was taken, and at which global step.
#[derive(Clone, Copy, Debug)]
struct SamplePosition {
    time: f64,
    step: f64,
}

impl ResourceReader {
    /// Adds the complete lines that were appended since the last call to the curves.
    pub(crate) fn read_new(&mut self, path: &Path, curves: &mut CurveSet) {
        let Ok(mut file) = open_regular(path) else { return };
        let mut bytes = Vec::new();
        let read = file
            .seek(SeekFrom::Start(self.offset))
            .and_then(|_| file.take(MAX_READ_BYTES).read_to_end(&mut bytes));
        let end = bytes.iter().rposition(|byte| *byte == b'\n');
        let Some(end) = end.filter(|_| read.is_ok()) else { return };
        self.offset += end as u64 + 1;
        for line in String::from_utf8_lossy(&bytes[..end]).lines() {
            if self.head.is_empty() {
                self.head = line.split(',').map(str::to_owned).collect();
            } else {
                self.add_line(line, curves);
            }
        }
    }

    fn add_line(&mut self, line: &str, curves: &mut CurveSet) {
        let cells: Vec<f64> = line.split(',').filter_map(|cell| cell.parse().ok()).collect();
        if cells.len() != self.head.len() {
            return;
        }
        let Some(step) = self.cell(&cells, columns::STEP) else { return };
        if step > 0.0 && step == self.last_step {
            self.idle.push(cells);
            if self.idle.len() < STANDSTILL_SAMPLES {
                return;
            }
        } else {
            self.last_step = step;
            self.idle.push(cells);
        }
        for cells in std::mem::take(&mut self.idle) {
            self.add_sample(&cells, curves);
        }
    }

    fn cell(&self, cells: &[f64], name: &str) -> Option<f64> {
        self.head.iter().position(|head| head == name).map(|at| cells[at])
    }

    fn add_sample(&mut self, cells: &[f64], curves: &mut CurveSet) {
        let (Some(time), Some(step)) =
            (self.cell(cells, columns::TIME), self.cell(cells, columns::STEP))
        else {
            return;
        };
        for (name, value) in self.head.iter().zip(cells) {
            if ![columns::TIME, columns::STEP].contains(&name.as_str())
                && let Some(curve) = curves.entry(&tags::resource(name))
            {
                curve.push(step as u64, time, *value as f32);
            }
        }
        self.add_step_rate(SamplePosition { time, step }, curves);
    }

    /// Adds a point to the curve of global steps a second.
    fn add_step_rate(&mut self, now: SamplePosition, curves: &mut CurveSet) {
        let Some(curve) = curves.entry(tags::STEP_RATE) else { return };
        if let Some(rate) = self.latest_rate.take() {
            curve.push(rate.at.step as u64, rate.at.time, rate.steps_per_second);
        }
        // Rates are computed only once training has begun.
        let Some(start) = self.rate_start.filter(|start| start.step > 0.0) else {
            self.rate_start = Some(now);
            return;
        };
        let seconds = now.time - start.time;
        if seconds < MIN_RATE_SECONDS {
            return;
        }
        // The step of a run that resumes from a checkpoint goes back.
        if now.step >= start.step {
            let steps_per_second = ((now.step - start.step) / seconds) as f32;
            self.latest_rate = Some(StepRate { at: now, steps_per_second });
        }
        self.rate_start = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::super::series::SentMark;
    use super::*;

    fn values(text: &str, tag: &str) -> Vec<f32> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("resources.csv");
        std::fs::write(&path, format!("time_s,step,cpu\n{text}")).unwrap();
        let mut curves = CurveSet::default();
        ResourceReader::default().read_new(&path, &mut curves);
        let series = curves.get(tag).map(|series| series.since(SentMark::default(), 100));
        series.map_or(Vec::new(), |new| new.buckets.iter().map(|bucket| bucket.mean).collect())
    }

    #[test]
    fn curves_do_not_fall_at_the_end_of_a_run() {
        // The last step is made early in the fourth second; two samples without a step follow.
        let text = "1,10,90\n2,20,90\n3,30,90\n4,31,40\n5,31,2\n6,31,1\n";
        assert_eq!(values(text, tags::STEP_RATE), [10.0, 10.0]);
        assert_eq!(values(text, "usage/cpu"), [90.0, 90.0, 90.0, 40.0]);
    }

    #[test]
    fn a_standstill_within_a_run_is_shown() {
        let text = "1,10,90\n2,20,90\n3,20,5\n4,30,90\n5,40,90\n";
        assert_eq!(values(text, tags::STEP_RATE), [10.0, 0.0, 10.0]);
        let idle: String = (3..9).map(|second| format!("{second},20,5\n")).collect();
        let text = format!("1,10,90\n2,20,90\n{idle}");
        assert_eq!(values(&text, tags::STEP_RATE)[..2], [10.0, 0.0]);
    }
}
