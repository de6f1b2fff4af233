//! Every key of the job file, in one table.
//!
//! The table is what checking, `paceline explain`, the "did you mean" of errors and
//! `docs/job.md` are all made from, so that a key is described once.

use std::fmt::Write;
use std::sync::LazyLock;

/// One key of the job file.
#[derive(Debug)]
pub(super) struct Key {
    /// Its full, dotted name.
    pub(super) path: String,
    /// What values it takes.
    pub(super) kind: Kind,
    /// What it is when nobody says, as TOML; `None` if it is then simply not there.
    pub(super) default: Option<&'static str>,
    /// The key and the values of it with which this one means anything.
    pub(super) with: Option<(String, &'static [&'static str])>,
    /// What it does, in a line.
    pub(super) help: &'static str,
}

/// What values a key takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// A whole number in a range, both ends included.
    Whole { min: u64, max: u64 },
    /// A finite number above a limit.
    Above(f64),
    /// A finite number from a limit up.
    From(f64),
    /// A number from 0 up to but without 1.
    Fraction,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A word that can be part of a file name.
    Name,
    /// A file or directory.
    Path,
    /// A host and a port.
    Address,
    /// True or false.
    Flag,
    /// How fast a network is, such as `"1gbit"`.
    Rate,
}

impl Kind {
    /// What the key takes, in words, for errors and documentation.
    pub(super) fn describe(self) -> String {
        match self {
            Kind::Whole { min, max } if max >= u64::from(u32::MAX) => {
                format!("a whole number from {min} up")
            }
            Kind::Whole { min, max } => format!("a whole number from {min} to {max}"),
            Kind::Above(limit) => format!("a number above {limit}"),
            Kind::From(limit) => format!("a number from {limit} up"),
            Kind::Fraction => "a number from 0 up to but without 1".into(),
            Kind::Word(words) => {
                let quoted: Vec<_> = words.iter().map(|word| format!("{word:?}")).collect();
                match quoted.as_slice() {
                    [one] => one.clone(),
                    [most @ .., last] => format!("{} or {last}", most.join(", ")),
                    [] => unreachable!("a word key lists its words"),
                }
            }
            Kind::Name => "a name of at most 100 letters, digits, '-', '_' and '.'".into(),
            Kind::Path => "a path".into(),
            Kind::Address => "HOST:PORT".into(),
            Kind::Flag => "true or false".into(),
            Kind::Rate => "a rate such as \"1gbit\" or \"100mbit\", from 100kbit to 100gbit".into(),
        }
    }
}

/// Counts that must fit into 32 bits.
const COUNT: Kind = Kind::Whole { min: 1, max: u32::MAX as u64 };
/// Every kind of data.
pub(super) const DATA_KINDS: &[&str] = &[
    "digits",
    "mnist",
    "fashion-mnist",
    "clicks",
    "libsvm",
    "tfrecord",
    "criteo",
    "fake-images",
    "images",
];
/// Those that are sparse rows.
pub(super) const ROWS: &[&str] = &["clicks", "libsvm", "tfrecord", "criteo"];
/// Those of them that are read from files.
const ROW_FILES: &[&str] = &["libsvm", "tfrecord", "criteo"];
/// All that are read from any files one example at a time.
const FILES: &[&str] = &["libsvm", "tfrecord", "criteo", "images"];
/// Counts of steps, which may be large.
const STEPS: Kind = Kind::Whole { min: 1, max: i64::MAX as u64 };

/// The same, where none at all makes sense too.
const STEPS_FROM_0: Kind = Kind::Whole { min: 0, max: i64::MAX as u64 };

/// Every key. Keys of one section stand together; sections stand in the order of the file.
pub(super) static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    [top(), model_and_data(), train(), optimizer(), cluster(), emulate(), checkpoint(), observe()]
        .into_iter()
        .flatten()
        .collect()
});

fn key(path: &str, kind: Kind, default: &'static str, help: &'static str) -> Key {
    Key { default: Some(default), ..optional(path, kind, help) }
}

fn optional(path: &str, kind: Kind, help: &'static str) -> Key {
    Key { path: path.to_owned(), kind, default: None, with: None, help }
}

impl Key {
    fn with(self, path: &str, values: &'static [&'static str]) -> Self {
        Self { with: Some((path.to_owned(), values)), ..self }
    }

    /// The section it stands in; empty for the keys at the top.
    pub(super) fn section(&self) -> &str {
        self.path.rsplit_once('.').map_or("", |(section, _)| section)
    }

    /// Its name inside its section.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit_once('.').map_or(&self.path, |(_, name)| name)
    }
}

