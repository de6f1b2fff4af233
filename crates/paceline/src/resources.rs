//! A task's resources, as its event file and its summary have them.

use std::path::Path;

use paceline_observe::machine::link_mbit_per_s;
use paceline_observe::{EventWriter, Gauges, Sample, Sampler, Tag, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Failure;
use crate::job::Plan;

/// Looks at a task's resources, and draws their curves.
pub struct Curves {
    sampler: Sampler,
    /// One for each column.
    tags: Vec<Tag>,
    columns: Vec<String>,
}

impl Curves {
    /// Starts to look, if the plan wants it, with the table in `dir` and the curves in this
    /// event file. `peers` are the other tasks that bytes go to and come from.
    pub fn start(
        dir: &Path,
        plan: &Plan,
        peers: &[String],
        events: &mut EventWriter,
    ) -> Result<Option<Self>, Failure> {
        let Some(every) = plan.observe_sample else { return Ok(None) };
        let sampler = Sampler::start(dir, every, peers)
            .map_err(Failure::at("make the table of resources in", dir))?;
        let columns = sampler.columns();
        let tags =
            columns.iter().map(|column| events.tag(&format!("resources/{column}"))).collect();
        Ok(Some(Self { sampler, tags, columns }))
    }

    /// What counts begins now.
    pub fn begin(&self) {
        self.sampler.begin();
    }

    /// Where the global step is told, and the bytes that went to and came from each peer.
    #[inline]
    pub fn gauges(&self) -> &Gauges {
        self.sampler.gauges()
    }

    /// Whether there is something new to be drawn.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.sampler.has_news()
    }

    /// A timeline begins or ends.
    pub fn keep(&self) {
        self.sampler.keep();
    }

    /// What was seen while the timeline was recorded.
    pub fn kept(&self) -> Vec<Sample> {
        self.sampler.kept()
    }

    /// Draws what has been seen since the last call.
    pub fn write(&self, events: &mut EventWriter) -> std::io::Result<()> {
        for sample in self.sampler.take() {
            for (tag, &figure) in self.tags.iter().zip(&sample.figures) {
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
        ResourceUse::of(&self.sampler.usage(), &self.columns)
    }
}

/// What a task and its machine used while it trained.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct ResourceUse {
    /// How often was looked.
    pub samples: u64,
    /// How many cores' time the task might have used: the machine's, or its container's.
    pub cores: f64,
    /// What the fastest network link of its machine carries, in millions of bits a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_mbit_per_s: Option<f64>,
    /// The mean of each column of `resources.csv`.
    pub mean: Map<String, Value>,
    /// The greatest figure of each.
    pub peak: Map<String, Value>,
}

impl ResourceUse {
    fn of(usage: &Usage, columns: &[String]) -> Self {
        let named = |figures: &[f64]| {
            let rounded = figures.iter().map(|figure| (figure * 10.0).round() / 10.0);
            columns
                .iter()
                .zip(rounded)
                .map(|(name, figure)| (name.clone(), figure.into()))
                .collect()
        };
        Self {
            samples: usage.samples,
            cores: usage.cores,
            link_mbit_per_s: link_mbit_per_s("/".as_ref()),
            mean: named(&usage.means()),
            peak: named(usage.peaks()),
        }
    }

    /// The mean of a column.
    pub fn mean_of(&self, column: &str) -> Option<f64> {
        self.mean.get(column)?.as_f64()
    }
}
