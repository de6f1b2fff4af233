//! What the benchmarks give the network code in place of a model and a recorder.

use paceline_exchange::{Level, Server, Stats, Store};
use paceline_model::{Group, Layout};
use paceline_net::{ExchangePhase, LinkObserver, ServerObserver, ServerTotals};

/// A layout of one tensor.
pub(crate) fn flat_layout(floats: usize) -> Layout {
    let mut layout = Layout::new();
    layout.push("weight", &[floats], Group::Weights);
    layout
}

/// Records nothing.
pub(crate) struct BenchObserver;

impl ServerObserver for BenchObserver {
    fn note(&mut self, _: Level, _: &str) {}
    fn report(&mut self, _: &ServerTotals, _: &Stats, _: &Store) -> Vec<u8> {
        Vec::new()
    }
    fn tick(&mut self, _: &Server) -> Result<(), String> {
        Ok(())
    }
}

impl LinkObserver for BenchObserver {
    fn enter_phase(&mut self, _: ExchangePhase) {}
    fn note(&mut self, _: &str) {}
    fn should_give_up(&mut self) -> bool {
        false
    }
}
