//! Every key of the job file, in one table.
//!
//! Checking, `paceline explain`, the suggestions in errors and `docs/job.md` all use this table, so
//! each key is described once.

use std::sync::LazyLock;

use super::checkpoint_keys::checkpoint_keys;
use super::cluster_keys::cluster_keys;
use super::column_keys::{column_keys, table_keys};
use super::condition::KeyCondition;
use super::key_spec::{KeySpec, ValueKind, key, optional};
use super::layer_keys::layer_keys;
use super::layer_path::pattern_of;
use super::model_keys::{
    CACHED_ROWS, FACTORS, MODEL, PICTURES, SPARSE, TWO_CLASS, WITH_FIELDS, model_keys,
};
use super::schedule_keys::optimizer_groups;

/// Counts that fit in 32 bits.
const COUNT: ValueKind = ValueKind::Whole { min: 1, max: u32::MAX as u64 };
/// Every kind of data.
pub(super) const DATA_KINDS: &[&str] = &[
    "digits",
    "mnist",
    "fashion-mnist",
    "clicks",
    "libsvm",
    "libffm",
    "tfrecord",
    "criteo",
    "table",
    "numpy",
    "fake-images",
    "images",
];
/// The kinds that are sparse rows.
pub(super) const ROWS: &[&str] = &["clicks", "libsvm", "libffm", "tfrecord", "criteo"];
/// The kinds that have a test set of their own in `data.test_path`.
const TEST_FILES: &[&str] = &["libsvm", "libffm", "tfrecord", "criteo", "table", "numpy"];
/// The kinds of data from which `data.test` may hold out a share.
const SHARED_FILES: &[&str] = &["libsvm", "libffm", "tfrecord", "criteo", "table", "images"];
/// The kinds whose arrays or features have names.
const NAMED: &[&str] = &["numpy", "tfrecord"];
/// All kinds that are read from files one example at a time.
pub(super) const FILES: &[&str] =
    &["libsvm", "libffm", "tfrecord", "criteo", "table", "numpy", "images"];
/// The key that the defaults of an optimizer depend on.
const OPTIMIZER: &str = "train.optimizer.kind";
/// Softmax regression over sparse rows.
const SOFTMAX: &[&str] = &["sparse-softmax"];
/// Counts of steps, which may be large.
const STEPS: ValueKind = ValueKind::Whole { min: 1, max: i64::MAX as u64 };

/// Counts of steps that may be 0.
const STEPS_FROM_0: ValueKind = ValueKind::Whole { min: 0, max: i64::MAX as u64 };

/// Every key. Keys of a section are adjacent; sections are in the order of the file.
pub(super) static KEYS: LazyLock<Vec<KeySpec>> = LazyLock::new(|| {
    let about_data =
        [top(), model_keys(), layer_keys(), data(), data_names(), data_sets(), column_keys()];
    let about_training = [train(), stop(), evaluate(), optimizer()];
    let about_runs = [cluster_keys(), checkpoint_keys(), observe()];
    about_data.into_iter().chain(about_training).chain(about_runs).flatten().collect()
});

/// The key of a path.
pub(super) fn find_key(path: &str) -> Option<&'static KeySpec> {
    let pattern = pattern_of(path);
    KEYS.iter().find(|key| key.path == pattern)
}

fn top() -> Vec<KeySpec> {
    vec![
        optional("name", ValueKind::Name, "name of the run; defaults to the job file's name"),
        key("seed", STEPS_FROM_0, "1", "seed of every random choice"),
    ]
}

fn data() -> Vec<KeySpec> {
    let kind = "data.kind";
    [data_source(kind), data_use(kind), table_keys(kind, MODEL, SPARSE)]
        .into_iter()
        .flatten()
        .collect()
}

