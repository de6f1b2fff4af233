//! The data that a plan names, ready for use.

use std::path::Path;
use std::sync::Arc;

use paceline_data::{
    Examples, FakeImages, KnownDataset, PictureOptions, Pictures, SparseRows, SparseSpec, Split,
    TrainTest, cached_digits, open_sparse,
};

use paceline_engine::TrainingData;

use crate::Failure;
use crate::job::{DataKind, Plan, RawJob};

/// Of rows that are all in one place, this share is held out to test on, unless a job says
/// otherwise; and at most so many.
const HOLD_OUT: (usize, usize) = (10, 10_000);

/// What a model must know of the data before it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataShape {
    /// Channels, rows and columns of one example.
    pub planes: [usize; 3],
    /// Classes to tell apart.
    pub classes: usize,
}

impl DataShape {
    /// Values of one example.
    pub fn inputs(&self) -> usize {
        self.planes.iter().product()
    }

    fn of_rows(features: usize) -> Self {
        Self { planes: [1, 1, features], classes: 2 }
    }
}

/// What a model must know of these examples.
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

/// The shape of the plan's data, without reading more of it than must be.
pub fn data_shape(job: &RawJob, plan: &Plan) -> Result<DataShape, Failure> {
    let (known, path) = match &plan.data.kind {
        DataKind::Digits { .. } => return Ok(DataShape { planes: [1, 28, 28], classes: 10 }),
        DataKind::Mnist { path } => (KnownDataset::Mnist, path),
        DataKind::FashionMnist { path } => (KnownDataset::FashionMnist, path),
        DataKind::Rows(SparseSpec { features: Some(features), .. }) => {
            return Ok(DataShape::of_rows(*features));
        }
        DataKind::FakeImages { size, classes, .. } => {
            return Ok(DataShape { planes: [3, *size, *size], classes: *classes });
        }
        DataKind::Pictures { .. } | DataKind::Rows(_) => {
            return Ok(shape_of(&load_data(job, plan, &mut |_| {})?));
        }
    };
    let (rows, cols) = known.locate(path.as_deref())?.image_size()?;
    Ok(DataShape { planes: [1, rows, cols], classes: known.spec().classes })
}

/// Reads or generates the plan's data, and checks what could not be checked without it. What
/// takes long is told.
pub fn load_data(
    job: &RawJob,
    plan: &Plan,
    say: &mut dyn FnMut(&str),
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
        DataKind::Rows(spec) => TrainingData::Rows(Arc::new(load_rows(spec, say)?)),
        DataKind::FakeImages { size, classes, train_examples, test_examples } => {
            let set =
                |split, examples| FakeImages::new(plan.seed, split, examples, *classes, *size);
            TrainingData::Examples(TrainTest {
                train: Arc::new(set(Split::Train, *train_examples)),
                test: Arc::new(set(Split::Test, *test_examples)),
                origin: format!("generated from seed {}", plan.seed),
            })
        }
        DataKind::Pictures { path, size, hold_out } => {
            TrainingData::Examples(load_pictures(plan, path, *size, *hold_out)?)
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
) -> Result<TrainTest<Arc<dyn Examples>>, Failure> {
    let mut options = PictureOptions::new(size, plan.seed);
    options.test_examples = hold_out.unwrap_or(0);
    let mut set = Pictures::open(path, &options)?;
    if set.test.is_empty() {
        options.test_examples = held_out(set.train.len());
        set = Pictures::open(path, &options)?;
    }
    Ok(set.into_shared())
}

/// How many of so many examples are held out to test on, unless a job says otherwise.
fn held_out(examples: usize) -> usize {
    let (share, most) = HOLD_OUT;
    (examples / share).clamp(1, most)
}

fn load_rows(
    spec: &SparseSpec,
    say: &mut dyn FnMut(&str),
) -> Result<TrainTest<SparseRows>, Failure> {
    let mut set = open_sparse(spec, say)?;
    if set.train.skipped() > 0 {
        say(&format!("{}: {} bad rows were left out", set.origin, set.train.skipped()));
    }
    if set.test.is_empty() {
        let rows = set.train.len();
        let trained = rows - held_out(rows);
        set.test = set.train.slice(trained..rows);
        set.train = set.train.slice(0..trained);
    }
    if set.train.is_empty() {
        let text = format!("{}: too few rows to train and to test on", set.origin);
        return Err(Failure::Usage(text));
    }
    Ok(set)
}

/// Checks everything that can be wrong with the plan's data, without keeping it; how many examples
/// there are to train on.
pub fn check_data(job: &RawJob, plan: &Plan, say: &mut dyn FnMut(&str)) -> Result<usize, Failure> {
    match plan.data.kind {
        // Generated pictures are sound by themselves.
        DataKind::FakeImages { train_examples, .. } => {
            check_batch(job, plan, train_examples).map(|()| train_examples)
        }
        _ => Ok(load_data(job, plan, say)?.train_len()),
    }
}

fn check_batch(job: &RawJob, plan: &Plan, examples: usize) -> Result<(), Failure> {
    if plan.batch <= examples {
        return Ok(());
    }
    let message = format!("is {}, but there are only {examples} examples to train on", plan.batch);
    Err(job.problem("train.batch", message).into())
}
