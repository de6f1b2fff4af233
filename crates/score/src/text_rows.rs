//! Where a featuriser of text puts the rows of a chunk.

use crate::error::ScoreError;
use crate::scored_rows::{BadRow, FeatureBlock};
use crate::text_chunks::TextChunk;

/// Turns rows of text into features. Each thread has its own.
pub(crate) trait TextFeaturizer: Send {
    /// Appends the rows of a chunk.
    ///
    /// # Errors
    /// If the source cannot be read at all, as a table without a column that the model needs.
    fn featurize(&mut self, chunk: &TextChunk, rows: &mut TextRows<'_>) -> Result<(), ScoreError>;
}

/// Where the rows of a chunk go.
pub(crate) struct TextRows<'a> {
    pub(crate) block: &'a mut FeatureBlock,
    /// The line of each row in the block.
    pub(crate) numbers: &'a mut Vec<u64>,
    /// The rows that cannot be scored.
    pub(crate) bad: &'a mut Vec<BadRow>,
}

impl TextRows<'_> {
    /// Notes a row that cannot be scored.
    pub(crate) fn push_bad(&mut self, number: u64, what: String) {
        let before = self.numbers.len();
        self.bad.push(BadRow { before, name: None, number, what });
    }
}
