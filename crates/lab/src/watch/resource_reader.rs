//! Reads `resources.csv` while it grows, one curve for each column.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use paceline_record::names::{columns, tags};

use super::curve_set::CurveSet;

/// Most bytes of a table that are read at once.
const MAX_READ_BYTES: u64 = 16 << 20;
/// Samples closer together than this say little about the speed of the run, in seconds.
const MIN_RATE_SECONDS: f64 = 0.05;

/// Reads a resource table from where it stopped before.
#[derive(Debug, Default)]
pub(crate) struct ResourceReader {
    offset: u64,
    head: Vec<String>,
    /// The sample from which the next step rate is computed.
    rate_start: Option<SamplePosition>,
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
        let Ok(mut file) = File::open(path) else { return };
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
        let cell = |name: &str| self.head.iter().position(|head| head == name).map(|at| cells[at]);
        let (Some(time), Some(step)) = (cell(columns::TIME), cell(columns::STEP)) else { return };
        for (name, value) in self.head.iter().zip(&cells) {
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
            let rate = (now.step - start.step) / seconds;
            curve.push(now.step as u64, now.time, rate as f32);
        }
        self.rate_start = Some(now);
    }
}
