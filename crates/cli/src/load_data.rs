//! Loads the data that a plan names.

use std::path::Path;
use std::sync::Arc;

use paceline_data::{
    DataError, Examples, FakeImages, PictureOptions, Pictures, SparseRows, SparseSpec, Split,
    TrainTest, cached_digits, open_sparse,
};

use paceline_engine::TrainingData;
use paceline_fetch::KnownDataset;
use paceline_table::{Featurizer, TableSpec, open_table, table_featurizer};

use crate::Failure;
use crate::data_display::DataDisplay;
use crate::data_shape::{DataShape, shape_of};
use crate::network_check::check_network;
use paceline_job::{DataKind, ModelKind, Plan, RawJob};

/// Without a test set, one in `HOLD_OUT_SHARE` examples is held out for tests by default, and at
/// most `MAX_HOLD_OUT`.
const HOLD_OUT_SHARE: usize = 10;
const MAX_HOLD_OUT: usize = 10_000;

/// The shape of the plan's data. Reads as little of the data as possible.
pub(crate) fn data_shape(
    job: &RawJob,
    plan: &Plan,
    display: &mut DataDisplay,
) -> Result<DataShape, Failure> {
    let shape = match &plan.data.kind {
        DataKind::Rows(SparseSpec { features: Some(features), .. }) => {
            return Ok(DataShape::of_rows(*features));
        }
        DataKind::Pictures { .. } | DataKind::Rows(_) => {
            return Ok(shape_of(&load_data(job, plan, display)?));
        }
        DataKind::Table(spec) => {
            let featurizer = table_featurizer(spec, display)?;
            check_classes(job, plan, &featurizer)?;
            let planes = [1, 1, featurizer.features()];
            DataShape { planes, classes: featurizer.classes().len() }
        }
        kind => {
            DataShape { planes: example_planes(plan)?, classes: kind.classes().unwrap_or_default() }
        }
    };
    check_network(job, plan, shape)?;
    Ok(shape)
}

/// The channels, rows and columns of an example, without reading examples.
pub(crate) fn example_planes(plan: &Plan) -> Result<[usize; 3], Failure> {
    let (known, path) = match &plan.data.kind {
        DataKind::Mnist { path } => (KnownDataset::Mnist, path),
        DataKind::FashionMnist { path } => (KnownDataset::FashionMnist, path),
        other => return Ok(other.planes().unwrap_or_default()),
    };
    let (rows, columns) = known.locate(path.as_deref())?.image_size()?;
    Ok([1, rows, columns])
}

/// The shape of the data, if the job alone determines it.
pub(crate) fn known_shape(plan: &Plan) -> Option<DataShape> {
    let kind = &plan.data.kind;
    Some(DataShape { planes: kind.planes()?, classes: kind.classes()? })
}

/// Reads or generates the plan's data, and checks the batch size against it. `display` shows what
/// takes long.
pub(crate) fn load_data(
    job: &RawJob,
    plan: &Plan,
    display: &mut DataDisplay,
) -> Result<TrainingData, Failure> {
    let shape = known_shape(plan);
    shape.map_or(Ok(()), |shape| check_network(job, plan, shape))?;
    let data = match read_data(job, plan, display) {
        Err(Failure::Data(DataError::Interrupted)) => return Err(display.interrupted()),
        read => read?,
    };
    if shape.is_none() {
        check_network(job, plan, shape_of(&data))?;
    }
    check_batch(job, plan, data.train_len())?;
    Ok(data)
}

fn read_data(
    job: &RawJob,
    plan: &Plan,
    display: &mut DataDisplay,
) -> Result<TrainingData, Failure> {
    Ok(match &plan.data.kind {
        DataKind::Digits { train_examples, test_examples } => {
            let digits = cached_digits(*train_examples, *test_examples, plan.seed, display)?;
            TrainingData::Images(Arc::new(digits))
        }
        DataKind::Mnist { path } => {
            let set = KnownDataset::Mnist.load_observed(path.as_deref(), display)?;
            TrainingData::Images(Arc::new(set))
        }
        DataKind::FashionMnist { path } => {
            let set = KnownDataset::FashionMnist.load_observed(path.as_deref(), display)?;
            TrainingData::Images(Arc::new(set))
        }
        DataKind::Rows(spec) => {
            let rows = open_sparse(spec, display)?;
            TrainingData::Rows(Arc::new(with_test_rows(spec, rows, display)?))
        }
        DataKind::Table(spec) => load_table(job, plan, spec, display)?,
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
            let mut options = PictureOptions::new(*size, plan.seed);
            (options.test_examples, options.split) = (hold_out.unwrap_or(0), *split);
            TrainingData::Examples(load_pictures(path, options, display)?)
        }
    })
}

fn load_pictures(
    path: &Path,
    mut options: PictureOptions,
    display: &mut DataDisplay,
) -> Result<TrainTest<Arc<dyn Examples>>, Failure> {
    let mut set = Pictures::open_observed(path, &options, display)?;
    if set.test.is_empty() {
        options.test_examples = default_hold_out(set.train.len());
        set = Pictures::open_observed(path, &options, display)?;
    }
    Ok(set.into_shared())
}

/// The default number of examples held out for tests.
fn default_hold_out(examples: usize) -> usize {
    (examples / HOLD_OUT_SHARE).clamp(1, MAX_HOLD_OUT)
}

/// Reads a table as the rows or vectors that the plan's model takes.
fn load_table(
    job: &RawJob,
    plan: &Plan,
    spec: &TableSpec,
    display: &mut DataDisplay,
) -> Result<TrainingData, Failure> {
    let mut table = open_table(spec, display)?;
    check_classes(job, plan, &table.featurizer)?;
    table.rows = with_test_rows(&spec.rows_spec(), table.rows, display)?;
    Ok(match plan.model {
        ModelKind::Logistic { .. } => TrainingData::Rows(Arc::new(table.rows)),
        _ => TrainingData::Examples(table.into_dense()?.into_shared()),
    })
}

/// Checks that the model can tell the classes of a table apart.
fn check_classes(job: &RawJob, plan: &Plan, featurizer: &Featurizer) -> Result<(), Failure> {
    let (classes, label) = (featurizer.classes().len(), featurizer.label().unwrap_or_default());
    if classes == 2 || !matches!(plan.model, ModelKind::Logistic { .. }) {
        return Ok(());
    }
    let message = format!(
        "is \"logistic\", which is for two classes, but the label {label:?} has {classes}; set \
         model.kind = \"softmax\""
    );
    Err(job.problem("model.kind", message).into())
}

/// Adds test rows to rows that have none.
fn with_test_rows(
    spec: &SparseSpec,
    mut set: TrainTest<SparseRows>,
    display: &mut DataDisplay,
) -> Result<TrainTest<SparseRows>, Failure> {
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
            known_shape(plan).map_or(Ok(()), |shape| check_network(job, plan, shape))?;
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
