//! Turns rows of tables into features, with the featuriser that the model file holds.

use std::sync::Arc;

use paceline_data::DataError;
use paceline_data::sparse::FieldMap;
use paceline_table::{
    ColumnRole, EncodedRow, Featurizer, RecordFields, Records, RowEncoder, TextFormat,
};

use crate::error::ScoreError;
use crate::header_format::header_names;
use crate::text_chunks::TextChunk;
use crate::text_rows::{TextFeaturizer, TextRows};

/// Featurises tables on one thread.
pub(crate) struct TableFeaturizer {
    featurizer: Arc<Featurizer>,
    /// Whether the model takes all features as a vector.
    is_dense: bool,
    /// The fields of features, if the model needs fields.
    fields: FieldMap,
    /// The number of fields of the model; 0 if it needs none.
    known_fields: usize,
    /// The fields of a row's keys.
    row_fields: Vec<u16>,
    needs_labels: bool,
    columns: Option<FileColumns>,
    row: EncodedRow,
}

/// How the rows of one file are encoded.
struct FileColumns {
    source: Arc<str>,
    /// How its text is written.
    format: TextFormat,
    encoder: RowEncoder,
    /// Where the columns are that identify a row; `None` for one that the file does not have.
    ids: Vec<Option<usize>>,
}

impl TableFeaturizer {
    /// The featuriser of a model with this many fields.
    pub(crate) fn new(featurizer: Arc<Featurizer>, is_dense: bool, known_fields: usize) -> Self {
        let fields = if known_fields > 0 { featurizer.fields() } else { FieldMap::default() };
        let (needs_labels, columns, row, row_fields) = Default::default();
        Self { featurizer, is_dense, fields, known_fields, row_fields, needs_labels, columns, row }
    }

    /// Refuses rows without a label of the model. Otherwise labels are not looked at.
    pub(crate) fn needing_labels(self, needs_labels: bool) -> Self {
        Self { needs_labels, ..self }
    }

    /// The columns of the file that a chunk is from.
    fn columns_of(&mut self, chunk: &TextChunk) -> Result<&FileColumns, ScoreError> {
        let is_known = |known: &FileColumns| Arc::ptr_eq(&known.source, &chunk.source);
        if !self.columns.as_ref().is_some_and(is_known) {
            let format = chunk.format;
            let (names, hint) = match &chunk.header {
                Some(header) => named_columns(&self.featurizer, header, format),
                None => (self.names_without_header(chunk), ""),
            };
            let encoder = if self.needs_labels {
                self.featurizer.encoder_without_weight(&names)
            } else {
                self.featurizer.encoder_without_label(&names)
            };
            let encoder = encoder.map_err(|error| {
                let what = match error {
                    DataError::SparseSpec { what, .. } => what,
                    error => error.to_string(),
                };
                ScoreError::Refused(format!("{}: {what}{hint}", chunk.source))
            })?;
            let place = |name: &String| names.iter().position(|column| column == name);
            let ids = id_columns(&self.featurizer).iter().map(place).collect();
            let source = chunk.source.clone();
            self.columns = Some(FileColumns { source, format, encoder, ids });
        }
        let Some(columns) = &self.columns else { unreachable!("set above") };
        Ok(columns)
    }

    /// The names of a file without a header: those of the training files, whose order it has. The
    /// label may be missing.
    fn names_without_header(&self, chunk: &TextChunk) -> Vec<String> {
        let columns = &self.featurizer.columns;
        let mut fields = RecordFields::default();
        Records::new(&chunk.bytes, self.featurizer.format).next(&mut fields);
        let is_unlabelled = fields.len() + 1 == columns.len();
        let is_label = |role: &ColumnRole| matches!(role, ColumnRole::Label { .. });
        let kept = columns.iter().filter(|column| !(is_unlabelled && is_label(&column.role)));
        kept.map(|column| column.name.clone()).collect()
    }
}

/// The names of the columns that identify a row.
pub(crate) fn id_columns(featurizer: &Featurizer) -> Vec<String> {
    let ids = featurizer.columns.iter().filter(|column| matches!(column.role, ColumnRole::Id));
    ids.map(|column| column.name.clone()).collect()
}

/// The names in a header, and a hint in case one of them is missing.
fn named_columns(
    featurizer: &Featurizer,
    header: &[u8],
    format: TextFormat,
) -> (Vec<String>, &'static str) {
    let names = header_names(header, format);
    let is_known = |name: &String| featurizer.columns.iter().any(|c| c.name == *name);
    let hint = if names.iter().any(is_known) {
        ""
    } else if header.contains(&b'\r') && !header.ends_with(b"\n") {
        "; lines end with carriage returns alone: convert them with tr '\\r' '\\n'"
    } else if names.iter().any(|name| name.trim().parse::<f64>().is_ok()) {
        "; the first row must name the columns"
    } else {
        "; the file has none of the model's columns"
    };
    (names, hint)
}

impl TextFeaturizer for TableFeaturizer {
    fn featurize(&mut self, chunk: &TextChunk, rows: &mut TextRows<'_>) -> Result<(), ScoreError> {
        let (is_dense, known_fields) = (self.is_dense, self.known_fields);
        let features = self.featurizer.features();
        let mut row = std::mem::take(&mut self.row);
        let of_keys = std::mem::take(&mut self.fields);
        let mut row_fields = std::mem::take(&mut self.row_fields);
        let columns = self.columns_of(chunk)?;
        let text = chunk.text();
        let mut records = Records::new(text, columns.format);
        let mut fields = RecordFields::default();
        let (mut line, mut counted) = (chunk.first_line, 0);
        while records.next(&mut fields) {
            let start = records.started();
            line += chunk.unit.count(&text[counted..start]);
            counted = start;
            let id = |at: &Option<usize>| {
                at.map_or(String::new(), |at| String::from_utf8_lossy(fields.get(at)).into_owned())
            };
            if let Err(fault) = columns.encoder.encode(&fields, &mut row) {
                let names = columns.encoder.names();
                // A row with too few or too many fields does not say which of them identify it.
                let is_whole = fields.len() == names.len();
                let ids = if is_whole { columns.ids.iter().map(id).collect() } else { vec![] };
                rows.push_bad(line, fault.describe(&fields, names), ids);
                continue;
            }
            if !of_keys.is_empty() {
                of_keys.fields_of(&row.keys, &mut row_fields);
            }
            // A model of an earlier version lacks the last fields if no training row had them.
            let unknown = |field: &&u16| usize::from(**field) >= known_fields;
            if let Some(field) = row_fields.iter().find(unknown) {
                let what = format!("field {field}, but the model has {known_fields}");
                rows.push_bad(line, what, columns.ids.iter().map(id).collect());
                continue;
            }
            if is_dense {
                let at = rows.block.dense.len();
                rows.block.dense.resize(at + features, 0.0);
                row.write_dense(&mut rows.block.dense[at..]);
                rows.block.push_label(row.label);
            } else if row.all_ones() {
                rows.block.push_row(&row.keys, &[], row.label);
            } else {
                rows.block.push_row(&row.keys, &row.values, row.label);
            }
            rows.block.push_fields(row_fields.iter().copied());
            rows.block.ids.extend(columns.ids.iter().map(id));
            rows.end_row(line);
        }
        (self.row, self.fields, self.row_fields) = (row, of_keys, row_fields);
        Ok(())
    }
}
