//! A step that travels while it is computed.
//!
//! Where gradients travel, a large network does not train with
//! [`DenseLink::push`](crate::link::DenseLink::push). A [`StepOverlap`] spans from the backward
//! pass of one step to the forward pass of the next:
//!
//! ```text
//! computing thread                      exchanging thread
//! forward pass of step t
//! lend                                                              parameters leave the link
//! backward pass, last layer first  -->  sends each gradient, sums, receives
//! forward pass of step t + 1       <--  hands back each layer's parameters
//! take back                                                         parameters are whole again
//! after_step of t: tests, checkpoints, stop
//! ```
//!
//! Between two spans nothing travels, and the link's parameters are those of a whole step, so the
//! rest of the engine notices nothing. A link takes part by implementing [`OverlappedLink`]:
//!
//! - [`OverlappedLink::lend`] begins the step and moves the parameters out of the link
//!   (a `Vec` changes its owner; nothing is copied);
//! - [`OverlappedLink::exchanger`] borrows the part of the link that the exchanging thread needs.
//!   It runs [`Exchanger::exchange`] with a [`PieceExchange`], from which it takes what the
//!   computing thread hands in, and through which it hands results back. `paceline_net`'s
//!   `pieces.rs` describes both;
//! - [`OverlappedLink::take_back`] puts the parameters back and ends the step.
//!
//! `overlapped_worker.rs` has the training loop, which is the same for all links.

use std::ops::Range;
use std::sync::mpsc::Receiver;

use paceline_exchange::{LentState, StepPiece};
use paceline_model::{LayerFactors, LayerSink, OptimizerState};
use paceline_net::{
    HandedBack, HandedIn, LinkOutcome, PieceChannel, PieceExchange, PieceSender, StepPieces,
    WorkerFactors,
};

use crate::error::TrainError;
use crate::push_outcome::PushOutcome;

/// A link whose steps travel while they are computed.
pub(crate) trait OverlappedLink {
    /// The pieces of the parameters, one for each layer that has any.
    fn pieces(&self) -> &[StepPiece];

    /// Slots whose factors may arrive.
    fn slots(&self) -> usize;

    /// Whether a step is made as a whole or not at all: nothing is handed back before everything
    /// is.
    fn is_atomic(&self) -> bool;

    /// Whether the step in progress is known to be the last.
    fn is_last(&self) -> bool;

    /// Begins a step of `examples` examples; `None` takes part without any. Lends the parameters
    /// and, if this worker makes the updates itself, the optimizer and memory for mean gradients.
    fn lend(&mut self, examples: Option<u32>) -> LentState;

    /// The parameters that the exchange itself updates where they lie, instead of overwriting them
    /// with what arrives.
    fn updates_in_step(&self) -> Range<usize> {
        0..0
    }

    /// Both ends of the step's channel; the sender wakes the exchanging thread.
    fn channel<'a>(&self, memory: StepPieces<'a>) -> PieceChannel<'a>;

    /// What the exchanging thread runs.
    fn exchanger(&mut self) -> Box<dyn Exchanger + '_>;

    /// Ends the step: the exchange has ended, and what was lent is whole again.
    fn take_back(
        &mut self,
        lent: LentState,
        end: ExchangeEnd,
    ) -> Result<LinkOutcome<StepEnd>, TrainError>;
}

/// Runs on the exchanging thread.
pub(crate) trait Exchanger: Send {
    /// Makes the step that was begun, from its first gradient to its last parameters. Every wait
    /// for other tasks has a limit.
    fn exchange(&mut self, pieces: PieceExchange<'_>) -> Result<ExchangeEnd, TrainError>;
}

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExchangeEnd {
    /// The step is complete.
    Complete,
    /// It was abandoned, because a task was lost or the run went back to a checkpoint.
    Abandoned,
    /// The run was cut short, and the step was not made.
    CutShort,
}

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepEnd {
    /// It was made.
    Made(PushOutcome),
    /// It has to be made again with the same gradient.
    Again,
    /// It was given up, and so was the run.
    GivenUp,
}

/// Memory for gradients and factors, which is kept from step to step.
pub(crate) struct StepBuffers {
    /// The gradient. The system never provides the pages of pieces with factors.
    gradient: Vec<f32>,
    /// By piece: this worker's factors.
    factors: Vec<Vec<f32>>,
    /// By piece and slot: the factors of other workers.
    peer_factors: Vec<Vec<Vec<f32>>>,
}

impl StepBuffers {
    /// The memory for steps of at most `batch` examples per slot.
    pub(crate) fn new(pieces: &[StepPiece], slots: usize, batch: usize) -> Self {
        let floats = |piece: &StepPiece| piece.factors.map_or(0, |sizes| sizes.floats(batch));
        let of_slots = |piece: &StepPiece| vec![vec![0.0; floats(piece)]; slots];
        Self {
            gradient: vec![0.0; pieces.last().map_or(0, |last| last.range.end)],
            factors: pieces.iter().map(|_| Vec::new()).collect(),
            peer_factors: pieces.iter().map(of_slots).collect(),
        }
    }

