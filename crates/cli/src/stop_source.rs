//! How a task learns that it must stop.

use paceline_place::LauncherChannel;

use crate::interrupt::Interrupt;

/// How a task learns that it must stop.
#[derive(Clone)]
pub(crate) struct StopSource {
    /// The signals this process received.
    pub(crate) interrupt: Interrupt,
    /// The launcher's channel, if the task was launched: then the launcher decides.
    pub(crate) channel: Option<LauncherChannel>,
}

impl StopSource {
    /// The signal that asks the run to stop, if one was received.
    pub(crate) fn signal(&self) -> Option<i32> {
        match &self.channel {
            Some(channel) => channel.signal(),
            None => self.interrupt.signal(),
        }
    }

    /// Whether the run is about to end because of a signal, as far as this process knows.
    pub(crate) fn is_run_ending(&self) -> bool {
        let by_launcher = self.channel.as_ref().is_some_and(LauncherChannel::is_run_ending);
        by_launcher || self.signal().is_some()
    }

    /// Whether this process should leave the run. A launched task asks its launcher first: a
    /// signal to all tasks is meant for the run, not for each task.
    pub(crate) fn should_leave(&self) -> bool {
        let Some(channel) = &self.channel else { return self.interrupt.signal().is_some() };
        if self.interrupt.signal().is_some() {
            channel.ask_to_leave();
        }
        channel.may_leave()
    }
}
