//! Samples of a task's resources, as a table and as curves.

use std::io;
use std::path::Path;
use std::time::Duration;

use paceline_observe::{Gauges, ResourceUse, Sample, Sampler, columns};

use crate::error::RunFileError;
use crate::events::{EventWriter, Tag};
use crate::names::tags;
use crate::resource_table::ResourceTable;

/// Samples a task's resources into `resources.csv` and writes their curves.
#[derive(Debug)]
pub(crate) struct ResourceCurves {
    sampler: Sampler,
    /// One for each column.
    tags: Vec<Tag>,
    columns: Vec<String>,
}

impl ResourceCurves {
    /// Starts to sample at this interval, with the table in `dir` and the curves in this event
    /// file. `peers` are the other tasks that this one exchanges bytes with.
    pub(crate) fn start(
        dir: &Path,
        every: Duration,
        peers: &[String],
        events: &mut EventWriter,
    ) -> Result<Self, RunFileError> {
        let columns = columns(peers);
        let sampler = ResourceTable::create(dir, columns.clone()).and_then(|mut table| {
            Sampler::start(every, peers, move |sample: &Sample| table.write(sample))
        });
        let sampler = sampler.map_err(RunFileError::at("make the table of resources in", dir))?;
        let tags = columns.iter().map(|column| events.tag(&tags::resource(column))).collect();
        Ok(Self { sampler, tags, columns })
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

    /// Writes the samples since the last call.
    pub(crate) fn write(&self, events: &mut EventWriter) -> io::Result<()> {
        for sample in self.sampler.take() {
            for (tag, &figure) in self.tags.iter().zip(&sample.figures) {
                events.scalar_at(tag, sample.step, figure as f32, sample.time_s)?;
            }
        }
        Ok(())
    }

    /// Stops sampling and writes the remaining samples.
    pub(crate) fn finish(mut self, events: &mut EventWriter) -> io::Result<()> {
        self.sampler.stop();
        self.write(events)
    }

    /// What the task has used since [`begin`](Self::begin).
    pub(crate) fn usage(&self) -> ResourceUse {
        ResourceUse::of(&self.sampler.usage(), &self.columns)
    }
}
