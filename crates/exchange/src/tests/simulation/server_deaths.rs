//! Servers that die, and the checkpoints from which they resume.
//!
//! A copy that a server takes reaches the disk a while later, if the server lives that long. When
//! the copies of all servers are there, the checkpoint is complete. A restarted server claims the
//! next generation with the newest complete checkpoint; copies begun after that are set aside.

use std::collections::BTreeMap;

use super::node::node;
use super::process::{AnsweredPush, SimProcessState};
use super::world::{SimEvent, SimWorld};
use crate::tests::harness::{ServerCopy, read_params};
use crate::{ConnId, Generation};

/// The disk that all servers share.
#[derive(Default)]
pub(crate) struct SimDisk {
    generation: Generation,
    /// By generation and step: the copies written so far, by server.
    begun: BTreeMap<(u64, u64), BTreeMap<usize, ServerCopy>>,
    complete: BTreeMap<u64, Vec<ServerCopy>>,
    /// For each generation that was claimed after a death: the pushes of each slot that all
    /// servers have in its checkpoint.
    claims: Vec<(u64, Vec<u64>)>,
    /// Pushes that some chunk has in the last generation's checkpoint and another lacks.
    owed_pushes: u64,
}

impl SimDisk {
    /// A server's copy is on the disk. A copy of an older generation completes nothing.
    pub(crate) fn written(
        &mut self,
        servers: usize,
        server: usize,
        generation: u64,
        step: u64,
        copy: ServerCopy,
    ) {
        let copies = self.begun.entry((generation, step)).or_default();
        copies.insert(server, copy);
        if copies.len() == servers && generation == self.generation.number {
            self.complete.insert(step, copies.values().cloned().collect());
        }
    }

    /// Begins the next generation. Servers that start for the first time are in the first one.
    fn claim(&mut self, workers: usize) -> Generation {
        let base = self.complete.keys().next_back().copied();
        let copies = base.map_or(&[][..], |base| &self.complete[&base]);
        let highs = |slot: usize| {
            copies
                .iter()
                .flat_map(|copy| &copy.marks)
                .map(move |marks| marks.slots[slot].last_sequence)
        };
        let all_have = |slot: usize| highs(slot).min().unwrap_or(0);
        let any_has = |slot: usize| highs(slot).max().unwrap_or(0);
        self.owed_pushes = (0..workers).map(|slot| any_has(slot) - all_have(slot)).sum();
        let had = (0..workers).map(all_have).collect();
        let last = self.generation.number.max(1);
        self.generation = Generation { number: last + 1, base };
        self.claims.push((self.generation.number, had));
        self.generation
    }

    /// Whether an answered push was lost later.
    pub(crate) fn is_lost(&self, answered: &AnsweredPush) -> bool {
        let later = self.claims.iter().filter(|(number, _)| *number > answered.generation);
        let mut kept = later.map(|(_, had)| had[answered.slot]);
        kept.any(|kept| answered.step >= kept)
    }

    /// Pushes that are made even if the run stops; see [`crate::Client::is_stopping`].
    pub(crate) fn owed_pushes(&self) -> u64 {
        self.owed_pushes
    }

    pub(crate) fn has_claims(&self) -> bool {
        !self.claims.is_empty()
    }
}

impl SimWorld {
    pub(crate) fn kill_server(&mut self, server: usize, back_after_ms: u64) {
        let is_over = self.nodes.iter().any(|node| node.ended);
        // Once the coordinator has the last parameters, the run is as good as over.
        let coordinator = self.processes.get(self.newest[0]).map(|coordinator| coordinator.state);
        let is_ending =
            matches!(coordinator, Some(SimProcessState::Refreshing | SimProcessState::Finishing));
        if is_over || is_ending || self.nodes[server].is_down {
            return;
        }
        if self.trace {
            println!("{:6} ps:{server} dies, back after {back_after_ms}", self.now_ms);
        }
        self.nodes[server].is_down = true;
        self.nodes[server].life += 1;
        self.cut_all(server);
        self.after(back_after_ms, SimEvent::ServerRestarts(server));
    }

    pub(crate) fn restart_server(&mut self, server: usize) {
        let generation = self.disk.claim(self.plan.workers);
        if self.trace {
            println!("{:6} ps:{server} restarts with {generation:?}", self.now_ms);
        }
        self.restore(server, generation);
    }

    /// A server has heard of a newer generation and restarts from its checkpoint.
    pub(crate) fn rewind_server(&mut self, server: usize, to: Generation) {
        if self.trace {
            println!("{:6} ps:{server} rewinds to {to:?}", self.now_ms);
        }
        self.cut_all(server);
        self.restore(server, to);
    }

    fn restore(&mut self, server: usize, generation: Generation) {
        let copy = generation.base.map(|base| &self.disk.complete[&base][server]);
        let mut restored = node(&self.plan, server, copy);
        restored.server.enter_generation(generation);
        restored.generation = generation;
        restored.life = self.nodes[server].life;
        if self.plan.is_sparse {
            let params = read_params(&restored.server);
            restored.history.insert(restored.server.global_step(), params);
        }
        self.nodes[server] = restored;
    }

    fn cut_all(&mut self, server: usize) {
        for index in 0..self.conns.len() {
            let conn = &mut self.conns[index];
            if conn.server == server && !std::mem::replace(&mut conn.cut, true) {
                let delay_ms = self.random.below(500);
                self.after(delay_ms, SimEvent::ClientSeesClose(ConnId(index as u64)));
            }
        }
    }
}
