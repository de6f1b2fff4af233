//! The data that a plan names, ready for use.

use std::path::Path;

use paceline_data::{
    BatchPlan, ImageSet, Known, SparseSet, SparseSpec, digits, load, locate, open_sparse,
};

use crate::Failure;
use crate::job::{DataKind, Plan, RawJob};

/// Of rows that are all in one place, this share is held out to test on, unless a job says
/// otherwise; and at most so many.
const HOLD_OUT: (usize, usize) = (10, 10_000);

/// What a model must know of the data before it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Values of one example.
    pub inputs: usize,
    /// Classes to tell apart.
    pub classes: usize,
}

/// Examples to train and to test on.
pub enum Data {
    /// Images, in memory.
    Images(ImageSet),
    /// Sparse rows, in a mapped file.
    Rows(SparseSet),
}

impl Data {
    /// What a model must know of it.
    pub fn shape(&self) -> Shape {
        match self {
            Data::Images(set) => Shape { inputs: set.train.inputs(), classes: set.train.classes() },
            Data::Rows(set) => Shape { inputs: set.train.features(), classes: 2 },
        }
    }

    /// How many examples there are to train on.
    pub fn train_len(&self) -> usize {
        match self {
            Data::Images(set) => set.train.len(),
            Data::Rows(set) => set.train.len(),
        }
    }

    /// Where it is from, for people.
    pub fn origin(&self) -> &str {
        match self {
            Data::Images(set) => &set.origin,
            Data::Rows(set) => &set.origin,
        }
    }

    /// Which of the training examples so many slots take, and when.
    pub fn batches(&self, plan: &Plan, slots: usize) -> BatchPlan {
        let mut batches = BatchPlan::new(self.train_len(), plan.batch, slots);
        if plan.data.shuffle {
            batches = match self {
                Data::Images(_) => batches.shuffled(plan.seed),
                Data::Rows(_) => batches.shuffled_within(plan.seed, plan.data.shuffle_buffer),
            };
        }
        match plan.stop.epochs {
            Some(epochs) => batches.for_epochs(epochs),
            None => batches,
        }
    }
}

/// The shape of the plan's data, without reading more of it than must be.
pub fn data_shape(job: &RawJob, plan: &Plan) -> Result<Shape, Failure> {
    let (known, path) = match &plan.data.kind {
        DataKind::Digits { .. } => return Ok(Shape { inputs: 28 * 28, classes: 10 }),
        DataKind::Mnist { path } => (Known::Mnist, path),
        DataKind::FashionMnist { path } => (Known::FashionMnist, path),
        DataKind::Rows(SparseSpec { features: Some(features), .. }) => {
            return Ok(Shape { inputs: *features, classes: 2 });
        }
        DataKind::Rows(_) => return Ok(load_data(job, plan, &mut |_| {})?.shape()),
    };
    let (rows, cols) = locate(known, path.as_deref())?.image_size()?;
    Ok(Shape { inputs: rows * cols, classes: known.spec().classes })
}

/// Reads or generates the plan's data, and checks what could not be checked without it. What
/// takes long is told.
pub fn load_data(job: &RawJob, plan: &Plan, say: &mut dyn FnMut(&str)) -> Result<Data, Failure> {
    let known = |known, path: &Option<_>| load(known, path.as_deref().map(Path::new));
    let data = match &plan.data.kind {
        DataKind::Digits { train_examples, test_examples } => {
            Data::Images(digits(plan.seed, *train_examples, *test_examples))
        }
        DataKind::Mnist { path } => Data::Images(known(Known::Mnist, path)?),
        DataKind::FashionMnist { path } => Data::Images(known(Known::FashionMnist, path)?),
        DataKind::Rows(spec) => Data::Rows(load_rows(spec, say)?),
    };
    check_batch(job, plan, data.train_len())?;
    Ok(data)
}

fn load_rows(spec: &SparseSpec, say: &mut dyn FnMut(&str)) -> Result<SparseSet, Failure> {
    let mut set = open_sparse(spec, say)?;
    if set.skipped > 0 {
        say(&format!("{}: {} bad rows were left out", set.origin, set.skipped));
    }
    if set.test.is_empty() {
        let rows = set.train.len();
        let (share, most) = HOLD_OUT;
        let trained = rows - (rows / share).clamp(1, most);
        set.test = set.train.slice(trained..rows);
        set.train = set.train.slice(0..trained);
    }
    match set.train.is_empty() {
        true => {
            Err(Failure::Usage(format!("{}: too few rows to train and to test on", set.origin)))
        }
        false => Ok(set),
    }
}

/// Checks everything that can be wrong with the plan's data, without keeping it.
pub fn check_data(job: &RawJob, plan: &Plan, say: &mut dyn FnMut(&str)) -> Result<(), Failure> {
    match plan.data.kind {
        // Generated images are sound by themselves.
        DataKind::Digits { train_examples, .. } => check_batch(job, plan, train_examples),
        _ => load_data(job, plan, say).map(drop),
    }
}

fn check_batch(job: &RawJob, plan: &Plan, examples: usize) -> Result<(), Failure> {
    if plan.batch <= examples {
        return Ok(());
    }
    let message = format!("is {}, but there are only {examples} examples to train on", plan.batch);
    Err(job.problem("train.batch", message).into())
}
