//! How well a model does, counted over any number of batches.

/// Sums over the examples seen so far. Sums are kept in `f64`, so their order hardly matters.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Examples seen.
    pub examples: u64,
    /// Of those, the ones whose most likely class was the right one.
    pub correct: u64,
    /// Sum of the examples' losses.
    pub loss_sum: f64,
}

impl Tally {
    /// Mean loss of an example; NaN when none was seen.
    pub fn loss(&self) -> f64 {
        self.loss_sum / self.examples as f64
    }

    /// Share of examples that were right, from 0 to 1; NaN when none was seen.
    pub fn accuracy(&self) -> f64 {
        self.correct as f64 / self.examples as f64
    }
}
