//! Scores chunks of text: the work of one thread.

use paceline_data::sparse::{LineParser, MAX_FEATURES, MAX_LINE_BYTES, ParsedRow, SparseFormat};
use paceline_record::InputKind;

use crate::error::ScoreError;
use crate::scored_rows::{FeatureBlock, ScoredRows};
use crate::scorer::Scorer;
use crate::table_featurizer::TableFeaturizer;
use crate::text_chunks::{ChunkFault, TextChunk, lines};
use crate::text_rows::{TextFeaturizer, TextRows};
use crate::trained_model::TrainedModel;

/// Parses lines into rows.
struct LineFeaturizer {
    parser: LineParser,
    /// The number of values of a row, if the model takes vectors.
    dense: Option<usize>,
    /// The number of fields of the model; 0 if it needs none, and then rows have none.
    fields: usize,
}

impl TextFeaturizer for LineFeaturizer {
    fn featurize(&mut self, chunk: &TextChunk, rows: &mut TextRows<'_>) -> Result<(), ScoreError> {
        for (number, line) in lines(chunk) {
            if line.len() > MAX_LINE_BYTES {
                rows.push_bad(number, too_long(), Vec::new());
                continue;
            }
            match self.parser.parse(line) {
                Ok(None) => {}
                Ok(Some(ParsedRow { row, has_label })) => {
                    let label = has_label.then_some(row.label);
                    let unknown = |field: &&u16| usize::from(**field) >= self.fields;
                    if let Some(field) = row.fields.iter().find(unknown) {
                        let what = format!("field {field}, but the model has {}", self.fields);
                        rows.push_bad(number, what, Vec::new());
                        continue;
                    }
                    match self.dense {
                        None => rows.block.push_row(row.keys, row.values, label),
                        Some(values) => rows.block.push_vector(row, values, label),
                    }
                    rows.block.push_fields(row.fields.iter().copied());
                    rows.end_row(number);
                }
                Err(what) => rows.push_bad(number, what, Vec::new()),
            }
        }
        Ok(())
    }
}

fn too_long() -> String {
    format!("longer than {MAX_LINE_BYTES} bytes")
}

/// The featuriser of a model that takes lines of text; `None` if it takes something else.
pub(crate) fn text_featurizer(
    model: &TrainedModel,
    needs_labels: bool,
) -> Option<Box<dyn TextFeaturizer>> {
    let (format, features, first_index) = match model.description().input.kind {
        InputKind::Libsvm { features, first_index } => {
            (SparseFormat::Libsvm, features, first_index)
        }
        InputKind::Libffm { features } => (SparseFormat::Libffm, features, 0),
        // Generated clicks are text with fields, if the model needs them.
        InputKind::Clicks { features } if model.fields() > 0 => (SparseFormat::Libffm, features, 0),
        InputKind::Clicks { features } => (SparseFormat::Libsvm, features, 1),
        InputKind::Criteo { features } => (SparseFormat::Criteo, features, 0),
        InputKind::Table { .. } => {
            let featurizer = model.table_featurizer()?.clone();
            let featurizer = TableFeaturizer::new(featurizer, !model.is_sparse(), model.fields());
            return Some(Box::new(featurizer.needing_labels(needs_labels)));
        }
        _ => return None,
    };
    // A description that does not fit the parameters is refused here and not by a panic later.
    if features != model.inputs() || features > MAX_FEATURES {
        return None;
    }
    let fields = model.fields();
    let parser = LineParser::new(format, features, first_index);
    let parser = if fields > 0 { parser.with_fields() } else { parser };
    let has_classes = format == SparseFormat::Libsvm && model.outputs() > 1;
    let parser = if has_classes { parser.with_classes(model.class_names()) } else { parser };
    let dense = (!model.is_sparse()).then_some(features);
    Some(Box::new(LineFeaturizer { parser, dense, fields }))
}

/// Scores chunks of text on one thread.
pub(crate) struct TextScorer {
    featurizer: Box<dyn TextFeaturizer>,
    scorer: Scorer,
    block: FeatureBlock,
}

impl TextScorer {
    pub(crate) fn new(featurizer: Box<dyn TextFeaturizer>, scorer: Scorer) -> Self {
        Self { featurizer, scorer, block: FeatureBlock::default() }
    }

    pub(crate) fn score(&mut self, chunk: TextChunk) -> Result<ScoredRows, ScoreError> {
        let mut scored = ScoredRows {
            source: chunk.source.clone(),
            unit: chunk.unit.name(),
            outputs: self.scorer.outputs(),
            ..ScoredRows::default()
        };
        self.block.clear();
        let (block, scorer) = (&mut self.block, &mut self.scorer);
        let mut rows = TextRows { block, scorer, scored: &mut scored };
        match chunk.fault {
            None => self.featurizer.featurize(&chunk, &mut rows)?,
            Some(ChunkFault::TooLong) => {
                rows.push_bad(chunk.first_line, too_long(), Vec::new());
            }
            // It may have swallowed any number of rows.
            Some(ChunkFault::OpenQuote) => {
                return Err(ScoreError::Refused(format!(
                    "{}, {} {}: a quote is not closed within {MAX_LINE_BYTES} bytes or before \
                     the end of the input; close it",
                    chunk.source,
                    chunk.unit.name(),
                    chunk.first_line
                )));
            }
        }
        rows.score();
        Ok(scored)
    }
}
