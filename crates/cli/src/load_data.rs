//! Loads the data that a plan names.

use std::path::Path;
use std::sync::Arc;

use paceline_data::{
    DataError, Examples, FakeImages, HoldOut, KnownDataset, PictureOptions, Pictures, SparseRows,
    SparseSpec, Split, TrainTest, cached_digits, open_sparse,
};

use paceline_engine::TrainingData;

use crate::Failure;
use crate::data_display::DataDisplay;
use paceline_job::{DataKind, Plan, RawJob};

/// Without a test set, one in `HOLD_OUT_SHARE` examples is held out for tests by default, and at
/// most `MAX_HOLD_OUT`.
const HOLD_OUT_SHARE: usize = 10;
const MAX_HOLD_OUT: usize = 10_000;

/// The shape of the data, which determines the size of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataShape {
    /// Channels, rows and columns of an example.
    pub planes: [usize; 3],
    /// Number of classes.
    pub classes: usize,
}

impl DataShape {
    /// Number of values of an example.
    pub fn inputs(&self) -> usize {
        self.planes.iter().product()
    }

    fn of_rows(features: usize) -> Self {
        Self { planes: [1, 1, features], classes: 2 }
    }
}

/// The shape of loaded data.
pub fn shape_of(data: &TrainingData) -> DataShape {
    match data {
        TrainingData::Images(set) => DataShape {
            planes: [1, set.train.rows(), set.train.cols()],
            classes: set.train.classes(),
        },
        TrainingData::Examples(set) => {
            DataShape { planes: set.train.shape(), classes: set.train.classes() }
        }
        TrainingData::Rows(set) => DataShape::of_rows(set.train.features()),
    }
}

/// The shape of the plan's data, if the plan alone determines it.
pub(crate) fn known_shape(plan: &Plan) -> Option<DataShape> {
    match &plan.data.kind {
        DataKind::Digits { .. } => Some(DataShape { planes: [1, 28, 28], classes: 10 }),
        DataKind::Rows(SparseSpec { features, .. }) => features.map(DataShape::of_rows),
        DataKind::FakeImages { size, classes, .. } => {
            Some(DataShape { planes: [3, *size, *size], classes: *classes })
        }
        DataKind::Mnist { .. } | DataKind::FashionMnist { .. } | DataKind::Pictures { .. } => None,
    }
}

/// The shape of the plan's data. Reads as little of the data as possible.
pub(crate) fn data_shape(
    job: &RawJob,
    plan: &Plan,
    display: &mut DataDisplay,
) -> Result<DataShape, Failure> {
    if let Some(shape) = known_shape(plan) {
        return Ok(shape);
    }
    let (known, path) = match &plan.data.kind {
        DataKind::Mnist { path } => (KnownDataset::Mnist, path),
        DataKind::FashionMnist { path } => (KnownDataset::FashionMnist, path),
        _ => return Ok(shape_of(&load_data(job, plan, display)?)),
    };
    let (rows, cols) = known.locate(path.as_deref())?.image_size()?;
    Ok(DataShape { planes: [1, rows, cols], classes: known.spec().classes })
}

/// Reads or generates the plan's data, and checks the batch size against it. `display` shows what
/// takes long.
pub(crate) fn load_data(
    job: &RawJob,
    plan: &Plan,
    display: &mut DataDisplay,
) -> Result<TrainingData, Failure> {
    let known = |known: KnownDataset, path: &Option<_>| known.load(path.as_deref().map(Path::new));
    let data = match &plan.data.kind {
        DataKind::Digits { train_examples, test_examples } => TrainingData::Images(Arc::new(
            cached_digits(*train_examples, *test_examples, plan.seed),
        )),
        DataKind::Mnist { path } => {
            TrainingData::Images(Arc::new(known(KnownDataset::Mnist, path)?))
        }
        DataKind::FashionMnist { path } => {
            TrainingData::Images(Arc::new(known(KnownDataset::FashionMnist, path)?))
        }
        DataKind::Rows(spec) => TrainingData::Rows(Arc::new(load_rows(spec, display)?)),
        DataKind::FakeImages { size, classes, train_examples, test_examples } => {
            let set =
                |split, examples| FakeImages::new(plan.seed, split, examples, *classes, *size);
            TrainingData::Examples(TrainTest {
                train: Arc::new(set(Split::Train, *train_examples)),
                test: Arc::new(set(Split::Test, *test_examples)),
                origin: format!("generated from seed {}", plan.seed),
            })
        }
        DataKind::Pictures { path, size, hold_out, split } => {
            TrainingData::Examples(load_pictures(plan, path, *size, *hold_out, *split)?)
        }
    };
    check_batch(job, plan, data.train_len())?;
    Ok(data)
}

fn load_pictures(
    plan: &Plan,
    path: &Path,
    size: usize,
    hold_out: Option<usize>,
    split: HoldOut,
) -> Result<TrainTest<Arc<dyn Examples>>, Failure> {
    let mut options = PictureOptions::new(size, plan.seed);
    options.test_examples = hold_out.unwrap_or(0);
    options.split = split;
    let mut set = Pictures::open(path, &options)?;
    if set.test.is_empty() {
        options.test_examples = default_hold_out(set.train.len());
        set = Pictures::open(path, &options)?;
    }
    Ok(set.into_shared())
}

/// The default number of examples held out for tests.
fn default_hold_out(examples: usize) -> usize {
    (examples / HOLD_OUT_SHARE).clamp(1, MAX_HOLD_OUT)
}

fn load_rows(
    spec: &SparseSpec,
    display: &mut DataDisplay,
) -> Result<TrainTest<SparseRows>, Failure> {
    let mut set = match open_sparse(spec, display) {
        Err(DataError::Interrupted) => return Err(display.interrupted()),
        opened => opened?,
    };
    if set.train.skipped() > 0 {
        display.say(&format!("{}: {} bad rows were skipped", set.origin, set.train.skipped()));
    }
    if set.test.is_empty() {
        let rows = set.train.len();
        if rows < 2 {
            let text = format!("{}: too few rows for training and tests", set.origin);
            return Err(Failure::Usage(text));
        }
        let split = spec.hold_out(&set.train, default_hold_out(rows))?;
        set = TrainTest { origin: set.origin, ..split };
    }
    Ok(set)
}

/// Checks the plan's data without keeping it. Returns the number of training examples.
pub(crate) fn check_data(
    job: &RawJob,
    plan: &Plan,
    display: &mut DataDisplay,
) -> Result<usize, Failure> {
    match plan.data.kind {
        // Generated pictures need no check.
        DataKind::FakeImages { train_examples, .. } => {
            check_batch(job, plan, train_examples).map(|()| train_examples)
        }
        _ => Ok(load_data(job, plan, display)?.train_len()),
    }
}

fn check_batch(job: &RawJob, plan: &Plan, examples: usize) -> Result<(), Failure> {
    if plan.batch <= examples {
        return Ok(());
    }
    let message = format!("is {}, but there are only {examples} training examples", plan.batch);
    Err(job.problem("train.batch", message).into())
}
