//! One step in pieces, on a thread of its own, while another thread computes.
//!
//! See `pieces.rs` in the crate's root for how the two threads share the step's memory.

use paceline_exchange::{CompletedPiece, Contributor, LentState, StepPiece, WholeGradient};

use super::fault::MeshFault;
use super::state::Mesh;
use crate::error::LinkError;
use crate::long_wait::LongWait;
use crate::observer::{ExchangePhase, LinkObserver};
use crate::pieces::{HandedBack, PieceChannel, PieceExchange, StepPieces, TakenIn, WorkerFactors};

/// What became of a step in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceOutcome {
    /// It is complete.
    Complete,
    /// A worker was lost, and the run recovers from that: put everything back, and call
    /// [`Mesh::resume_after_loss`]. The step then has to be made again, unless it was made.
    Abandoned,
    /// The run was cut short: put everything back, and leave.
    CutShort,
}

impl Mesh {
    /// The pieces in which a step can be made; none if steps are made at once.
    pub fn pieces(&self) -> &[StepPiece] {
        &self.replica.config().pieces
    }

    /// Whether the parameters are updated by the caller, with the mean gradient that it receives.
    pub fn sends_means(&self) -> bool {
        self.replica.config().sends_means()
    }

    /// Whether the next step to be made is known to be the last.
    pub fn is_last_step(&self) -> bool {
        let steps = self.replica.config().stop_steps;
        steps.is_some_and(|steps| self.global_step() + 1 >= steps)
    }

    /// Whether a step is made as a whole or not at all.
    pub fn is_atomic(&self) -> bool {
        self.replica.recovers()
    }

    /// Workers in the run.
    pub fn workers(&self) -> usize {
        self.replica.workers()
    }

    /// Both ends of a step in pieces with this memory.
    pub fn piece_channel<'a>(&self, memory: StepPieces<'a>) -> PieceChannel<'a> {
        PieceChannel::new(memory, self.waker.clone())
    }

    /// Begins a step in pieces with a gradient over `examples` examples; `None` if this worker has
    /// no more. Lends what the computing thread works with until [`Mesh::take_back`].
    ///
    /// # Panics
    /// If the last step has been made, or the mesh has no pieces.
    pub fn lend(&mut self, examples: Option<u32>) -> LentState {
        self.replica.begin_step_in_pieces(examples);
        self.replica.lend()
    }

    /// Ends a step in pieces, whether it was made or not.
    pub fn take_back(&mut self, lent: LentState) {
        self.replica.take_back(lent);
    }

    /// Completes the step that [`Mesh::lend`] began, with the pieces that are handed in meanwhile.
    pub fn exchange_pieces(
        &mut self,
        mut exchange: PieceExchange<'_>,
        observer: &mut impl LinkObserver,
    ) -> Result<PieceOutcome, LinkError> {
        match self.try_pieces(&mut exchange, observer) {
            Ok(()) => {
                self.losses = 0;
                exchange.hand_back(HandedBack::Complete);
                Ok(PieceOutcome::Complete)
            }
            // The other workers notice when the connections are closed, as if this one had died.
            Err(_) if exchange.is_closed && self.replica.awaits_hand_in() => {
                Err(PieceExchange::model_failed())
            }
            Err(fault) => match self.abandon(fault, &mut exchange.memory, observer) {
                Err(LinkError::CutShort) => {
                    observer.was_cut_short();
                    Ok(PieceOutcome::CutShort)
                }
                abandoned => abandoned.map(|()| PieceOutcome::Abandoned),
            },
        }
    }

    /// After an abandoned step: waits until all workers are connected and have made the same
    /// steps. If the others have made the abandoned one, so has this worker then.
    pub fn resume_after_loss(&mut self, observer: &mut impl LinkObserver) -> Result<(), LinkError> {
        match self.regather(observer)? {
            Ok(()) => Ok(()),
            Err(fault) => self.recover(fault, &mut WholeGradient::none(), observer),
        }
    }

    fn try_pieces<'a>(
        &mut self,
        exchange: &mut PieceExchange<'a>,
        observer: &mut impl LinkObserver,
    ) -> Result<(), MeshFault> {
        self.check_needed()?;
        observer.sending_gradient(self.global_step());
        let (mut wait, mut completed) = (None, Vec::new());
        loop {
            if observer.cuts_short() {
                return Err(LinkError::CutShort.into());
            }
            let mut progress = self.take_in(exchange);
            if exchange.is_closed && self.replica.awaits_hand_in() {
                return Err(PieceExchange::model_failed().into());
            }
            observer.enter_phase(ExchangePhase::Push);
            if self.replica.reduce_chunk(&mut exchange.memory) {
                while self.replica.reduce_chunk(&mut exchange.memory) {}
                observer.gradients_applied();
            }
            progress |= self.send_all(&exchange.memory)?;
            observer.enter_phase(ExchangePhase::Pull);
            progress |= self.read_all(&mut exchange.memory, observer)?;
            self.hand_back(exchange, &mut completed);
            if self.is_sent() && self.replica.is_complete() {
                self.replica.finish_step()?;
                completed.drain(..).for_each(|piece| exchange.hand_back(piece));
                return Ok(());
            }
            if progress {
                wait = None;
            } else {
                observer.enter_phase(ExchangePhase::Wait);
                // While pieces are missing, this worker's own model is what everything waits for.
                let is_own = self.replica.awaits_pieces();
                let wait = (!is_own).then(|| wait.get_or_insert_with(LongWait::new));
                self.sleep(wait, observer)?;
            }
        }
    }

    /// Takes what has been handed in. Returns whether there was anything.
    fn take_in(&mut self, exchange: &mut PieceExchange<'_>) -> bool {
        let mut progress = false;
        while let Some(taken) = exchange.next_handed_in() {
            progress = true;
            match taken {
                TakenIn::Gradient(piece) => self.replica.gradient_handed_in(piece),
                TakenIn::Output(piece) => self.replica.output_handed_in(piece),
            }
        }
        progress
    }

    /// Hands back what is complete. A run that recovers makes a step as a whole or not at all:
    /// there everything is kept until the whole step is complete.
    fn hand_back<'a>(
        &mut self,
        exchange: &mut PieceExchange<'a>,
        completed: &mut Vec<HandedBack<'a>>,
    ) {
        while let Some(piece) = self.replica.next_completed() {
            let piece = match piece {
                CompletedPiece::Output(piece) => {
                    HandedBack::Output { piece, values: exchange.memory.share_output(piece) }
                }
                CompletedPiece::Factors(piece) => self.complete_factors(exchange, piece),
            };
            if self.replica.recovers() {
                completed.push(piece);
            } else {
                exchange.hand_back(piece);
            }
        }
    }

    fn complete_factors<'a>(
        &self,
        exchange: &mut PieceExchange<'a>,
        piece: usize,
    ) -> HandedBack<'a> {
        let own = self.replica.slot();
        let sizes = self.replica.config().pieces[piece].factors;
        let worker = |its: Contributor| {
            let examples = its.examples as usize;
            let floats = sizes.map_or(0, |sizes| sizes.floats(examples));
            let slot = (its.slot != own).then_some(its.slot);
            let values = exchange.memory.share_factors(piece, slot, floats);
            WorkerFactors { examples, weight: its.weight, values }
        };
        let workers = self.replica.contributors().map(worker).collect();
        HandedBack::Factors { piece, workers }
    }
}
