//! How numbers travel: as they are, or rounded to 16 bits.
//!
//! With [`WireFormat::Bf16`] a worker's gradient travels as changes. The server keeps, for each
//! slot, the gradient as it knows it. The worker keeps the same numbers, sends the difference
//! between its new gradient and them, rounded, and both add what was sent. So what rounding dropped
//! is part of the next difference, and neither end ever holds anything that the other does not
//! know: a process that takes over a slot gets the numbers from the servers, and a checkpoint of
//! the servers is complete. `docs/decisions/bf16-on-the-wire.md` compares this with other ways.
//!
//! Parameters are rounded when they are sent. The server updates its own, which are not rounded, so
//! no error accumulates.

use std::ops::Range;

use paceline_model::kernels::{
    all_finite, all_finite_bf16, bf16_add, bf16_decode, bf16_encode_change,
};

use crate::Header;

/// How gradients and parameters of a dense model travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WireFormat {
    /// As `f32`.
    #[default]
    F32,
    /// Rounded to bf16, 2 bytes for each number. Gradients travel as changes.
    Bf16,
}

impl WireFormat {
    /// The name in the job file and in messages.
    pub fn name(self) -> &'static str {
        match self {
            WireFormat::F32 => "f32",
            WireFormat::Bf16 => "bf16",
        }
    }

    /// Bytes of a number.
    pub fn number_bytes(self) -> usize {
        match self {
            WireFormat::F32 => 4,
            WireFormat::Bf16 => 2,
        }
    }

    /// Whether all numbers of a gradient are finite. One that is not would spoil the parameters of
    /// all workers.
    pub(crate) fn is_finite(self, header: &Header, gradient: &[f32]) -> bool {
        match self {
            WireFormat::F32 => all_finite(gradient),
            WireFormat::Bf16 => {
                let changes: &[u16] = bytemuck::cast_slice(gradient);
                let count = header.len as usize / size_of::<u16>();
                all_finite_bf16(&changes[..count.min(changes.len())])
            }
        }
    }

    pub(crate) fn code(self) -> u8 {
        match self {
            WireFormat::F32 => 0,
            WireFormat::Bf16 => 1,
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(WireFormat::F32),
            1 => Some(WireFormat::Bf16),
            _ => None,
        }
    }
}

/// A worker's gradient as changes, and as the servers know it.
#[derive(Debug, Default)]
pub struct GradientChanges {
    /// The gradient as the servers know it once they have the changes.
    known: Vec<f32>,
    /// The changes sent last. A change that must be sent again has the same bits.
    changes: Vec<u16>,
}

impl GradientChanges {
    /// The changes of a gradient of this length that the servers do not know yet.
    pub fn new(len: usize) -> Self {
        Self { known: vec![0.0; len], changes: vec![0; len] }
    }

    /// The servers have forgotten the gradient.
    pub fn clear(&mut self) {
        self.known.fill(0.0);
    }

    /// Makes the changes that bring a range of the gradient up to date.
    pub fn update(&mut self, range: Range<usize>, gradient: &[f32]) {
        let (known, changes) = (&mut self.known[range.clone()], &mut self.changes[range]);
        bf16_encode_change(gradient, known, changes);
    }

    /// The bytes of the last changes in a range.
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        bytemuck::cast_slice(&self.changes[range])
    }

    /// The gradient as the servers know it, for a process that takes over a slot to fill in.
    pub fn known_mut(&mut self, range: Range<usize>) -> &mut [f32] {
        &mut self.known[range]
    }
}

/// A chunk of rounded parameters on its way from a socket to its place.
#[derive(Debug, Default)]
pub struct RoundedChunk(Vec<u16>);

impl RoundedChunk {
    /// The bytes of a chunk of `len` parameters, to read into.
    pub fn bytes_mut(&mut self, len: usize) -> &mut [u8] {
        self.0.resize(len, 0);
        bytemuck::cast_slice_mut(&mut self.0)
    }

    /// Widens the chunk from parameter `start` on to its place.
    ///
    /// # Panics
    /// If the chunk ends before the place does.
    pub fn widen_into(&self, start: usize, params: &mut [f32]) {
        bf16_decode(&self.0[start..start + params.len()], params);
    }
}

/// Adds changes, as they were received, to a gradient as it is known, and copies the result.
/// `packed` holds them two to a float, in the order of the wire.
pub(crate) fn add_changes(packed: &[f32], known: &mut Vec<f32>, len: usize, out: &mut Vec<f32>) {
    known.resize(len, 0.0);
    out.resize(len, 0.0);
    bf16_add(&bytemuck::cast_slice(packed)[..len], known, out);
}
