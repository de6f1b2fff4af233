//! The channel between a launcher and each task it started.
//!
//! A launched task's standard output is one end of a socket pair whose other end only the launcher
//! holds. When the launcher dies, however it dies, that end closes, the task reads the end of the
//! stream and exits: no process is left behind. The launcher sends "stop" through it, which is how
//! Ctrl-C reaches the coordinator, and how a server that returned too late learns that the run is
//! over. A task that receives SIGTERM asks "leave?" and leaves when the launcher answers "leave".
//! The launcher does so unless it received a signal itself: then the whole run is meant.

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
const ASK: &[u8] = b"leave?\n";
const LEAVE: &str = "leave";

/// The task's end of the channel.
#[derive(Clone, Debug, Default)]
pub struct LauncherChannel {
    signal: Arc<AtomicI32>,
    has_asked: Arc<AtomicBool>,
    may_leave: Arc<AtomicBool>,
}

impl LauncherChannel {
    /// Opens the channel, if this process was launched with one.
    pub fn open() -> io::Result<Option<Self>> {
        if std::env::var_os(CHANNEL_VARIABLE).is_none() {
            return Ok(None);
        }
        let socket = UnixStream::from(io::stdout().as_fd().try_clone_to_owned()?);
        let channel = Self::default();
        let Self { signal, may_leave, .. } = channel.clone();
        std::thread::Builder::new().name("launcher".into()).spawn(move || {
            for line in BufReader::new(socket).lines().map_while(Result::ok) {
                if let Some(number) = line.strip_prefix("stop ") {
                    signal.store(number.parse().unwrap_or(2), Ordering::Relaxed);
                } else if line == LEAVE {
                    may_leave.store(true, Ordering::Relaxed);
                }
            }
            // The launcher is gone, and the run with it.
            std::process::exit(LAUNCHER_GONE);
        })?;
        Ok(Some(channel))
    }

    /// Asks the launcher, once, whether this task may leave the run.
    pub fn ask_to_leave(&self) {
        if !self.has_asked.swap(true, Ordering::Relaxed) {
            let mut stdout = io::stdout().lock();
            // If the launcher is gone, the reading thread ends this task.
            let _ = stdout.write_all(ASK).and_then(|()| stdout.flush());
        }
    }

    /// Whether the launcher has answered that this task may leave.
    pub fn may_leave(&self) -> bool {
        self.may_leave.load(Ordering::Relaxed)
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

/// Whether the task at the other end asks to leave.
pub(crate) fn asks_to_leave(mut channel: &UnixStream) -> bool {
    let mut asked = [0; 64];
    channel.read(&mut asked).is_ok_and(|len| asked[..len].starts_with(ASK))
}

/// Tells the task at the other end that it may leave.
pub(crate) fn allow_leave(mut channel: &UnixStream) {
    let _ = channel.write_all(format!("{LEAVE}\n").as_bytes());
}

/// Asks the task at the other end to stop.
pub(crate) fn send_stop(mut channel: &UnixStream, signal: i32) {
    let _ = channel.write_all(format!("stop {signal}\n").as_bytes());
}
