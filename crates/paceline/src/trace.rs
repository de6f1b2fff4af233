//! The timeline of a worker: which operations its loop is made of, and when they are recorded.

use std::sync::Arc;
use std::time::Instant;

use paceline_data::ReadWatch;
use paceline_model::{LayerShape, Model, Moment, Score};
use paceline_observe::trace::{APPLY, Op, Track};
pub use paceline_observe::trace::{SideTrack, Tracer};
use paceline_observe::{Phase, PhaseClock, Recorder, TraceEvent};

use crate::Failure;
use crate::job::Plan;
use crate::tester::Examiner;

/// The operations of a worker's loop. Its phases come first, as its clock has them.
const PHASES: u32 = Phase::ALL.len() as u32;
/// Applying gradients, where a worker does that itself.
pub const APPLY_OP: u32 = PHASES;
const TAKE_IN: u32 = PHASES + 1;
const LOSS: u32 = PHASES + 2;
/// Each layer's way forward and back.
const LAYERS: u32 = PHASES + 3;

/// A worker's loop as it is recorded.
#[derive(Debug)]
pub struct Following {
    tracer: Arc<Tracer>,
    /// Before the first step and after the last; in between the clock has it.
    track: Option<Box<Track>>,
}

impl Following {
    /// To record the loop of a worker that trains this model.
    pub fn new(tracer: Arc<Tracer>, name: &str, batch: usize, model: &dyn Model) -> Self {
        let params = model.layout().len();
        let track =
            Track::new(name, worker_ops(batch, model.inputs(), params, &model.layer_shapes()));
        Self { tracer, track: Some(Box::new(track)) }
    }

    /// The worker comes to a step. Says whether recording has begun or ended with it.
    #[cold]
    pub(crate) fn at_step(
        &mut self,
        step: u64,
        clock: &mut PhaseClock,
    ) -> Option<TraceEvent<'static>> {
        let is_in = self.tracer.window().contains(step);
        match (clock.track(), is_in) {
            (Some(track), true) => {
                track.step = step;
                None
            }
            (Some(_), false) => {
                self.end(clock);
                Some(TraceEvent::Stopped)
            }
            (None, true) => {
                let Some(mut track) = self.track.take() else { return None };
                track.step = step;
                self.tracer.turn(true);
                clock.follow(track);
                Some(TraceEvent::Started)
            }
            (None, false) => None,
        }
    }

    fn end(&mut self, clock: &mut PhaseClock) {
        if clock.track().is_some() {
            self.track = clock.unfollow();
            self.tracer.turn(false);
        }
    }

    /// Hands what was recorded to a recorder; says whether anything was.
    pub(crate) fn leave(
        &mut self,
        clock: &mut PhaseClock,
        recorder: &mut impl Recorder,
    ) -> Result<bool, Failure> {
        self.end(clock);
        let own = self.track.as_deref();
        self.tracer.with_tracks(own, |tracks| {
            if tracks.iter().all(|track| track.is_empty()) {
                return Ok(false);
            }
            let left = recorder.trace(TraceEvent::Complete(tracks));
            left.map(|()| true).map_err(Failure::recording)
        })
    }
}

/// What a worker's loop is made of.
fn worker_ops(batch: usize, inputs: usize, params: usize, layers: &[LayerShape]) -> Vec<Op> {
    let phase = |phase: Phase| match phase {
        Phase::Input => Op::new(phase.name(), &[batch, inputs]),
        Phase::Pull | Phase::Push => Op::new(phase.name(), &[params]),
        Phase::Compute | Phase::Wait => Op::new(phase.name(), &[]),
    };
    let others = [Op::new(APPLY, &[params]), Op::new("take in", &[inputs]), Op::new("loss", &[1])];
    let layer = |layer: &LayerShape| {
        let back = format!("{} back", layer.name);
        [Op::new(&*layer.name, &layer.output), Op::new(back, &layer.output)]
    };
    let phases = Phase::ALL.into_iter().map(phase);
    phases.chain(others).chain(layers.iter().flat_map(layer)).collect()
}

/// Writes down what a model has just done.
pub(crate) fn note_moment(track: &mut Track, moment: &Moment<'_>) {
    let op = match moment {
        Moment::Input => TAKE_IN,
        Moment::Forward { layer } => LAYERS + 2 * *layer as u32,
        Moment::Loss => LOSS,
        Moment::Backward { layer } => LAYERS + 2 * *layer as u32 + 1,
        Moment::Final { .. } => return,
    };
    track.next_of_row(op);
}

/// Watches examples being read ahead, if the task is to be recorded.
pub(crate) fn read_watch(tracer: Option<&Arc<Tracer>>, plan: &Plan) -> Option<ReadWatch> {
    let side = tracer?.side_track("reader", vec![Op::new("read", &[plan.batch])]);
    Some(Arc::new(move |step, begun, ended| side.record(step, begun, ended)))
}

/// An examiner whose tests are recorded.
pub(crate) struct Recorded<'a> {
    examiner: Box<dyn Examiner + 'a>,
    side: SideTrack,
}

/// The examiner, with its tests recorded if the task is to be.
pub(crate) fn recorded<'a>(
    tracer: Option<&Arc<Tracer>>,
    examiner: Box<dyn Examiner + 'a>,
) -> Box<dyn Examiner + 'a> {
    match tracer {
        None => examiner,
        Some(tracer) => {
            let side = tracer.side_track("tests", vec![Op::new("test", &[])]);
            Box::new(Recorded { examiner, side })
        }
    }
}

impl Examiner for Recorded<'_> {
    fn keys(&self) -> Option<Arc<[u32]>> {
        self.examiner.keys()
    }

    fn test(&mut self, params: &[f32]) -> Result<Score, Failure> {
        let begun = Instant::now();
        let score = self.examiner.test(params);
        self.side.record(0, begun, Instant::now());
        score
    }
}
