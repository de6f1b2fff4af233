//! Copies of servers: what a checkpoint holds.

use paceline_model::{ParamTable, StoredEntries};

use crate::{ChunkMarks, ResumeState, Server, Store};

/// What a server is restored from.
#[derive(Clone, Debug)]
pub(crate) struct ServerCopy {
    pub(crate) params: Vec<f32>,
    states: Vec<Vec<f32>>,
    pub(crate) marks: Vec<ChunkMarks>,
    /// What the server knows of each slot's gradient, if gradients travel as changes.
    known: Vec<Vec<f32>>,
    stop_at: Option<u64>,
    entries: EntriesCopy,
}

/// Which keys of a table have an entry, and what else it knows of keys.
#[derive(Clone, Debug, Default)]
struct EntriesCopy {
    keys: Vec<u32>,
    marks: Vec<u32>,
    counts: StoredEntries,
}

impl ServerCopy {
    pub(crate) fn of(server: &Server) -> Self {
        let (marks, stop_at) = (server.marks(), server.stop_at());
        let Store::Sparse(sparse) = server.store() else {
            // Dense models are tested with plain SGD, which has no state.
            let params = server.store().params().to_vec();
            let known = |slot: usize| {
                let mut known = vec![f32::NAN; params.len()];
                server.copy_known(slot, &mut known);
                known
            };
            let known = (0..marks[0].slots.len()).map(known).collect();
            let (states, entries) = Default::default();
            return Self { params, states, marks, known, stop_at, entries };
        };
        let table = sparse.table();
        table.fold();
        let read = |state: usize| {
            let mut values = vec![f32::NAN; table.range().len()];
            table.read_state(state, table.range(), &mut values);
            values
        };
        let states = (0..table.state_names().len()).map(read).collect();
        let keys = table.entry_keys(table.keys());
        let (entry_marks, counts) = (table.marks(&keys), table.counts(table.keys()));
        let entries = EntriesCopy { keys, marks: entry_marks, counts };
        Self { params: read_table(table), states, marks, known: Vec::new(), stop_at, entries }
    }

    pub(crate) fn restore_known(&self, server: &mut Server) {
        for (slot, known) in self.known.iter().enumerate() {
            server.restore_known(slot, known);
        }
    }

    pub(crate) fn fill(&self, table: &ParamTable) {
        table.resume(self.marks[0].version);
        let EntriesCopy { keys, marks, counts } = &self.entries;
        table.create_entries(keys);
        table.set_marks(keys, marks);
        table.set_counts(&counts.keys, bytemuck::cast_slice(&counts.cells));
        table.write_range(table.range(), &self.params);
        for (state, values) in self.states.iter().enumerate() {
            table.write_state(state, table.range(), values);
        }
    }

    pub(crate) fn resume_state(&self) -> ResumeState {
        let (chunks, stop_at) = (self.marks.clone(), self.stop_at);
        ResumeState { first_step: 0, chunks, stop_at }
    }

    /// Pushes of all slots that are in it.
    pub(crate) fn pushes(&self) -> u64 {
        self.marks[0].slots.iter().map(|mark| mark.last_sequence).sum()
    }
}

pub(crate) fn read_table(table: &ParamTable) -> Vec<f32> {
    let mut params = vec![f32::NAN; table.range().len()];
    table.read_range(table.range(), &mut params);
    params
}

/// The current parameters of a server, of a dense or a sparse model.
pub(crate) fn read_params(server: &Server) -> Vec<f32> {
    match server.store() {
        Store::Dense(dense) => dense.params().to_vec(),
        Store::Sparse(sparse) => read_table(sparse.table()),
    }
}
