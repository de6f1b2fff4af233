//! Where a task's time goes.
//!
//! A task is in exactly one phase at any moment. At each change the clock reads the time once and
//! attributes everything since the last change to the phase that ends. So the phases add up to the
//! whole by construction. A change costs one reading of the monotonic clock, some tens of
//! nanoseconds, which even the shortest steps can afford.

use std::array;
use std::fmt;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use crate::trace::Track;

/// A set of `N` phases for a [`Clock`]: an enum with names.
pub trait Phases<const N: usize>: Copy {
    /// The names in the order of the indices.
    const NAMES: [&'static str; N];

    /// The index of this phase in [`NAMES`](Self::NAMES).
    fn index(self) -> usize;
}

/// The name of the phase in which a server's thread waits for a frame. Its other phases are work.
pub const IDLE: &str = "idle";

/// The name under which a summary has the time of tests. A worker's clock counts it as part of
/// phase `wait`.
pub const EVALUATION: &str = "evaluation";

/// The phases of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Getting the next batch of examples.
    Input,
    /// Getting parameters.
    Pull,
    /// Computing the loss and its gradient.
    Compute,
    /// Sending the gradient.
    Push,
    /// Waiting for other tasks, and everything else between two steps, such as tests.
    Wait,
}

impl Phase {
    /// All phases in the order of a step.
    pub const ALL: [Phase; 5] =
        [Phase::Input, Phase::Pull, Phase::Compute, Phase::Push, Phase::Wait];

    /// The name in `summary.json`.
    pub fn name(self) -> &'static str {
        Self::NAMES[self.index()]
    }
}

impl Phases<5> for Phase {
    const NAMES: [&'static str; 5] = ["input", "pull", "compute", "push", "wait"];

    fn index(self) -> usize {
        self as usize
    }
}

/// The clock of a worker.
pub type PhaseClock = Clock<Phase, 5>;
/// What a worker's clock reads.
pub type PhaseTotals = Totals<Phase, 5>;

/// Attributes every moment since its start to exactly one phase.
#[derive(Clone, Debug)]
pub struct Clock<P, const N: usize> {
    started: Instant,
    current: P,
    since: Instant,
    spent: [Duration; N],
    /// The track that every phase is written to, while a timeline is recorded.
    track: Option<Box<Track>>,
    is_off: bool,
}

impl<P: Phases<N> + PartialEq, const N: usize> Clock<P, N> {
    /// Starts a clock in phase `first`.
    pub fn start(first: P) -> Self {
        Self::start_at(first, Instant::now())
    }

    fn start_at(first: P, now: Instant) -> Self {
        Self {
            started: now,
            current: first,
            since: now,
            spent: [Duration::ZERO; N],
            track: None,
            is_off: false,
        }
    }

    /// Ends the current phase and begins `phase`. Returns the time of the change.
    #[inline]
    pub fn enter(&mut self, phase: P) -> Instant {
        let now = Instant::now();
        self.enter_at(phase, now);
        now
    }

    /// Ends the current phase and begins `phase`, unless `phase` is the current one: then it does
    /// not even read the clock.
    #[inline]
    pub fn stay_in(&mut self, phase: P) {
        if self.current != phase && !self.is_off {
            self.enter(phase);
        }
    }

    /// Does the same as [`stay_in`](Self::stay_in) and returns the span that ended, for a caller
    /// that records spans itself; `None` if `phase` is the current one.
    #[inline]
    pub fn change_to(&mut self, phase: P) -> Option<PhaseSpan<P>> {
        if self.current == phase || self.is_off {
            return None;
        }
        let (ended_phase, begun) = (self.current, self.since);
        let ended = self.enter(phase);
        Some(PhaseSpan { phase: ended_phase, begun, ended })
    }

    #[inline]
    fn enter_at(&mut self, phase: P, now: Instant) {
        self.spent[self.current.index()] += now - self.since;
        if self.track.is_some() {
            self.write_to_track(now);
        }
        self.current = phase;
        self.since = now;
    }

    #[cold]
    fn write_to_track(&mut self, now: Instant) {
        if let Some(track) = &mut self.track {
            track.span(self.current.index() as u32, self.since, now);
        }
    }

    /// Ignores all changes except by [`Clock::enter`] from now on. Benches use this to measure what
    /// the clock costs.
    pub fn turn_off(&mut self) {
        self.is_off = true;
    }

    /// Writes every phase to a track from now on, as the operation of its index.
    pub fn follow(&mut self, track: Box<Track>) {
        self.enter(self.current);
        self.track = Some(track);
    }

    /// Stops writing phases to a track, and returns the track.
    pub fn unfollow(&mut self) -> Option<Box<Track>> {
        self.enter(self.current);
        self.track.take()
    }

    /// The track that phases are written to, if there is one.
    #[inline]
    pub fn track(&mut self) -> Option<&mut Track> {
        self.track.as_deref_mut()
    }

    /// Writes an operation to the track that lasted from the beginning of the current phase until
    /// now.
    #[inline]
    pub fn did(&mut self, op: u32) {
        if let Some(track) = &mut self.track {
            track.span(op, self.since, Instant::now());
        }
    }

