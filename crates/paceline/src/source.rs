//! The data that a plan names, in memory.

use std::path::Path;

use paceline_data::{ImageSet, Known, digits, load, locate};

use crate::Failure;
use crate::job::{DataKind, Plan, RawJob};

/// What a model must know of the data before it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Values of one example.
    pub inputs: usize,
    /// Classes to tell apart.
    pub classes: usize,
}

impl Shape {
    /// The shape of data that has been read.
    pub fn of(data: &ImageSet) -> Self {
        Self { inputs: data.train.inputs(), classes: data.train.classes() }
    }
}

/// The shape of the plan's data, without reading more than a header of it.
pub fn data_shape(plan: &Plan) -> Result<Shape, Failure> {
    let (known, path) = match &plan.data.kind {
        DataKind::Digits { .. } => return Ok(Shape { inputs: 28 * 28, classes: 10 }),
        DataKind::Mnist { path } => (Known::Mnist, path),
        DataKind::FashionMnist { path } => (Known::FashionMnist, path),
    };
    let (rows, cols) = locate(known, path.as_deref())?.image_size()?;
    Ok(Shape { inputs: rows * cols, classes: known.spec().classes })
}

/// Reads or generates the plan's data, and checks what could not be checked without it.
pub fn load_data(job: &RawJob, plan: &Plan) -> Result<ImageSet, Failure> {
    let known = |known, path: &Option<_>| load(known, path.as_deref().map(Path::new));
    let set = match &plan.data.kind {
        DataKind::Digits { train_examples, test_examples } => {
            digits(plan.seed, *train_examples, *test_examples)
        }
        DataKind::Mnist { path } => known(Known::Mnist, path)?,
        DataKind::FashionMnist { path } => known(Known::FashionMnist, path)?,
    };
    check_batch(job, plan, set.train.len())?;
    Ok(set)
}

/// Checks everything that can be wrong with the plan's data, without keeping it.
pub fn check_data(job: &RawJob, plan: &Plan) -> Result<(), Failure> {
    match plan.data.kind {
        // Generated data is sound by itself.
        DataKind::Digits { train_examples, .. } => check_batch(job, plan, train_examples),
        _ => load_data(job, plan).map(drop),
    }
}

fn check_batch(job: &RawJob, plan: &Plan, examples: usize) -> Result<(), Failure> {
    if plan.batch <= examples {
        return Ok(());
    }
    let message = format!("is {}, but there are only {examples} examples to train on", plan.batch);
    Err(job.problem("train.batch", message).into())
}
