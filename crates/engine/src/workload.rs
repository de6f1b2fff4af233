//! What a run trains: a model and its data, as every task of the run builds them.

use std::any::Any;
use std::sync::Arc;

use paceline_data::{
    BatchPlan, BatchWeights, Examples, Images, LoaderOptions, OnBad, Patches, SparseRows, TrainTest,
};
use paceline_model::{Layout, Model, SparseModel};

use crate::batch_reader::{
    BatchReader, ImageBatches, LoadedBatches, PatchBatches, SlotWalk, SparseRowBatches,
};
use crate::checkpoint::PlanOrigin;
use crate::dense_worker::DenseWorker;
use crate::error::TrainError;
use crate::evaluator::{
    Evaluator, ExamplesEvaluator, ImageEvaluator, PatchEvaluator, RowEvaluator,
};
use crate::link::{DenseLink, SparseLink};
use crate::loop_trace::{LoopTrace, read_observer};
use crate::settings::TrainSettings;
use crate::sparse::{SparseEvaluator, SparseLoopConfig, SparseWorker};
use crate::step_recorder::StepRecorder;
use crate::step_stop::StepStop;
use crate::trainer::Trainer;
use paceline_observe::trace::Tracer;

/// With at most this many slots, each loop has the patches of its images for itself, in huge pages,
/// which are faster. With more, the processes of a machine share them, which takes less memory.
const MOST_OWN_PATCHES: usize = 4;

/// How much memory and how many threads a model may use.
#[derive(Clone, Copy, Debug)]
pub struct ModelSizing {
    /// The largest block of examples the model should take.
    pub block: usize,
    /// Threads to compute with.
    pub threads: usize,
}

impl ModelSizing {
    /// For a model whose layout alone matters.
    pub const LEAST: ModelSizing = ModelSizing { block: 1, threads: 1 };
}

/// Builds a dense model.
pub type BuildModel = dyn Fn(ModelSizing) -> Result<Box<dyn Model>, TrainError> + Send + Sync;

/// Builds a sparse model.
pub type BuildSparseModel = dyn Fn() -> Box<dyn SparseModel> + Send + Sync;

/// Where a run's models come from. Every loop and every test has its own model, because a model
/// holds scratch memory.
#[derive(Clone)]
pub enum ModelSource {
    /// Every batch touches every parameter.
    Dense {
        /// Builds the model.
        build: Arc<BuildModel>,
        /// Builds a variant that reads mostly empty images as patches, if there is one.
        build_for_patches: Option<Arc<BuildModel>>,
    },
    /// A batch touches a few parameters, and only those travel and change.
    Sparse(Arc<BuildSparseModel>),
}

/// The examples to train and to test on.
#[derive(Clone)]
pub enum TrainingData {
    /// Small grey images in memory.
    Images(Arc<TrainTest<Images>>),
    /// Any dense examples, read ahead of the step.
    Examples(TrainTest<Arc<dyn Examples>>),
    /// Sparse rows.
    Rows(Arc<TrainTest<SparseRows>>),
}

/// Examples to test on.
enum TestSet<'a> {
    Images(&'a Images),
    Examples(&'a Arc<dyn Examples>),
    Rows(&'a SparseRows),
}

/// The order in which examples are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shuffle {
    /// In the order of the data.
    None,
    /// In a new random order every epoch.
    Full,
    /// Like `Full`, but within windows of this many examples, for data larger than memory.
    Within(usize),
}

/// A model and the examples it is trained and tested on.
#[derive(Clone)]
pub struct Workload {
    /// Builds the models.
    pub model: ModelSource,
    /// The examples.
    pub data: TrainingData,
    /// The order of the examples.
    pub shuffle: Shuffle,
    /// What happens to examples that cannot be read.
    pub on_bad: OnBad,
}

/// A slot's part of the batch plan, and what its loop computes with.
pub(crate) struct LoopConfig<'a> {
    pub(crate) slot: usize,
    pub(crate) plan: BatchPlan,
    pub(crate) threads: usize,
    pub(crate) step_recorder: StepRecorder,
    pub(crate) tracer: Option<&'a Arc<Tracer>>,
    /// The model, if it has been built by [`Workload::loop_model`] already.
    pub(crate) model: Option<Box<dyn Model>>,
    /// In shared modes: gives up steps in the middle, once the run must end.
    pub(crate) stop: Option<Arc<StepStop>>,
}

