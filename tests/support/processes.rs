//! Processes that a test starts: what they say, how they end, and that nothing of them is left.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

use super::{PATIENCE, Run, wait_until};

/// How a process ended, and what it said.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
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

fn read_aside(mut stream: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
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
