//! Histograms and norms of a model's tensors, for a job that asks for them.

use std::io;
use std::time::Instant;

use paceline_observe::{TensorRecord, TensorValues};

use crate::byte_budget::{ByteBudget, TENSORS};
use crate::events::{EventWriter, Histogram};
use crate::names::tags;

/// Buckets of a histogram: as many as TensorBoard draws.
const BUCKETS: usize = 30;
/// More than the bytes of a tensor's histogram and norm.
const TENSOR_BYTES: u64 = 1_200;
/// The most tensors of a record; a model with more has the first of them recorded.
const MAX_TENSORS: usize = 400;

/// Writes histograms and norms of tensors.
#[derive(Debug)]
pub(crate) struct TensorCurves {
    budget: ByteBudget,
    begun: Instant,
}

impl TensorCurves {
    /// Curves of a run that begins now.
    pub(crate) fn new(begun: Instant) -> Self {
        Self { budget: ByteBudget::new(TENSORS), begun }
    }

    /// Writes the tensors of a step, unless the budget for them is spent.
    pub(crate) fn add(
        &mut self,
        events: &mut EventWriter,
        record: &TensorRecord<'_>,
        now: Instant,
    ) -> io::Result<()> {
        let tensors = &record.tensors[..record.tensors.len().min(MAX_TENSORS)];
        let seconds = now.saturating_duration_since(self.begun).as_secs_f64();
        if !self.budget.allows(seconds, TENSOR_BYTES * tensors.len() as u64) {
            return Ok(());
        }
        let before = events.written_bytes();
        for TensorValues { kind, name, values } in tensors {
            let norm = values.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
            let histogram = Histogram::of(values, BUCKETS);
            events.histogram(&tags::histogram(kind.name(), name), record.step, &histogram)?;
            let tag = events.tag(&tags::norm(kind.name(), name));
            events.scalar(&tag, record.step, norm as f32)?;
        }
        self.budget.spend(events.written_bytes() - before);
        Ok(())
    }
}
