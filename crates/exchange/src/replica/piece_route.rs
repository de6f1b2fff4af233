//! How the gradient of each layer travels in `mirrored`: as it is, or as factors.
//!
//! The gradient of a dense layer with P parameters takes each of n workers 2(n - 1)/n P numbers to
//! send. Its factors take (n - 1)B(inputs + outputs), for B examples each, but every worker then
//! computes the gradients of all others and makes the whole update. The cheaper way is chosen by an
//! estimate from the job alone, so that all workers choose the same.

use paceline_model::{FactorSizes, LayerPiece};

use super::step_piece::StepPiece;
use crate::shard::CHUNK_FLOATS;
use crate::wire::WireFormat;

/// A step of fewer chunks is so short that a second thread would only cost time.
const LEAST_CHUNKS: usize = 8;
/// The assumed rate of an unknown link, in bits per second.
const USUAL_LINK: f64 = 1e10;
/// Operations per second with which one core computes a gradient from factors.
const CORE_FLOPS: f64 = 8e10;
/// Seconds that a core takes to send or receive a byte and do something with it.
const BYTE_SECONDS: f64 = 4e-10;
/// Seconds that a core takes to update a parameter.
const UPDATE_SECONDS: f64 = 1e-9;

/// Which gradients of dense layers travel as their two factors, from which every worker computes
/// the gradient itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactorChoice {
    /// Those for which an estimate says that it is faster.
    Auto,
    /// All.
    Always,
    /// None.
    Never,
}

/// What the choice depends on.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeConditions {
    /// The job's choice.
    pub choice: FactorChoice,
    /// Workers of the run.
    pub workers: usize,
    /// Examples per worker and step.
    pub batch: usize,
    /// The rate of each worker's link in bits per second, if it is known.
    pub link_bits_per_s: Option<u64>,
    /// Cores of each worker, if they are known.
    pub cores: Option<f64>,
    /// How gradients travel. Factors always travel as `f32`.
    pub wire: WireFormat,
}

impl ExchangeConditions {
    /// Whether the gradient of a layer with these factors travels as factors.
    pub fn prefers_factors(&self, sizes: FactorSizes) -> bool {
        match self.choice {
            FactorChoice::Never => false,
            FactorChoice::Always => self.workers > 1,
            FactorChoice::Auto => {
                self.workers > 1 && self.factor_seconds(sizes) < self.gradient_seconds(sizes)
            }
        }
    }

    /// The bytes that a worker sends in a step, as a gradient.
    pub fn gradient_bytes(&self, params: usize) -> f64 {
        let workers = self.workers as f64;
        let bytes = 2.0 * self.wire.number_bytes() as f64;
        bytes * (workers - 1.0) / workers * params as f64
    }

    /// The bytes that a worker sends in a step, as factors.
    pub fn factor_bytes(&self, sizes: FactorSizes) -> f64 {
        4.0 * (self.workers as f64 - 1.0) * sizes.floats(self.batch) as f64
    }

    fn gradient_seconds(&self, sizes: FactorSizes) -> f64 {
        let params = params(sizes);
        // Where gradients travel as changes, every worker makes the whole update.
        let share = if self.wire == WireFormat::Bf16 { 1.0 } else { 1.0 / self.workers as f64 };
        let updates = params as f64 * share * UPDATE_SECONDS;
        self.transfer_seconds(self.gradient_bytes(params)) + updates / self.cores()
    }

    fn factor_seconds(&self, sizes: FactorSizes) -> f64 {
        let params = params(sizes) as f64;
        let others = (self.workers as f64 - 1.0) * self.batch as f64;
        let cores = params * UPDATE_SECONDS + 2.0 * params * others / CORE_FLOPS;
        self.transfer_seconds(self.factor_bytes(sizes)) + cores / self.cores()
    }

    /// The time that it takes to send and receive this number of bytes.
    fn transfer_seconds(&self, bytes: f64) -> f64 {
        let link = self.link_bits_per_s.map_or(USUAL_LINK, |rate| rate as f64);
        8.0 * bytes / link + 2.0 * bytes * BYTE_SECONDS / self.cores()
    }

    fn cores(&self) -> f64 {
        self.cores.unwrap_or(1.0)
    }
}

fn params(sizes: FactorSizes) -> usize {
    (sizes.inputs + 1) * sizes.outputs
}

/// Whether a model's steps travel in pieces if its batch is one block: small models are faster
/// without, unless the job asks for factors.
pub fn travels_in_pieces(params: usize, conditions: &ExchangeConditions) -> bool {
    let is_large = params >= LEAST_CHUNKS * CHUNK_FLOATS;
    conditions.workers > 1 && (is_large || conditions.choice == FactorChoice::Always)
}

/// How each of a model's layers travels.
pub fn route_pieces(pieces: &[LayerPiece], conditions: &ExchangeConditions) -> Vec<StepPiece> {
    let route = |piece: &LayerPiece| StepPiece {
        range: piece.range.clone(),
        factors: piece.factors.filter(|sizes| conditions.prefers_factors(*sizes)),
    };
    pieces.iter().map(route).collect()
}

#[cfg(test)]
mod tests;