/// Where examples come from.
fn data_source(kind: &str) -> Vec<KeySpec> {
    let generated: &[&str] = &["digits", "clicks", "fake-images"];
    let kinds = "training data (`paceline data list`); by the ending of `data.path`, with or \
                 without .gz: `\"table\"` for .csv, .tsv and .parquet, `\"libsvm\"` for .svm and \
                 .libsvm, `\"libffm\"` for .ffm and .libffm, `\"numpy\"` for .npz and .npy, \
                 `\"tfrecord\"` for .tfrecord and .tfrecords";
    let path = "directory of the four IDX files, plain or gzip, by default the cache; file, \
                 directory or pattern of rows or tables; .npz file, .npy file or directory of .npy \
                 files; directory or list of pictures";
    let interactions = "share of the variance of the generated scores that is due to pairs of \
                 values, which linear models cannot learn";
    vec![
        key(kind, ValueKind::Word(DATA_KINDS), "\"digits\"", kinds)
            .default_when("\"clicks\"", &[(MODEL, SPARSE)])
            .default_when("\"fake-images\"", &[(MODEL, &["alexnet"])]),
        optional("data.path", ValueKind::Path, path).with(
            kind,
            &[
                "mnist",
                "fashion-mnist",
                "libsvm",
                "libffm",
                "tfrecord",
                "criteo",
                "table",
                "numpy",
                "images",
            ],
        ),
        key("data.train_examples", COUNT, "60000", "training examples to generate")
            .default_when("1000", &[(kind, &["fake-images"])])
            .with(kind, generated),
        key("data.test_examples", COUNT, "10000", "test examples to generate")
            .default_when("400", &[(kind, &["fake-images"])])
            .with(kind, generated),
        key("data.interactions", ValueKind::Fraction, "0", interactions).with(kind, &["clicks"]),
    ]
}

/// How examples are read and used.
fn data_use(kind: &str) -> Vec<KeySpec> {
    let features = "number of features; defaults to 33762578 for clicks and criteo, and to the \
                 greatest index found for libsvm, libffm and tfrecord";
    let fields = "the most fields: a row with a field that is not below this number is unreadable";
    let cache = "directory for the cache of rows; defaults to `rows` in the cache directory";
    let on_bad = "whether an unreadable example ends the run, or is skipped and counted";
    let shuffle_buffer = "size of the window within which rows are shuffled, in rows";
    let index_base = "index of the first feature; auto is 1 unless a row has an index 0";
    vec![
        key(
            "data.size",
            ValueKind::Whole { min: 1, max: 4096 },
            "224",
            "width and height of an image, in pixels",
        )
        .with(kind, &["images", "fake-images", "tfrecord"])
        .when(KeyCondition::Any(vec![
            KeyCondition::Has { key: kind.into(), values: PICTURES },
            KeyCondition::AnySet(&["data.inputs"]),
        ])),
        key("data.classes", ValueKind::Whole { min: 2, max: 1 << 20 }, "10", "number of classes")
            .with(kind, &["fake-images"]),
        optional("data.features", COUNT, features).with(kind, ROWS),
        key("data.fields", ValueKind::Whole { min: 1, max: 1 << 16 }, "256", fields)
            .with(kind, &["libffm"])
            .with(MODEL, WITH_FIELDS),
        key("data.index_base", ValueKind::Word(&["auto", "zero", "one"]), "\"auto\"", index_base)
            .with(kind, &["libsvm"]),
        key("data.on_bad", ValueKind::Word(&["fail", "skip"]), "\"fail\"", on_bad)
            .with(kind, FILES),
        key("data.shuffle", ValueKind::Flag, "true", "whether every epoch uses a new order"),
        key("data.shuffle_buffer", COUNT, "1000000", shuffle_buffer)
            .with(kind, CACHED_ROWS)
            .when(KeyCondition::IsTrue("data.shuffle")),
        optional("data.cache", ValueKind::Path, cache).with(kind, CACHED_ROWS),
    ]
}

