//! Samples of a task's resources, as a table and as curves.

use std::io;
use std::path::Path;
use std::time::Duration;

use paceline_observe::{Gauges, ResourceUse, Sample, Sampler, columns};

use crate::byte_budget::{ByteBudget, SAMPLES};
use crate::error::RunFileError;
use crate::events::{EventWriter, Tag};
use crate::merged_samples::MergedSamples;
use crate::names::tags;
use crate::resource_table::ResourceTable;
use crate::telemetry::Telemetry;

/// How a task's resources are sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleSpacing {
    /// The time between two samples.
    pub every: Duration,
    /// Whether samples of a long run are merged before they are written.
    pub is_thinned: bool,
}

impl SampleSpacing {
    /// A sample each second, thinned.
    pub const DEFAULT: Self = Self { every: Duration::from_secs(1), is_thinned: true };

    /// Every sample is written.
    pub fn exactly(every: Duration) -> Self {
        Self { every, is_thinned: false }
    }
}

/// Samples a task's resources into `resources.csv` and writes their curves.
#[derive(Debug)]
pub(crate) struct ResourceCurves {
    sampler: Sampler,
    writer: SampleWriter,
    columns: Vec<String>,
    /// Whether the curves say how large the machine is.
    has_machine: bool,
}

impl ResourceCurves {
    /// Starts to sample, with the table in `dir` and the curves in this event file. `peers` are the
    /// other tasks that this one exchanges bytes with.
    pub(crate) fn start(
        dir: &Path,
        spacing: SampleSpacing,
        peers: &[String],
        events: &mut EventWriter,
        telemetry: &Telemetry,
    ) -> Result<Self, RunFileError> {
        let columns = columns(peers);
        let table = ResourceTable::create(dir, columns.clone());
        let table = table.map(|table| if spacing.is_thinned { table.thinned() } else { table });
        let sampler = table.and_then(|table| {
            let mut sink = TableSink { table, telemetry: telemetry.clone() };
            Sampler::start(spacing.every, peers, move |sample: &Sample| sink.write(sample))
        });
        let sampler = sampler.map_err(RunFileError::at("make the table of resources in", dir))?;
        let writer = SampleWriter::new(events, &columns, spacing.is_thinned);
        Ok(Self { sampler, writer, columns, has_machine: false })
    }

    /// Starts means and peaks anew.
    pub(crate) fn begin(&self) {
        self.sampler.begin();
    }

    /// The gauges that the task sets: its global step and the bytes it moved.
    #[inline]
    pub(crate) fn gauges(&self) -> &Gauges {
        self.sampler.gauges()
    }

    /// Whether there are samples to write.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.sampler.has_news()
    }

    /// Marks the beginning or end of a timeline; see [`Sampler::mark_timeline`].
    pub(crate) fn mark_timeline(&self) {
        self.sampler.mark_timeline();
    }

    /// Takes the samples of the time that the timeline covers.
    pub(crate) fn take_timeline_samples(&self) -> Vec<Sample> {
        self.sampler.take_timeline_samples()
    }

    /// Takes the samples since the last call, and writes them unless they are merged with later
    /// ones. Returns whether anything was written.
    pub(crate) fn write(&mut self, events: &mut EventWriter) -> io::Result<bool> {
        let mut is_written = false;
        for sample in self.sampler.take() {
            is_written |= self.writer.write(events, &sample)?;
            if !std::mem::replace(&mut self.has_machine, true) {
                self.write_machine(events, sample.step)?;
            }
        }
        Ok(is_written)
    }

    /// Writes what does not change while the task runs.
    fn write_machine(&self, events: &mut EventWriter, step: u64) -> io::Result<()> {
        let usage = self.usage();
        let cores = events.tag(tags::MACHINE_CORES);
        events.scalar(&cores, step, usage.cores as f32)?;
        let Some(link) = usage.link_mbit_per_s else { return Ok(()) };
        let tag = events.tag(tags::LINK_MBIT_PER_S);
        events.scalar(&tag, step, link as f32)
    }

    /// Stops sampling and writes the remaining samples.
    pub(crate) fn finish(&mut self, events: &mut EventWriter) -> io::Result<()> {
        self.sampler.stop();
        self.write(events)?;
        self.writer.finish(events)
    }

    /// Drops the samples since the last call: nothing is written any more.
    pub(crate) fn drop_news(&self) {
        if self.sampler.has_news() {
            drop(self.sampler.take());
        }
    }

    /// What the task has used since [`begin`](Self::begin).
    pub(crate) fn usage(&self) -> ResourceUse {
        ResourceUse::of(&self.sampler.usage(), &self.columns)
    }
}

