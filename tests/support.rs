//! A room for each test, the program in it, and Python beside it.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
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

/// How a process ended, and what it said.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
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

/// Starts a process whose output can be read.
pub(crate) fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for a process to end, but not for ever. Whatever it was, it must not have panicked.
pub(crate) fn finish(mut child: Child) -> Done {
    let stdout = child.stdout.take().map(read_aside);
    let stderr = child.stderr.take().map(read_aside);
    let mut code = None;
    let ended = wait_until(|| {
        let status = child.try_wait().unwrap();
        code = status.and_then(|status| status.code());
        status.is_some()
    });
    if !ended {
        let _ = child.kill();
        panic!("process {} did not end within {PATIENCE:?}", child.id());
    }
    let text = |reader: Option<thread::JoinHandle<String>>| {
        reader.map_or(String::new(), |reader| reader.join().unwrap())
    };
    let done = Done { code, stdout: text(stdout), stderr: text(stderr) };
    assert!(!done.stderr.contains("panicked at"), "a panic: {done:?}");
    done
}

/// A process that is running, with what it and its tasks say. However a test ends, nothing of
/// it is left.
pub(crate) struct Launched {
    child: Child,
    run: Run,
    stdout: Option<thread::JoinHandle<()>>,
    stderr: Option<thread::JoinHandle<()>>,
    said: [Arc<Mutex<Vec<u8>>>; 2],
}

impl Launched {
    /// Starts a run into this directory, or one task of it.
    pub(crate) fn start(command: &mut Command, run: PathBuf) -> Self {
        assert!(run.is_absolute(), "processes are known by it");
        let mut child = start(command);
        let said: [Arc<Mutex<Vec<u8>>>; 2] = Default::default();
        let stdout = child.stdout.take().map(|stream| gather(stream, said[0].clone()));
        let stderr = child.stderr.take().map(|stream| gather(stream, said[1].clone()));
        Self { child, run: Run { path: run }, stdout, stderr, said }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// What was said on standard error so far.
    pub(crate) fn said(&self) -> String {
        String::from_utf8_lossy(&self.said[1].lock().unwrap()).into_owned()
    }

    /// Waits until standard error has this text.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) {
        let mut ended = false;
        let there = wait_until(|| {
            // In this order: what was said before the end has been read by the next look.
            let was_over = ended;
            ended = self.child.try_wait().unwrap().is_some();
            self.said().contains(text) || was_over
        });
        let said = self.said();
        assert!(there && said.contains(text), "{text:?} was not said, but {said:?}");
    }

    /// Waits until steps are being made. The chief says so at its first.
    #[track_caller]
    pub(crate) fn wait_for_steps(&mut self) {
        self.wait_for("\nstep ");
    }

    /// The step that the chief has last told of, which it does every 2 seconds.
    pub(crate) fn last_step(&self) -> u64 {
        let said = self.said();
        let mut steps =
            said.lines().rev().filter_map(|line| line.strip_prefix("step ")?.split_once(", "));
        steps.next().map_or(0, |(step, _)| step.replace(',', "").parse().unwrap())
    }

    /// Waits until more steps have been made.
    #[track_caller]
    pub(crate) fn wait_for_more_steps(&mut self) {
        let before = self.last_step();
        let more = wait_until(|| self.last_step() > before || self.has_ended());
        assert!(more && self.last_step() > before, "no more steps: {}", self.said());
    }

