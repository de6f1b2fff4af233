//! Weight decay that costs nothing for parameters that a step does not touch.
//!
//! SGD with decay multiplies every parameter by `1 - rate * decay` at every step. Stored as
//! `w = scale * v` with one scale for a whole group, that is one multiplication: a step shrinks
//! the scale and divides its own updates by it. A scale that gets small is folded into all `v`.
//!
//! Each thread applies its factor by compare-and-swap, so no factor is lost or applied twice. A
//! thread holds the table's fold lock for reading while it uses the scale, and for writing while
//! it folds it.

use std::sync::atomic::{AtomicU64, Ordering};

/// A scale below this is folded: `v` keeps its digits at any scale, but would run out of range.
const LEAST: f64 = 1e-12;

/// The common factor of a group's parameters, as the bits of an `f64`.
pub(super) struct DecayScale(AtomicU64);

impl DecayScale {
    pub(super) fn one() -> Self {
        Self(AtomicU64::new(1f64.to_bits()))
    }

    pub(super) fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// Sets the scale. No other thread may use it meanwhile.
    pub(super) fn set(&self, scale: f64) {
        self.0.store(scale.to_bits(), Ordering::Relaxed);
    }

    /// Multiplies the scale by a step's factor and returns the product. Returns `None` and changes
    /// nothing if the product is so small that it must be folded.
    pub(super) fn shrink(&self, factor: f64) -> Option<f64> {
        let next = |bits| {
            let scale = f64::from_bits(bits) * factor;
            // A scale that is not a number must not be folded at every step.
            (scale.abs() >= LEAST || scale.is_nan()).then_some(scale.to_bits())
        };
        let before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        Some(f64::from_bits(before) * factor)
    }

    /// Resets the scale to 1 and returns its old value. No other thread may use it meanwhile.
    pub(super) fn take(&self) -> f64 {
        f64::from_bits(self.0.swap(1f64.to_bits(), Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests;
