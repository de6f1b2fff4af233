//! Weight decay that costs nothing for parameters that a step does not touch.
//!
//! SGD with decay multiplies every parameter by `1 - rate * decay` at every step. Kept as
//! `w = scale * v` for a whole group, that is one multiplication: a step shrinks the scale, and
//! divides its own updates by it. When the scale gets small it is folded into all `v` at once.
//!
//! Steps of several threads each take their factor by compare-and-swap, so none is lost and none
//! counts twice. They hold the gate for reading as long as they use the scale; folding holds it
//! for writing.

use std::sync::atomic::{AtomicU64, Ordering};

/// Folded below this: `v` has the digits of a float at any scale, but not its range.
const LEAST: f64 = 1e-12;

/// The common factor of a group's parameters, in bits of an `f64`.
pub(super) struct Scale(AtomicU64);

impl Scale {
    pub(super) fn one() -> Self {
        Self(AtomicU64::new(1f64.to_bits()))
    }

    pub(super) fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// Multiplies by a step's factor and returns what came of it; none, and nothing is changed,
    /// if that is so small that it must be folded.
    pub(super) fn shrink(&self, factor: f64) -> Option<f64> {
        let next = |bits| {
            let scale = f64::from_bits(bits) * factor;
            // A scale that is no number must not be folded over and over.
            (scale.abs() >= LEAST || scale.is_nan()).then_some(scale.to_bits())
        };
        let before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        Some(f64::from_bits(before) * factor)
    }

    /// Sets it back to 1 and returns what it was. Nobody else may use it meanwhile.
    pub(super) fn take(&self) -> f64 {
        f64::from_bits(self.0.swap(1f64.to_bits(), Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn factors_of_many_threads_are_neither_lost_nor_doubled() {
        let scale = Scale::one();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| assert!(scale.shrink(0.9999).is_some())));
            }
        });
        let expected = 0.9999f64.powi(40_000);
        assert!((scale.get() / expected - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_small_scale_is_left_for_folding() {
        let scale = Scale::one();
        assert_eq!(scale.shrink(0.5), Some(0.5));
        assert_eq!(scale.shrink(1e-12), None);
        assert_eq!(scale.shrink(0.0), None);
        assert_eq!(scale.take(), 0.5);
        assert_eq!(scale.get(), 1.0);
    }
}
