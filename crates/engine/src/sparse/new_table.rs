//! The table of a sparse model, wherever it is.

use paceline_model::{KeyPart, ParamTable, SparseModel, TableMemory};
use paceline_observe::TableUse;

use crate::context::VisitPiece;
use crate::error::TrainError;
use crate::settings::TrainSettings;

/// Parameters per piece.
const PIECE: usize = 1 << 18;

/// A table of some keys before the first step.
pub(crate) fn empty_table(
    settings: &TrainSettings,
    model: &dyn SparseModel,
    part: KeyPart,
) -> Result<ParamTable, TrainError> {
    let (optimizer, width) = (settings.optimizer.clone(), model.layout().width());
    let mut policy = settings.entries;
    if let Some(limit) = settings.table_memory {
        let memory = TableMemory::of(&optimizer, width, part.places().len(), policy);
        policy.max_entries = memory.entries_within(limit).map_err(TrainError::Settings)?;
    }
    ParamTable::allocate_part(optimizer, model, part, settings.seed, policy)
        .map_err(TrainError::Settings)
}

/// All keys of a model.
pub(crate) fn all_keys(model: &dyn SparseModel) -> KeyPart {
    KeyPart::contiguous(0..model.layout().keys(), model.inputs())
}

/// Fails if a key of the last updates has found no room in the table.
pub(crate) fn check_room(table: &ParamTable) -> Result<(), TrainError> {
    table.check_room().map_err(TrainError::Settings)
}

/// How much a table holds.
pub(crate) fn table_use(table: &ParamTable) -> TableUse {
    let entries = table.entries().unwrap_or_else(|| table.keys().len());
    TableUse { entries: entries as u64, bytes: table.used_bytes() }
}

/// Calls `visit` with all parameters of a table, a piece at a time.
pub(crate) fn for_each_piece(
    table: &ParamTable,
    visit: &mut VisitPiece<'_>,
) -> Result<(), TrainError> {
    let (all, mut values) = (table.range(), Vec::new());
    for from in all.clone().step_by(PIECE) {
        let piece = from..(from + PIECE).min(all.end);
        values.resize(piece.len(), 0.0);
        table.read_range(piece, &mut values);
        visit(&values)?;
    }
    Ok(())
}