    /// Everything that a step works with: the exchange's memory, and the handing over.
    pub(crate) fn begin<'a>(
        &'a mut self,
        pieces: &'a [StepPiece],
        lent: &'a mut LentState,
        updates_in_step: Range<usize>,
    ) -> (StepPieces<'a>, StepMemoryParts<'a>) {
        let mut memory = StepPieces::new(pieces);
        for (index, slots) in self.peer_factors.iter_mut().enumerate() {
            let is_factor = pieces[index].factors.is_some();
            let slots = slots.iter_mut().map(Vec::as_mut_slice);
            memory.lend_peer_factors(index, if is_factor { slots.collect() } else { Vec::new() });
        }
        let parts = StepMemoryParts {
            pieces,
            params: split(&mut lent.params, pieces),
            next: (!lent.next.is_empty()).then(|| split(&mut lent.next, pieces)),
            updates_in_step,
            means: lent.optimizer.is_some().then(|| split(&mut lent.mean, pieces)),
            optimizer: lent.optimizer.as_mut(),
            gradient: split(&mut self.gradient, pieces),
            factors: self.factors.iter_mut().map(Some).collect(),
        };
        (memory, parts)
    }
}

/// Cuts a slice into its pieces.
fn split<'a>(whole: &'a mut [f32], pieces: &[StepPiece]) -> Vec<Option<&'a mut [f32]>> {
    let mut rest = whole;
    let mut cut = |piece: &StepPiece| {
        let (first, more) = std::mem::take(&mut rest).split_at_mut(piece.range.len());
        rest = more;
        Some(first)
    };
    pieces.iter().map(&mut cut).collect()
}

/// The memory of a step that is not in the hands of the exchanging thread, piece by piece.
pub(crate) struct StepMemoryParts<'a> {
    pub(crate) pieces: &'a [StepPiece],
    pub(crate) params: Vec<Option<&'a mut [f32]>>,
    /// If the parameters before the step are kept: the memory for those after it.
    next: Option<Vec<Option<&'a mut [f32]>>>,
    /// See [`OverlappedLink::updates_in_step`].
    updates_in_step: Range<usize>,
    /// If this worker makes the updates itself: memory for the mean gradient.
    means: Option<Vec<Option<&'a mut [f32]>>>,
    pub(crate) optimizer: Option<&'a mut OptimizerState>,
    gradient: Vec<Option<&'a mut [f32]>>,
    factors: Vec<Option<&'a mut Vec<f32>>>,
}

/// Hands in what a backward pass produces.
pub(crate) struct Handover<'a> {
    pub(crate) parts: StepMemoryParts<'a>,
    sender: PieceSender<'a>,
}

impl<'a> Handover<'a> {
    /// Begins to hand in. The memory for means is free from the beginning.
    pub(crate) fn new(mut parts: StepMemoryParts<'a>, sender: PieceSender<'a>) -> Self {
        let means = parts.means.iter_mut().flatten().enumerate();
        for (piece, mean) in means.filter(|(piece, _)| parts.pieces[*piece].factors.is_none()) {
            if let Some(values) = mean.take() {
                sender.hand_in(HandedIn::Output { piece, values });
            }
        }
        Self { parts, sender }
    }

    /// Hands in a step whose gradient has been computed before.
    pub(crate) fn hand_in_all(&mut self) {
        for piece in (0..self.parts.pieces.len()).rev() {
            if self.parts.pieces[piece].factors.is_some() {
                self.hand_in_factors(piece);
            } else {
                self.gradient_done(piece);
            }
            self.params_done(piece);
        }
    }

    fn hand_in_factors(&mut self, piece: usize) {
        if let Some(values) = self.parts.factors[piece].take() {
            self.sender.hand_in(HandedIn::Factors { piece, values });
        }
    }

    /// Gives the step up, and wakes the exchanging thread, which must notice it.
    pub(crate) fn give_up(&self) {
        self.sender.wake();
    }

