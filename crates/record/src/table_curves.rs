//! Curves of what a task holds of a sparse model: its entries and their bytes.

use std::io;

use paceline_observe::TableUse;

use crate::events::{EventWriter, Tag};
use crate::names::tags;

/// Writes the curves of a task's table.
#[derive(Debug)]
pub(crate) struct TableCurves {
    entries: Tag,
    bytes: Tag,
}

impl TableCurves {
    /// Curves in this event file.
    pub(crate) fn new(events: &mut EventWriter) -> Self {
        Self { entries: events.tag(tags::ENTRIES), bytes: events.tag(tags::ENTRY_BYTES) }
    }

    /// Adds a point, if the task holds a table.
    pub(crate) fn write(
        &self,
        events: &mut EventWriter,
        step: u64,
        table: Option<TableUse>,
    ) -> io::Result<()> {
        let Some(TableUse { entries, bytes }) = table else { return Ok(()) };
        events.scalar(&self.entries, step, entries as f32)?;
        events.scalar(&self.bytes, step, bytes as f32)
    }
}
