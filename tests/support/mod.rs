//! A room for each test, the program in it, and Python beside it.

mod interpreter;
mod processes;
mod python;

pub(crate) use processes::{
    Done, Launched, environment, finish, processes_of, signal, signal_to, start,
};
pub(crate) use python::{events, points, python, python_command, python_json};

use std::ffi::OsStr;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use paceline_data::idx::{write_images, write_labels};
use safetensors::SafeTensors;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The program under test.
pub(crate) const PACELINE: &str = env!("CARGO_BIN_EXE_paceline");

/// Settings that make the built-in job a matter of milliseconds, in one process.
pub(crate) const SMALL: [&str; 6] = [
    "--set",
    "cluster.mode=single",
    "--set",
    "data.train_examples=600",
    "--set",
    "data.test_examples=100",
];

/// The same for runs of several tasks, whatever their mode.
pub(crate) const SMALL_DATA: [&str; 2] = ["data.train_examples=600", "data.test_examples=100"];

/// The modes in which tasks share parameters.
pub(crate) const SHARED: [&str; 3] = ["async", "sync", "bounded"];

/// Settings of a run that ends only when something ends it.
pub(crate) const ENDLESS: &str = "train.stop={test_loss=1e-9}";

/// How long anything may take before a test calls it hung.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often a test looks for what it waits for.
const POLL: Duration = Duration::from_millis(5);

/// The files of an IDX set: training images and labels, test images and labels.
pub(crate) const IDX_FILES: [&str; 4] = [
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
];

/// An empty directory that a test works in, with an empty cache of data beside it.
pub(crate) struct Room {
    dir: TempDir,
    cache: TempDir,
}

impl Room {
    pub(crate) fn new() -> Self {
        Room { dir: TempDir::new().unwrap(), cache: TempDir::new().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// Everything in the room, as sorted relative paths.
    pub(crate) fn tree(&self) -> Vec<String> {
        tree(self.dir.path())
    }

    /// The program, ready to be started in the room.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.program(PACELINE);
        command.args(args);
        command
    }

    /// Any program, ready to be started in the room.
    pub(crate) fn program(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.dir.path()).env("PACELINE_CACHE", self.cache.path());
        command.stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Done {
        finish(start(&mut self.command(args)))
    }

    /// Runs the program, which must succeed.
    pub(crate) fn ok(&self, args: &[&str]) -> Done {
        let done = self.run(args);
        assert_eq!(done.code, Some(0), "{args:?}: {done:?}");
        done
    }

    /// Runs the program, which must end with this code and say why; what it said.
    pub(crate) fn fails(&self, code: i32, args: &[&str]) -> String {
        let done = self.run(args);
        assert_eq!(done.code, Some(code), "{args:?}: {done:?}");
        assert!(done.stderr.contains("error: "), "{args:?} fails without a word: {done:?}");
        done.stderr
    }

    /// Trains the small job with these settings into the run directory `name`.
    pub(crate) fn train(&self, name: &str, settings: &[&str]) -> Run {
        let mut args = vec!["train", "--quiet", "--run-dir", name];
        args.extend(SMALL);
        args.extend(settings.iter().flat_map(|setting| ["--set", setting]));
        self.ok(&args);
        Run { path: self.path(name) }
    }

    /// A run of several tasks, with small data, into the run directory `name`; ready to start.
    pub(crate) fn cluster(&self, name: &str, mode: &str, settings: &[&str]) -> Command {
        let dir = self.path(name);
        let mode = format!("cluster.mode={mode}");
        let mut command = self.command(&["train", "--run-dir", dir.to_str().unwrap()]);
        for setting in SMALL_DATA.into_iter().chain([mode.as_str()]).chain(settings.iter().copied())
        {
            command.args(["--set", setting]);
        }
        command
    }

    /// Such a run, which must end well and leave no process behind.
    pub(crate) fn train_cluster(&self, name: &str, mode: &str, settings: &[&str]) -> Run {
        let launched = Launched::start(&mut self.cluster(name, mode, settings), self.path(name));
        let done = launched.finish();
        assert_eq!(done.code, Some(0), "{mode} {settings:?}: {done:?}");
        self.run_dir(name)
    }

    pub(crate) fn run_dir(&self, name: &str) -> Run {
        Run { path: self.path(name) }
    }

    /// The run directories below `runs/`.
    pub(crate) fn runs(&self) -> Vec<Run> {
        let entries = fs::read_dir(self.path("runs")).into_iter().flatten();
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths.into_iter().map(|path| Run { path }).collect()
    }

    /// Writes an IDX set of images of 3 x 2, `train` and `test` of them, into `name`.
    pub(crate) fn idx_set(&self, name: &str, train: usize, test: usize) -> PathBuf {
        let dir = self.path(name);
        fs::create_dir_all(&dir).unwrap();
        for (count, files) in [(train, &IDX_FILES[..2]), (test, &IDX_FILES[2..])] {
            let pixels: Vec<u8> = (0..count * 6).map(|p| (p * 37) as u8).collect();
            let labels: Vec<u8> = (0..count).map(|i| (i % 10) as u8).collect();
            write_images(&dir.join(files[0]), 3, 2, &pixels).unwrap();
            write_labels(&dir.join(files[1]), &labels).unwrap();
        }
        dir
    }
}

/// A run directory.
pub(crate) struct Run {
    pub(crate) path: PathBuf,
}

impl Run {
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn str(&self) -> &str {
        self.path.to_str().unwrap()
    }

