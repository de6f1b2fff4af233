//! How to wait for a peer: look a few times before going to sleep.
//!
//! A core that has gone to sleep takes some 70 microseconds to wake on a virtual machine, many
//! times what an exchange takes. So whoever waits looks again for a while first. Between two
//! looks it offers its core to others: with more tasks than cores somebody else has work to do
//! there, and burning the core would only delay the answer.

use std::time::{Duration, Instant};

/// How long to keep looking before going to sleep.
const LOOK_FOR: Duration = Duration::from_micros(100);

/// One wait.
#[derive(Debug)]
pub(crate) struct Patience {
    has_looked: bool,
    until: Option<Instant>,
}

impl Patience {
    /// The beginning of a wait.
    pub(crate) fn new() -> Self {
        Self { has_looked: false, until: None }
    }

    /// Offers the core to others and says whether to look again (or else to sleep). The first
    /// look, which is most often the last, does not ask what time it is.
    pub(crate) fn look_again(&mut self) -> bool {
        if std::mem::replace(&mut self.has_looked, true) {
            let now = Instant::now();
            if now >= *self.until.get_or_insert(now + LOOK_FOR) {
                return false;
            }
        }
        std::thread::yield_now();
        true
    }
}
