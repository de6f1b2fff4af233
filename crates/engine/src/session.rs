//! The library's entry point: a model and data, trained in this process.

use std::path::Path;
use std::sync::{Arc, Mutex};

use paceline_data::{OnBad, SparseRows, TrainTest};
use paceline_exchange::{FactorChoice, WireFormat};
use paceline_model::{EntryPolicy, Layout, Model, OptimizerSpec, Sgd, SparseModel};
use paceline_observe::{BestSettings, Recorder, Summary};

use crate::checkpoint::{CheckpointDir, ResumePoint, ResumeRequest, ResumedModel};
use crate::context::TaskContext;
use crate::error::TrainError;
use crate::session_context::{
    ContextFactory, Recorders, SessionDescription, SessionTask, TrainedParams, lock,
};
use crate::session_run::SessionRun;
use crate::settings::{
    CheckpointSettings, EvaluateSettings, Mode, OnDivergence, OnWorkerLoss, Stop, TestHooks,
    Timeouts, TrainSettings,
};
use crate::sharing::Sharing;
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
    model_name: String,
    /// Whether the model's builder is given a number of threads.
    is_built_with_threads: bool,
    workload: Workload,
    settings: TrainSettings,
    sharing: Sharing,
    threads: usize,
    /// The last call of [`contexts`](Session::contexts) must be the only one.
    contexts: Vec<Box<ContextFactory>>,
    recorders: Recorders,
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
        Self { model_name: short_name::<M>(), ..Self::with_workload(model, data.into()) }
    }

    /// Trains the models that `build` returns, with the defaults of [`Session::new`]: for models
    /// that cannot be cloned, such as networks with threads. `build` is given the number of
    /// [`threads`](Session::threads).
    pub fn with_builder(
        build: impl Fn(ModelSizing) -> Result<Box<dyn Model>, TrainError> + Send + Sync + 'static,
        data: impl Into<TrainingData>,
    ) -> Self {
        let model = ModelSource::Dense { build: Arc::new(build), build_for_patches: None };
        Self { is_built_with_threads: true, ..Self::with_workload(model, data.into()) }
    }

    /// Trains a sparse model on rows, with the defaults of [`Session::new`].
    pub fn sparse<M>(model: M, rows: TrainTest<SparseRows>) -> Self
    where
        M: SparseModel + Clone + Sync + 'static,
    {
        let build = Arc::new(move || Box::new(model.clone()) as Box<dyn SparseModel>);
        let data = TrainingData::Rows(Arc::new(rows));
        let model = ModelSource::Sparse(build);
        Self { model_name: short_name::<M>(), ..Self::with_workload(model, data) }
    }

    fn with_workload(model: ModelSource, data: TrainingData) -> Self {
        let workload = Workload { model, data, shuffle: Shuffle::Full, on_bad: OnBad::Fail };
        Self {
            name: "session".into(),
            model_name: "model".into(),
            is_built_with_threads: false,
            workload,
            settings: default_settings(),
            sharing: Sharing::none(),
            threads: 1,
            contexts: Vec::new(),
            recorders: Recorders::default(),
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

    /// Selects which gradients of dense layers travel as factors, for [`Sharing::mesh`]. By default
    /// those for which that is estimated to be faster; the result is the same.
    ///
    /// ```
    /// # use paceline_data::Digits;
    /// # use paceline_engine::{FactorChoice, ModelSizing, Session, Sharing, Stop};
    /// # use paceline_model::{Model, lenet};
    /// let build = |sizing: ModelSizing| {
    ///     let network = lenet(sizing.block.min(32), sizing.threads).expect("its layers fit");
    ///     Ok(Box::new(network) as Box<dyn Model>)
    /// };
    /// let session = Session::with_builder(build, Digits::generate(200, 1)).batch(8);
    /// let session = session.share(Sharing::mesh(2)).factors(FactorChoice::Always);
    /// assert_eq!(session.stop(Stop::steps(3)).run()?.steps, 3);
    /// # Ok::<(), paceline_engine::TrainError>(())
    /// ```
    #[must_use]
    pub fn factors(mut self, factors: FactorChoice) -> Self {
        self.settings.factors = factors;
        self
    }

    /// Tests the model every `steps` global steps; about once per epoch by default.
    #[must_use]
    pub fn test_every(mut self, steps: u64) -> Self {
        self.settings.evaluate.every = (steps > 0).then_some(steps);
        self
    }

    /// Reads the examples in this order; in a new random order every epoch by default.
    #[must_use]
    pub fn shuffle(mut self, shuffle: Shuffle) -> Self {
        self.workload.shuffle = shuffle;
        self
    }

    /// Threads of each worker; 1 by default. A model of [`with_builder`](Session::with_builder)
    /// computes with them. Without sharing, they train a sparse model together, without locks.
    /// [`run`](Session::run) refuses more than 1 where they would have no effect.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Keeps checkpoints in the directory `dir`.
    #[must_use]
    pub fn checkpoints(mut self, dir: &Path, settings: CheckpointSettings) -> Self {
        self.settings.checkpoint = Some(settings);
        self.checkpoints = Some(CheckpointDir::new(dir));
        self
    }

    /// Resumes from the newest checkpoint of the directory that [`checkpoints`] names, if it has
    /// one.
    ///
    /// [`checkpoints`]: Session::checkpoints
    #[must_use]
    pub fn resume(mut self) -> Self {
        self.resumes = true;
        self
    }

    /// Reports the steps and tests of worker 0 to `recorder`, in addition to other recorders.
    #[must_use]
    pub fn recorder(self, recorder: impl Recorder + Send + 'static) -> Self {
        lock(&self.recorders).push(Box::new(recorder));
        self
    }

    /// Gives every task its own context: its log, its recorders, and where results are kept. Call
    /// this at most once.
    #[must_use]
    pub fn contexts(
        mut self,
        contexts: impl Fn(SessionTask<'_>) -> Result<Arc<dyn TaskContext>, TrainError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.contexts.push(Box::new(contexts));
        self
    }

    /// Trains until a stop condition is met.
    ///
    /// # Errors
    /// If a setting cannot be used, an example cannot be read, training diverges, or a recorder
    /// fails. An error of one task ends all of them.
    pub fn run(mut self) -> Result<SessionReport, TrainError> {
        (self.settings.mode, self.settings.wire) = (self.sharing.mode, self.sharing.wire);
        self.check()?;
        if self.settings.stop.steps == Some(0) {
            // An empty plan ends every task at once; steps are counted only after they are made.
            self.settings.stop = Stop::epochs(0);
        }
        let trained = Arc::new(Mutex::new(TrainedParams::default()));
        let slots = if self.trains_table() { self.threads } else { self.sharing.workers };
        if self.settings.evaluate.every.is_none() {
            let examples = self.settings.examples_per_step(slots).max(1);
            let every = self.workload.data.train_len().div_ceil(examples);
            self.settings.evaluate.every = Some(every.max(1) as u64);
        }
        let mut warnings = Vec::new();
        let from = self.resume_point(slots, &mut warnings)?;
        let no_context: Box<ContextFactory> = Box::new(|_| Ok(Arc::new(())));
        let report = SessionRun {
            description: &self.describe()?,
            workload: &self.workload,
            settings: &self.settings,
            sharing: self.sharing,
            slots,
            threads: if self.is_built_with_threads { self.threads } else { 1 },
            contexts: self.contexts.first().unwrap_or(&no_context),
            recorders: &self.recorders,
            warnings: &warnings,
            checkpoints: self.checkpoints.as_ref(),
            from: from.as_ref(),
            trained: &trained,
        }
        .run()?;
        let TrainedParams { last: params, best } = std::mem::take(&mut *lock(&trained));
        Ok(SessionReport {
            accuracy: report.accuracy(),
            test_loss: report.test_loss(),
            steps: report.steps(),
            verdict: report.verdict().to_owned(),
            layout: self.workload.layout()?,
            params,
            best_params: (!best.is_empty()).then_some(best),
            summary: report.summary,
        })
    }

    /// Whether several threads train one table without locks.
    fn trains_table(&self) -> bool {
        self.sharing.mode == Mode::Single && self.workload.is_sparse()
    }

    fn describe(&self) -> Result<SessionDescription, TrainError> {
        let data = &self.workload.data;
        Ok(SessionDescription {
            name: self.name.clone(),
            model: self.model_name.clone(),
            data: match data {
                TrainingData::Images(_) => "images",
                TrainingData::Examples(_) => "examples",
                TrainingData::Rows(_) => "rows",
            },
            data_origin: data.origin().to_owned(),
            seed: self.settings.seed,
            batch: self.settings.batch,
            mode: self.sharing.mode,
            workers: self.sharing.workers,
            servers: self.sharing.servers,
            graph: self.workload.small_model()?.graph(),
        })
    }

    /// Where the run resumes, if it does. Newer checkpoints are set aside.
    fn resume_point(
        &self,
        slots: usize,
        warnings: &mut Vec<String>,
    ) -> Result<Option<ResumePoint>, TrainError> {
        let Some(dir) = self.checkpoints.as_ref().filter(|_| self.resumes) else {
            return Ok(None);
        };
        if dir.steps().is_empty() {
            return Ok(None);
        }
        let checkpoint = dir.choose(None, &mut |text| warnings.push(text.to_owned()))?;
        let layout = self.workload.layout()?;
        let step = checkpoint.manifest.info.step;
        let request = ResumeRequest {
            steps: self.settings.step_layout(slots),
            end: self.settings.stop.planned_end(),
            examples: self.workload.data.train_len(),
            model: Some(ResumedModel { layout: &layout, optimizer: &self.settings.optimizer }),
        };
        let from = request.resume_point(checkpoint)?;
        dir.set_aside_after(step)?;
        Ok(Some(from))
    }
}

/// The name of a type without its path and parameters.
fn short_name<M>() -> String {
    let name = std::any::type_name::<M>();
    let path = name.split('<').next().unwrap_or(name);
    path.rsplit("::").next().unwrap_or(path).to_owned()
}

pub(crate) fn default_settings() -> TrainSettings {
    TrainSettings {
        seed: 1,
        batch: 32,
        optimizer: Sgd::new(0.01),
        start: None,
        class_weights: Arc::default(),
        entries: EntryPolicy::default(),
        table_memory: None,
        mode: Mode::Single,
        wire: WireFormat::F32,
        stop: Stop::epochs(5),
        best: BestSettings::default(),
        evaluate: EvaluateSettings { every: None, examples: None },
        checkpoint: None,
        on_divergence: OnDivergence::Stop,
        on_worker_loss: OnWorkerLoss::Fail,
        waits_for_servers: false,
        timeouts: Timeouts::default(),
        factors: FactorChoice::Auto,
        link_bits_per_s: None,
        worker_cores: None,
        trace: None,
        job: Default::default(),
        test_hooks: TestHooks::default(),
    }
}

mod check;
mod options;

/// The result of a session.
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
    /// The parameters of the best test, if [`Session::keep_best`] asked for them. The summary's
    /// `best` says which test that was.
    pub best_params: Option<Vec<f32>>,
    /// The whole run in numbers.
    pub summary: Summary,
}
