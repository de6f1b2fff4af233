//! The parameters of a sparse model with the state of their optimizer, shared by threads.
//!
//! A step of a sparse model reads and updates a few thousand of many million parameters. What the
//! dense optimizer would do to all the others at every step (decay, a rate that changes) a table
//! does exactly, without touching them.
//!
//! Any number of threads may read and update at the same time without locks, as in "Hogwild!"
//! (Niu et al., 2011): of two updates of one parameter at the same moment one may be lost, which
//! sparse problems tolerate. A single thread gives equal bits for equal arguments.
//!
//! A parameter lies beside its state, so that it costs one cache miss instead of three. Of FTRL
//! only `z` and `n` are stored; the parameter follows from them.
//!
//! A [`Table`] has one parameter for each key, an [`EntryTable`] several; a [`ParamTable`] is
//! either.

mod apply;
mod atomic_cells;
mod decay_scale;
mod entry_admission;
mod entry_policy;
mod entry_rule;
mod entry_table;
mod entry_update;
mod memory;
mod param_table;
mod row_descent;
mod rule;
mod slabs;
mod storage;
mod stored;

pub use entry_policy::EntryPolicy;
pub use entry_table::EntryTable;
pub use entry_update::BlockColumns;
pub use memory::TableMemory;
pub use param_table::{EntryColumn, ParamTable};
pub use row_descent::{KeysAhead, RowDescent};
pub use storage::Table;
pub use stored::StoredEntries;

#[cfg(test)]
mod tests;
