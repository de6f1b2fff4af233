//! Steps over servers that travel while they are computed (`overlap.rs`).

use std::mem;

use paceline_exchange::{LentState, StepPiece};
use paceline_model::AlignedBuffer;
use paceline_net::LinkOutcome::{self, Done, Rewound};
use paceline_net::{PieceChannel, PieceExchange, ServerConnections, StepPieces};

use crate::error::TrainError;
use crate::exchange_observer::ExchangeObserver;
use crate::link::Link;
use crate::overlap::{ExchangeEnd, Exchanger, OverlappedLink, StepEnd};
use crate::server_link::{ServerLink, push_outcome};

impl OverlappedLink for ServerLink<'_> {
    fn pieces(&self) -> &[StepPiece] {
        self.overlap.as_ref().map_or(&[], |overlap| &overlap.pieces)
    }

    fn slots(&self) -> usize {
        0
    }

    fn is_atomic(&self) -> bool {
        false
    }

    fn is_last(&self) -> bool {
        false
    }

    fn lend(&mut self, examples: Option<u32>) -> LentState {
        self.lent_step = self.global_step();
        let step = self.next_step();
        let params = self.connections.lend(step, examples.unwrap_or(0));
        let mut next = mem::take(&mut self.spare);
        if self.keeps_params() && next.is_empty() {
            next = AlignedBuffer::zeros(params.len());
        }
        LentState { params, mean: Vec::new(), optimizer: None, next }
    }

    fn channel<'a>(&self, memory: StepPieces<'a>) -> PieceChannel<'a> {
        self.connections.piece_channel(memory)
    }

    fn exchanger(&mut self) -> Box<dyn Exchanger + '_> {
        let step = self.next_step();
        let track = self.overlap.as_ref().and_then(|overlap| overlap.track.as_ref());
        let observer = ExchangeObserver::new(self.notify, self.peers, track);
        let stop = self.step_stop.as_deref();
        let observer = observer.halted_by(self.stop.is_halted).cut_by(stop);
        Box::new(ServerExchanger { connections: &mut self.connections, step, observer })
    }

    fn take_back(
        &mut self,
        lent: LentState,
        end: ExchangeEnd,
    ) -> Result<LinkOutcome<StepEnd>, TrainError> {
        self.connections.take_back(lent.params);
        self.spare = lent.next;
        match end {
            ExchangeEnd::Abandoned => return Ok(Rewound),
            ExchangeEnd::CutShort => {
                self.set_cut_short(self.lent_step);
                return Ok(Done(StepEnd::GivenUp));
            }
            ExchangeEnd::Complete => {}
        }
        self.own_step += 1;
        Ok(Done(StepEnd::Made(push_outcome(&self.connections))))
    }
}

/// Exchanges the pieces of a step with all servers.
struct ServerExchanger<'a> {
    connections: &'a mut ServerConnections,
    step: u64,
    observer: ExchangeObserver<'a>,
}

impl Exchanger for ServerExchanger<'_> {
    fn exchange(&mut self, pieces: PieceExchange<'_>) -> Result<ExchangeEnd, TrainError> {
        Ok(match self.connections.exchange_pieces(pieces, self.step, &mut self.observer)? {
            Done(()) if self.connections.was_dropped() => ExchangeEnd::CutShort,
            Done(()) => ExchangeEnd::Complete,
            Rewound => ExchangeEnd::Abandoned,
        })
    }
}