    pub(crate) fn summary(&self) -> Value {
        serde_json::from_slice(&fs::read(self.file("summary.json")).unwrap()).unwrap()
    }

    pub(crate) fn model(&self) -> Vec<u8> {
        fs::read(self.file("model.safetensors")).unwrap()
    }

    /// All parameters of the model, tensor after tensor.
    pub(crate) fn params(&self) -> Vec<f32> {
        let bytes = self.model();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let words = ["weight", "bias"].map(|name| tensors.tensor(name).unwrap().data().to_vec());
        words.concat().as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word)).collect()
    }

    /// What the summary says of a task.
    pub(crate) fn task(&self, name: &str) -> Value {
        let summary = self.summary();
        let tasks = summary["tasks"].as_array().unwrap();
        tasks.iter().find(|task| task["task"] == name).expect(name).clone()
    }

    /// The log of a task; empty if there is none yet.
    pub(crate) fn log(&self, task: &str) -> String {
        let path = self.file(&task.replace(':', "_")).join("log.txt");
        fs::read_to_string(path).unwrap_or_default()
    }

    /// How many bytes of events a task has written so far: they grow while it makes steps.
    pub(crate) fn event_bytes(&self, task: &str) -> u64 {
        let entries = fs::read_dir(self.file(&task.replace(':', "_"))).into_iter().flatten();
        let events = entries.flatten().filter(|entry| {
            entry.file_name().to_string_lossy().starts_with("events.out.tfevents.")
        });
        events.map(|entry| entry.metadata().map_or(0, |metadata| metadata.len())).sum()
    }

    /// What TensorBoard reads of worker 0.
    pub(crate) fn worker_events(&self) -> Value {
        events(&self.path)["runs"]["worker_0"].clone()
    }
}

/// Everything below a directory, as sorted relative paths.
pub(crate) fn tree(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            found.push(path.strip_prefix(root).unwrap().display().to_string());
            if path.is_dir() {
                open.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Ports of this machine that nobody listens on, below those that connections get by
/// themselves: nobody will take one of them in between.
pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let from = 12_000 + (std::process::id() % 150) as u16 * 100;
    [(); N].map(|()| {
        let mut ports = std::iter::repeat_with(|| from + NEXT.fetch_add(1, Ordering::Relaxed));
        ports.find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok()).unwrap()
    })
}

/// The cluster of so many workers and these servers, as `TF_CONFIG` has it.
pub(crate) fn cluster_of(workers: usize, servers: &[u16]) -> Value {
    let servers: Vec<_> = servers.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    json!({"worker": vec!["127.0.0.1:0"; workers], "ps": servers})
}

/// `TF_CONFIG` for one task.
pub(crate) fn tf_config(cluster: &Value, role: &str, index: impl Into<Value>) -> String {
    json!({"cluster": cluster, "task": {"type": role, "index": index.into()}}).to_string()
}

/// Looks again and again whether something has come about; says whether it has, in the end.
pub(crate) fn wait_until(mut there: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while !there() {
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(POLL);
    }
    true
}

/// Waits until something has come about, for so long at most; says how long it took.
#[track_caller]
pub(crate) fn within(limit: Duration, what: &str, mut there: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !there() {
        assert!(begun.elapsed() < limit, "{what}: not within {limit:?}");
        thread::sleep(POLL);
    }
    begun.elapsed()
}

/// Asserts that a text has each of these in it.
#[track_caller]
pub(crate) fn assert_says(text: &str, fragments: &[&str]) {
    for fragment in fragments {
        assert!(text.contains(fragment), "{fragment:?} is not in {text:?}");
    }
}

/// The directory that the workspace is in.
pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
