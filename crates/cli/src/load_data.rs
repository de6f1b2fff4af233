//! Loads the data that a plan names.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use paceline_arrays::{PictureOptions, Pictures, open_numpy_observed, open_records};
use paceline_data::random::mix;
use paceline_data::sparse::{DenseRows, LabelRule};
use paceline_data::{
    DataError, Examples, FakeImages, HoldOut, Images, SelectedExamples, SparseRows, SparseSpec,
    Split, TrainTest, cached_digits, open_sparse,
};

use paceline_engine::TrainingData;
use paceline_fetch::KnownDataset;
use paceline_table::{Featurizer, TableSpec, open_table, table_featurizer};

use crate::Failure;
use crate::data_display::DataDisplay;
use crate::model_memory::check_model_memory;
use crate::network_check::check_network;
use paceline_job::{
    DataKind, DataShape, Plan, RawJob, SettingOrigin, ValidationPlan, did_you_mean, shape_of,
    shared_file,
};
use paceline_terminal::counted;

/// The shape of the plan's data. Reads as little of the data as possible.
pub(crate) fn data_shape(
    job: &RawJob,
    plan: &Plan,
    display: &mut DataDisplay,
) -> Result<DataShape, Failure> {
    let shape = match &plan.data.kind {
        // Fields and classes are known only when rows have been read.
        DataKind::Rows(SparseSpec {
            features: Some(features),
            with_fields: false,
            labels: LabelRule::Binary,
            ..
        }) => {
            return Ok(DataShape::of_rows(*features, 0));
        }
        DataKind::Pictures { .. }
        | DataKind::Rows(_)
        | DataKind::DenseRows(_)
        | DataKind::Numpy(_)
        | DataKind::Records(_) => {
            return Ok(shape_of(&load_data(job, plan, display)?));
        }
        DataKind::Table(spec) => {
            let featurizer = table_featurizer(spec, display)?;
            check_classes(plan, &featurizer)?;
            let (planes, map) = ([1, 1, featurizer.features()], featurizer.fields());
            let (fields, number_fields) = (map.len(), map.numbers());
            let shape = DataShape::new(planes, featurizer.classes().len());
            DataShape { fields, number_fields, ..shape }
        }
        kind => DataShape::new(example_planes(plan)?, kind.classes().unwrap_or_default()),
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
    Some(DataShape::new(kind.planes()?, kind.classes()?))
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
    let data = match read_data(plan, display) {
        Err(Failure::Data(DataError::Interrupted)) => return Err(display.interrupted()),
        Err(Failure::Data(error)) => return Err(with_similar_path(error)),
        read => read?,
    };
    if shape.is_none() {
        check_network(job, plan, shape_of(&data))?;
    }
    check_batch(job, plan, data.train_len())?;
    check_class_weights(job, plan, shape_of(&data).classes)?;
    Ok(data)
}

/// Suggests a path instead of one that does not exist.
fn with_similar_path(error: DataError) -> Failure {
    match &error {
        DataError::Io { path, source, .. } if source.kind() == ErrorKind::NotFound => {
            let near = did_you_mean(path, |_| true);
            Failure::Usage(format!("{error}{near}"))
        }
        _ => Failure::Data(error),
    }
}

fn read_data(plan: &Plan, display: &mut DataDisplay) -> Result<TrainingData, Failure> {
    Ok(match &plan.data.kind {
        DataKind::Digits { train_examples, test_examples } => {
            let digits = cached_digits(*train_examples, *test_examples, plan.seed, display)?;
            TrainingData::Images(Arc::new(validate_images(plan, digits)?))
        }
        DataKind::Mnist { path } => {
            let set = KnownDataset::Mnist.load_observed(path.as_deref(), display)?;
            TrainingData::Images(Arc::new(validate_images(plan, set)?))
        }
        DataKind::FashionMnist { path } => {
            let set = KnownDataset::FashionMnist.load_observed(path.as_deref(), display)?;
            TrainingData::Images(Arc::new(validate_images(plan, set)?))
        }
        DataKind::Table(spec) => load_table(plan, spec, display)?,
        DataKind::Rows(spec) => {
            let mut rows = load_rows(plan, spec, display)?;
            if spec.labels == LabelRule::Classes {
                rows = rows.with_label_classes(spec.test_path.as_deref())?;
            }
            TrainingData::Rows(Arc::new(rows))
        }
        DataKind::DenseRows(spec) => {
            let rows = load_rows(plan, spec, display)?;
            let rows = DenseRows::of(rows, spec.test_path.as_deref())?;
            TrainingData::Examples(rows.into_shared())
        }
        DataKind::Numpy(spec) => {
            let set = open_numpy_observed(spec, display)?.into_shared();
            TrainingData::Examples(validate_examples(plan, set)?)
        }
        DataKind::Records(spec) => {
            let set = open_records(spec, display)?.into_shared();
            TrainingData::Examples(validate_examples(plan, set)?)
        }
        DataKind::FakeImages { size, classes, train_examples, test_examples } => {
            let set =
                |split, examples| FakeImages::new(plan.seed, split, examples, *classes, *size);
            let origin = format!("generated from seed {}", plan.seed);
            let all = TrainTest::new(
                set(Split::Train, *train_examples),
                set(Split::Test, *test_examples),
            );
            let all = TrainTest { origin, ..all }.into_shared();
            TrainingData::Examples(validate_examples(plan, all)?)
        }
        DataKind::Pictures { path, size, hold_out, split } => {
            let mut options = PictureOptions::new(*size, plan.seed);
            (options.test_examples, options.split) = (hold_out.unwrap_or(0), *split);
            TrainingData::Examples(load_pictures(plan, path, options, display)?)
        }
    })
}

fn load_pictures(
    plan: &Plan,
    path: &Path,
    mut options: PictureOptions,
    display: &mut DataDisplay,
) -> Result<TrainTest<Arc<dyn Examples>>, Failure> {
    let mut set = Pictures::open_observed(path, &options, display)?;
    let has_test_set = !set.test.is_empty() && options.test_examples == 0;
    let all = set.train.len() + if has_test_set { 0 } else { set.test.len() };
    if set.test.is_empty() {
        options.test_examples = held_out(plan, all);
    }
    let Some(share) = validation_share(plan) else {
        if set.test.is_empty() {
            set = Pictures::open_observed(path, &options, display)?;
        }
        return Ok(set.into_shared());
    };
    if has_test_set {
        let text = "data.validation: these pictures have a test set of their own, and training \
                    pictures, which are cropped at random, cannot be validated on; leave it out";
        return Err(Failure::Usage(text.into()));
    }
    // Held out together, so that both are cropped as pictures are in tests.
    let left = all.saturating_sub(options.test_examples);
    let validation = validation_count(share, all, left)?;
    options.test_examples += validation;
    let set = Pictures::open_observed(path, &options, display)?.into_shared();
    let [test, validation] =
        SelectedExamples::hold_out(&set.test, validation, validation_seed(plan.seed))?;
    let (train, origin) = (set.train, set.origin);
    let set = TrainTest { origin, ..TrainTest::new(train, Arc::new(test) as Arc<dyn Examples>) };
    Ok(set.with_validation(Arc::new(validation)))
}

/// The number of examples held out for tests: the share that the job sets, or the default.
fn held_out(plan: &Plan, examples: usize) -> usize {
    match plan.data.test_share {
        Some(share) => count_of(share, examples),
        None => HoldOut::default_count(examples),
    }
}

/// Reads a table as the rows or vectors that the plan's model takes.
fn load_table(
    plan: &Plan,
    spec: &TableSpec,
    display: &mut DataDisplay,
) -> Result<TrainingData, Failure> {
    let mut table = open_table(spec, display)?;
    check_classes(plan, &table.featurizer)?;
    table.rows = split_rows(plan, &spec.rows_spec(), table.rows, display)?;
    if plan.model.has_one_score() {
        return Ok(TrainingData::Rows(Arc::new(table.rows)));
    } else if plan.model.takes_rows() {
        let rows = table.rows.with_class_names(table.featurizer.classes());
        return Ok(TrainingData::Rows(Arc::new(rows)));
    }
    Ok(TrainingData::Examples(table.into_dense()?.into_shared()))
}

/// Checks that the model can tell the classes of a table apart.
fn check_classes(plan: &Plan, featurizer: &Featurizer) -> Result<(), Failure> {
    let (classes, label) = (featurizer.classes().len(), featurizer.label().unwrap_or_default());
    if classes == 2 || !plan.model.has_one_score() {
        return Ok(());
    }
    let kind = plan.model.name();
    Err(Failure::Usage(format!(
        "model.kind is {kind:?}, which is for two classes, but the label {label:?} has \
         {classes}; set model.kind = \"softmax\" or \"sparse-softmax\", or name another label in \
         data.columns"
    )))
}

/// A share of some examples, at least one.
fn count_of(share: f64, examples: usize) -> usize {
    ((share * examples as f64).round() as usize).max(1)
}

/// The number of training examples that a validation set takes away.
fn validation_count(share: f64, all: usize, train: usize) -> Result<usize, Failure> {
    let count = count_of(share, all);
    if count < train {
        return Ok(count);
    }
    Err(Failure::Usage(format!(
        "data.validation = {share} takes {} away, but there are {train}: none would be left; set \
         it to a smaller share",
        counted(count as u64, "training example")
    )))
}

/// The share of the training data that tests during training use, if the plan has one.
fn validation_share(plan: &Plan) -> Option<f64> {
    match plan.data.validation {
        Some(ValidationPlan::Share(share)) => Some(share),
        _ => None,
    }
}

/// The seed by which a validation set is drawn: another than that of a test set, so that the two
/// are independent.
fn validation_seed(seed: u64) -> u64 {
    mix(seed)
}

/// Takes the validation set out of the training images, if the plan has one.
fn validate_images(plan: &Plan, set: TrainTest<Images>) -> Result<TrainTest<Images>, Failure> {
    let Some(share) = validation_share(plan) else { return Ok(set) };
    let count = validation_count(share, set.train.len(), set.train.len())?;
    let [train, validation] = set.train.hold_out(count, validation_seed(plan.seed))?;
    Ok(TrainTest { train, ..set }.with_validation(validation))
}

/// Takes the validation set out of the training examples, if the plan has one.
fn validate_examples(
    plan: &Plan,
    set: TrainTest<Arc<dyn Examples>>,
) -> Result<TrainTest<Arc<dyn Examples>>, Failure> {
    let Some(share) = validation_share(plan) else { return Ok(set) };
    let count = validation_count(share, set.train.len(), set.train.len())?;
    let [train, validation] =
        SelectedExamples::hold_out(&set.train, count, validation_seed(plan.seed))?;
    let train: Arc<dyn Examples> = Arc::new(train);
    Ok(TrainTest { train, ..set }.with_validation(Arc::new(validation)))
}

fn load_rows(
    plan: &Plan,
    spec: &SparseSpec,
    display: &mut DataDisplay,
) -> Result<TrainTest<SparseRows>, Failure> {
    let rows = open_sparse(spec, display)?;
    split_rows(plan, spec, rows, display)
}

/// Completes the rows of a plan: test rows if they have none, the validation set that the plan
/// names or takes out of them, and training without the negatives that it leaves out.
fn split_rows(
    plan: &Plan,
    spec: &SparseSpec,
    rows: TrainTest<SparseRows>,
    display: &mut DataDisplay,
) -> Result<TrainTest<SparseRows>, Failure> {
    let mut set = with_test_rows(plan, spec, rows, display)?;
    shared_file(&spec.path, &spec.test_path, "test").iter().for_each(|text| display.say(text));
    match &plan.data.validation {
        None => {}
        Some(ValidationPlan::Share(share)) => {
            let held = if spec.test_path.is_some() { 0 } else { set.test.len() };
            let count = validation_count(*share, set.train.len() + held, set.train.len())?;
            let split = set.train.hold_out(count, validation_seed(plan.seed))?;
            set = TrainTest { train: split.train, ..set }.with_validation(split.test);
        }
        Some(ValidationPlan::Rows(path)) => {
            let trained_on = &spec.path;
            let features = Some(set.train.features());
            let (path, test_path) = (Some(path.clone()), None);
            let spec =
                SparseSpec { path, test_path, features, test_examples: None, ..spec.clone() };
            shared_file(trained_on, &spec.path, "validation")
                .iter()
                .for_each(|text| display.say(text));
            let rows = open_sparse(&spec, display)?.train;
            set = set.with_validation(rows);
        }
    }
    if let Some(share) = plan.data.negatives {
        set.train = set.train.sample_negatives(share, plan.seed)?;
    }
    Ok(set)
}

/// Adds test rows to rows that have none.
fn with_test_rows(
    plan: &Plan,
    spec: &SparseSpec,
    mut set: TrainTest<SparseRows>,
    display: &mut DataDisplay,
) -> Result<TrainTest<SparseRows>, Failure> {
    if set.train.skipped() > 0 {
        let rows = counted(set.train.skipped(), "bad row");
        let were = if set.train.skipped() == 1 { "was" } else { "were" };
        display.say(&format!("{}: {rows} {were} skipped", set.origin));
    }
    if set.test.is_empty() {
        let rows = set.train.len();
        if rows < 2 {
            let text = format!("{}: too few rows for training and tests", set.origin);
            return Err(Failure::Usage(text));
        }
        let split = spec.hold_out(&set.train, held_out(plan, rows))?;
        set = TrainTest { origin: set.origin, ..split };
    }
    Ok(set)
}

/// Checks the plan's data, and its model's memory, without keeping it. Returns the number of
/// training examples.
pub(crate) fn check_data(
    job: &RawJob,
    plan: &Plan,
    display: &mut DataDisplay,
) -> Result<usize, Failure> {
    match plan.data.kind {
        // Generated pictures need no check.
        DataKind::FakeImages { train_examples, .. } => {
            if let Some(shape) = known_shape(plan) {
                check_network(job, plan, shape)?;
                check_class_weights(job, plan, shape.classes)?;
            }
            check_batch(job, plan, train_examples).map(|()| train_examples)
        }
        _ => {
            let data = load_data(job, plan, display)?;
            let shape = shape_of(&data);
            job.check_factors(plan, shape.planes, Some(shape.classes))?;
            check_model_memory(job, plan, shape)?;
            Ok(data.train_len())
        }
    }
}

fn check_batch(job: &RawJob, plan: &Plan, examples: usize) -> Result<(), Failure> {
    if plan.batch <= examples {
        return Ok(());
    }
    let verb = if examples == 1 { "is" } else { "are" };
    let less = if examples == 1 { "" } else { " or less" };
    let only = format!(
        "but there {verb} only {}; set train.batch={examples}{less}",
        counted(examples as u64, "training example")
    );
    let problem = job.problem("train.batch", format!("is {}, {only}", plan.batch));
    Err(match problem.origin {
        SettingOrigin::Default | SettingOrigin::Derived { .. } => {
            Failure::Usage(format!("train.batch is {} by default, {only}", plan.batch))
        }
        _ => problem.into(),
    })
}

/// Refuses weights that are not one for each class.
fn check_class_weights(job: &RawJob, plan: &Plan, classes: usize) -> Result<(), Failure> {
    let given = plan.class_weights.len();
    if given == 0 || given == classes {
        return Ok(());
    }
    let why = format!(
        "has {}, but the data has {classes} classes; write one for each, in the order of the \
         labels",
        counted(given as u64, "number")
    );
    Err(job.problem("train.class_weights", why).into())
}
