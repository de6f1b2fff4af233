//! The names of everything a run leaves behind. Training, the page and reports use these constants
//! and no literals. (The files of checkpoints and generations have their names from the crate
//! `paceline-checkpoint`, which writes and reads them.)
//!
//! A run directory holds [`files::JOB`], [`files::SUMMARY`], [`files::MODEL`], perhaps
//! [`files::TIMELINE`] and [`folders::CHECKPOINTS`], and a folder for each task (see
//! [`task_folder`]) with that task's [`files::LOG`], [`files::RESOURCES`] and event files.

/// The key of a job file that marks a run without a job: a program trained it with the library.
pub const LIBRARY_KEY: &str = "library";

/// Files of a run directory and of a task's folder.
pub mod files {
    /// The complete job, in the run directory. A directory that holds one is a run directory. A
    /// session of the library has no job; a [`LibraryJob`](crate::LibraryJob) takes its place.
    pub const JOB: &str = "job.toml";
    /// How a run over a table turns rows into features, in the run directory.
    pub const FEATURIZER: &str = "featurizer.json";
    /// The run in numbers, in the run directory. The coordinator writes it last, so a run
    /// directory that holds one belongs to a run that has ended.
    pub const SUMMARY: &str = "summary.json";
    /// The trained parameters, in the run directory.
    pub const MODEL: &str = "model.safetensors";
    /// The parameters of the best test, in the run directory of a run that keeps them.
    pub const BEST_MODEL: &str = "model-best.safetensors";
    /// The test of [`BEST_MODEL`], in the run directory.
    pub const BEST_TEST: &str = "model-best.json";
    /// Why a run that diverged failed, in the run directory.
    pub const FAILURE: &str = "failure.json";
    /// The last evaluation of the trained model.
    pub const EVALUATION: &str = "evaluation.json";
    /// The merged timeline of all tasks, in the run directory.
    pub const TIMELINE: &str = "trace.json";
    /// How another worker can join, in the run directory of a local run while it trains. It holds
    /// the run's secret, so only its owner may read it.
    pub const JOIN: &str = "join.json";
    /// A task's log, in its folder.
    pub const LOG: &str = "log.txt";
    /// The earlier part of a task's log, once the log has begun anew, in its folder.
    pub const OLD_LOG: &str = "log.old.txt";
    /// The address of a task's metrics, in its folder.
    pub const METRICS_ADDRESS: &str = "http.txt";
    /// The credential that a request for a task's metrics needs, if it needs one, in its folder.
    pub const METRICS_TOKEN: &str = "http_token.txt";
    /// A task's resource samples, in its folder; see [`resources`] for a task that restarts.
    pub const RESOURCES: &str = "resources.csv";
    /// A task's part of the timeline, in its folder; see [`task_trace`] for a task that restarts.
    pub const TASK_TRACE: &str = "trace-part.json";
    /// What the names of TensorBoard's event files begin with.
    pub const EVENTS_PREFIX: &str = "events.out.tfevents.";

    /// The name of the machine in an event file's name:
    /// `events.out.tfevents.SECONDS.MACHINE.PROCESS.NUMBER.v2`.
    pub fn machine_of_events(name: &str) -> Option<&str> {
        let (_seconds, rest) = name.strip_prefix(EVENTS_PREFIX)?.split_once('.')?;
        rest.rsplitn(4, '.').nth(3)
    }

    /// The name of the resource table that the task's `number`-th process writes, from 1.
    pub fn resources(number: u32) -> String {
        numbered("resources", number, "csv")
    }

    /// Whether a file name is that of a resource table.
    pub fn is_resources(name: &str) -> bool {
        name.starts_with("resources") && name.ends_with(".csv")
    }

    /// The name of the part of the timeline that the task's `number`-th process writes, from 1.
    pub fn task_trace(number: u32) -> String {
        numbered("trace-part", number, "json")
    }

    fn numbered(stem: &str, number: u32, extension: &str) -> String {
        match number {
            1 => format!("{stem}.{extension}"),
            _ => format!("{stem}-{number}.{extension}"),
        }
    }
}

/// Folders of a run directory, and where run directories are.
pub mod folders {
    /// Where new run directories are created unless the user names another place.
    pub const RUNS: &str = "runs";
    /// What earlier sessions of a resumed run left, in folders numbered from 1.
    pub const SESSIONS: &str = "sessions";
    /// The checkpoints of a run.
    pub const CHECKPOINTS: &str = "checkpoints";
}

/// The roles of tasks, which the names of tasks and of their folders begin with.
pub mod roles {
    pub use paceline_observe::role::*;
}