/// The names of arrays and features.
fn data_names() -> Vec<KeySpec> {
    let kind = "data.kind";
    let inputs = "name of the array or feature with the inputs, by default `x` or `x_train` for \
                 numpy; for tfrecord it makes examples dense: numbers, or pictures of `data.size`";
    let labels = "name of the array or feature with the labels; defaults to `y` or `y_train` for \
                 numpy and to `label` for tfrecord";
    let indices = "name of the feature with the indices of a row; defaults to `index`";
    let values = "name of the feature with the values of a row; defaults to `value`";
    vec![
        optional("data.inputs", ValueKind::Text, inputs).with(kind, NAMED),
        optional("data.labels", ValueKind::Text, labels).with(kind, NAMED),
        optional("data.indices", ValueKind::Text, indices)
            .with(kind, &["tfrecord"])
            .when(KeyCondition::NotSet("data.inputs")),
        optional("data.values", ValueKind::Text, values)
            .with(kind, &["tfrecord"])
            .when(KeyCondition::NotSet("data.inputs")),
    ]
}

/// What of the data is held out, and what is left out.
fn data_sets() -> Vec<KeySpec> {
    let kind = "data.kind";
    let hold_out = "examples held out for tests if the data has no test set; defaults to a tenth, \
                 at most 10000";
    let split = "which examples are held out: drawn by the seed, from each class in proportion to \
                 its size; or, as in earlier versions, the last rows, or pictures drawn whatever \
                 their class";
    let validation = "examples that tests during training use, so that the test set judges the \
                 result alone: a share of the training data, drawn by the seed from each class in \
                 proportion to its size; or, for rows, a file, directory or pattern";
    let test = "share of the data held out for the final test, or the test rows, as `test_path`";
    let negatives = "share of the training rows of class 0 to keep, drawn by the seed; the \
                 intercept is corrected for it, so that probabilities are those of all rows";
    vec![
        optional("data.test_path", ValueKind::Path, "the same for examples used only for tests")
            .with(kind, TEST_FILES),
        optional("data.test", ValueKind::ShareOrPath, test)
            .with(kind, SHARED_FILES)
            .when(KeyCondition::NotSet("data.test_path"))
            .when(KeyCondition::NotSet("data.inputs")),
        optional("data.validation", ValueKind::ShareOrPath, validation),
        optional("data.negatives", ValueKind::Share, negatives)
            .with(kind, CACHED_ROWS)
            .with(MODEL, TWO_CLASS),
        optional("data.hold_out", COUNT, hold_out)
            .with(kind, FILES)
            .when(KeyCondition::NotSet("data.test_path"))
            .when(KeyCondition::NotSet("data.test")),
        key("data.split", ValueKind::Word(&["stratified", "plain"]), "\"stratified\"", split)
            .with(kind, FILES)
            .when(KeyCondition::NotSet("data.test_path")),
    ]
}

fn train() -> Vec<KeySpec> {
    let threads = "threads per worker. By default, networks, and softmax regression with batches \
                 of 256 or more, divide the machine's cores among its workers. Logistic \
                 regression uses 1; more threads share the parameters without locks, in mode \
                 single only";
    let keep_best = "keep the parameters of the best test in `model-best.safetensors`, beside the \
                 last ones";
    let metrics = ValueKind::Word(&["loss", "accuracy", "auc"]);
    let metric = "what tests are compared by for `patience` and `keep_best`; auc for two classes";
    let divergence = "whether training whose loss stays at ten times its start, or at ten if it \
                 started below one, ends with an error; a loss that is not a number always does";
    let start = "model file or run directory whose parameters training starts from; features may \
                 have been added since";
    let class_weights = "what the loss and gradient of an example are multiplied by, for each \
                 class in the order of the labels, such as [1, 5]; defaults to 1 for all";
    let global_batch = "examples per step of all workers together";
    vec![
        key("train.batch", COUNT, "60", "examples per step of a worker")
            .default_when("64", &[(MODEL, &["lenet", "network"])])
            .default_when("32", &[(MODEL, &["alexnet"])])
            .when(KeyCondition::NotSet("train.global_batch")),
        optional("train.global_batch", COUNT, global_batch),
        optional("train.start", ValueKind::Path, start),
        optional("train.class_weights", ValueKind::Weights, class_weights),
        optional("train.threads", ValueKind::Whole { min: 1, max: 1024 }, threads),
        key("train.on_divergence", ValueKind::Word(&["stop", "continue"]), "\"stop\"", divergence),
        key("train.keep_best", ValueKind::Flag, "false", keep_best)
            .default_when("true", &[(PATIENCE, &[])]),
        key("train.metric", metrics, "\"loss\"", metric).when(KeyCondition::Any(vec![
            KeyCondition::AnySet(&["train.stop.patience"]),
            KeyCondition::IsTrue("train.keep_best"),
        ])),
    ]
}

