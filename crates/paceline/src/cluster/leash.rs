//! What ties a task to the launcher that started it.
//!
//! A launched task's standard output is one end of a socket pair, whose other end only the
//! launcher holds. When the launcher dies, however it dies, that end is closed, the task reads
//! the end of the stream and ends itself: no process is left behind. The launcher can also say
//! "stop" through it, which is how Ctrl-C reaches the chief, and how a server that came back too
//! late hears that the run is over. A task that was sent SIGTERM asks "leave?" and leaves when the
//! launcher says "leave", which it does unless it was sent a signal itself: then the whole run is
//! meant.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// Tells a process that its standard output is a leash.
pub(crate) const VARIABLE: &str = "PACELINE_LEASH";

/// The task's end.
#[derive(Clone, Debug, Default)]
pub struct Leash {
    signal: Arc<AtomicI32>,
    has_asked: Arc<AtomicBool>,
    may_leave: Arc<AtomicBool>,
}

/// How a task asks whether it may leave, and is told so.
const ASK: &[u8] = b"leave?\n";
const LEAVE: &str = "leave";

impl Leash {
    /// Takes up the leash, if this process was launched with one.
    pub fn take() -> io::Result<Option<Self>> {
        if std::env::var_os(VARIABLE).is_none() {
            return Ok(None);
        }
        let socket = UnixStream::from(io::stdout().as_fd().try_clone_to_owned()?);
        let leash = Self::default();
        let Self { signal, may_leave, .. } = leash.clone();
        std::thread::Builder::new().name("leash".into()).spawn(move || {
            for line in BufReader::new(socket).lines().map_while(Result::ok) {
                if let Some(number) = line.strip_prefix("stop ") {
                    signal.store(number.parse().unwrap_or(2), Ordering::Relaxed);
                } else if line == LEAVE {
                    may_leave.store(true, Ordering::Relaxed);
                }
            }
            // The launcher is gone: nobody wants this run any more.
            std::process::exit(LAUNCHER_GONE);
        })?;
        Ok(Some(leash))
    }

    /// Asks the launcher whether this task may leave the run; once is enough.
    pub fn ask_to_leave(&self) {
        if !self.has_asked.swap(true, Ordering::Relaxed) {
            let mut stdout = io::stdout().lock();
            // A launcher that is gone ends this task by other means.
            let _ = stdout.write_all(ASK).and_then(|()| stdout.flush());
        }
    }

    /// Whether the launcher has said that this task may leave.
    pub fn may_leave(&self) -> bool {
        self.may_leave.load(Ordering::Relaxed)
    }

    /// The signal that the launcher was sent, if it asked this task to stop.
    #[inline]
    pub fn signal(&self) -> Option<i32> {
        match self.signal.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(signal),
        }
    }
}

/// The exit code of a task whose launcher has died: worth a retry.
const LAUNCHER_GONE: i32 = 137;

/// The launcher's end, and the task's standard output.
pub(crate) fn pair() -> io::Result<(UnixStream, Stdio)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    Ok((ours, Stdio::from(std::os::fd::OwnedFd::from(theirs))))
}

/// Whether the task asks to leave.
pub(crate) fn asks_to_leave(mut leash: &UnixStream) -> bool {
    let mut asked = [0; 64];
    leash.read(&mut asked).is_ok_and(|len| asked[..len].starts_with(ASK))
}

/// Tells a task that it may leave.
pub(crate) fn let_go(mut leash: &UnixStream) {
    let _ = leash.write_all(format!("{LEAVE}\n").as_bytes());
}