/// The folder of server 0, which measures the workers.
pub const FIRST_SERVER_FOLDER: &str = "ps_0";

/// Whether a folder belongs to a task of this role; see [`roles`].
pub fn has_role(folder: &str, role: &str) -> bool {
    folder.strip_prefix(role).is_some_and(|rest| rest.starts_with('_'))
}

/// The folder of a task within its run directory: `worker_0` for `worker:0`.
pub fn task_folder(task: &str) -> String {
    task.replace(':', "_")
}

/// The task that a folder belongs to: `worker:0` for `worker_0`.
pub fn task_of_folder(folder: &str) -> String {
    match folder.rsplit_once('_') {
        Some((role, index)) => format!("{role}:{index}"),
        None => folder.to_owned(),
    }
}

/// The folder of the `index`-th evaluator.
pub fn evaluator_folder(index: u32) -> String {
    format!("{}_{index}", roles::EVALUATOR)
}

/// Columns of the resource table. [`TIME`](columns::TIME) and [`STEP`](columns::STEP) come first;
/// [`COLUMNS`](paceline_observe::COLUMNS) lists those that follow in their order.
pub mod columns {
    pub use paceline_observe::column::*;

    /// When the sample was taken, in seconds since 1970.
    pub const TIME: &str = "time_s";
    /// The global step at that time.
    pub const STEP: &str = "step";
}

/// Tags of the curves in TensorBoard's event files.
///
/// TensorBoard shows the groups of tags, which end at the first slash, in alphabetical order. What
/// a run learns comes before what it uses.
pub mod tags {
    /// The loss of a worker's batch.
    pub const TRAIN_LOSS: &str = "train/loss";
    /// The least loss since the point before, where losses are thinned.
    pub const TRAIN_LOSS_LEAST: &str = "train/loss_least";
    /// The greatest loss since the point before, where losses are thinned.
    pub const TRAIN_LOSS_GREATEST: &str = "train/loss_greatest";
    /// What the tags of histograms and norms of tensors begin with.
    pub const TENSORS_PREFIX: &str = "train_tensors/";
    /// What the tags of test results begin with.
    pub const TEST_PREFIX: &str = "test/";
    /// The mean loss over the test examples.
    pub const TEST_LOSS: &str = "test/loss";
    /// The share of test examples that are classified correctly, 0 to 1.
    pub const TEST_ACCURACY: &str = "test/accuracy";
    /// The area under the ROC curve, for models of two classes.
    pub const TEST_AUC: &str = "test/auc";
    /// The precision of class 1, for models of two classes.
    pub const TEST_PRECISION: &str = "test/precision";
    /// Global steps a second since the run began, as of each test.
    pub const STEPS_PER_SECOND: &str = "train/steps_per_second";
    /// Global steps a second between two resource samples. The page computes this curve; no event
    /// file has it.
    pub const STEP_RATE: &str = "work_pace/steps_per_second";
    /// The share of a worker's time that tests take, in percent.
    pub const EVALUATION_PERCENT: &str = "work_phases/evaluation_percent";
    /// The share of the time that a worker's training loop, or a thread that computes for it, is
    /// ready to run but has no core, in percent; of a server, averaged over the workers.
    pub const RUN_DELAY_PERCENT: &str = "work_pace/run_delay_percent";
    /// The part of [`RUN_DELAY_PERCENT`] in which threads that compute for the loop have no core.
    pub const COMPUTE_DELAY_PERCENT: &str = "work_pace/compute_delay_percent";
    /// The share of the time that a worker's training loop is on a core, in percent.
    pub const LOOP_CPU_PERCENT: &str = "work_pace/loop_cpu_percent";
    /// The share of the time that a server works for a worker, averaged over the workers, in
    /// percent.
    pub const SERVER_BUSY_PERCENT: &str = "work_pace/busy_percent";
    /// The cores of a task's machine, or of its container.
    pub const MACHINE_CORES: &str = "work_pace/machine_cores";
    /// The speed of the fastest network link of a task's machine, in millions of bits a second.
    pub const LINK_MBIT_PER_S: &str = "work_pace/link_mbit_per_s";
    /// A worker's mean time to a gradient, in milliseconds.
    pub const GRADIENT_MS: &str = "work_pace/gradient_ms";
    /// The keys of a step of a sparse model.
    pub const KEYS_PER_STEP: &str = "work_sparse/keys_per_step";
    /// Bytes of the keys of such a step.
    pub const KEY_BYTES_PER_STEP: &str = "work_sparse/key_bytes_per_step";
    /// Bytes of the parameters of these keys.
    pub const VALUE_BYTES_PER_STEP: &str = "work_sparse/value_bytes_per_step";
    /// The keys of a sparse model whose parameters a task has in memory.
    pub const ENTRIES: &str = "work_sparse/entries";
    /// Bytes of these parameters, with their optimizer's state and their index.
    pub const ENTRY_BYTES: &str = "work_sparse/entry_bytes";
    /// What the tags of sparse models begin with.
    pub const SPARSE_PREFIX: &str = "work_sparse/";
    /// The mean staleness of the gradients that a server applied, in updates.
    pub const STALENESS: &str = "work_pace/staleness";
    /// The histogram of the staleness of all gradients that a server applied.
    pub const STALENESS_HISTOGRAM: &str = "work_staleness";
    /// What the tags of resource samples begin with.
    pub const RESOURCES_PREFIX: &str = "usage/";
    /// What follows a worker's folder in the tag of its time to a gradient, seen by server 0.
    pub const WORKER_GRADIENT_MS: &str = "gradient_ms";
    /// What follows a worker's folder in the tag of the share of time that its gradients wait for
    /// those of other workers, in percent.
    pub const WORKER_HELD_PERCENT: &str = "held_percent";

