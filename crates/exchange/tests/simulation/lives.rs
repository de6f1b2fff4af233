//! Servers that die and come back, and the checkpoints that they come back from.
//!
//! A copy that a server takes is on the disk a while later, if the server lives so long; when
//! those of all servers are there the checkpoint is complete. Who comes back claims the next
//! generation with the newest complete one, and what was begun after that is set aside.

use std::collections::BTreeMap;

use paceline_exchange::{ChunkMarks, ConnId, Generation, Server, Store};
use paceline_model::Table;

use crate::node::node;
use crate::process::{Answered, State};
use crate::world::{Event, World};

/// What a server is restored from.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    pub(crate) params: Vec<f32>,
    slots: Vec<Vec<f32>>,
    pub(crate) marks: Vec<ChunkMarks>,
    pub(crate) stop_at: Option<u64>,
}

impl Copy {
    pub(crate) fn of(server: &Server) -> Self {
        let (marks, stop_at) = (server.marks(), server.stop_at());
        let Store::Sparse(sparse) = server.store() else {
            // Plain SGD keeps no slots.
            let params = server.store().params().to_vec();
            return Self { params, slots: Vec::new(), marks, stop_at };
        };
        let table = sparse.table();
        table.fold();
        let range = table.range();
        let mut params = vec![f32::NAN; range.len()];
        table.read_range(range.clone(), &mut params);
        let read = |slot: usize| {
            let mut values = vec![f32::NAN; range.len()];
            table.read_state(slot, range.clone(), &mut values);
            values
        };
        let slots = (0..table.state_names().len()).map(read).collect();
        Self { params, slots, marks, stop_at }
    }

    pub(crate) fn fill(&self, table: &Table) {
        table.resume(self.marks[0].version);
        table.write_range(table.range(), &self.params);
        for (slot, values) in self.slots.iter().enumerate() {
            table.write_state(slot, table.range(), values);
        }
    }

    /// How many pushes of all slots are in it.
    pub(crate) fn pushes(&self) -> u64 {
        self.marks[0].slots.iter().map(|mark| mark.last_sequence).sum()
    }
}

/// The disk.
#[derive(Default)]
pub(crate) struct Shelf {
    generation: Generation,
    /// By generation and step: the copies that are there, by server.
    begun: BTreeMap<(u64, u64), BTreeMap<usize, Copy>>,
    complete: BTreeMap<u64, Vec<Copy>>,
    /// For each generation that was claimed after a death: how many pushes of each slot all
    /// servers have of it.
    claims: Vec<(u64, Vec<u64>)>,
    /// How many pushes some chunk has of the last generation's checkpoint that another has not.
    owed: u64,
}

impl Shelf {
    /// A server's copy is on the disk. One of an older generation completes nothing any more.
    pub(crate) fn written(
        &mut self,
        servers: usize,
        server: usize,
        generation: u64,
        step: u64,
        copy: Copy,
    ) {
        let copies = self.begun.entry((generation, step)).or_default();
        copies.insert(server, copy);
        if copies.len() == servers && generation == self.generation.number {
            self.complete.insert(step, copies.values().cloned().collect());
        }
    }

    /// Servers that start for the first time are in the first one.
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
        self.owed = (0..workers).map(|slot| any_has(slot) - all_have(slot)).sum();
        let had = (0..workers).map(all_have).collect();
        let last = self.generation.number.max(1);
        self.generation = Generation { number: last + 1, base };
        self.claims.push((self.generation.number, had));
        self.generation
    }

    /// Whether what was answered was lost later.
    pub(crate) fn is_lost(&self, answered: &Answered) -> bool {
        let later = self.claims.iter().filter(|(number, _)| *number > answered.generation);
        let mut kept = later.map(|(_, had)| had[answered.slot]);
        kept.any(|kept| answered.step >= kept)
    }

    /// How many pushes are made whether the run is to stop or not: see [`Client::stopping`].
    ///
    /// [`Client::stopping`]: paceline_exchange::Client::stopping
    pub(crate) fn owed(&self) -> u64 {
        self.owed
    }

    pub(crate) fn has_claims(&self) -> bool {
        !self.claims.is_empty()
    }
}

impl World {
    pub(crate) fn kill_server(&mut self, server: usize, back_after_ms: u64) {
        let is_over = self.nodes.iter().any(|node| node.ended);
        // Once the chief has the last parameters, the run is as good as over.
        let chief = self.processes.get(self.newest[0]).map(|chief| chief.state);
        let is_ending = matches!(chief, Some(State::Refreshing | State::Finishing));
        if is_over || is_ending || self.nodes[server].is_down {
            return;
        }
        if self.trace {
            println!("{:6} ps:{server} dies, back after {back_after_ms}", self.now_ms);
        }
        self.nodes[server].is_down = true;
        self.nodes[server].life += 1;
        self.cut_all(server);
        self.after(back_after_ms, Event::ServerBack(server));
    }

    pub(crate) fn server_back(&mut self, server: usize) {
        let generation = self.shelf.claim(self.plan.workers);
        if self.trace {
            println!("{:6} ps:{server} is back with {generation:?}", self.now_ms);
        }
        self.restore(server, generation);
    }

    /// A server has heard of a newer generation.
    pub(crate) fn go_back(&mut self, server: usize, to: Generation) {
        if self.trace {
            println!("{:6} ps:{server} goes back to {to:?}", self.now_ms);
        }
        self.cut_all(server);
        self.restore(server, to);
    }

    fn restore(&mut self, server: usize, generation: Generation) {
        let copy = generation.base.map(|base| &self.shelf.complete[&base][server]);
        let mut fresh = node(&self.plan, server, copy);
        fresh.server.enter_generation(generation);
        fresh.generation = generation;
        fresh.life = self.nodes[server].life;
        if self.plan.is_sparse {
            let params = fresh.params();
            fresh.history.insert(fresh.server.global_step(), params);
        }
        self.nodes[server] = fresh;
    }

    /// All connections of a server break.
    fn cut_all(&mut self, server: usize) {
        for index in 0..self.conns.len() {
            let conn = &mut self.conns[index];
            if conn.server == server && !std::mem::replace(&mut conn.cut, true) {
                let delay_ms = self.random.below(500);
                self.after(delay_ms, Event::ClientSeesClose(ConnId(index as u64)));
            }
        }
    }

    /// A process gives up a connection and makes a new one.
    pub(crate) fn reconnect(&mut self, process: usize, server: usize) {
        if let Some(conn) = self.links[process][server].take() {
            self.conns[conn.0 as usize].cut = true;
            let delay_ms = self.random.below(500);
            self.after(delay_ms, Event::ServerSeesClose(conn));
        }
        self.processes[process].client.connection_lost(server);
        let delay_ms = self.random.between(1, 100);
        self.after(delay_ms, Event::Connect { process, server });
    }
}
