//! The way in for programs: a model and data, trained in this process.

use std::path::Path;
use std::sync::{Arc, Mutex};

use paceline_data::{OnBad, SparseRows, TrainTest};
use paceline_model::{Layout, Model, OpNode, OptimizerSpec, Sgd, SparseModel};
use paceline_observe::{Recorder, Summary};

use crate::checkpoint::{CheckpointDir, ResumePoint};
use crate::context::{ContextFactory, TaskContext};
use crate::error::TrainError;
use crate::session_run::{SessionRun, lock};
use crate::settings::{
    CheckpointSettings, EvaluateSettings, Mode, OnWorkerLoss, Stop, TestHooks, Timeouts,
    TrainSettings,
};
use crate::sharing::Sharing;
use crate::training_task::Threads;
use crate::workload::{ModelSizing, ModelSource, Shuffle, TrainingData, Workload};

/// Trains a model on data, in this process.
///
/// Without sharing, the calling thread trains. With servers or a mesh, every worker and server is a
/// thread, and they exchange gradients over loopback sockets, with the protocol of separate
/// processes.
///
/// ```
/// use paceline_data::Digits;
/// use paceline_engine::{Session, Sharing, Stop};
/// use paceline_model::{Sgd, Softmax};
///
/// let report = Session::new(Softmax::new(784, 10), Digits::generate(600, 1))
///     .optimizer(Sgd::new(0.1))
///     .batch(30)
///     .stop(Stop::epochs(3).or(Stop::test_loss(0.2)))
///     .share(Sharing::servers(1).workers(2))
///     .run()?;
/// assert!(report.accuracy > 0.5);
/// # Ok::<(), paceline_engine::TrainError>(())
/// ```
pub struct Session {
    name: String,
    workload: Workload,
    settings: TrainSettings,
    sharing: Sharing,
    threads: Threads,
    contexts: Box<ContextFactory>,
    checkpoints: Option<CheckpointDir>,
    resumes: bool,
}

impl Session {
    /// Trains `model` on dense examples: SGD with rate 0.01, batches of 32, five epochs, one
    /// worker.
    ///
    /// Every worker and every test has a clone of the model, because a model holds scratch memory.
    pub fn new<M>(model: M, data: impl Into<TrainingData>) -> Self
    where
        M: Model + Clone + Sync + 'static,
    {
        let build = Arc::new(move |_| Ok(Box::new(model.clone()) as Box<dyn Model>));
        let model = ModelSource::Dense { build, build_for_patches: None };
        Self::with_workload(model, data.into(), Shuffle::Full)
    }

    /// Trains the models that `build` returns, with the defaults of [`Session::new`]: for models
    /// that cannot be cloned, such as networks with threads.
    pub fn with_builder(
        build: impl Fn(ModelSizing) -> Result<Box<dyn Model>, TrainError> + Send + Sync + 'static,
        data: impl Into<TrainingData>,
    ) -> Self {
        let model = ModelSource::Dense { build: Arc::new(build), build_for_patches: None };
        Self::with_workload(model, data.into(), Shuffle::Full)
    }

    /// Trains a sparse model on rows, with the defaults of [`Session::new`].
    pub fn sparse<M>(model: M, rows: TrainTest<SparseRows>) -> Self
    where
        M: SparseModel + Clone + Sync + 'static,
    {
        let build = Arc::new(move || Box::new(model.clone()) as Box<dyn SparseModel>);
        let data = TrainingData::Rows(Arc::new(rows));
        Self::with_workload(ModelSource::Sparse(build), data, Shuffle::Full)
    }

    fn with_workload(model: ModelSource, data: TrainingData, shuffle: Shuffle) -> Self {
        let workload = Workload { model, data, shuffle, on_bad: OnBad::Fail };
        Self {
            name: "session".into(),
            workload,
            settings: default_settings(),
            sharing: Sharing::none(),
            threads: Threads::Fixed(1),
            contexts: Box::new(|_| Ok(Arc::new(()))),
            checkpoints: None,
            resumes: false,
        }
    }

    /// Names the run.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Turns gradients into updates with this optimizer.
    #[must_use]
    pub fn optimizer(mut self, optimizer: impl Into<OptimizerSpec>) -> Self {
        self.settings.optimizer = optimizer.into();
        self
    }

    /// Examples per worker and step.
    #[must_use]
    pub fn batch(mut self, batch: usize) -> Self {
        self.settings.batch = batch;
        self
    }