    /// Hands in nothing of a gradient: this worker has none.
    pub(crate) fn hand_in_params(&mut self) {
        (0..self.parts.pieces.len()).rev().for_each(|piece| self.params_done(piece));
    }
}

impl LayerSink for Handover<'_> {
    fn gradient(&mut self, piece: usize) -> Option<&mut [f32]> {
        if self.parts.pieces[piece].factors.is_some() {
            return None;
        }
        self.parts.gradient[piece].as_deref_mut()
    }

    fn gradient_done(&mut self, piece: usize) {
        if let Some(values) = self.parts.gradient[piece].take() {
            self.sender.hand_in(HandedIn::Gradient { piece, values });
        }
    }

    fn factors(&mut self, piece: usize, factors: LayerFactors<'_>) {
        if let Some(own) = &mut self.parts.factors[piece] {
            own.clear();
            own.extend_from_slice(factors.inputs);
            own.extend_from_slice(factors.deltas);
        }
        self.hand_in_factors(piece);
    }

    fn params(&self, piece: usize) -> &[f32] {
        self.parts.params[piece].as_deref().unwrap_or_default()
    }

    fn params_done(&mut self, piece: usize) {
        if self.parts.optimizer.is_some() {
            return;
        }
        if let Some(values) = self.parts.take_output(piece) {
            self.sender.hand_in(HandedIn::Output { piece, values });
        }
    }
}

impl<'a> StepMemoryParts<'a> {
    /// The memory for the updated parameters of a piece.
    fn take_output(&mut self, piece: usize) -> Option<&'a mut [f32]> {
        let Some(next) = &mut self.next else { return self.params[piece].take() };
        let output = next[piece].take()?;
        let Range { start, end } = self.pieces[piece].range;
        let from = self.updates_in_step.start.clamp(start, end) - start;
        let to = self.updates_in_step.end.clamp(start, end) - start;
        if let Some(params) = self.params[piece].as_deref().filter(|_| from < to) {
            output[from..to].copy_from_slice(&params[from..to]);
        }
        Some(output)
    }
}

/// What has been handed back so far.
pub(crate) struct Returns<'a> {
    handed_back: Receiver<HandedBack<'a>>,
    outputs: Vec<Option<&'a [f32]>>,
    factors: Vec<Option<Vec<WorkerFactors<'a>>>>,
    is_complete: bool,
}

/// Called when a wait for the exchange begins (`true`) and when it ends.
pub(crate) type OnWait<'c> = &'c mut dyn FnMut(bool);

impl<'a> Returns<'a> {
    pub(crate) fn new(handed_back: Receiver<HandedBack<'a>>, pieces: usize) -> Self {
        let factors = (0..pieces).map(|_| None).collect();
        Self { handed_back, outputs: vec![None; pieces], factors, is_complete: false }
    }

    /// Waits for the next thing that is handed back. Returns whether there was one; there is none
    /// after the whole step, and after a failure.
    fn receive(&mut self, on_wait: OnWait<'_>) -> bool {
        let handed_back = self.handed_back.try_recv().or_else(|_| {
            on_wait(true);
            let handed_back = self.handed_back.recv();
            on_wait(false);
            handed_back
        });
        match handed_back {
            Ok(HandedBack::Output { piece, values }) => self.outputs[piece] = Some(values),
            Ok(HandedBack::Factors { piece, workers }) => self.factors[piece] = Some(workers),
            Ok(HandedBack::Complete) => self.is_complete = true,
            Err(_) => return false,
        }
        true
    }

    /// Waits for the result of a piece; `None` if the step fails, or is not made.
    pub(crate) fn output(&mut self, piece: usize, on_wait: OnWait<'_>) -> Option<&'a [f32]> {
        while self.outputs[piece].is_none() && !self.is_complete && self.receive(on_wait) {}
        self.outputs[piece]
    }

    /// Waits for the factors of a piece; `None` if the step fails.
    pub(crate) fn factors(
        &mut self,
        piece: usize,
        on_wait: OnWait<'_>,
    ) -> Option<Vec<WorkerFactors<'a>>> {
        while self.factors[piece].is_none() && !self.is_complete && self.receive(on_wait) {}
        self.factors[piece].take()
    }

    /// Waits until the step is complete; `false` if it fails.
    pub(crate) fn complete(&mut self, on_wait: OnWait<'_>) -> bool {
        while !self.is_complete && self.receive(on_wait) {}
        self.is_complete
    }
}