/// Images in memory keep their compact form; any other examples are read ahead of the step.
impl<T: Examples + 'static> From<TrainTest<T>> for TrainingData {
    fn from(set: TrainTest<T>) -> Self {
        let set: Box<dyn Any> = Box::new(set);
        match set.downcast::<TrainTest<Images>>() {
            Ok(images) => TrainingData::Images(Arc::from(images)),
            Err(set) => match set.downcast::<TrainTest<T>>() {
                Ok(set) => TrainingData::Examples(set.into_shared()),
                Err(_) => unreachable!("the type is the one above"),
            },
        }
    }
}

impl TrainingData {
    /// Examples to train on.
    pub fn train_len(&self) -> usize {
        match self {
            TrainingData::Images(set) => set.train.len(),
            TrainingData::Examples(set) => set.train.len(),
            TrainingData::Rows(set) => set.train.len(),
        }
    }

    /// Where the data comes from, as text for people.
    pub fn origin(&self) -> &str {
        match self {
            TrainingData::Images(set) => &set.origin,
            TrainingData::Examples(set) => &set.origin,
            TrainingData::Rows(set) => &set.origin,
        }
    }
}

impl Workload {
    /// Whether only the parameters a batch touches travel and change.
    pub fn is_sparse(&self) -> bool {
        matches!(self.model, ModelSource::Sparse(_))
    }

    /// A model whose layout, graph or initial parameters matter, and nothing else.
    pub fn small_model(&self) -> Result<Box<dyn Model>, TrainError> {
        match &self.model {
            ModelSource::Dense { build, .. } => build(ModelSizing::LEAST),
            ModelSource::Sparse(build) => Ok(build()),
        }
    }

    /// The layout of the parameters.
    pub fn layout(&self) -> Result<Layout, TrainError> {
        Ok(self.small_model()?.layout().clone())
    }

    /// Which examples `slots` slots take at which step.
    pub fn batches(&self, settings: &TrainSettings, slots: usize, origin: PlanOrigin) -> BatchPlan {
        let plan = BatchPlan::new(self.data.train_len(), settings.batch, slots)
            .starting_at(origin.step, origin.position);
        let plan = match self.shuffle {
            Shuffle::None => plan,
            Shuffle::Full => plan.shuffled(settings.seed),
            Shuffle::Within(window) => plan.shuffled_within(settings.seed, window),
        };
        match settings.stop.epochs {
            Some(epochs) => plan.for_epochs(epochs),
            None => plan,
        }
    }

    /// The number of examples of a test during training that is limited to the first `examples`.
    pub(crate) fn tested_examples(&self, examples: Option<usize>) -> usize {
        let all = match &self.data {
            TrainingData::Images(set) => set.tested().len(),
            TrainingData::Examples(set) => set.tested().len(),
            TrainingData::Rows(set) => set.tested().len(),
        };
        examples.map_or(all, |examples| examples.min(all))
    }

    /// About how much longer testing an example takes than training on it.
    pub(crate) fn relative_test_cost(&self) -> f64 {
        match &self.model {
            // The forward pass alone.
            ModelSource::Dense { .. } => 0.3,
            // A test compacts the keys of its rows, which a step in place does not.
            ModelSource::Sparse(_) => 1.5,
        }
    }

    /// Whether tests during training use a validation set in place of the test set.
    pub(crate) fn has_validation(&self) -> bool {
        match &self.data {
            TrainingData::Images(set) => set.validation.is_some(),
            TrainingData::Examples(set) => set.validation.is_some(),
            TrainingData::Rows(set) => set.validation.is_some(),
        }
    }

