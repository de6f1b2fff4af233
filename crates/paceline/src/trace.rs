//! The timeline of a task: which steps it is of, who writes into it, and how the chief makes one
//! file of everybody's.
//!
//! Each task leaves its part in its own folder when it leaves the run; servers do when they are
//! asked for their report. So when the chief has all reports, all parts lie in the run directory,
//! if that is one that all tasks share. What is missing is named, and can be copied there and put
//! together later (`paceline trace merge`).

use std::fs;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use paceline_data::ReadObserver;
use paceline_model::{LayerShape, Model, Score, StepEvent};
use paceline_observe::trace::{APPLY, Merged, Op, Part, Track, Window};
use paceline_observe::{Phase, PhaseClock, Sample};

use crate::Failure;
use crate::job::Plan;
use crate::run::write_whole;
use crate::tester::Examiner;

/// The file that all parts become.
pub const FILE: &str = "trace.json";

/// The operations of a worker's loop. Its phases come first, as its clock has them.
const PHASES: u32 = Phase::ALL.len() as u32;
/// Applying gradients, where a worker does that itself.
pub const APPLY_OP: u32 = PHASES;
const TAKE_IN: u32 = PHASES + 1;
const LOSS: u32 = PHASES + 2;
/// Each layer's way forward and back.
const LAYERS: u32 = PHASES + 3;

/// Records a task, if its job wants a timeline.
#[derive(Debug)]
pub struct Tracer {
    window: Window,
    is_on: AtomicBool,
    /// It has been on since somebody last asked.
    was_on: AtomicBool,
    /// What threads beside the worker's loop do.
    sides: Mutex<Vec<Arc<Mutex<Track>>>>,
}

impl Tracer {
    /// For a plan that wants a timeline.
    pub fn of(plan: &Plan) -> Option<Arc<Self>> {
        let new = |window| Self {
            window,
            is_on: AtomicBool::new(false),
            was_on: AtomicBool::new(false),
            sides: Mutex::default(),
        };
        plan.observe_trace.map(|window| Arc::new(new(window)))
    }

    /// The steps that it is of.
    pub fn window(&self) -> Window {
        self.window
    }

    /// Whether the task is at one of them.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    pub(crate) fn turn(&self, on: bool) {
        self.is_on.store(on, Ordering::Relaxed);
        self.was_on.fetch_or(on, Ordering::Relaxed);
    }

    /// Whether the task was at one of them since this was last asked.
    pub(crate) fn was_on(&self) -> bool {
        self.was_on.swap(self.is_on(), Ordering::Relaxed)
    }

    /// A track for a thread beside the worker's loop.
    pub fn side(self: &Arc<Self>, name: &str, ops: Vec<Op>) -> Side {
        let track = Arc::new(Mutex::new(Track::new(name, ops)));
        lock(&self.sides).push(track.clone());
        Side { tracer: self.clone(), track }
    }

    /// What the task has recorded; `own` is the track of its loop.
    pub fn part(
        &self,
        task: &str,
        peers: Vec<String>,
        own: Option<&Track>,
        samples: &[Sample],
    ) -> Part {
        let sides = lock(&self.sides);
        let sides: Vec<_> = sides.iter().map(|side| lock(side)).collect();
        let tracks: Vec<_> = own.into_iter().chain(sides.iter().map(|side| &**side)).collect();
        Part::new(task, peers, &tracks, samples)
    }
}

/// The track of a thread beside the worker's loop.
#[derive(Clone, Debug)]
pub struct Side {
    tracer: Arc<Tracer>,
    track: Arc<Mutex<Track>>,
}