    /// The current phase.
    pub fn current(&self) -> P {
        self.current
    }

    /// The time of each phase so far, including the current one.
    pub fn totals(&self) -> Totals<P, N> {
        self.totals_at(Instant::now())
    }

    fn totals_at(&self, now: Instant) -> Totals<P, N> {
        let mut spent = self.spent;
        spent[self.current.index()] += now - self.since;
        Totals { spent, elapsed: now - self.started, phases: PhantomData }
    }
}

/// One phase of a [`Clock`], from its beginning to its end.
#[derive(Clone, Copy, Debug)]
pub struct PhaseSpan<P> {
    /// The phase that ended.
    pub phase: P,
    /// When it began.
    pub begun: Instant,
    /// When it ended, and the next one began.
    pub ended: Instant,
}

/// The time of each phase at one moment of a [`Clock`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Totals<P, const N: usize> {
    spent: [Duration; N],
    elapsed: Duration,
    phases: PhantomData<P>,
}

impl<P: Phases<N>, const N: usize> Totals<P, N> {
    /// The time of a phase.
    pub fn of(&self, phase: P) -> Duration {
        self.spent[phase.index()]
    }

    /// The time since the clock started, which is the sum of all phases.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// The name and the seconds of each phase.
    pub fn seconds(&self) -> [(&'static str, f64); N] {
        array::from_fn(|i| (P::NAMES[i], self.spent[i].as_secs_f64()))
    }

    /// The time of each phase since an earlier reading of the same clock.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            spent: array::from_fn(|i| self.spent[i].saturating_sub(earlier.spent[i])),
            elapsed: self.elapsed.saturating_sub(earlier.elapsed),
            phases: PhantomData,
        }
    }
}

impl<P: Phases<N>, const N: usize> fmt::Debug for Totals<P, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(P::NAMES.iter().zip(&self.spent)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(totals: &PhaseTotals) -> Duration {
        Phase::ALL.iter().map(|phase| totals.of(*phase)).sum()
    }

    #[test]
    fn each_moment_belongs_to_one_phase() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut clock = PhaseClock::start_at(Phase::Input, start);
        clock.enter_at(Phase::Compute, at(3));
        clock.enter_at(Phase::Input, at(10));
        clock.enter_at(Phase::Input, at(11));
        clock.enter_at(Phase::Wait, at(15));
        let earlier = clock.totals_at(at(16));
        let totals = clock.totals_at(at(20));
        assert_eq!(totals.of(Phase::Input), Duration::from_millis(8));
        assert_eq!(totals.of(Phase::Compute), Duration::from_millis(7));
        assert_eq!(totals.of(Phase::Pull), Duration::ZERO);
        assert_eq!(totals.of(Phase::Wait), Duration::from_millis(5));
        assert_eq!(totals.seconds()[4], ("wait", 0.005));
        assert_eq!(totals.since(&earlier).elapsed(), Duration::from_millis(4));
        assert_eq!(sum(&totals), totals.elapsed());
        assert_eq!(clock.current(), Phase::Wait);
    }

    #[test]
    fn phases_add_up_to_the_nanosecond() {
        let mut clock = PhaseClock::start(Phase::Input);
        for turn in 0..100_000 {
            clock.enter(Phase::ALL[turn % 5]);
        }
        let totals = clock.totals();
        assert_eq!(sum(&totals), totals.elapsed());
    }

    #[test]
    fn only_followed_phases_are_written_and_without_gaps() {
        let mut clock = PhaseClock::start(Phase::Input);
        clock.enter(Phase::Compute);
        let ops = Phase::ALL.map(|phase| crate::trace::Op::new(phase.name(), &[])).to_vec();
        clock.follow(Box::new(Track::new("loop", ops)));
        for phase in [Phase::Push, Phase::Wait, Phase::Pull] {
            clock.enter(phase);
        }
        clock.stay_in(Phase::Pull);
        let track = clock.unfollow().unwrap();
        clock.enter(Phase::Input);
        let spans = track.spans();
        let ops: Vec<_> = spans.iter().map(|span| span.op as usize).collect();
        let order = [Phase::Compute, Phase::Push, Phase::Wait, Phase::Pull];
        assert_eq!(ops, order.map(Phase::index));
        assert!(spans.windows(2).all(|pair| pair[0].ended_ns == pair[1].begun_ns), "{spans:?}");
    }

    #[test]
    fn a_change_returns_the_span_that_ended() {
        let mut clock = PhaseClock::start(Phase::Input);
        let first = clock.change_to(Phase::Compute).unwrap();
        assert!(clock.change_to(Phase::Compute).is_none());
        let second = clock.change_to(Phase::Wait).unwrap();
        assert_eq!((first.phase, second.phase), (Phase::Input, Phase::Compute));
        assert_eq!(first.ended, second.begun);
        assert_eq!(clock.totals().of(Phase::Compute), second.ended - second.begun);
    }

    #[test]
    fn names_follow_the_order_of_the_enum() {
        for (i, phase) in Phase::ALL.into_iter().enumerate() {
            assert_eq!(phase.index(), i);
            assert_eq!(phase.name(), format!("{phase:?}").to_lowercase());
        }
    }
}
