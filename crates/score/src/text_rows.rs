//! Where a featuriser of text puts the rows of a chunk.

use crate::error::ScoreError;
use crate::scored_rows::{BadRow, FeatureBlock, ScoredRows};
use crate::scorer::Scorer;
use crate::text_chunks::TextChunk;

/// Turns rows of text into features. Each thread has its own.
pub(crate) trait TextFeaturizer: Send {
    /// Appends the rows of a chunk.
    ///
    /// # Errors
    /// If the source cannot be read at all, as a table without a column that the model needs.
    fn featurize(&mut self, chunk: &TextChunk, rows: &mut TextRows<'_>) -> Result<(), ScoreError>;
}

/// The most values of dense rows that wait to be scored: 1 MiB.
const MOST_VALUES: usize = 256 << 10;

/// Where the rows of a chunk go.
pub(crate) struct TextRows<'a> {
    /// Rows that wait to be scored.
    pub(crate) block: &'a mut FeatureBlock,
    pub(crate) scorer: &'a mut Scorer,
    pub(crate) scored: &'a mut ScoredRows,
}

impl TextRows<'_> {
    /// Notes the line of a row whose features were appended to the block.
    pub(crate) fn end_row(&mut self, number: u64) {
        self.scored.numbers.push(number);
        // A short line may have many values.
        if self.block.dense.len() >= MOST_VALUES {
            self.score();
        }
    }

    /// Notes a row that cannot be scored; `ids` are the texts that identify it, if they are known.
    pub(crate) fn push_bad(&mut self, number: u64, what: String, ids: Vec<String>) {
        let before = self.scored.numbers.len();
        self.scored.bad.push(BadRow { before, name: None, ids, number, what });
    }

    /// Scores the rows of the block.
    pub(crate) fn score(&mut self) {
        if self.block.labels.is_empty() {
            return;
        }
        let scores = if self.scorer.takes_rows() {
            self.scorer.score_rows(self.block.rows(), self.block.fields())
        } else {
            self.scorer.score_values(&self.block.dense)
        };
        self.scored.scores.extend_from_slice(scores);
        self.scored.labels.extend_from_slice(&self.block.labels);
        self.scored.ids.append(&mut self.block.ids);
        self.block.clear();
    }
}
