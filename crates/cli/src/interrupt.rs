//! Ctrl-C and SIGTERM: the first asks the process to end cleanly, the second ends it at once.

use std::fs;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::Failure;

/// Records whether the process was asked to end.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    signal: Arc<AtomicUsize>,
    /// Files that the second signal removes.
    unfinished: Arc<Mutex<Vec<PathBuf>>>,
}

impl Interrupt {
    /// Starts to listen. The first signal is recorded, and a second one ends the process at once.
    pub fn listen() -> Result<Self, Failure> {
        Self::install_handlers().map_err(Failure::signals)
    }

    fn install_handlers() -> io::Result<Self> {
        let interrupt = Self::default();
        let (mut arrivals, sender) = UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM] {
            let number = usize::try_from(signal).unwrap_or_default();
            signal_hook::flag::register_usize(signal, interrupt.signal.clone(), number)?;
            // Handlers run in this order, so the signal is recorded when its byte arrives.
            signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
        }
        let watched = interrupt.clone();
        // A thread, because a handler of signals must not take locks. It ends with the process.
        thread::Builder::new().name("second-signal".into()).spawn(move || {
            if arrivals.read_exact(&mut [0; 2]).is_ok() {
                watched.end_at_once();
            }
        })?;
        Ok(interrupt)
    }

    /// Removes unfinished files and ends the process.
    fn end_at_once(&self) -> ! {
        let unfinished = self.unfinished.lock().unwrap_or_else(PoisonError::into_inner);
        for file in &*unfinished {
            // Most have their final name by now, or do not exist yet.
            let _ = fs::remove_file(file);
        }
        signal_hook::low_level::exit(128 + self.signal().unwrap_or(SIGTERM))
    }

    /// Lets a second signal remove these files, which exist only until they are complete.
    pub(crate) fn remove_unfinished(&self, files: impl IntoIterator<Item = PathBuf>) {
        self.unfinished.lock().unwrap_or_else(PoisonError::into_inner).extend(files);
    }

    /// Ignores both signals, for a process that ends when another one does.
    pub fn ignore() -> Result<Self, Failure> {
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::default()).map_err(Failure::signals)?;
        }
        Ok(Self::default())
    }

    /// For a launched task, which its launcher ends: neither signal ends the process, because
    /// terminals and service managers send them to all processes of a run at once. Only SIGTERM is
    /// recorded, which may be meant for this process alone.
    pub fn record_sigterm() -> Result<Self, Failure> {
        let interrupt = Self::default();
        signal_hook::flag::register(SIGINT, Arc::default()).map_err(Failure::signals)?;
        let number = usize::try_from(SIGTERM).unwrap_or_default();
        signal_hook::flag::register_usize(SIGTERM, interrupt.signal.clone(), number)
            .map_err(Failure::signals)?;
        Ok(interrupt)
    }

    /// Records a request to end that did not arrive as a signal.
    pub fn record(&self, signal: i32) {
        self.signal.store(usize::try_from(signal).unwrap_or_default(), Ordering::Relaxed);
    }

    /// The recorded signal, if any.
    #[inline]
    pub fn signal(&self) -> Option<i32> {
        match self.signal.load(Ordering::Relaxed) {
            0 => None,
            signal => i32::try_from(signal).ok(),
        }
    }
}
