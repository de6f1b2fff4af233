//! Copies a shard into the columns of a checkpoint.

use std::ops::Range;

use paceline_exchange::{DenseStore, Server};
use paceline_model::{EntryColumn, ParamTable};

/// Copies the shard of a server of a dense model into columns.
pub fn copy_server(server: &Server, dense: &DenseStore, out: &mut [f32]) {
    let states = dense.optimizer().states().map(|(_, state)| state);
    let before = 1 + dense.optimizer().states().count();
    copy_dense(dense.params(), states, out);
    let columns = out.chunks_exact_mut(dense.params().len().max(1)).skip(before);
    columns.enumerate().for_each(|(slot, column)| server.copy_known(slot, column));
}

/// Copies dense parameters and their optimizer's state into columns.
pub fn copy_dense<'a>(params: &'a [f32], states: impl Iterator<Item = &'a [f32]>, out: &mut [f32]) {
    let columns = [params].into_iter().chain(states);
    for (column, place) in columns.zip(out.chunks_exact_mut(params.len().max(1))) {
        place.copy_from_slice(column);
    }
}

/// Copies a shard of a flat table into columns. A common factor of its parameters must have been
/// multiplied out in the table itself ([`ParamTable::fold`]), so that a resumed run has the same
/// bits as one that was never interrupted.
pub(crate) fn copy_table(table: &ParamTable, shard: &Range<usize>, out: &mut [f32]) {
    let mut columns = out.chunks_exact_mut(shard.len().max(1));
    if let Some(params) = columns.next() {
        table.read_range(shard.clone(), params);
    }
    for (state, place) in columns.enumerate() {
        table.read_state(state, shard.clone(), place);
    }
}

/// Copies the entries of some keys into columns.
pub(crate) fn copy_entries(table: &ParamTable, keys: &[u32], out: &mut [f32]) {
    let states = (0..table.state_names().len()).map(EntryColumn::State);
    let columns = [EntryColumn::Params].into_iter().chain(states);
    for (column, place) in columns.zip(out.chunks_exact_mut((keys.len() * table.width()).max(1))) {
        table.read_entries(keys, column, place);
    }
}
