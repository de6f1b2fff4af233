//! A step in pieces: how two threads share its memory.
//!
//! While the computing thread makes a backward pass it hands in each layer's gradient, and then
//! the layer's parameters, to the thread that exchanges them ([`PieceSender`]). That thread hands
//! back each layer's updated parameters as soon as they are complete ([`HandedBack`]), and the
//! computing thread waits for them only when its next forward pass needs them.
//!
//! Everything is borrowed for one step, `'a`, and changes hands without a copy: a slice that is
//! written is in the hands of one thread, and one that both read is shared. Use it like this:
//!
//! 1. Take the parameters out of the connections ([`Mesh::lend`](crate::Mesh::lend)), and cut them
//!    into pieces with `split_at_mut`.
//! 2. Make a [`PieceChannel`] and, in a [`std::thread::scope`], spawn a thread that calls
//!    [`Mesh::exchange_pieces`](crate::Mesh::exchange_pieces) with its [`PieceExchange`], and
//!    compute, handing pieces in and taking them back.
//! 3. When the scope has ended, everything is whole again: put the parameters back.
//!
//! Each direction has a queue that holds everything a step hands over, so no thread ever waits to
//! hand something over.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

use mio::Waker;
use paceline_exchange::{StepMemory, StepPiece};

use crate::error::LinkError;

/// What the computing thread hands in. Pieces are numbered in the order of the parameters.
#[derive(Debug)]
pub enum HandedIn<'a> {
    /// The gradient of a piece, which is final.
    Gradient {
        /// The piece.
        piece: usize,
        /// Its gradient.
        values: &'a [f32],
    },
    /// The factors of a piece's gradient: the inputs of all examples, then the derivatives.
    Factors {
        /// The piece.
        piece: usize,
        /// The factors.
        values: &'a [f32],
    },
    /// The memory for the result of a piece: its parameters, which the backward pass no longer
    /// needs, or the memory for its mean gradient.
    Output {
        /// The piece.
        piece: usize,
        /// The memory.
        values: &'a mut [f32],
    },
}

/// What the exchanging thread hands back.
#[derive(Debug)]
pub enum HandedBack<'a> {
    /// The result of a piece: its updated parameters, or its mean gradient.
    Output {
        /// The piece.
        piece: usize,
        /// The result.
        values: &'a [f32],
    },
    /// The factors of all workers that have any for this piece, in slot order.
    Factors {
        /// The piece.
        piece: usize,
        /// The factors.
        workers: Vec<WorkerFactors<'a>>,
    },
    /// The step is complete, and everything has been handed back.
    Complete,
}

/// One worker's factors of a piece.
#[derive(Clone, Copy, Debug)]
pub struct WorkerFactors<'a> {
    /// The number of examples.
    pub examples: usize,
    /// The weight of the worker's gradient in the mean.
    pub weight: f32,
    /// The inputs of all examples, then the derivatives with respect to the outputs.
    pub values: &'a [f32],
}

/// Hands pieces in, from the computing thread.
pub struct PieceSender<'a> {
    sender: SyncSender<HandedIn<'a>>,
    waker: Arc<Waker>,
}

impl<'a> PieceSender<'a> {
    /// Hands something in. If the exchange has failed, nothing happens.
    pub fn hand_in(&self, piece: HandedIn<'a>) {
        if self.sender.send(piece).is_ok() {
            // A thread that cannot be woken looks again after its next poll.
            let _ = self.waker.wake();
        }
    }
}

impl PieceSender<'_> {
    /// Makes the exchanging thread check whether the step is abandoned.
    pub fn wake(&self) {
        let _ = self.waker.wake();
    }
}

/// The exchanging thread's end of a step.
pub struct PieceExchange<'a> {
    pub(crate) memory: StepPieces<'a>,
    pub(crate) handed_in: Receiver<HandedIn<'a>>,
    pub(crate) hand_back: SyncSender<HandedBack<'a>>,
    /// Whether the computing thread hands in nothing more. If pieces are missing, it has failed.
    pub(crate) is_closed: bool,
}

/// Both ends of a step in pieces.
pub struct PieceChannel<'a> {
    /// For the computing thread: hands pieces in.
    pub sender: PieceSender<'a>,
    /// For the computing thread: what is handed back.
    pub handed_back: Receiver<HandedBack<'a>>,
    /// For the exchanging thread.
    pub exchange: PieceExchange<'a>,
}

impl<'a> PieceChannel<'a> {
    /// Both ends of a step with this memory. `waker` ends the polls of the exchanging thread.
    pub(crate) fn new(memory: StepPieces<'a>, waker: Arc<Waker>) -> Self {
        let pieces = memory.pieces.len();
        let (sender, handed_in) = sync_channel(2 * pieces);
        let (hand_back, handed_back) = sync_channel(pieces + 1);
        let exchange = PieceExchange { memory, handed_in, hand_back, is_closed: false };
        Self { sender: PieceSender { sender, waker }, handed_back, exchange }
    }
}

impl<'a> PieceExchange<'a> {
    /// Takes what has been handed in meanwhile, one thing at a time.
    pub(crate) fn next_handed_in(&mut self) -> Option<TakenIn> {
        match self.handed_in.try_recv() {
            Ok(handed_in) => Some(self.memory.take_in(handed_in)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                self.is_closed = true;
                None
            }
        }
    }

    /// The error of a step whose model has failed. The caller reports the model's panic instead.
    pub(crate) fn model_failed() -> LinkError {
        LinkError::Aborted("the model failed in the middle of a step".into())
    }