    /// Draws every random choice from this seed. Equal seeds give equal bits in `single`, `sync`
    /// and `mirrored`.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = seed;
        self
    }

    /// Ends the run when this condition is met.
    #[must_use]
    pub fn stop(mut self, stop: Stop) -> Self {
        self.settings.stop = stop;
        self
    }

    /// Shares the parameters between workers in this way.
    #[must_use]
    pub fn share(mut self, sharing: Sharing) -> Self {
        self.sharing = sharing;
        self
    }

    /// Tests the model every `steps` global steps; about once per epoch by default.
    #[must_use]
    pub fn test_every(mut self, steps: u64) -> Self {
        self.settings.evaluate.every = steps;
        self
    }

    /// Reads the examples in this order; in a new random order every epoch by default.
    #[must_use]
    pub fn shuffle(mut self, shuffle: Shuffle) -> Self {
        self.workload.shuffle = shuffle;
        self
    }

    /// Threads that share a sparse model's table without locks in `single`; 1 by default.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Threads::Fixed(threads.max(1));
        self
    }

    /// Keeps checkpoints in the directory `dir`.
    #[must_use]
    pub fn checkpoints(mut self, dir: &Path, settings: CheckpointSettings) -> Self {
        self.settings.checkpoint = Some(settings);
        self.checkpoints = Some(CheckpointDir::new(dir));
        self
    }

    /// Resumes from the newest checkpoint, if [`checkpoints`](Session::checkpoints) finds one.
    #[must_use]
    pub fn resume(mut self) -> Self {
        self.resumes = true;
        self
    }

    /// Reports the steps and tests of worker 0 to `recorder`.
    #[must_use]
    pub fn recorder(self, recorder: impl Recorder + Send + 'static) -> Self {
        let recorder: Box<dyn Recorder + Send> = Box::new(recorder);
        let recorder = Arc::new(Mutex::new(Some(recorder)));
        self.contexts(move |task| {
            let is_first = task == "worker:0";
            let recorder = if is_first { recorder.clone() } else { Arc::default() };
            Ok(Arc::new(RecorderContext { recorder }))
        })
    }

    /// Gives every task a context of its own: its log, its recorders, and where results are kept.
    #[must_use]
    pub fn contexts(
        mut self,
        contexts: impl Fn(&str) -> Result<Arc<dyn TaskContext>, TrainError> + Send + Sync + 'static,
    ) -> Self {
        self.contexts = Box::new(contexts);
        self
    }

    /// The model's operations, for a graph.
    pub fn graph(&self) -> Result<Vec<OpNode>, TrainError> {
        Ok(self.workload.small_model()?.graph())
    }

    /// Trains until a stop condition is met.
    ///
    /// # Errors
    /// If a setting cannot be used, an example cannot be read, training diverges, or a recorder
    /// fails. An error of one task ends all of them.
    pub fn run(mut self) -> Result<SessionReport, TrainError> {
        self.check()?;
        self.settings.mode = self.sharing.mode;
        let trained = Arc::new(Mutex::new(Vec::new()));
        let slots = if self.sharing.mode == Mode::Single && self.workload.is_sparse() {
            self.threads.per_loop(1)
        } else {
            self.sharing.workers
        };
        if self.settings.evaluate.every == 0 {
            let examples = self.settings.examples_per_step(slots).max(1);
            let every = self.workload.data.train_len().div_ceil(examples);
            self.settings.evaluate.every = every.max(1) as u64;
        }
        let from = self.resume_point(slots)?;
        let report = SessionRun {
            name: &self.name,
            workload: &self.workload,
            settings: &self.settings,
            sharing: self.sharing,
            slots,
            contexts: &*self.contexts,
            checkpoints: self.checkpoints.as_ref(),
            from: from.as_ref(),
            trained: &trained,
        }
        .run()?;
        let params = std::mem::take(&mut *lock(&trained));
        Ok(SessionReport {
            accuracy: report.accuracy(),
            test_loss: report.test_loss(),
            steps: report.steps(),
            verdict: report.verdict().to_owned(),
            layout: self.workload.layout()?,
            params,
            summary: report.summary,
        })
    }

    fn check(&self) -> Result<(), TrainError> {
        let wrong = |text: String| Err(TrainError::Settings(text));
        let (batch, examples) = (self.settings.batch, self.workload.data.train_len());
        if let Some(problem) = self.sharing.problem() {
            return wrong(format!("{}: {problem}", self.sharing));
        }
        if batch == 0 || batch > examples {
            return wrong(format!("a batch of {batch} examples; there are {examples} to train on"));
        }
        if self.settings.stop == Stop::default() {
            return wrong(
                "the run never stops: set Stop::epochs, steps, seconds or test_loss".into(),
            );
        }
        Ok(())
    }

    fn resume_point(&self, slots: usize) -> Result<Option<ResumePoint>, TrainError> {
        let Some(dir) = self.checkpoints.as_ref().filter(|_| self.resumes) else {
            return Ok(None);
        };
        if dir.steps().is_empty() {
            return Ok(None);
        }
        let steps = self.settings.step_layout(slots);
        Ok(Some(ResumePoint::new(dir.newest(&mut |_| {})?, steps)))
    }
}

fn default_settings() -> TrainSettings {
    TrainSettings {
        seed: 1,
        batch: 32,
        optimizer: Sgd::new(0.01),
        mode: Mode::Single,
        stop: Stop::epochs(5),
        evaluate: EvaluateSettings { every: 0, examples: None },
        checkpoint: None,
        on_worker_loss: OnWorkerLoss::Fail,
        waits_for_servers: false,
        timeouts: Timeouts::default(),
        trace: None,
        job_digest: [0; 32],
        test_hooks: TestHooks::default(),
    }
}

/// What a session came to.
#[derive(Clone, Debug)]
pub struct SessionReport {
    /// The share of test examples that the final parameters classify correctly, from 0 to 1.
    pub accuracy: f64,
    /// The mean loss of the final parameters on the test examples.
    pub test_loss: f64,
    /// Updates made to the parameters.
    pub steps: u64,
    /// What held the run back, in words.
    pub verdict: String,
    /// Names and shapes of the parameters.
    pub layout: Layout,
    /// The final parameters.
    pub params: Vec<f32>,
    /// The whole run in numbers.
    pub summary: Summary,
}

/// The context of a task that reports to a recorder.
struct RecorderContext {
    recorder: Arc<Mutex<Option<Box<dyn Recorder + Send>>>>,
}

impl TaskContext for RecorderContext {
    fn recorder(&self) -> Result<Box<dyn Recorder + Send>, TrainError> {
        Ok(lock(&self.recorder).take().unwrap_or_else(|| Box::new(())))
    }
}