/// The key of early stopping, on which others depend.
const PATIENCE: &str = "train.stop.patience";
/// The key of a target loss.
const TARGET: &str = "train.stop.test_loss";

fn stop() -> Vec<KeySpec> {
    let positive = ValueKind::Above(0.0);
    let epochs = "stop after this number of passes over the data; 6 if no other condition is set";
    let tests = "stop after this number of tests in a row without one better than all before \
                 (early stopping)";
    let min_gain = "least gain over the best test that counts for `patience`";
    vec![
        optional("train.stop.epochs", COUNT, epochs),
        optional("train.stop.steps", STEPS, "stop after this number of global steps"),
        optional("train.stop.seconds", positive, "stop after this number of seconds of training"),
        optional(TARGET, positive, "stop when a test measures this loss or less"),
        optional(PATIENCE, COUNT, tests),
        key("train.stop.min_gain", ValueKind::From(0.0), "0.0", min_gain)
            .when(KeyCondition::AnySet(&["train.stop.patience"])),
    ]
}

fn evaluate() -> Vec<KeySpec> {
    let every = "global steps between tests; \"auto\" spaces tests so that all of them together \
                 take at most a twentieth of the run's processor time";
    let intervals = ValueKind::WholeOr { min: 1, max: i64::MAX as u64, word: "auto" };
    vec![
        key("train.evaluate.every", intervals, "\"auto\"", every)
            .default_when("1000", &[(TARGET, &[]), (MODEL, &["lenet"])])
            .default_when("1000", &[(PATIENCE, &[]), (MODEL, &["lenet"])])
            .default_when("100", &[(TARGET, &[])])
            .default_when("100", &[(PATIENCE, &[])]),
        optional(
            "train.evaluate.examples",
            COUNT,
            "test only on this number of examples, from the first; defaults to all",
        )
        .default_when("400", &[(MODEL, &["alexnet"])]),
    ]
}

/// The learning rate, whose default depends on the model and the optimizer's `kind`.
fn optimizer_rate(kind: &'static str) -> KeySpec {
    let rate = "learning rate; the initial one if there is a schedule";
    key("train.optimizer.rate", ValueKind::Above(0.0), "0.01", rate)
        .default_when("0.15", &[(MODEL, &["softmax"]), (kind, &["sgd"])])
        .default_when("0.3", &[(MODEL, &["logistic"]), (kind, &["sgd"])])
        .default_when("0.03", &[(MODEL, &["logistic"]), (kind, &["adagrad"])])
        .default_when("0.05", &[(MODEL, FACTORS), (kind, &["adagrad"])])
        .default_when("0.1", &[(MODEL, FACTORS), (kind, &["sgd"])])
        .default_when("0.1", &[(MODEL, SOFTMAX), (kind, &["adagrad"])])
        .default_when("0.4", &[(kind, &["ftrl"])])
        .default_when("0.0001", &[(MODEL, &["alexnet"]), (kind, &["adam"])])
        .default_when("0.001", &[(kind, &["adam"])])
        .when(KeyCondition::NotInBothGroups("rate"))
}

