//! What an evaluator does: it pulls the parameters periodically, and tests them. No task waits for
//! it, and it ends when the servers do.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use paceline_exchange::PeerRole;
use paceline_net::LinkOutcome::{Done, Rewound};
use paceline_observe::trace::{Op, PULL, SideTrack, Tracer};
use paceline_observe::{
    PeerTraffic, Recorder, RunPosition, TestRecord, TraceEvent, no_table, pause_after,
};

use crate::context::{NoteLevel, TaskContext};
use crate::error::{TrainError, record_failure};
use crate::link::Link;
use crate::server_link::ServerLink;
use crate::settings::{Mode, TrainSettings};
use crate::task_place::{ModelIdentity, TaskPlace};
use crate::test_watch::TestWatch;
use crate::workload::Workload;

/// How long the evaluator sleeps before it looks for new parameters.
const CHECK_EVERY: Duration = Duration::from_millis(50);

/// A task that tests the run's parameters.
pub struct EvaluatorTask<'a> {
    /// What all tasks of the run agree on.
    pub settings: &'a TrainSettings,
    /// The model and the data.
    pub workload: &'a Workload,
    /// The evaluator's place in the run.
    pub place: &'a TaskPlace,
    /// Its log, recorder and requests to stop.
    pub context: Arc<dyn TaskContext>,
}

/// Tests the run's parameters until the run is over.
pub fn run_evaluator(task: &EvaluatorTask<'_>) -> Result<(), TrainError> {
    let EvaluatorTask { settings, workload, place, context } = task;
    let model = workload.small_model()?;
    let mut recorder = context.recorder()?;
    let mut evaluator = workload.running_evaluator(settings.evaluate.examples, 1)?;
    let notify = |text: &str| context.waiting(Some(text));
    let mut watch = TestWatch::new(context.clone());
    let gives_up = || context.stop_signal().is_some();
    let identity = ModelIdentity { model: &*model, is_sparse: workload.is_sparse() };
    let config = place.connect_config(settings, PeerRole::Evaluator, identity);
    let mut link = ServerLink::connect(config, settings.mode, &notify, &gives_up)?;
    context.waiting(None);
    let note = |text: &str| context.note(NoteLevel::Info, text);
    let mut trace = EvaluatorTrace::new(settings, place.processes.len(), model.layout().len());
    let (start, every) = (Instant::now(), settings.evaluate.every);
    // The first step and the earliest time of the next test.
    let (mut next, mut pause) = (every.unwrap_or(1), start);
    let next_test = |step: u64| (step / every.unwrap_or(1) + 1) * every.unwrap_or(1);
    while context.stop_signal().is_none() {
        let step = link.global_step();
        trace.begin_step(step, &mut *recorder).map_err(record_failure)?;
        let traffic = |visit: &mut dyn FnMut(PeerTraffic)| link.for_each_peer(visit);
        let position = RunPosition { global_step: step, traffic: &traffic, table: &no_table };
        recorder.poll(&position).map_err(record_failure)?;
        if step >= next && Instant::now() >= pause {
            let test_start = Instant::now();
            let Done(params) = link.peek(evaluator.keys().as_deref())? else {
                link.rejoin()?;
                continue;
            };
            trace.record(EvaluatorOp::Pull);
            watch.begin();
            let score = match evaluator.test(params, &watch) {
                Err(TrainError::Interrupted(_)) => break,
                tested => tested?,
            };
            let steps_per_second = step as f64 / start.elapsed().as_secs_f64();
            let record = TestRecord { step, score: &score, steps_per_second };
            recorder.test(&record).map_err(record_failure)?;
            let (loss, accuracy) = (score.loss, 100.0 * score.accuracy);
            note(&format!("step {step}: test loss {loss:.4}, accuracy {accuracy:.2} %"));
            next = next_test(step);
            if every.is_none() {
                pause = Instant::now() + pause_after(test_start.elapsed());
            }
            trace.record(EvaluatorOp::Test);
        } else {
            thread::sleep(CHECK_EVERY);
            trace.record(EvaluatorOp::Idle);
        }
        let refreshed = match link.refresh() {
            Ok(Done(())) => Ok(()),
            Ok(Rewound) => link.rejoin(),
            Err(error) => Err(error),
        };
        if let Err(error) = refreshed {
            note(&format!("the servers are gone: {error}"));
            break;
        }
        trace.record(EvaluatorOp::Pull);
        // If the run was rewound, its steps come again.
        next = next.min(next_test(link.global_step()));
    }
    trace.finish(&mut *recorder).map_err(record_failure)?;
    recorder.finish(true).map_err(record_failure)
}

/// What an evaluator does, in the order of its timeline's operations.
#[derive(Clone, Copy)]
enum EvaluatorOp {
    Idle,
    Pull,
    Test,
}

/// An evaluator on the timeline. It hands its part over as soon as the recorded steps have passed:
/// at the end no task waits for it.
struct EvaluatorTrace {
    track: Option<SideTrack>,
    /// Global steps per step of a worker.
    stride: u64,
    last: Instant,
}

impl EvaluatorTrace {
    fn new(settings: &TrainSettings, workers: usize, params: usize) -> Self {
        let ops = vec![Op::new("idle", &[]), Op::new(PULL, &[params]), Op::new("test", &[])];
        let track = settings.trace.map(|window| Tracer::new(window).side_track("tests", ops));
        let stride = match settings.mode {
            Mode::Async | Mode::Bounded { .. } => workers.max(1) as u64,
            Mode::Single | Mode::Sync { .. } | Mode::Mirrored => 1,
        };
        Self { track, stride, last: Instant::now() }
    }

    /// The run has come to a global step.
    fn begin_step(&mut self, step: u64, recorder: &mut dyn Recorder) -> std::io::Result<()> {
        let step = step / self.stride;
        let Some(track) = &self.track else { return Ok(()) };
        let tracer = track.tracer();
        let (is_on, is_inside) = (tracer.is_on(), tracer.window().contains(step));
        if is_inside && !is_on {
            tracer.turn(true);
        }
        track.track().step = step;
        if is_on && !is_inside { self.finish(recorder) } else { Ok(()) }
    }

    /// Everything since the last call was this operation.
    fn record(&mut self, op: EvaluatorOp) {
        let start = std::mem::replace(&mut self.last, Instant::now());
        if let Some(track) = &self.track
            && track.tracer().is_on()
        {
            track.track().span(op as u32, start, self.last);
        }
    }

    /// Hands everything recorded to the recorder, if the evaluator is being recorded.
    fn finish(&mut self, recorder: &mut dyn Recorder) -> std::io::Result<()> {
        let Some(track) = &self.track else { return Ok(()) };
        let tracer = track.tracer();
        if !tracer.is_on() {
            return Ok(());
        }
        tracer.turn(false);
        tracer.with_tracks(None, |tracks| recorder.trace(TraceEvent::Complete(tracks)))
    }
}