    /// The share of a worker's time that a phase takes, in percent.
    pub fn phase_percent(phase: &str) -> String {
        format!("work_phases/{phase}_percent")
    }

    /// The histogram of a tensor: `kind` is `weights` or `gradients`.
    pub fn histogram(kind: &str, tensor: &str) -> String {
        format!("{TENSORS_PREFIX}{kind}/{tensor}")
    }

    /// The Euclidean norm of a tensor: `kind` is `weights` or `gradients`.
    pub fn norm(kind: &str, tensor: &str) -> String {
        format!("{TENSORS_PREFIX}{kind}_norm/{tensor}")
    }

    /// The current tag of a curve that had another tag in earlier versions.
    pub fn current(tag: &str) -> String {
        let renamed = [
            ("resources/", RESOURCES_PREFIX),
            ("phases/", "work_phases/"),
            ("pace/", "work_pace/"),
            ("speed/", "train/"),
        ];
        let mut found = renamed.iter().filter_map(|(old, new)| Some((new, tag.strip_prefix(old)?)));
        found.next().map_or_else(|| tag.to_owned(), |(new, rest)| format!("{new}{rest}"))
    }

    /// A column of the resource table.
    pub fn resource(column: &str) -> String {
        format!("{RESOURCES_PREFIX}{column}")
    }

    /// A curve of one worker as server 0 sees it: `figure` is [`WORKER_GRADIENT_MS`] or
    /// [`WORKER_HELD_PERCENT`], `folder` the worker's folder.
    pub fn worker(folder: &str, figure: &str) -> String {
        format!("work_pace/{folder}/{figure}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_event_file_tells_the_machine() {
        let machine = |name| files::machine_of_events(name);
        assert_eq!(machine("events.out.tfevents.1700000000.a.b.org.17.0.v2"), Some("a.b.org"));
        assert_eq!(machine("events.out.tfevents.1700000000.node-1.17.0.v2"), Some("node-1"));
        assert_eq!(machine("events.out.tfevents.17"), None);
        assert_eq!(machine("log.txt"), None);
    }

    #[test]
    fn folders_tell_the_roles_of_their_tasks() {
        assert_eq!(task_folder(&format!("{}:0", roles::PS)), FIRST_SERVER_FOLDER);
        assert!(has_role(FIRST_SERVER_FOLDER, roles::PS));
        assert!(!has_role("psi_0", roles::PS) && !has_role("worker_0", roles::PS));
    }

    #[test]
    fn what_a_run_learns_comes_before_what_it_uses() {
        let learning = [tags::TEST_ACCURACY, tags::TRAIN_LOSS, tags::TENSORS_PREFIX];
        let others = [tags::RESOURCES_PREFIX, tags::STALENESS, tags::EVALUATION_PERCENT];
        assert!(learning.iter().all(|tag| others.iter().all(|other| tag < other)));
    }

    #[test]
    fn tags_of_earlier_versions_are_understood() {
        assert_eq!(tags::current("phases/compute_percent"), tags::phase_percent("compute"));
        assert_eq!(tags::current("pace/gradient_ms"), tags::GRADIENT_MS);
        assert_eq!(tags::current(tags::TRAIN_LOSS), tags::TRAIN_LOSS);
    }
}
