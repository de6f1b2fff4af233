//! `resources.csv`: a task's resource samples as a table.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::SystemTime;

use paceline_observe::Sample;

use crate::byte_budget::{ByteBudget, TABLE};
use crate::merged_samples::MergedSamples;
use crate::names::{columns, files};

/// The most processes of one task that can write a table.
const MAX_FILES: u32 = 1_000;

/// Writes samples as lines of a table.
///
/// Each line is one write without a buffer, so the file is complete up to the last line whenever
/// and however the task ends.
#[derive(Debug)]
pub struct ResourceTable {
    file: File,
    /// The names of the figures.
    names: Vec<String>,
    line: String,
    /// Without it every sample is a line; with it, samples are merged once it is spent.
    budget: Option<ByteBudget>,
    samples: MergedSamples,
}

impl ResourceTable {
    /// Creates `resources.csv` in `dir`, or `resources-2.csv` and so on beside tables of earlier
    /// processes of the task. The table has a line for every sample.
    pub fn create(dir: &Path, names: Vec<String>) -> io::Result<Self> {
        let mut file = create_numbered(dir)?;
        let head = format!("{},{},{}\n", columns::TIME, columns::STEP, names.join(","));
        file.write_all(head.as_bytes())?;
        let (line, samples) = (String::new(), MergedSamples::default());
        Ok(Self { file, names, line, budget: None, samples })
    }

    /// Merges samples of a long run, so that the table of a week has a few megabytes.
    #[must_use]
    pub fn thinned(self) -> Self {
        Self { budget: Some(ByteBudget::new(TABLE)), ..self }
    }

    /// Adds a sample: appends a line, or merges it with the next one.
    pub fn write(&mut self, sample: &Sample) -> io::Result<()> {
        self.samples.add(sample);
        let elapsed_s = self.samples.elapsed_s();
        // Lines have similar lengths.
        let bytes = self.line.len() as u64;
        if self.budget.as_mut().is_some_and(|budget| !budget.allows(elapsed_s, bytes)) {
            // A reader sees by the time of the file that the task is alive.
            return self.file.set_modified(SystemTime::now());
        }
        self.finish()
    }

    /// Appends the line of the samples that have none yet.
    pub fn finish(&mut self) -> io::Result<()> {
        let Some(sample) = self.samples.take() else { return Ok(()) };
        self.line.clear();
        let _ = write!(self.line, "{:.3},{}", sample.time_s, sample.step);
        for (name, figure) in self.names.iter().zip(&sample.figures) {
            let digits = if name.ends_with("_percent") { 1 } else { 0 };
            let _ = write!(self.line, ",{figure:.digits$}");
        }
        self.line.push('\n');
        if let Some(budget) = &mut self.budget {
            budget.spend(self.line.len() as u64);
        }
        self.file.write_all(self.line.as_bytes())
    }
}

/// Creates the first file of the numbered names that does not exist.
fn create_numbered(dir: &Path) -> io::Result<File> {
    let mut created = File::create_new(dir.join(files::RESOURCES));
    for number in 2..=MAX_FILES {
        match &created {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                created = File::create_new(dir.join(files::resources(number)));
            }
            _ => break,
        }
    }
    created
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, Instant};

    use paceline_observe::{COLUMNS, Sampler};

    use super::*;

    /// The file's rows, each of as many numbers as the header has names.
    fn rows(dir: &Path) -> Vec<Vec<f64>> {
        let text = fs::read_to_string(dir.join(files::RESOURCES)).unwrap();
        assert!(text.ends_with('\n'), "{text:?}");
        let mut lines = text.lines();
        let width = 2 + COLUMNS.len();
        assert_eq!(lines.next().unwrap().split(',').count(), width);
        let row = |line: &str| line.split(',').map(|cell| cell.parse().unwrap()).collect();
        let rows: Vec<Vec<f64>> = lines.map(row).collect();
        assert!(rows.iter().all(|row| row.len() == width), "{text}");
        rows
    }

    #[test]
    fn every_sample_is_a_line_of_the_file_before_the_sampler_ends() {
        let dir = tempfile::tempdir().unwrap();
        let mut table = ResourceTable::create(dir.path(), paceline_observe::columns(&[])).unwrap();
        drop(ResourceTable::create(dir.path(), paceline_observe::columns(&[])).unwrap());
        assert!(dir.path().join("resources-2.csv").is_file(), "the first is left alone");
        let on_sample = move |sample: &Sample| table.write(sample).unwrap();
        let sampler = Sampler::start(Duration::from_millis(1), &[], on_sample).unwrap();
        sampler.gauges().at_step(42);
        let mut taken = Vec::new();
        let deadline = Instant::now() + Duration::from_secs(60);
        while taken.len() < 5 && Instant::now() < deadline {
            if sampler.has_news() {
                taken.extend(sampler.take());
            }
        }
        let rows = rows(dir.path());
        assert!(rows.len() >= 5);
        for (sample, row) in taken.iter().zip(&rows) {
            assert!((sample.time_s - row[0]).abs() < 1e-3);
            assert!((sample.figures[0] - row[2]).abs() <= 0.06, "{sample:?} {row:?}");
        }
        assert_eq!(rows[rows.len() - 1][1], 42.0);
    }
}
