//! `resources.csv` of a task, read on as it grows, a curve for each column.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::series::Series;

/// Curves of a task.
const MOST_SERIES: usize = 256;
/// Bytes of a table that are read at one go.
const MOST_TABLE_BYTES: u64 = 16 << 20;

/// The tag of global steps a second, as a task has seen them.
pub(crate) const STEPS_PER_SECOND: &str = "pace/steps_per_second";

/// `resources.csv`, and how far it has been read.
#[derive(Debug, Default)]
pub(crate) struct ResourceTable {
    offset: u64,
    head: Vec<String>,
    /// Time and step of the row before.
    last: Option<(f64, f64)>,
}

impl ResourceTable {
    /// Reads the whole lines that are new.
    pub(crate) fn read(&mut self, path: &Path, series: &mut BTreeMap<String, Series>) {
        let Ok(mut file) = File::open(path) else { return };
        let mut bytes = Vec::new();
        let read = file
            .seek(SeekFrom::Start(self.offset))
            .and_then(|_| file.take(MOST_TABLE_BYTES).read_to_end(&mut bytes));
        let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n').filter(|_| read.is_ok())
        else {
            return;
        };
        self.offset += end as u64 + 1;
        for line in String::from_utf8_lossy(&bytes[..end]).lines() {
            if self.head.is_empty() {
                self.head = line.split(',').map(str::to_owned).collect();
            } else {
                self.add(line, series);
            }
        }
    }

    fn add(&mut self, line: &str, series: &mut BTreeMap<String, Series>) {
        let cells: Vec<f64> = line.split(',').filter_map(|cell| cell.parse().ok()).collect();
        if cells.len() != self.head.len() {
            return;
        }
        let cell = |name: &str| self.head.iter().position(|head| head == name).map(|at| cells[at]);
        let (Some(time), Some(step)) = (cell("time_s"), cell("step")) else { return };
        for (name, value) in self.head.iter().zip(&cells) {
            if !matches!(name.as_str(), "time_s" | "step") {
                let Some(curve) = curve(series, &format!("resources/{name}")) else { continue };
                curve.push(step as u64, time, *value as f32);
            }
        }
        // How fast the run goes; a row that comes right after another says little.
        let passed = self.last.map_or(0.0, |(before, _)| time - before);
        let Some(curve) = curve(series, STEPS_PER_SECOND) else { return };
        match self.last {
            Some((_, before)) if passed >= 0.05 && step >= before && before > 0.0 => {
                curve.push(step as u64, time, ((step - before) / passed) as f32);
                self.last = Some((time, step));
            }
            Some((_, before)) if passed < 0.05 && before > 0.0 => {}
            _ => self.last = Some((time, step)),
        }
    }
}

/// The curve of this tag, a new one if there is room.
pub(crate) fn curve<'a>(
    series: &'a mut BTreeMap<String, Series>,
    tag: &str,
) -> Option<&'a mut Series> {
    if !series.contains_key(tag) {
        if series.len() >= MOST_SERIES {
            return None;
        }
        series.insert(tag.to_owned(), Series::default());
    }
    series.get_mut(tag)
}
