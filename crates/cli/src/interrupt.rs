//! Ctrl-C and SIGTERM: the first asks the process to end cleanly, the second ends it at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::Failure;

/// Records whether the process was asked to end.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Starts to listen. The first signal is recorded, and a second one ends the process at once.
    pub fn listen() -> Result<Self, Failure> {
        Self::install_handlers().map_err(Failure::signals)
    }

    fn install_handlers() -> io::Result<Self> {
        let interrupt = Self::default();
        let noted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            let noted = noted.clone();
            // Handlers run in this order, so only the signal before enables the exit.
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, noted.clone())?;
            signal_hook::flag::register(signal, noted)?;
            let number = usize::try_from(signal).unwrap_or_default();
            signal_hook::flag::register_usize(signal, interrupt.signal.clone(), number)?;
        }
        Ok(interrupt)
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