    /// Tests the model on the first `examples` examples of the test set, or all, with `threads`
    /// threads.
    pub fn evaluator(
        &self,
        examples: Option<usize>,
        threads: usize,
    ) -> Result<Box<dyn Evaluator + '_>, TrainError> {
        let set = match &self.data {
            TrainingData::Images(set) => TestSet::Images(&set.test),
            TrainingData::Examples(set) => TestSet::Examples(&set.test),
            TrainingData::Rows(set) => TestSet::Rows(&set.test),
        };
        self.evaluator_on(set, examples, threads)
    }

    /// As [`evaluator`](Self::evaluator), on the examples of tests during training: those of the
    /// validation set if there is one.
    pub(crate) fn running_evaluator(
        &self,
        examples: Option<usize>,
        threads: usize,
    ) -> Result<Box<dyn Evaluator + '_>, TrainError> {
        let set = match &self.data {
            TrainingData::Images(set) => TestSet::Images(set.tested()),
            TrainingData::Examples(set) => TestSet::Examples(set.tested()),
            TrainingData::Rows(set) => TestSet::Rows(set.tested()),
        };
        self.evaluator_on(set, examples, threads)
    }

    fn evaluator_on<'a>(
        &'a self,
        set: TestSet<'a>,
        examples: Option<usize>,
        threads: usize,
    ) -> Result<Box<dyn Evaluator + 'a>, TrainError> {
        let sizing = ModelSizing { block: usize::MAX, threads };
        match (set, &self.model) {
            (TestSet::Rows(rows), ModelSource::Sparse(build)) => {
                Ok(Box::new(SparseEvaluator::new(rows, examples, build())))
            }
            (TestSet::Images(images), ModelSource::Dense { build, build_for_patches }) => {
                if let Some(build_for_patches) = build_for_patches
                    && let Some(patches) = Patches::of(images)
                {
                    let model = build_for_patches(sizing)?;
                    return Ok(Box::new(PatchEvaluator::new(patches, examples, model)));
                }
                Ok(Box::new(ImageEvaluator::new(images, examples, build(sizing)?)))
            }
            (TestSet::Examples(source), ModelSource::Dense { build, .. }) => {
                let (source, model) = (source.clone(), build(sizing)?);
                Ok(Box::new(ExamplesEvaluator::new(source, examples, self.on_bad, model)))
            }
            (TestSet::Rows(rows), ModelSource::Dense { build, .. }) => {
                Ok(Box::new(RowEvaluator::new(rows.clone(), examples, build(sizing)?)))
            }
            (_, ModelSource::Sparse(_)) => Err(needs_rows()),
        }
    }

    /// The training loop of a slot, for the link of any sharing mode.
    pub(crate) fn trainer<'a, L: DenseLink + SparseLink>(
        &'a self,
        settings: &TrainSettings,
        config: LoopConfig<'_>,
    ) -> Result<Box<dyn Trainer<L> + 'a>, TrainError> {
        match &self.model {
            ModelSource::Dense { .. } => Ok(Box::new(self.dense_worker(settings, config)?)),
            ModelSource::Sparse(_) => Ok(Box::new(self.sparse_worker(settings, config)?)),
        }
    }

    /// The dense model of a training loop.
    pub(crate) fn loop_model(
        &self,
        settings: &TrainSettings,
        threads: usize,
    ) -> Result<Box<dyn Model>, TrainError> {
        let ModelSource::Dense { build, .. } = &self.model else { return Err(needs_dense()) };
        build(ModelSizing { block: settings.batch, threads })
    }

    /// The training loop of a slot of a dense model.
    pub(crate) fn dense_worker(
        &self,
        settings: &TrainSettings,
        config: LoopConfig<'_>,
    ) -> Result<DenseWorker<'_>, TrainError> {
        let ModelSource::Dense { build, build_for_patches } = &self.model else {
            return Err(needs_dense());
        };
        let LoopConfig { slot, plan, threads, mut step_recorder, tracer, model, stop } = config;
        let weights = BatchWeights::new(&settings.class_weights);
        let sizing = ModelSizing { block: settings.batch, threads };
        let patches = match (&self.data, build_for_patches) {
            (TrainingData::Images(set), Some(build)) => {
                let is_large = plan.slots() > MOST_OWN_PATCHES;
                let of = if is_large { Patches::shared } else { Patches::of };
                of(&set.train).map(|patches| (patches, build))
            }
            _ => None,
        };
        let walk = SlotWalk::new(plan, slot, settings.seed);
        let (batches, mut model): (Box<dyn BatchReader + '_>, _) = match patches {
            Some((patches, build)) => {
                (Box::new(PatchBatches::new(walk, patches, weights)), build(sizing)?)
            }
            None => {
                let model = model.map_or_else(|| build(sizing), Ok)?;
                (self.batch_reader(walk, settings, weights, tracer), model)
            }
        };
        step_recorder.trace = loop_trace(tracer, settings, &*model);
        if let Some(stop) = stop.clone() {
            model.stop_when(Arc::new(move || stop.stops_computing()));
        }
        Ok(DenseWorker { batches, model, step_recorder, stop })
    }

    /// Reads the batches of a slot of a dense model.
    fn batch_reader(
        &self,
        walk: SlotWalk,
        settings: &TrainSettings,
        weights: BatchWeights,
        tracer: Option<&Arc<Tracer>>,
    ) -> Box<dyn BatchReader + '_> {
        match &self.data {
            TrainingData::Images(set) => Box::new(ImageBatches::new(walk, &set.train, weights)),
            TrainingData::Rows(set) => Box::new(SparseRowBatches::new(walk, &set.train, weights)),
            TrainingData::Examples(set) => {
                let options = LoaderOptions { on_bad: self.on_bad, ..LoaderOptions::default() };
                let observer = read_observer(tracer, settings.batch);
                let source = set.train.clone();
                Box::new(LoadedBatches::new(walk, source, options, observer, weights))
            }
        }
    }

    /// The training loop of a slot of a sparse model.
    fn sparse_worker(
        &self,
        settings: &TrainSettings,
        config: LoopConfig<'_>,
    ) -> Result<SparseWorker<'_>, TrainError> {
        let LoopConfig { slot, plan, step_recorder, tracer, .. } = config;
        let mut config = self.sparse_loop(settings, slot, plan, step_recorder)?;
        config.step_recorder.trace = loop_trace(tracer, settings, &*config.model);
        Ok(SparseWorker::new(config))
    }

    /// What the training loop of a slot of a sparse model starts with.
    pub(crate) fn sparse_loop(
        &self,
        settings: &TrainSettings,
        slot: usize,
        plan: BatchPlan,
        step_recorder: StepRecorder,
    ) -> Result<SparseLoopConfig<'_>, TrainError> {
        let (rows, model) = self.sparse_parts()?;
        let (weights, seed) = (BatchWeights::new(&settings.class_weights), settings.seed);
        Ok(SparseLoopConfig { slot, plan, rows, model, step_recorder, weights, seed })
    }

    /// The rows and a model of a sparse workload.
    pub(crate) fn sparse_parts(&self) -> Result<(&SparseRows, Box<dyn SparseModel>), TrainError> {
        match (&self.model, &self.data) {
            (ModelSource::Sparse(build), TrainingData::Rows(set)) => {
                let model = build();
                for rows in [Some(&set.train), Some(&set.test), set.validation.as_ref()] {
                    check_fields(&*model, rows)?;
                }
                Ok((&set.train, model))
            }
            _ => Err(needs_rows()),
        }
    }
}

/// Checks that rows have the fields that a model needs, and no others.
fn check_fields(model: &dyn SparseModel, rows: Option<&SparseRows>) -> Result<(), TrainError> {
    let (known, found) = (model.fields(), rows.map_or(model.fields(), SparseRows::fields));
    let wrong = match (known, found) {
        (0, _) => return Ok(()),
        (_, 0) => "the model needs the fields of a row's features, which the rows lack".into(),
        _ if found > known => format!("rows have {found} fields, but the model has {known}"),
        _ => return Ok(()),
    };
    Err(TrainError::Settings(wrong))
}

/// Records the loop of `model` on the timeline, if the task is recorded.
pub(crate) fn loop_trace(
    tracer: Option<&Arc<Tracer>>,
    settings: &TrainSettings,
    model: &dyn Model,
) -> Option<LoopTrace> {
    tracer.map(|tracer| LoopTrace::new(tracer.clone(), settings.batch, model))
}

fn needs_rows() -> TrainError {
    TrainError::Settings("a sparse model needs sparse rows to train on".into())
}

fn needs_dense() -> TrainError {
    TrainError::Settings("a dense loop needs a dense model".into())
}
