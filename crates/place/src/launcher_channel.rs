//! The channel between a launcher and each task it started.
//!
//! A launched task's standard output is one end of a socket pair whose other end only the launcher
//! holds. When the launcher dies, however it dies, that end closes, the task reads the end of the
//! stream and exits: no process is left behind. The launcher sends "stop" through it, which is how
//! Ctrl-C reaches the coordinator (the other workers hear "ending", so that they need not compute
//! long steps to their end), and how a server that returned too late learns that the run is
//! over. A task that receives SIGTERM asks "leave?" and leaves when the launcher answers "leave".
//! The launcher does so unless it received a signal itself: then the whole run is meant. A task
//! that fails sends its error as "failed", so that the launcher can show the cause of a run's end
//! before its consequences.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// Set by the launcher if a process's standard output is a launcher channel.
pub const CHANNEL_VARIABLE: &str = "PACELINE_CHANNEL";

/// The exit code of a task whose launcher has died: worth a retry.
const LAUNCHER_GONE: i32 = 137;

/// The messages of a task that asks whether it may leave, and of the launcher's answer.
const ASK: &str = "leave?";
const LEAVE: &str = "leave";
/// Tells a worker that the coordinator was asked to stop.
const ENDING: &str = "ending";
/// Begins the message of a task that fails; its error follows as a JSON string.
const FAILED: &str = "failed ";
/// The longest part of a message that the launcher keeps.
const MAX_MESSAGE: usize = 64 << 10;

/// The task's end of the channel.
#[derive(Clone, Debug, Default)]
pub struct LauncherChannel {
    signal: Arc<AtomicI32>,
    has_asked: Arc<AtomicBool>,
    may_leave: Arc<AtomicBool>,
    is_run_ending: Arc<AtomicBool>,
}

impl LauncherChannel {
    /// Opens the channel, if this process was launched with one. If the launcher dies, `on_gone`
    /// is called before the process ends.
    pub fn open(on_gone: impl FnOnce() + Send + 'static) -> io::Result<Option<Self>> {
        if std::env::var_os(CHANNEL_VARIABLE).is_none() {
            return Ok(None);
        }
        let socket = UnixStream::from(io::stdout().as_fd().try_clone_to_owned()?);
        let channel = Self::default();
        let Self { signal, may_leave, is_run_ending, .. } = channel.clone();
        std::thread::Builder::new().name("launcher".into()).spawn(move || {
            for line in BufReader::new(socket).lines().map_while(Result::ok) {
                if let Some(number) = line.strip_prefix("stop ") {
                    signal.store(number.parse().unwrap_or(2), Ordering::Relaxed);
                } else if line == ENDING {
                    is_run_ending.store(true, Ordering::Relaxed);
                } else if line == LEAVE {
                    may_leave.store(true, Ordering::Relaxed);
                }
            }
            // The launcher is gone, and the run with it.
            on_gone();
            std::process::exit(LAUNCHER_GONE);
        })?;
        Ok(Some(channel))
    }

    /// Asks the launcher, once, whether this task may leave the run.
    pub fn ask_to_leave(&self) {
        if !self.has_asked.swap(true, Ordering::Relaxed) {
            send_line(ASK);
        }
    }

    /// Tells the launcher why this process fails. Returns whether there is a launcher.
    pub fn send_failure(text: &str) -> bool {
        let is_launched = std::env::var_os(CHANNEL_VARIABLE).is_some();
        if is_launched {
            send_line(&format!("{FAILED}{}", serde_json::Value::from(text)));
        }
        is_launched
    }

    /// Whether the launcher has answered that this task may leave.
    pub fn may_leave(&self) -> bool {
        self.may_leave.load(Ordering::Relaxed)
    }

    /// Whether the launcher has asked the coordinator to stop.
    #[inline]
    pub fn is_run_ending(&self) -> bool {
        self.is_run_ending.load(Ordering::Relaxed)
    }

    /// The signal with which the launcher asked this task to stop.
    #[inline]
    pub fn signal(&self) -> Option<i32> {
        match self.signal.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(signal),
        }
    }
}

/// The two ends of a new channel.
#[derive(Debug)]
pub struct ChannelEnds {
    /// The launcher's end.
    pub launcher: UnixStream,
    /// The task's end: its standard output.
    pub task: Stdio,
}

impl ChannelEnds {
    /// Makes a channel.
    pub fn new() -> io::Result<Self> {
        let (launcher, task) = UnixStream::pair()?;
        launcher.set_nonblocking(true)?;
        Ok(Self { launcher, task: Stdio::from(OwnedFd::from(task)) })
    }
}

/// Sends a line to the launcher. If that is gone, the reading thread ends this task.
fn send_line(line: &str) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(format!("{line}\n").as_bytes()).and_then(|()| stdout.flush());
}

/// What a task has said to its launcher.
#[derive(Debug, Default)]
pub(crate) struct TaskMessages {
    unread: Vec<u8>,
    /// It asked to leave, and has no answer yet.
    pub(crate) asks_to_leave: bool,
    /// Why it failed.
    pub(crate) failure: Option<String>,
}

impl TaskMessages {
    /// Reads what has arrived.
    pub(crate) fn read(&mut self, mut channel: &UnixStream) {
        let mut bytes = [0; 4_096];
        while let Ok(len @ 1..) = channel.read(&mut bytes) {
            let room = MAX_MESSAGE.saturating_sub(self.unread.len());
            self.unread.extend(&bytes[..len.min(room)]);
        }
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line[..end]).into_owned();
            self.asks_to_leave |= line == ASK;
            if let Some(text) = line.strip_prefix(FAILED) {
                self.failure = serde_json::from_str(text).ok();
            }
        }
    }
}

/// Tells the task at the other end that it may leave.
pub(crate) fn allow_leave(mut channel: &UnixStream) {
    let _ = channel.write_all(format!("{LEAVE}\n").as_bytes());
}

/// Tells the worker at the other end that the run is about to end.
pub(crate) fn send_ending(mut channel: &UnixStream) {
    let _ = channel.write_all(format!("{ENDING}\n").as_bytes());
}

/// Asks the task at the other end to stop.
pub(crate) fn send_stop(mut channel: &UnixStream, signal: i32) {
    let _ = channel.write_all(format!("stop {signal}\n").as_bytes());
}
