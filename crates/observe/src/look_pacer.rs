//! When a loop of short steps looks beyond itself.

use std::time::{Duration, Instant};

/// How long a loop looks neither at signals nor at the display. A look calls the program, which
/// takes longer than the rest of what follows a short step.
const INTERVAL: Duration = Duration::from_millis(1);

/// Says when a loop looks at signals and the display: at once, then at most once in a millisecond.
#[derive(Clone, Copy, Debug, Default)]
pub struct LookPacer {
    next: Option<Instant>,
}

impl LookPacer {
    /// Whether a look is due.
    #[inline]
    pub fn is_due(&self, now: Instant) -> bool {
        self.next.is_none_or(|next| now >= next)
    }

    /// Plans the next look, if one was due.
    #[inline]
    pub fn plan(&mut self, now: Instant) {
        if self.is_due(now) {
            self.next = Some(now + INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_due_at_once_and_then_once_in_an_interval() {
        let (mut pacer, start) = (LookPacer::default(), Instant::now());
        let mut looks = 0;
        for tenth in 0..=25 {
            let now = start + INTERVAL * tenth / 10;
            looks += u32::from(pacer.is_due(now));
            pacer.plan(now);
        }
        assert_eq!(looks, 3);
    }
}