/// Writes samples into the table until that fails or the disk is nearly full.
struct TableSink {
    table: ResourceTable,
    telemetry: Telemetry,
}

impl TableSink {
    const ACTION: &str = "write the table of resources in";

    fn write(&mut self, sample: &Sample) {
        if !self.telemetry.is_over() && self.telemetry.has_room() {
            self.telemetry.check(Self::ACTION, self.table.write(sample));
        }
    }
}

impl Drop for TableSink {
    fn drop(&mut self) {
        if !self.telemetry.is_over() {
            self.telemetry.check(Self::ACTION, self.table.finish());
        }
    }
}

/// Writes samples as curves.
#[derive(Debug)]
pub(crate) struct SampleWriter {
    /// One for each column.
    tags: Vec<Tag>,
    /// Without it every sample is written; with it, samples are merged once it is spent.
    budget: Option<ByteBudget>,
    samples: MergedSamples,
    /// The length of the last sample's events.
    sample_bytes: u64,
}

impl SampleWriter {
    fn new(events: &mut EventWriter, columns: &[String], is_thinned: bool) -> Self {
        Self {
            tags: columns.iter().map(|column| events.tag(&tags::resource(column))).collect(),
            budget: is_thinned.then(|| ByteBudget::new(SAMPLES)),
            samples: MergedSamples::default(),
            sample_bytes: 0,
        }
    }

    /// Adds a sample. Returns whether it was written.
    fn write(&mut self, events: &mut EventWriter, sample: &Sample) -> io::Result<bool> {
        self.samples.add(sample);
        let elapsed_s = self.samples.elapsed_s();
        // The curves that get their points with the samples take about half as much again.
        let bytes = self.sample_bytes * 3 / 2;
        if self.budget.as_mut().is_some_and(|budget| !budget.allows(elapsed_s, bytes)) {
            return Ok(false);
        }
        self.finish(events)?;
        if let Some(budget) = &mut self.budget {
            budget.spend(self.sample_bytes * 3 / 2);
        }
        Ok(true)
    }

    /// Writes the samples that are not written yet.
    fn finish(&mut self, events: &mut EventWriter) -> io::Result<()> {
        let Some(sample) = self.samples.take() else { return Ok(()) };
        let before = events.written_bytes();
        for (tag, &figure) in self.tags.iter().zip(&sample.figures) {
            events.scalar_at(tag, sample.step, figure as f32, sample.time_s)?;
        }
        self.sample_bytes = events.written_bytes() - before;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const SECOND_OF_A_WEEK: u64 = 7 * 24 * 3_600;

    /// A sample each second for a week, with the traffic of 16 peers.
    #[test]
    fn the_samples_of_a_week_are_few_and_end_with_the_last() {
        let dir = tempfile::tempdir().unwrap();
        let peers: Vec<String> = (0..16).map(|peer| format!("worker:{peer}")).collect();
        let columns = columns(&peers);
        let mut events = EventWriter::create(dir.path()).unwrap();
        let mut writer = SampleWriter::new(&mut events, &columns, true);
        let mut table = ResourceTable::create(dir.path(), columns.clone()).unwrap().thinned();
        let figures = vec![123_456_789.0; columns.len()];
        let mut sample = Sample { time_s: 0.0, step: 0, figures };
        let (mut written_before, mut written, mut dense) = (0, 0, 0);
        for second in 0..SECOND_OF_A_WEEK {
            (sample.time_s, sample.step) = (1.7e9 + second as f64, 1_000 * second);
            table.write(&sample).unwrap();
            let is_written = writer.write(&mut events, &sample).unwrap();
            written += u64::from(is_written);
            dense += u64::from(is_written && second < 200);
            if second % 3_600 == 0 {
                let bytes = events.written_bytes();
                assert!(bytes - written_before < 3_500_000, "{second}: {bytes}");
                written_before = bytes;
            }
        }
        table.finish().unwrap();
        writer.finish(&mut events).unwrap();
        assert_eq!(dense, 200, "the beginning is dense");
        // At least one each five minutes until the end.
        assert!(written > SECOND_OF_A_WEEK / 300, "{written}");
        assert!(events.written_bytes() < 40_000_000, "{}", events.written_bytes());
        let text = fs::read_to_string(dir.path().join("resources.csv")).unwrap();
        assert!(text.len() < 15_000_000, "{}", text.len());
        let last: f64 = text.lines().last().unwrap().split(',').next().unwrap().parse().unwrap();
        assert_eq!(last, 1.7e9 + (SECOND_OF_A_WEEK - 1) as f64);
    }
}