fn top() -> Vec<Key> {
    vec![
        optional("name", Kind::Name, "what the run is called; the job file's name unless given"),
        key("seed", STEPS_FROM_0, "1", "what every random choice is drawn from"),
    ]
}

fn model_and_data() -> Vec<Key> {
    let kind = "data.kind";
    let generated: &[&str] = &["digits", "clicks", "fake-images"];
    let pictures: &[&str] = &["images", "fake-images"];
    let (model, models) = ("model.kind", Kind::Word(&["softmax", "logistic", "lenet", "alexnet"]));
    let dense = "move every parameter at every step, not only those that a batch touches";
    let kinds = "what it is trained on (`paceline data list`); unless given, clicks for logistic, \
                 fake-images for alexnet";
    let path = "directory of the four IDX files, plain or gzip, the cache unless given; file, \
                directory or pattern of rows; directory or list of pictures";
    let features = "how many features there are; 33762578 for clicks and criteo, and as many as \
                    the greatest index needs for libsvm and tfrecord, unless given";
    let hold_out = "so many examples are tested on, the last rows or pictures that are drawn, if \
                    there are none for that; a tenth, at most 10000, unless given";
    let on_bad = "whether an example that cannot be read ends the run or is left out and counted";
    let shuffle_buffer = "rows that are shuffled among each other";
    let index_base = "what the first feature is called; 1 unless a row has an index 0";
    vec![
        key(model, models, "\"softmax\"", "what is trained; unless given, logistic for rows"),
        key("model.dropout", Kind::Fraction, "0.5", "share of values that dropout leaves out")
            .with(model, &["alexnet"]),
        key("model.dense", Kind::Flag, "false", dense).with(model, &["logistic"]),
        key(kind, Kind::Word(DATA_KINDS), "\"digits\"", kinds),
        optional("data.path", Kind::Path, path)
            .with(kind, &["mnist", "fashion-mnist", "libsvm", "tfrecord", "criteo", "images"]),
        optional("data.test_path", Kind::Path, "the same for rows that are only tested on")
            .with(kind, ROW_FILES),
        key("data.train_examples", COUNT, "60000", "how many to generate to train on")
            .with(kind, generated),
        key("data.test_examples", COUNT, "10000", "how many to generate to test on")
            .with(kind, generated),
        optional("data.hold_out", COUNT, hold_out).with(kind, FILES),
        key("data.size", Kind::Whole { min: 1, max: 4096 }, "224", "pixels of a side")
            .with(kind, pictures),
        key("data.classes", Kind::Whole { min: 2, max: 1 << 20 }, "10", "classes to tell apart")
            .with(kind, &["fake-images"]),
        optional("data.features", COUNT, features).with(kind, ROWS),
        key("data.index_base", Kind::Word(&["auto", "zero", "one"]), "\"auto\"", index_base)
            .with(kind, &["libsvm"]),
        key("data.on_bad", Kind::Word(&["fail", "skip"]), "\"fail\"", on_bad).with(kind, FILES),
        key("data.shuffle", Kind::Flag, "true", "whether every epoch has an order of its own"),
        key("data.shuffle_buffer", COUNT, "1000000", shuffle_buffer).with(kind, ROWS),
    ]
}

fn train() -> Vec<Key> {
    let positive = Kind::Above(0.0);
    let threads = "threads of a worker. Unless given, networks, and softmax regression at batches \
                   of 256 or more, take the machine's cores, shared out among its workers. Logistic \
                   regression takes 1; more share the parameters without locks, in mode single";
    let every = "global steps from one test to the next; 1000 for networks unless given";
    let global_batch = "examples that all workers take together a step, in place of `batch`";
    let epochs = "stop after so many passes over the data; 6 if nothing else stops the run";
    vec![
        key("train.batch", COUNT, "60", "examples a worker takes a step"),
        optional("train.global_batch", COUNT, global_batch),
        optional("train.threads", Kind::Whole { min: 1, max: 1024 }, threads),
        optional("train.stop.epochs", COUNT, epochs),
        optional("train.stop.steps", STEPS, "stop after so many global steps"),
        optional("train.stop.seconds", positive, "stop after so many seconds of training"),
        optional("train.stop.test_loss", positive, "stop when a test finds a loss this low"),
        key("train.evaluate.every", STEPS, "100", every),
        optional("train.evaluate.examples", COUNT, "test on the first so many; all unless given"),
    ]
}