    /// Hands something back. The computing thread may have abandoned the step.
    pub(crate) fn hand_back(&self, piece: HandedBack<'a>) {
        let _ = self.hand_back.send(piece);
    }
}

/// What of a piece has just been handed in.
pub(crate) enum TakenIn {
    Gradient(usize),
    Output(usize),
}

/// Memory that is lent to the exchange, and given back when it will not be written any more.
#[derive(Debug, Default)]
enum Lent<'a> {
    #[default]
    Nothing,
    Writable(&'a mut [f32]),
    Shared(&'a [f32]),
}

impl<'a> Lent<'a> {
    fn get(&self) -> &[f32] {
        match self {
            Lent::Nothing => &[],
            Lent::Writable(values) => values,
            Lent::Shared(values) => values,
        }
    }

    fn get_mut(&mut self) -> &mut [f32] {
        match self {
            Lent::Writable(values) => values,
            Lent::Nothing | Lent::Shared(_) => &mut [],
        }
    }

    /// Ends the writing; both threads may read from now on.
    fn share(&mut self) -> &'a [f32] {
        let shared: &'a [f32] = match std::mem::take(self) {
            Lent::Nothing => &[],
            Lent::Writable(values) => values,
            Lent::Shared(values) => values,
        };
        *self = Lent::Shared(shared);
        shared
    }
}

/// The memory of a step in pieces.
#[derive(Debug)]
pub struct StepPieces<'a> {
    pieces: Vec<PieceMemory<'a>>,
}

#[derive(Debug)]
struct PieceMemory<'a> {
    /// The first parameter.
    start: usize,
    end: usize,
    gradient: &'a [f32],
    factors: &'a [f32],
    output: Lent<'a>,
    /// The memory for the factors of other workers, by slot.
    peer_factors: Vec<Lent<'a>>,
}

impl<'a> StepPieces<'a> {
    /// The memory of a step with these pieces, all of which is still to be handed in.
    pub fn new(pieces: &[StepPiece]) -> Self {
        let piece = |piece: &StepPiece| PieceMemory {
            start: piece.range.start,
            end: piece.range.end,
            gradient: &[],
            factors: &[],
            output: Lent::Nothing,
            peer_factors: Vec::new(),
        };
        Self { pieces: pieces.iter().map(piece).collect() }
    }

    /// Lends memory for the factors that each worker, by slot, has for this piece.
    pub fn lend_peer_factors(&mut self, piece: usize, slots: Vec<&'a mut [f32]>) {
        self.pieces[piece].peer_factors = slots.into_iter().map(Lent::Writable).collect();
    }

    /// The ranges of all pieces.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        self.pieces.iter().map(|piece| piece.start..piece.end)
    }

    /// Whether the gradient of a piece is final and its output may be written.
    pub(crate) fn is_handed_in(&self, piece: usize) -> bool {
        let PieceMemory { start, end, gradient, output, .. } = &self.pieces[piece];
        gradient.len() == end - start && matches!(output, Lent::Writable(_))
    }

    fn take_in(&mut self, handed_in: HandedIn<'a>) -> TakenIn {
        match handed_in {
            HandedIn::Gradient { piece, values } => {
                self.pieces[piece].gradient = values;
                TakenIn::Gradient(piece)
            }
            HandedIn::Factors { piece, values } => {
                self.pieces[piece].factors = values;
                TakenIn::Gradient(piece)
            }
            HandedIn::Output { piece, values } => {
                self.pieces[piece].output = Lent::Writable(values);
                TakenIn::Output(piece)
            }
        }
    }

    /// The output of a piece will not be written any more.
    pub(crate) fn share_output(&mut self, piece: usize) -> &'a [f32] {
        self.pieces[piece].output.share()
    }

    /// The first `floats` of the factors of a worker for a piece, which are complete. `slot` is
    /// `None` for this worker.
    pub(crate) fn share_factors(
        &mut self,
        piece: usize,
        slot: Option<usize>,
        floats: usize,
    ) -> &'a [f32] {
        let piece = &mut self.pieces[piece];
        let all = slot.map_or(piece.factors, |slot| piece.peer_factors[slot].share());
        &all[..floats]
    }

    /// The piece that a range lies in, and the range inside the piece.
    fn find(&self, range: &Range<usize>) -> (usize, Range<usize>) {
        let piece = self.pieces.partition_point(|piece| piece.end <= range.start);
        let piece = piece.min(self.pieces.len() - 1);
        let start = self.pieces[piece].start;
        if range.is_empty() {
            (piece, 0..0)
        } else {
            (piece, range.start - start..range.end - start)
        }
    }
}

impl StepMemory for StepPieces<'_> {
    fn gradient(&self, range: Range<usize>) -> &[f32] {
        let (piece, range) = self.find(&range);
        &self.pieces[piece].gradient[range]
    }

    fn output(&self, range: Range<usize>) -> Option<&[f32]> {
        let (piece, range) = self.find(&range);
        Some(&self.pieces[piece].output.get()[range])
    }

    fn output_mut(&mut self, range: Range<usize>) -> Option<&mut [f32]> {
        let (piece, range) = self.find(&range);
        Some(&mut self.pieces[piece].output.get_mut()[range])
    }

    fn own_factors(&self, piece: usize, range: Range<usize>) -> &[f32] {
        &self.pieces[piece].factors[range]
    }

    fn peer_factors(&mut self, piece: usize, slot: usize, range: Range<usize>) -> &mut [f32] {
        &mut self.pieces[piece].peer_factors[slot].get_mut()[range]
    }
}
