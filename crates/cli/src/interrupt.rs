//! Ctrl-C and SIGTERM: the first asks training to end in good order, the second ends it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};

/// Knows whether the process has been asked to end.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Starts to listen. From now on a first signal is noted, and a second one ends the
    /// process at once.
    pub fn listen() -> io::Result<Self> {
        let interrupt = Self::default();
        for signal in [SIGINT, SIGTERM] {
            let noted = Arc::new(AtomicBool::new(false));
            // Handlers run in this order, so the exit is armed only by the signal before.
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, noted.clone())?;
            signal_hook::flag::register(signal, noted)?;
            let number = usize::try_from(signal).unwrap_or_default();
            signal_hook::flag::register_usize(signal, interrupt.signal.clone(), number)?;
        }
        Ok(interrupt)
    }

    /// Takes no note of either, for processes that end with another.
    pub fn ignore() -> io::Result<Self> {
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::default())?;
        }
        Ok(Self::default())
    }

    /// Ends by neither, for processes that are told otherwise when to end: terminals and service
    /// managers send them to all processes of a run at once. Takes note of SIGTERM only, which may
    /// be meant for this process alone.
    pub fn only_note() -> io::Result<Self> {
        let interrupt = Self::default();
        signal_hook::flag::register(SIGINT, Arc::default())?;
        let number = usize::try_from(SIGTERM).unwrap_or_default();
        signal_hook::flag::register_usize(SIGTERM, interrupt.signal.clone(), number)?;
        Ok(interrupt)
    }

    /// Takes note of a wish to end that came by another way than a signal.
    pub fn note(&self, signal: i32) {
        self.signal.store(usize::try_from(signal).unwrap_or_default(), Ordering::Relaxed);
    }

    /// The signal that was received, if any.
    #[inline]
    pub fn signal(&self) -> Option<i32> {
        match self.signal.load(Ordering::Relaxed) {
            0 => None,
            signal => i32::try_from(signal).ok(),
        }
    }
}