fn optimizer() -> Vec<KeySpec> {
    let kind = OPTIMIZER;
    let kinds = ValueKind::Word(&["sgd", "momentum", "adagrad", "adam", "ftrl"]);
    let decay = "weight decay: this factor times the parameter is added to its gradient";
    let mut keys = vec![
        key(kind, kinds, "\"sgd\"", "optimizer, which turns gradients into updates")
            .default_when("\"adam\"", &[(MODEL, &["lenet", "alexnet", "network"])])
            .default_when("\"adagrad\"", &[(MODEL, FACTORS)])
            .default_when("\"adagrad\"", &[(MODEL, SOFTMAX)]),
        optimizer_rate(kind),
        key("train.optimizer.decay", ValueKind::From(0.0), "0.0", decay)
            .when(KeyCondition::NotInBothGroups("decay")),
        key(
            "train.optimizer.momentum",
            ValueKind::Fraction,
            "0.9",
            "fraction of the velocity kept from step to step",
        )
        .with(kind, &["momentum"]),
        key("train.optimizer.beta1", ValueKind::Fraction, "0.9", "decay of the mean gradient")
            .with(kind, &["adam"]),
        key(
            "train.optimizer.beta2",
            ValueKind::Fraction,
            "0.999",
            "decay of the mean squared gradient",
        )
        .with(kind, &["adam"]),
        key(
            "train.optimizer.epsilon",
            ValueKind::Above(0.0),
            "1e-8",
            "added to the divisor, so that the quotient stays finite",
        )
        .with(kind, &["adagrad", "adam"]),
        key(
            "train.optimizer.initial",
            ValueKind::From(0.0),
            "0.0",
            "sum of the squared gradients of single examples that a parameter starts from, so \
             that the first few do not move it far",
        )
        .default_when("100.0", &[(MODEL, FACTORS)])
        .with(kind, &["adagrad"]),
        key(
            "train.optimizer.beta",
            ValueKind::From(0.0),
            "1.0",
            "reduces the first steps of each feature",
        )
        .with(kind, &["ftrl"]),
        key(
            "train.optimizer.l1",
            ValueKind::From(0.0),
            "0.0",
            "L1 penalty: adds this factor times the absolute weights to the loss; weights that \
             gain less stay at zero",
        )
        .with(kind, &["sgd", "adagrad", "ftrl"]),
        key(
            "train.optimizer.l2",
            ValueKind::From(0.0),
            "0.0",
            "L2 penalty: adds half this factor times the sum of all weight² to the loss",
        ),
    ];
    keys.extend(optimizer_groups());
    keys
}

fn observe() -> Vec<KeySpec> {
    let sample = ValueKind::Whole { min: 0, max: 3_600_000 };
    let every = "steps between train losses in TensorBoard; without it every step at first, later \
                 means over time with the least and greatest loss";
    let sample_ms = "milliseconds between samples of the task's and the machine's resources; 0 \
                 disables sampling. Without it 1000, and samples of a long run are merged";
    let histograms = "global steps between histograms and norms of weights and gradients in \
                 TensorBoard";
    let http = "address at which tasks serve `/metrics` and `/healthz`; each task has its own \
                 port, counted up from this one, or any free port if it is 0. Addresses beyond \
                 loopback need `cluster.token_file`";
    let gather = "when tasks send their events, resource samples and logs to worker 0: every \
                 second, at the end, or never";
    let from = "first step of a worker in the timeline; defaults to 100. A timeline is \
                 recorded if this or `steps` is set";
    let steps = "number of steps in the timeline; defaults to 10";
    vec![
        optional("observe.every", STEPS, every),
        key("observe.gather", ValueKind::Word(&["live", "end", "off"]), "\"live\"", gather)
            .when(KeyCondition::AnySet(&["cluster.files_port"])),
        optional("observe.sample_ms", sample, sample_ms),
        optional("observe.histograms", STEPS, histograms),
        optional("observe.http", ValueKind::Address, http),
        optional("observe.trace.from", STEPS_FROM_0, from),
        optional("observe.trace.steps", ValueKind::Whole { min: 1, max: 10_000 }, steps),
    ]
}
