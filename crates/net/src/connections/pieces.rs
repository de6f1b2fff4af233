//! A push that overlaps with the passes of a network.
//!
//! See `pieces.rs` in the crate's root for how the computing thread and this one share a step's
//! memory. A layer is pushed once its gradient is final and its parameters are free for the answer.
//! The layers become final from the last to the first; of the chunks that are final, the lowest is
//! sent first, because the next forward pass needs it first. A chunk that belongs to several layers
//! is sent when all of them are final, and is copied once more.

use std::mem;
use std::ops::Range;
use std::time::Duration;

use paceline_exchange::StepMemory;
use paceline_model::AlignedBuffer;

use super::buffers::Buffers;
use super::server_connections::{ReturnWhen, ServerConnections};
use super::server_peer::ServerPeer;
use crate::error::LinkError;
use crate::long_wait::LongWait;
use crate::observer::{ExchangePhase, LinkObserver};
use crate::outcome::LinkOutcome;
use crate::pieces::{HandedBack, PieceChannel, PieceExchange, StepPieces};

/// How long a poll waits for a socket to take the rest of a frame.
const SEND_POLL: Duration = Duration::from_millis(2);

impl ServerConnections {
    /// Both ends of a step in pieces with this memory.
    pub fn piece_channel<'a>(&self, memory: StepPieces<'a>) -> PieceChannel<'a> {
        PieceChannel::new(memory, self.waker.clone())
    }

    /// Begins to push a gradient in pieces, as [`Self::exchange`] does at once. Lends the
    /// parameters until [`Self::take_back`].
    pub fn lend(&mut self, step: u64, examples: u32) -> AlignedBuffer {
        if !self.has_rewound {
            self.client.begin_push_in_pieces(step, examples);
        }
        mem::take(&mut self.params)
    }

    /// Ends a step in pieces, whether it was made or not.
    pub fn take_back(&mut self, params: AlignedBuffer) {
        self.params = params;
    }

    /// Completes the push that [`Self::lend`] began, with the pieces that are handed in meanwhile,
    /// and returns when all of them have their updated parameters. If the run is cut short
    /// meanwhile, it returns when the servers have answered what was sent, and
    /// [`Self::was_dropped`] holds.
    pub fn exchange_pieces(
        &mut self,
        exchange: PieceExchange<'_>,
        step: u64,
        observer: &mut impl LinkObserver,
    ) -> Result<LinkOutcome, LinkError> {
        if self.has_rewound {
            return Ok(LinkOutcome::Rewound);
        }
        let mut buffers = PieceBuffers::new(exchange);
        observer.sending_gradient(step);
        let (mut wait, mut is_cancelled) = (None, false);
        loop {
            let final_from = buffers.take_in();
            if buffers.exchange.is_closed && final_from > 0 {
                return Err(PieceExchange::model_failed());
            }
            if !is_cancelled {
                self.client.set_final(final_from);
            }
            let progress = self.send_and_read(&mut buffers, observer)?;
            // Servers drop gradients of a step in pieces only if a worker has cut the run short.
            if !is_cancelled && (self.client.was_dropped() || observer.cuts_short()) {
                is_cancelled = true;
                self.client.cancel_push();
                observer.was_cut_short();
            }
            if is_cancelled && !self.cut_short_when_sent()? {
                self.poll(SEND_POLL)?;
                continue;
            }
            match self.outcome(ReturnWhen::Answered)? {
                Some(LinkOutcome::Rewound) => return Ok(LinkOutcome::Rewound),
                Some(LinkOutcome::Done(())) => {
                    buffers.exchange.hand_back(HandedBack::Complete);
                    return Ok(LinkOutcome::Done(()));
                }
                None => {}
            }
            if progress || final_from > 0 {
                // While pieces are missing, this worker's own model is what everything waits for.
                wait = None;
            }
            if !progress {
                observer.enter_phase(ExchangePhase::Wait);
                // This thread does not spin: the thread that computes has more use for the core.
                self.sleep(wait.get_or_insert_with(LongWait::new), observer)?;
            }
        }
    }
}

impl ServerConnections {
    /// Cuts the run short, unless a frame has been sent only in part. Returns whether the run is
    /// cut short.
    fn cut_short_when_sent(&mut self) -> Result<bool, LinkError> {
        if !self.requests.cuts_short && self.peers.iter().all(ServerPeer::is_sent) {
            self.cut_short()?;
        }
        Ok(self.requests.cuts_short)
    }
}

/// The memory of a step in pieces, and how far each piece has come.
struct PieceBuffers<'a> {
    exchange: PieceExchange<'a>,
    pieces: Vec<AwaitedPiece>,
    /// Pieces from this one on are final, and their parameters are free.
    final_from: usize,
}

struct AwaitedPiece {
    range: Range<usize>,
    /// Parameters that have not arrived.
    missing: usize,
}

impl<'a> PieceBuffers<'a> {
    fn new(exchange: PieceExchange<'a>) -> Self {
        let progress = |range: Range<usize>| AwaitedPiece { missing: range.len(), range };
        let pieces: Vec<_> = exchange.memory.ranges().map(progress).collect();
        Self { exchange, final_from: pieces.len(), pieces }
    }

    /// Takes what has been handed in. Returns the parameter from which on everything is final.
    fn take_in(&mut self) -> usize {
        while self.exchange.next_handed_in().is_some() {}
        while self.final_from > 0 && self.exchange.memory.is_handed_in(self.final_from - 1) {
            self.final_from -= 1;
        }
        match self.pieces.get(self.final_from) {
            Some(piece) => piece.range.start,
            None => self.pieces.last().map_or(0, |last| last.range.end),
        }
    }

    /// The pieces that a range lies in.
    fn pieces_of(&self, range: &Range<usize>) -> Range<usize> {
        let first = self.pieces.partition_point(|piece| piece.range.end <= range.start);
        let after = self.pieces.partition_point(|piece| piece.range.start < range.end);
        first..after.max(first)
    }

    /// The part of a range that lies in a piece.
    fn part(&self, piece: usize, range: &Range<usize>) -> Range<usize> {
        let piece = &self.pieces[piece].range;
        range.start.max(piece.start)..range.end.min(piece.end)
    }
}

impl Buffers for PieceBuffers<'_> {
    fn gradient(&self, range: &Range<usize>) -> Option<&[f32]> {
        let is_one = self.pieces_of(range).len() == 1;
        is_one.then(|| self.exchange.memory.gradient(range.clone()))
    }

    fn params(&mut self, range: &Range<usize>) -> Option<&mut [f32]> {
        let is_one = self.pieces_of(range).len() == 1;
        if is_one { self.exchange.memory.output_mut(range.clone()) } else { None }
    }

    fn for_each_gradient(&self, range: &Range<usize>, visit: &mut dyn FnMut(&[f32])) {
        for piece in self.pieces_of(range) {
            visit(self.exchange.memory.gradient(self.part(piece, range)));
        }
    }

    fn for_each_params(&mut self, range: &Range<usize>, visit: &mut dyn FnMut(&mut [f32])) {
        for piece in self.pieces_of(range) {
            let part = self.part(piece, range);
            self.exchange.memory.output_mut(part).into_iter().for_each(&mut *visit);
        }
    }

    /// Hands back the pieces that are complete.
    fn arrived(&mut self, range: &Range<usize>) {
        for piece in self.pieces_of(range) {
            self.pieces[piece].missing -= self.part(piece, range).len();
            if self.pieces[piece].missing == 0 {
                let values = self.exchange.memory.share_output(piece);
                self.exchange.hand_back(HandedBack::Output { piece, values });
            }
        }
    }
}