    /// The process of a task that was launched.
    #[track_caller]
    pub(crate) fn task(&self, name: &str) -> u32 {
        let found = processes_of(&self.run.path).into_iter().find(|&pid| {
            let config = environment(pid, "TF_CONFIG").unwrap_or_default();
            let config: Value = serde_json::from_str(&config).unwrap_or_default();
            let task = &config["task"];
            format!("{}:{}", task["type"].as_str().unwrap_or(""), task["index"]) == name
        });
        found.unwrap_or_else(|| panic!("there is no process for {name}"))
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for the end. Nobody may be left then that worked on the run, nor have panicked.
    #[track_caller]
    pub(crate) fn finish(self) -> Done {
        let path = self.run.path.clone();
        let done = self.finish_task();
        let left = processes_of(&path);
        assert!(left.is_empty(), "processes {left:?} are left: {done:?}");
        done
    }

    /// Waits for the end of one task of many, whose others may still be at work.
    #[track_caller]
    pub(crate) fn finish_task(mut self) -> Done {
        let mut code = None;
        let ended = wait_until(|| {
            let status = self.child.try_wait().unwrap();
            code = status.and_then(|status| status.code());
            status.is_some()
        });
        assert!(ended, "did not end within {PATIENCE:?}: {}", self.said());
        self.read_up(code)
    }

    fn read_up(&mut self, code: Option<i32>) -> Done {
        for reader in [self.stdout.take(), self.stderr.take()].into_iter().flatten() {
            reader.join().unwrap();
        }
        let text = |at: usize| String::from_utf8_lossy(&self.said[at].lock().unwrap()).into_owned();
        let done = Done { code, stdout: text(0), stderr: text(1) };
        assert!(!done.stderr.contains("panicked at"), "a panic: {done:?}");
        done
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            // A launcher that is gone takes its tasks along, but for those that are stopped.
            for pid in processes_of(&self.run.path) {
                let _ = Command::new("sh").args(["-c", &format!("kill -KILL {pid}")]).output();
            }
        }
    }
}

fn gather(
    mut stream: impl Read + Send + 'static,
    into: Arc<Mutex<Vec<u8>>>,
) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(len @ 1..) = stream.read(&mut piece) {
            into.lock().unwrap().extend(&piece[..len]);
        }
    })
}

/// The processes that have this path on their command line.
pub(crate) fn processes_of(path: &Path) -> Vec<u32> {
    let path = path.as_os_str().as_encoded_bytes();
    let has_it = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == path)
    };
    all_processes().filter(has_it).collect()
}

fn all_processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// A variable in the environment of a process.
pub(crate) fn environment(pid: u32, name: &str) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let mut entries = text.split('\0').filter_map(|entry| entry.split_once('='));
    entries.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
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

fn read_aside(mut stream: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
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

/// Sends a signal, by its short name.
pub(crate) fn signal(child: &Child, name: &str) {
    signal_to(child.id(), name);
}

/// Sends a signal to a process that the test has started.
pub(crate) fn signal_to(pid: u32, name: &str) {
    let kill = format!("kill -{name} {pid}");
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
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

/// A script of `tests/`, to be run in the interpreter that has what the tests need.
pub(crate) fn python_command(script: &str) -> Command {
    let python = std::env::var_os("PACELINE_PYTHON").expect(
        "PACELINE_PYTHON is not set: run `cargo xtask ci`, or set it to a Python interpreter \
         that has what tests/python/requirements.txt lists",
    );
    let mut command = Command::new(python);
    command.arg(workspace().join("tests").join(script));
    command
}

/// Runs such a script.
pub(crate) fn python(script: &str, args: &[&OsStr]) -> Done {
    finish(start(python_command(script).args(args)))
}

/// Runs one that prints JSON.
pub(crate) fn python_json(script: &str, args: &[&OsStr]) -> Value {
    let done = python(script, args);
    assert_eq!(done.code, Some(0), "{script} failed:\n{}", done.stderr);
    serde_json::from_str(&done.stdout).unwrap()
}

/// Everything that TensorBoard reads below a directory.
pub(crate) fn events(logdir: &Path) -> Value {
    python_json("python/read_events.py", &[logdir.as_os_str()])
}

/// The points of a scalar, as TensorBoard reads them.
pub(crate) fn points(run: &Value, tag: &str) -> Vec<(u64, f32)> {
    let Some(points) = run["scalars"][tag].as_array() else { return Vec::new() };
    points.iter().map(|p| (p[0].as_u64().unwrap(), p[1].as_f64().unwrap() as f32)).collect()
}
