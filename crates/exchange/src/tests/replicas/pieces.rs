//! Steps in pieces, as the computing thread of a worker makes them: it hands pieces in one after
//! the other, the last one first, and makes the updates that are its own.

use std::collections::VecDeque;
use std::ops::Range;

use super::keyed::keyed_gradient;
use super::plan::{ReplicaPlan, factor_gradient, factors, gradient};
use crate::{CompletedPiece, LentState, Replica, StepMemory, StepPiece};

/// What is handed in next.
#[derive(Clone, Copy, Debug)]
enum HandIn {
    Gradient(usize),
    Output(usize),
}

/// The memory of a step of a process.
#[derive(Default)]
pub(crate) struct SimMemory {
    pieces: Vec<StepPiece>,
    gradient: Vec<f32>,
    own_factors: Vec<Vec<f32>>,
    /// By piece and slot.
    peer_factors: Vec<Vec<Vec<f32>>>,
    /// What the replica has lent, in a step in pieces.
    lent: Option<LentState>,
    sends_means: bool,
    hand_ins: VecDeque<HandIn>,
    /// What is complete and has not been applied.
    completed: Vec<CompletedMean>,
}

/// The mean gradient of a piece.
struct CompletedMean {
    range: Range<usize>,
    mean: Vec<f32>,
}

impl SimMemory {
    /// Begins a step of a replica with the gradient of its current parameters.
    pub(crate) fn begin(
        plan: &ReplicaPlan,
        replica: &mut Replica,
        slot: usize,
        examples: Option<u32>,
    ) -> Self {
        let step = replica.global_step();
        if let Some(table) = replica.table() {
            let (keys, gradient) = keyed_gradient(table, slot, step);
            replica.begin_keyed_step(examples, &keys);
            return SimMemory { gradient, ..Self::default() };
        }
        let mut memory =
            SimMemory { gradient: gradient(replica.params(), slot, step), ..Self::default() };
        if plan.pieces.is_empty() {
            replica.begin_step(examples);
            return memory;
        }
        memory.pieces = plan.pieces.clone();
        memory.sends_means = replica.config().sends_means();
        let floats = |piece: &StepPiece, examples: u32| {
            piece.factors.map_or(0, |sizes| sizes.floats(examples as usize))
        };
        let own = |piece: &StepPiece| {
            factors(replica.params(), slot, step, floats(piece, examples.unwrap_or(0)))
        };
        memory.own_factors = plan.pieces.iter().map(own).collect();
        let most = replica.config().batch as u32;
        let room = |piece: &StepPiece| vec![vec![0.0; floats(piece, most)]; plan.workers];
        memory.peer_factors = plan.pieces.iter().map(room).collect();
        replica.begin_step_in_pieces(examples);
        memory.lent = Some(replica.lend());
        for piece in (0..plan.pieces.len()).rev() {
            if examples.is_some() {
                memory.hand_ins.push_back(HandIn::Gradient(piece));
            }
            if memory.sends_means {
                replica.output_handed_in(piece);
            } else {
                memory.hand_ins.push_back(HandIn::Output(piece));
            }
        }
        memory
    }

    /// Hands in the next piece. Returns whether there was one.
    pub(crate) fn hand_in(&mut self, replica: &mut Replica) -> bool {
        match self.hand_ins.pop_front() {
            Some(HandIn::Gradient(piece)) => replica.gradient_handed_in(piece),
            Some(HandIn::Output(piece)) => replica.output_handed_in(piece),
            None => return false,
        }
        true
    }

    /// Takes what is complete; makes the updates at once unless the run recovers.
    pub(crate) fn take_completed(&mut self, replica: &mut Replica) {
        while let Some(completed) = replica.next_completed() {
            match completed {
                CompletedPiece::Output(_) if !self.sends_means => {}
                CompletedPiece::Output(piece) => {
                    let range = self.pieces[piece].range.clone();
                    let mean = self.output(range.clone()).unwrap().to_vec();
                    self.completed.push(CompletedMean { range, mean });
                }
                CompletedPiece::Factors(piece) => {
                    let mean = self.mean_by_factors(replica, piece);
                    let range = self.pieces[piece].range.clone();
                    self.completed.extend(mean.map(|mean| CompletedMean { range, mean }));
                }
            }
            if !replica.recovers() {
                self.apply(replica.global_step());
            }
        }
    }

    /// The mean of all workers' gradients of a piece; `None` if none has examples.
    fn mean_by_factors(&self, replica: &Replica, piece: usize) -> Option<Vec<f32>> {
        let StepPiece { range, factors } = &self.pieces[piece];
        let mut mean: Option<Vec<f32>> = None;
        for its in replica.contributors() {
            let floats = factors.unwrap().floats(its.examples as usize);
            let values = if its.slot == replica.slot() {
                &self.own_factors[piece]
            } else {
                &self.peer_factors[piece][its.slot]
            };
            let gradient = factor_gradient(&values[..floats], range.len());
            let weighted = gradient.iter().map(|value| its.weight * value);
            mean = Some(match mean {
                None => weighted.collect(),
                Some(mean) => mean.iter().zip(weighted).map(|(sum, value)| sum + value).collect(),
            });
        }
        mean
    }

    fn apply(&mut self, step: u64) {
        let Some(lent) = &mut self.lent else { return };
        for CompletedMean { range, mean } in self.completed.drain(..) {
            let params = &mut lent.params[range.clone()];
            lent.optimizer.as_mut().unwrap().apply(step, range.start, params, &mean);
        }
    }

    /// Ends a step that was complete (`made_from` is its number) or abandoned.
    pub(crate) fn end(&mut self, replica: &mut Replica, made_from: Option<u64>) {
        if let Some(step) = made_from {
            self.apply(step);
        }
        if let Some(lent) = self.lent.take() {
            replica.take_back(lent);
        }
    }
}

impl StepMemory for SimMemory {
    fn gradient(&self, range: Range<usize>) -> &[f32] {
        &self.gradient[range]
    }

    fn output(&self, range: Range<usize>) -> Option<&[f32]> {
        let lent = self.lent.as_ref()?;
        Some(if self.sends_means { &lent.mean[range] } else { &lent.params[range] })
    }

    fn output_mut(&mut self, range: Range<usize>) -> Option<&mut [f32]> {
        let lent = self.lent.as_mut()?;
        Some(if self.sends_means { &mut lent.mean[range] } else { &mut lent.params[range] })
    }

    fn own_factors(&self, piece: usize, range: Range<usize>) -> &[f32] {
        &self.own_factors[piece][range]
    }

    fn peer_factors(&mut self, piece: usize, slot: usize, range: Range<usize>) -> &mut [f32] {
        &mut self.peer_factors[piece][slot][range]
    }
}
