//! Processes that a test starts: what they print, how they end, and that none of them is left.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use serde_json::Value;

use super::wait::{TIMEOUT, wait_until};

/// The exit code of a process, and what it printed.
#[derive(Debug)]
pub(crate) struct ProcessOutput {
    /// None if a signal ended the process.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Starts a process with pipes for its output.
pub(crate) fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for a process to end, for at most the tests' timeout. It must not have panicked.
pub(crate) fn finish(mut child: Child) -> ProcessOutput {
    let stdout = child.stdout.take().map(read_in_background);
    let stderr = child.stderr.take().map(read_in_background);
    let mut code = None;
    let ended = wait_until(|| {
        let status = child.try_wait().unwrap();
        code = status.and_then(|status| status.code());
        status.is_some()
    });
    if !ended {
        let _ = child.kill();
        panic!("process {} did not end within {TIMEOUT:?}", child.id());
    }
    let text = |reader: Option<JoinHandle<String>>| {
        reader.map_or(String::new(), |reader| reader.join().unwrap())
    };
    let output = ProcessOutput { code, stdout: text(stdout), stderr: text(stderr) };
    assert!(!output.stderr.contains("panicked at"), "a panic: {output:?}");
    output
}

fn read_in_background(mut stream: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// A running launcher or task, with what it has printed so far. When the test ends, in whichever
/// way, the process and all others of its run are killed.
pub(crate) struct RunningProcess {
    child: Child,
    /// The run directory, which is on the command line of all processes of the run.
    run: PathBuf,
    stdout: CapturedStream,
    stderr: CapturedStream,
}

impl RunningProcess {
    /// Starts a run into this directory, or one task of it.
    pub(crate) fn start(command: &mut Command, run: PathBuf) -> Self {
        assert!(run.is_absolute(), "processes are found by their run directory");
        let mut child = start(command);
        let stdout = CapturedStream::read(child.stdout.take().unwrap());
        let stderr = CapturedStream::read(child.stderr.take().unwrap());
        Self { child, run, stdout, stderr }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// What has been printed on standard error so far.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Waits until standard error contains this text.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) {
        let mut ended = false;
        let found = wait_until(|| {
            // In this order: the text is read once more after the process has ended.
            let was_over = ended;
            ended = self.has_ended();
            self.stderr().contains(text) || was_over
        });
        let printed = self.stderr();
        assert!(found && printed.contains(text), "{text:?} was not printed, but {printed:?}");
    }

    /// Waits for the coordinator's first line about a step.
    #[track_caller]
    pub(crate) fn wait_for_steps(&mut self) {
        self.wait_for("\nstep ");
    }

    /// The step in the coordinator's last line of progress. It prints one every 2 seconds.
    pub(crate) fn last_step(&self) -> u64 {
        let printed = self.stderr();
        let mut steps =
            printed.lines().rev().filter_map(|line| line.strip_prefix("step ")?.split_once(", "));
        steps.next().map_or(0, |(step, _)| step.replace(',', "").parse().unwrap())
    }

    /// Waits until more steps have been made.
    #[track_caller]
    pub(crate) fn wait_for_more_steps(&mut self) {
        let before = self.last_step();
        let more = wait_until(|| self.last_step() > before || self.has_ended());
        assert!(more && self.last_step() > before, "no more steps: {}", self.stderr());
    }

    /// The process of a task of this run, once the launcher has started it.
    #[track_caller]
    pub(crate) fn task(&self, name: &str) -> u32 {
        let mut process = None;
        wait_until(|| {
            process = task_process(&self.run, name);
            process.is_some()
        });
        process.unwrap_or_else(|| panic!("there is no process for {name}"))
    }

    /// Kills a task and waits until the launcher has restarted it.
    #[track_caller]
    pub(crate) fn kill_and_wait_for_restart(&self, task: &str) {
        let restarts = || self.stderr().matches(&format!("{task} is started again")).count();
        let before = restarts();
        signal_to(self.task(task), "KILL");
        assert!(wait_until(|| restarts() > before), "{task}: {}", self.stderr());
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for the end of the run: no process of it may be left, and none may have panicked.
    #[track_caller]
    pub(crate) fn finish(self) -> ProcessOutput {
        let run = self.run.clone();
        let output = self.finish_task();
        let left = processes_of(&run);
        assert!(left.is_empty(), "processes {left:?} are left: {output:?}");
        output
    }

    /// Waits for the end of one task of several. The others may still be running.
    #[track_caller]
    pub(crate) fn finish_task(mut self) -> ProcessOutput {
        let mut code = None;
        let ended = wait_until(|| {
            let status = self.child.try_wait().unwrap();
            code = status.and_then(|status| status.code());
            status.is_some()
        });
        assert!(ended, "did not end within {TIMEOUT:?}: {}", self.stderr());
        let (stdout, stderr) = (self.stdout.read_to_end(), self.stderr.read_to_end());
        let output = ProcessOutput { code, stdout, stderr };
        assert!(!output.stderr.contains("panicked at"), "a panic: {output:?}");
        output
    }
}

impl Drop for RunningProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            // Tasks end when their launcher is gone, except those that are stopped.
            for pid in processes_of(&self.run) {
                let _ = Command::new("sh").args(["-c", &format!("kill -KILL {pid}")]).output();
            }
        }
    }
}

/// One output stream of a process, read by a thread while the process runs.
struct CapturedStream {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl CapturedStream {
    fn read(mut stream: impl Read + Send + 'static) -> Self {
        let bytes: Arc<Mutex<Vec<u8>>> = Default::default();
        let into = bytes.clone();
        let reader = thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(len @ 1..) = stream.read(&mut buffer) {
                into.lock().unwrap().extend(&buffer[..len]);
            }
        });
        Self { bytes, reader: Some(reader) }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }

    fn read_to_end(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        self.text()
    }
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

/// The processes of a program that run in this directory.
pub(crate) fn processes_in(dir: &Path, program: &Path) -> Vec<u32> {
    let is_link_to = |pid: u32, name: &str, path: &Path| {
        fs::read_link(format!("/proc/{pid}/{name}")).is_ok_and(|target| target == path)
    };
    let runs = |pid: &u32| is_link_to(*pid, "cwd", dir) && is_link_to(*pid, "exe", program);
    all_processes().filter(runs).collect()
}

/// The process of a task, such as `worker:1`, of the run in this directory.
pub(crate) fn task_process(run: &Path, task: &str) -> Option<u32> {
    processes_of(run).into_iter().find(|&pid| {
        let config = environment(pid, "TF_CONFIG").unwrap_or_default();
        let config: Value = serde_json::from_str(&config).unwrap_or_default();
        let own = &config["task"];
        format!("{}:{}", own["type"].as_str().unwrap_or(""), own["index"]) == task
    })
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

/// Sends a signal, by its short name.
pub(crate) fn signal(child: &Child, name: &str) {
    signal_to(child.id(), name);
}

/// Sends a signal to a process that the test has started.
pub(crate) fn signal_to(pid: u32, name: &str) {
    let kill = format!("kill -{name} {pid}");
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}