fn optimizer() -> Vec<Key> {
    let kind = "train.optimizer.kind";
    let kinds = Kind::Word(&["sgd", "momentum", "adagrad", "adam", "ftrl"]);
    let rate = "learning rate, at the start if it has a schedule";
    let decay = "weight decay: this times the parameter is added to its gradient";
    let mut keys = vec![
        key(kind, kinds, "\"sgd\"", "how gradients become updates"),
        key("train.optimizer.rate", Kind::Above(0.0), "0.01", rate),
        key("train.optimizer.decay", Kind::From(0.0), "0.0", decay),
        key(
            "train.optimizer.momentum",
            Kind::Fraction,
            "0.9",
            "share of the velocity that is kept",
        )
        .with(kind, &["momentum"]),
        key("train.optimizer.beta1", Kind::Fraction, "0.9", "decay of the mean gradient")
            .with(kind, &["adam"]),
        key("train.optimizer.beta2", Kind::Fraction, "0.999", "decay of the mean squared gradient")
            .with(kind, &["adam"]),
        key("train.optimizer.epsilon", Kind::Above(0.0), "1e-8", "keeps the quotient finite")
            .with(kind, &["adagrad", "adam"]),
        key("train.optimizer.beta", Kind::From(0.0), "1.0", "slows the first steps of a feature")
            .with(kind, &["ftrl"]),
        key("train.optimizer.l1", Kind::From(0.0), "0.0", "keeps weights at zero that gain less")
            .with(kind, &["ftrl"]),
        key("train.optimizer.l2", Kind::From(0.0), "0.0", "draws weights towards zero")
            .with(kind, &["ftrl"]),
    ];
    keys.extend(schedule("train.optimizer", Some("\"constant\"")));
    for group in ["train.optimizer.weights", "train.optimizer.biases"] {
        let own = "this group's own; as for all unless given";
        keys.push(optional(&format!("{group}.rate"), Kind::Above(0.0), own));
        keys.push(optional(&format!("{group}.decay"), Kind::From(0.0), own));
        keys.extend(schedule(group, None));
    }
    keys
}

/// The keys of a schedule, which all tensors have and each group may have for itself.
fn schedule(owner: &str, default: Option<&'static str>) -> Vec<Key> {
    let at = |name: &str| format!("{owner}.schedule.{name}");
    let kind = at("kind");
    let kinds = Kind::Word(&["constant", "exponential", "staircase", "polynomial"]);
    let above = Kind::Above(0.0);
    let help = "how the rate changes over the global steps";
    vec![
        Key { default, ..optional(&kind, kinds, help) },
        key(&at("factor"), above, "0.5", "what the rate is multiplied by over `every` steps")
            .with(&kind, &["exponential"]),
        key(&at("fall"), above, "10.0", "how many times smaller it is after the last stair")
            .with(&kind, &["staircase"]),
        key(&at("stairs"), COUNT, "2", "how many stairs it falls in").with(&kind, &["staircase"]),
        key(&at("every"), STEPS, "1000", "global steps that the factor, or one stair, takes")
            .with(&kind, &["exponential", "staircase"]),
        key(&at("end"), Kind::From(0.0), "0.0", "the rate at the end of the way")
            .with(&kind, &["polynomial"]),
        key(&at("over"), STEPS, "10000", "global steps that the way takes")
            .with(&kind, &["polynomial"]),
        key(&at("power"), above, "1.0", "1 is a straight line").with(&kind, &["polynomial"]),
    ]
}

fn cluster() -> Vec<Key> {
    let mode = "cluster.mode";
    let modes = Kind::Word(&["single", "async", "sync", "bounded", "mirrored"]);
    let shared: &[&str] = &["async", "sync", "bounded", "mirrored"];
    let with_servers: &[&str] = &["async", "sync", "bounded"];
    let tasks = Kind::Whole { min: 1, max: 1024 };
    let slots = "into how many shares every step is cut, which workers fill, one or more each; as \
                 many as workers unless given";
    let quorum = "gradients that make a step; the other workers are backups; all unless given";
    let lost = "cluster.on_worker_loss";
    let loss =
        "whether the run ends, goes on without it, or waits for a process that takes its place";
    let server_loss = "whether the run ends, or waits for the server to come back with the newest \
                       checkpoint; \"wait\" if workers are waited for or checkpoints are taken, \
                       unless given";
    let restarts = "how often the local launcher starts a task again that was lost, in all";
    let rejoin = "how long a lost task's place is kept";
    let seconds = Kind::Above(0.0);
    vec![
        key(mode, modes, "\"async\"", "how workers share the parameters"),
        key("cluster.workers", tasks, "2", "how many workers train").with(mode, shared),
        optional("cluster.slots", tasks, slots).with(mode, with_servers),
        key("cluster.servers", tasks, "1", "how many servers hold parameters")
            .with(mode, with_servers),
        optional("cluster.quorum", tasks, quorum).with(mode, &["sync"]),
        key("cluster.staleness", STEPS_FROM_0, "4", "steps a worker may be ahead of the slowest")
            .with(mode, &["bounded"]),
        key(lost, Kind::Word(&["fail", "continue", "wait"]), "\"fail\"", loss).with(mode, shared),
        optional("cluster.on_server_loss", Kind::Word(&["fail", "wait"]), server_loss)
            .with(mode, with_servers),
        key("cluster.restarts", Kind::Whole { min: 0, max: 1000 }, "3", restarts)
            .with(mode, shared),
        key("cluster.rejoin_timeout_s", seconds, "60.0", rejoin).with(mode, shared),
        key("cluster.start_timeout_s", seconds, "60.0", "how long tasks wait for each other")
            .with(mode, shared),
        key("cluster.stall_timeout_s", seconds, "600.0", "how long a step may wait for somebody")
            .with(mode, shared),
        optional("cluster.token_file", Kind::Path, "file with the secret that all tasks share")
            .with(mode, shared),
    ]
}

