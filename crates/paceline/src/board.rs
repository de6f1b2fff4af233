//! What a worker tells TensorBoard, and what its folder tells of the resources it used.

use std::path::{Path, PathBuf};
use std::time::Duration;

use paceline_model::{OpNode, Score};
use paceline_observe::{EventWriter, GraphNode, HParam, PhaseClock, Sample, SessionStatus, Tag};

use crate::Failure;
use crate::job::Plan;
use crate::link::Link;
use crate::pulse::{Pulse, SoFar};
use crate::resources::{Curves, ResourceUse};

/// The event file of one worker, in that worker's own folder.
pub struct Board {
    dir: PathBuf,
    events: EventWriter,
    every: u64,
    /// Steps of this worker so far.
    steps: u64,
    train_loss: Tag,
    test_loss: Tag,
    test_accuracy: Tag,
    test_auc: Tag,
    test_precision: Tag,
    steps_per_second: Tag,
    resources: Option<Curves>,
    pulse: Pulse,
    is_pulse_due: bool,
}

impl Board {
    /// Starts an event file in `dir`, and to look at resources, among them the bytes that go to
    /// and come from these other tasks.
    pub fn create(dir: &Path, plan: &Plan, peers: &[String]) -> Result<Self, Failure> {
        let mut events =
            EventWriter::create(dir).map_err(Failure::at("make an event file in", dir))?;
        let [train_loss, test_loss, test_accuracy, test_auc, test_precision, steps_per_second] = [
            "train/loss",
            "test/loss",
            "test/accuracy",
            "test/auc",
            "test/precision",
            "speed/steps_per_second",
        ]
        .map(|name| events.tag(name));
        let resources = Curves::start(dir, plan, peers, &mut events)?;
        let pulse = Pulse::new(&mut events);
        Ok(Self {
            dir: dir.to_owned(),
            events,
            every: plan.observe_every,
            steps: 0,
            train_loss,
            test_loss,
            test_accuracy,
            test_auc,
            test_precision,
            steps_per_second,
            resources,
            pulse,
            is_pulse_due: false,
        })
    }

    /// Training begins: what was used before does not count.
    pub fn begin(&self) {
        if let Some(resources) = &self.resources {
            resources.begin();
        }
    }

    /// A timeline begins or ends.
    pub fn keep(&self) {
        self.resources.iter().for_each(Curves::keep);
    }

    /// What was seen of the resources while the timeline was recorded.
    pub fn kept(&self) -> Vec<Sample> {
        self.resources.as_ref().map(Curves::kept).unwrap_or_default()
    }

    /// Means and peaks of the resources used since training began, if they are looked at.
    pub fn resources(&self) -> Option<ResourceUse> {
        self.resources.as_ref().map(Curves::usage)
    }

    /// Takes note of how far the run has come and how many bytes this task has sent and
    /// received, and records what was seen of its resources since the last call.
    #[inline]
    pub fn note(&mut self, link: &impl Link) -> Result<(), Failure> {
        let Some(resources) = &self.resources else { return Ok(()) };
        let gauges = resources.gauges();
        gauges.at_step(link.global_step());
        link.moved_by_peer(|peer, sent, received| gauges.moved(peer, sent, received));
        if !resources.has_news() {
            return Ok(());
        }
        self.is_pulse_due = true;
        let written = resources.write(&mut self.events);
        self.check(written)
    }

    /// Records where the worker's time has gone since the last call, if its resources have been
    /// looked at since then.
    #[inline]
    pub fn pulse(
        &mut self,
        step: u64,
        clock: &PhaseClock,
        tested: Duration,
    ) -> Result<(), Failure> {
        if !std::mem::take(&mut self.is_pulse_due) {
            return Ok(());
        }
        let so_far = SoFar { phases: clock.totals(), tested, steps: self.steps };
        let written = self.pulse.write(&mut self.events, step, so_far);
        self.check(written)
    }

    /// Records what is trained: the model as a graph and the plan's hyper-parameters.
    pub fn describe(&mut self, plan: &Plan, graph: &[OpNode]) -> Result<(), Failure> {
        let nodes: Vec<_> = graph
            .iter()
            .map(|node| GraphNode {
                name: node.name.clone(),
                op: node.op.to_owned(),
                inputs: node.inputs.clone(),
                shape: node.shape.clone(),
            })
            .collect();
        let written = self.events.graph(&nodes).and_then(|()| {
            self.events.hparams_start(&[
                HParam::new("model", plan.model.name()),
                HParam::new("data", plan.data.kind.name()),
                HParam::new("mode", plan.cluster.mode.name()),
                HParam::new("batch", plan.batch as i64),
                HParam::new("rate", f64::from(plan.optimizer.weights.rate.at(0))),
                HParam::new("optimizer", plan.optimizer.optimizer().name()),
                HParam::new("seed", plan.seed as i64),
            ])
        });
        let written = written.and_then(|()| self.events.flush());
        self.check(written)
    }

    /// The run goes on from a checkpoint of this step: what was recorded beyond it is void.
    pub fn resume_at(&mut self, step: u64) -> Result<(), Failure> {
        let written = self.events.session_start(step).and_then(|()| self.events.flush());
        self.check(written)
    }

    /// Records the loss of a batch with the parameters of a global step, if it is its turn:
    /// the first, and then every n-th.
    #[inline]
    pub fn step(&mut self, step: u64, loss: f32) -> Result<(), Failure> {
        let turn = self.steps.is_multiple_of(self.every);
        self.steps += 1;
        if !turn {
            return Ok(());
        }
        let written = self.events.scalar(&self.train_loss, step, loss);
        self.check(written)
    }

    /// Records a test, and the speed up to it.
    pub fn test(&mut self, step: u64, score: &Score, steps_per_second: f64) -> Result<(), Failure> {
        let figures = [
            (&self.test_loss, Some(score.loss)),
            (&self.test_accuracy, Some(score.accuracy)),
            (&self.test_auc, score.auc),
            (&self.test_precision, score.precision),
            (&self.steps_per_second, Some(steps_per_second)),
        ];
        let written = figures.into_iter().try_for_each(|(tag, figure)| match figure {
            Some(figure) => self.events.scalar(tag, step, figure as f32),
            None => Ok(()),
        });
        self.check(written)
    }

    /// Records how the run ended, and sees to it that everything is written.
    pub fn finish(&mut self, success: bool) -> Result<(), Failure> {
        if let Some(resources) = self.resources.take() {
            let written = resources.finish(&mut self.events);
            self.check(written)?;
        }
        let status = if success { SessionStatus::Success } else { SessionStatus::Failure };
        let written = self.events.hparams_end(status).and_then(|()| self.events.flush());
        self.check(written)
    }

    fn check(&self, written: std::io::Result<()>) -> Result<(), Failure> {
        written.map_err(Failure::at("write the event file in", &self.dir))
    }
}