impl Side {
    /// The track, whatever the step is.
    pub(crate) fn track(&self) -> MutexGuard<'_, Track> {
        lock(&self.track)
    }

    /// Who it belongs to.
    pub(crate) fn tracer(&self) -> &Tracer {
        &self.tracer
    }

    /// Its one operation went on from `begun` to `ended`; counts if the task is being recorded.
    pub fn did(&self, step: u64, begun: Instant, ended: Instant) {
        if self.tracer.is_on() {
            let mut track = self.track();
            track.step = step;
            track.span(0, begun, ended);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

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
    pub(crate) fn at_step(&mut self, step: u64, clock: &mut PhaseClock) -> bool {
        let is_in = self.tracer.window.contains(step);
        match (clock.track(), is_in) {
            (Some(track), true) => {
                track.step = step;
                false
            }
            (Some(_), false) => {
                self.end(clock);
                true
            }
            (None, true) => {
                let Some(mut track) = self.track.take() else { return false };
                track.step = step;
                self.tracer.turn(true);
                clock.follow(track);
                true
            }
            (None, false) => false,
        }
    }

    fn end(&mut self, clock: &mut PhaseClock) {
        if clock.track().is_some() {
            self.track = clock.unfollow();
            self.tracer.turn(false);
        }
    }

    /// Leaves what was recorded in the task's folder; says whether anything was.
    pub(crate) fn leave(
        &mut self,
        clock: &mut PhaseClock,
        (task, peers, folder): (&str, Vec<String>, &Path),
        samples: &[Sample],
    ) -> Result<bool, Failure> {
        self.end(clock);
        let part = self.tracer.part(task, peers, self.track.as_deref(), samples);
        if part.is_empty() {
            return Ok(false);
        }
        part.write(folder).map_err(Failure::at("write the part of the timeline in", folder))?;
        Ok(true)
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
pub(crate) fn record_step_event(track: &mut Track, moment: &StepEvent<'_>) {
    let op = match moment {
        StepEvent::Input => TAKE_IN,
        StepEvent::Forward { layer } => LAYERS + 2 * *layer as u32,
        StepEvent::Loss => LOSS,
        StepEvent::Backward { layer } => LAYERS + 2 * *layer as u32 + 1,
        StepEvent::Final { .. } => return,
    };
    track.next_of_row(op);
}

/// Watches examples being read ahead, if the task is to be recorded.
pub(crate) fn read_watch(tracer: Option<&Arc<Tracer>>, plan: &Plan) -> Option<ReadObserver> {
    let side = tracer?.side("reader", vec![Op::new("read", &[plan.batch])]);
    Some(Arc::new(move |step, begun, ended| side.did(step, begun, ended)))
}

/// An examiner whose tests are recorded.
pub(crate) struct Recorded<'a> {
    examiner: Box<dyn Examiner + 'a>,
    side: Side,
}

/// The examiner, with its tests recorded if the task is to be.
pub(crate) fn recorded<'a>(
    tracer: Option<&Arc<Tracer>>,
    examiner: Box<dyn Examiner + 'a>,
) -> Box<dyn Examiner + 'a> {
    match tracer {
        None => examiner,
        Some(tracer) => {
            let side = tracer.side("tests", vec![Op::new("test", &[])]);
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
        self.side.did(0, begun, Instant::now());
        score
    }
}

/// What came of putting parts together.
#[derive(Debug, PartialEq, Eq)]
pub struct Put {
    /// The tasks whose parts are in the file.
    pub tasks: Vec<String>,
    /// Those whose parts are not here.
    pub missing: Vec<String>,
    /// Spans and marks for which tasks had no room.
    pub lost: u64,
}

/// Puts the parts of these tasks, the chief's first, together to `trace.json`.
pub fn merge(run: &Path, tasks: &[String]) -> Result<Put, Failure> {
    let (mut parts, mut missing) = (Vec::new(), Vec::new());
    for task in tasks {
        let folder = run.join(task.replace(':', "_"));
        let part = Part::read_last(&folder)
            .map_err(Failure::at("read the part of the timeline in", &folder))?;
        match part {
            Some(part) => parts.push(part),
            None => missing.push(task.clone()),
        }
    }
    for folder in evaluators(run) {
        let part = Part::read_last(&folder);
        parts.extend(part.map_err(Failure::at("read the part of the timeline in", &folder))?);
    }
    let merged = Merged::of(parts);
    let put = Put {
        tasks: merged.parts().iter().map(|part| part.task.clone()).collect(),
        lost: merged.parts().iter().flat_map(|part| &part.threads).map(|thread| thread.lost).sum(),
        missing,
    };
    if !put.tasks.is_empty() {
        write_whole(&run.join(FILE), |temporary| {
            let mut out = BufWriter::new(fs::File::create(temporary)?);
            merged.write(&mut out, &put.missing)?;
            std::io::Write::flush(&mut out)
        })?;
    }
    Ok(put)
}

/// The folders of evaluators. They take no part in a run and are in nobody's list, and none is
/// missed that has left nothing.
fn evaluators(run: &Path) -> impl Iterator<Item = PathBuf> {
    let folder = |number: u32| run.join(format!("evaluator_{number}"));
    (0..).map(folder).take_while(|folder| folder.is_dir())
}

impl Put {
    /// What there is to warn of, in a line each.
    pub fn warnings(&self, run: &Path) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.missing.is_empty() {
            warnings.push(format!(
                "{FILE} has nothing of {}: if they recorded on other machines, copy their \
                 trace-part.json into this run and do `paceline trace merge {}`",
                self.missing.join(", "),
                run.display()
            ));
        }
        if self.lost > 0 {
            warnings.push(format!("{FILE}: there was no room for {} spans", self.lost));
        }
        warnings
    }
}

/// At the end of a run that was to have a timeline: makes it, and says what there is to say. A run
/// that went well does not fail for it.
pub(crate) fn conclude(
    run: &Path,
    window: Window,
    has_part: bool,
    tasks: &[String],
) -> Vec<String> {
    if !has_part {
        return vec![format!(
            "there is no {FILE}: the run ended before step {}, where observe.trace begins",
            window.from
        )];
    }
    match merge(run, tasks) {
        Ok(put) => put.warnings(run),
        Err(failure) => vec![format!("there is no {FILE}: {failure}")],
    }
}