fn emulate() -> Vec<Key> {
    let shared: &[&str] = &["async", "sync", "bounded", "mirrored"];
    let hosts = "run the tasks on so many emulated hosts, each a network of its own; needs root \
                 (docs/emulation.md)";
    let server = "whether servers share the workers' hosts, the first one worker 0's, or have the \
                  last hosts to themselves";
    let at = |name: &str| format!("cluster.emulate.{name}");
    let keys = [
        optional(&at("hosts"), Kind::Whole { min: 1, max: 250 }, hosts),
        optional(
            &at("link"),
            Kind::Rate,
            "what each host's link carries each way; all it can unless given",
        ),
        optional(
            &at("delay_ms"),
            Kind::From(0.0),
            "how long a packet takes to leave its host, where the kernel offers it",
        ),
        key(&at("server"), Kind::Word(&["beside", "own"]), "\"beside\"", server),
        optional(
            &at("cpus"),
            Kind::Above(0.0),
            "cores' time that each host may use; the machine's unless given",
        ),
    ];
    keys.map(|key| key.with("cluster.mode", shared)).into()
}

fn checkpoint() -> Vec<Key> {
    let steps = "global steps from one checkpoint to the next; there are none unless this or \
                 `every_seconds` is given, and then one at the end too";
    vec![
        optional("checkpoint.every_steps", STEPS, steps),
        optional("checkpoint.every_seconds", Kind::Above(0.0), "the same in seconds"),
        key("checkpoint.keep", COUNT, "3", "how many of the newest complete ones are kept"),
    ]
}

fn observe() -> Vec<Key> {
    let sample = Kind::Whole { min: 0, max: 3_600_000 };
    let sample_ms =
        "milliseconds from one look at what task and machine use to the next; 0 for none";
    let http = "where tasks answer `/metrics` and `/healthz`; each has its own port, counted from \
                this one, or any if it is 0. Beyond loopback `cluster.token_file` is needed";
    let from = "the first step of a worker that the timeline is of; 100 unless given. There is a \
                timeline if this or `steps` is given";
    let steps = "how many steps it is of; 10 unless given";
    vec![
        key("observe.every", STEPS, "1", "steps from one train loss in TensorBoard to the next"),
        key("observe.sample_ms", sample, "1000", sample_ms),
        optional("observe.http", Kind::Address, http),
        optional("observe.trace.from", STEPS_FROM_0, from),
        optional("observe.trace.steps", Kind::Whole { min: 1, max: 10_000 }, steps),
    ]
}

/// The table as Markdown, for `docs/job.md`.
pub fn reference_markdown() -> String {
    let mut text = String::new();
    let mut section = None;
    for key in KEYS.iter() {
        if section != Some(key.section()) {
            section = Some(key.section());
            let title = if key.section().is_empty() { "At the top" } else { key.section() };
            let _ = write!(text, "\n## {title}\n\n| key | takes | default | meaning |\n");
            text.push_str("|---|---|---|---|\n");
        }
        let default = key.default.map_or(String::from("none"), |value| format!("`{value}`"));
        let with = key.with.as_ref().map_or(String::new(), |(path, values)| {
            format!("; with `{path}` = {}", Kind::Word(values).describe())
        });
        let takes = key.kind.describe();
        let _ = writeln!(text, "| `{}` | {takes} | {default} | {}{with} |", key.name(), key.help);
    }
    text
}
