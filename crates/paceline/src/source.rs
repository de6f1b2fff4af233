//! The data that a plan names, in memory.

use std::path::Path;

use paceline_data::{ImageSet, Known, digits, load};

use crate::Failure;
use crate::job::{DataKind, Plan, RawJob};

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
    if plan.batch > set.train.len() {
        let message = format!(
            "is {}, but there are only {} examples to train on",
            plan.batch,
            set.train.len()
        );
        return Err(job.problem("train.batch", message).into());
    }
    Ok(set)
}
