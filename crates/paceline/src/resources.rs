//! A task's resources, as its event file and its summary have them.

use std::path::Path;

use paceline_observe::{COLUMNS, EventWriter, Sampler, Tag, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Failure;
use crate::job::Plan;

/// Looks at a task's resources, and draws their curves.
pub struct Curves {
    sampler: Sampler,
    /// One for each column.
    tags: Vec<Tag>,
}

impl Curves {
    /// Starts to look, if the plan wants it, with the table in `dir` and the curves in this
    /// event file.
    pub fn start(
        dir: &Path,
        plan: &Plan,
        events: &mut EventWriter,
    ) -> Result<Option<Self>, Failure> {
        let Some(every) = plan.observe_sample else { return Ok(None) };
        let sampler = Sampler::start(dir, every)
            .map_err(Failure::at("make the table of resources in", dir))?;
        let tags =
            COLUMNS.iter().map(|column| events.tag(&format!("resources/{column}"))).collect();
        Ok(Some(Self { sampler, tags }))
    }

    /// What counts begins now.
    pub fn begin(&self) {
        self.sampler.begin();
    }

    /// Takes note of the global step and the bytes sent and received; says whether there is
    /// something new to be drawn.
    #[inline]
    pub fn note(&self, step: u64, (sent_bytes, received_bytes): (u64, u64)) -> bool {
        self.sampler.gauges().set(step, sent_bytes, received_bytes);
        self.sampler.has_news()
    }

    /// Draws what has been seen since the last call.
    pub fn write(&self, events: &mut EventWriter) -> std::io::Result<()> {
        for sample in self.sampler.take() {
            for (tag, figure) in self.tags.iter().zip(sample.figures) {
                events.scalar_at(tag, sample.step, figure as f32, sample.time_s)?;
            }
        }
        Ok(())
    }

    /// Looks no more, and draws the rest.
    pub fn finish(mut self, events: &mut EventWriter) -> std::io::Result<()> {
        self.sampler.stop();
        self.write(events)
    }

    /// What has been used, up to now.
    pub fn usage(&self) -> ResourceUse {
        ResourceUse::of(&self.sampler.usage())
    }
}

/// What a task and its machine used while it trained.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct ResourceUse {
    /// How often was looked.
    pub samples: u64,
    /// How many cores' time the task might have used: the machine's, or its container's.
    pub cores: f64,
    /// The mean of each column of `resources.csv`.
    pub mean: Map<String, Value>,
    /// The greatest figure of each.
    pub peak: Map<String, Value>,
}

impl ResourceUse {
    fn of(usage: &Usage) -> Self {
        let named = |figures: [f64; COLUMNS.len()]| {
            let rounded = figures.map(|figure| (figure * 10.0).round() / 10.0);
            COLUMNS
                .iter()
                .zip(rounded)
                .map(|(name, figure)| ((*name).into(), figure.into()))
                .collect()
        };
        Self {
            samples: usage.samples,
            cores: usage.cores,
            mean: named(usage.means()),
            peak: named(usage.peaks()),
        }
    }

    /// The mean of a column.
    pub fn mean_of(&self, column: &str) -> Option<f64> {
        self.mean.get(column)?.as_f64()
    }
}
