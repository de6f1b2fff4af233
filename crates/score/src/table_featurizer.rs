//! Turns rows of tables into features, with the featuriser that the model file holds.

use std::sync::Arc;

use memchr::memchr_iter;
use paceline_data::DataError;
use paceline_table::{
    ColumnRole, EncodedRow, Featurizer, RecordFields, Records, RowEncoder, TextFormat,
};

use crate::error::ScoreError;
use crate::text_chunks::{TextChunk, TextLayout};
use crate::text_rows::{TextFeaturizer, TextRows};

/// What some programs write at the start of UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What may separate the fields of a table.
const DELIMITERS: [u8; 4] = *b",\t;|";

/// Featurises tables on one thread.
pub(crate) struct TableFeaturizer {
    featurizer: Arc<Featurizer>,
    /// Whether the model takes all features as a vector.
    is_dense: bool,
    columns: Option<FileColumns>,
    row: EncodedRow,
}

/// How the rows of one file are encoded.
struct FileColumns {
    source: Arc<str>,
    /// How its text is written.
    format: TextFormat,
    encoder: RowEncoder,
    /// Where the columns are that identify a row.
    ids: Vec<usize>,
}

impl TableFeaturizer {
    pub(crate) fn new(featurizer: Arc<Featurizer>, is_dense: bool) -> Self {
        Self { featurizer, is_dense, columns: None, row: EncodedRow::default() }
    }

    /// The columns of the file that a chunk is from.
    fn columns_of(&mut self, chunk: &TextChunk) -> Result<&FileColumns, ScoreError> {
        let is_known = |known: &FileColumns| Arc::ptr_eq(&known.source, &chunk.source);
        if !self.columns.as_ref().is_some_and(is_known) {
            let open = match &chunk.header {
                Some(header) => self.columns_by_header(header),
                None => {
                    let (names, format) =
                        (self.names_without_header(chunk), self.featurizer.format);
                    self.encoder(&names).map(|encoder| (names, format, encoder))
                }
            };
            let (names, format, encoder) =
                open.map_err(|what| ScoreError::Refused(format!("{}: {what}", chunk.source)))?;
            let place = |name: &String| names.iter().position(|column| column == name);
            let ids = id_columns(&self.featurizer).iter().filter_map(place).collect();
            let source = chunk.source.clone();
            self.columns = Some(FileColumns { source, format, encoder, ids });
        }
        let Some(columns) = &self.columns else { unreachable!("set above") };
        Ok(columns)
    }

    fn encoder(&self, names: &[String]) -> Result<RowEncoder, String> {
        self.featurizer.encoder_without_label(names).map_err(|error| match error {
            DataError::SparseSpec { what, .. } => what,
            error => error.to_string(),
        })
    }

    /// The columns of a file with a header. Its delimiter need not be that of the training files.
    fn columns_by_header(
        &self,
        header: &[u8],
    ) -> Result<(Vec<String>, TextFormat, RowEncoder), String> {
        let own = self.featurizer.format;
        let mut refused = None;
        for delimiter in [own.delimiter].into_iter().chain(DELIMITERS) {
            let format = TextFormat { delimiter, ..own };
            let names = header_names(header, format);
            match self.encoder(&names) {
                Ok(encoder) => return Ok((names, format, encoder)),
                Err(what) => {
                    let columns = &self.featurizer.columns;
                    let is_known = |name: &String| columns.iter().any(|c| c.name == *name);
                    let has_names = names.iter().any(is_known);
                    let hint = if has_names { "" } else { "; the first row must name the columns" };
                    // The reason that counts is that of the delimiter which divides the header.
                    if refused.is_none() || has_names {
                        refused = Some(format!("{what}{hint}"));
                    }
                }
            }
        }
        Err(refused.unwrap_or_default())
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

/// How the text of a featuriser's tables is cut.
pub(crate) fn table_layout(featurizer: &Featurizer) -> TextLayout {
    let TextFormat { quotes, header, .. } = featurizer.format;
    TextLayout { has_quotes: quotes, has_header: header }
}

/// The names of the columns that identify a row.
pub(crate) fn id_columns(featurizer: &Featurizer) -> Vec<String> {
    let ids = featurizer.columns.iter().filter(|column| matches!(column.role, ColumnRole::Id));
    ids.map(|column| column.name.clone()).collect()
}

fn header_names(header: &[u8], format: TextFormat) -> Vec<String> {
    let text = header.strip_prefix(BYTE_ORDER_MARK).unwrap_or(header);
    let mut fields = RecordFields::default();
    Records::new(text, format).next(&mut fields);
    let name = |field: &[u8]| String::from_utf8_lossy(field).trim().to_owned();
    fields.iter().map(name).collect()
}

impl TextFeaturizer for TableFeaturizer {
    fn featurize(&mut self, chunk: &TextChunk, rows: &mut TextRows<'_>) -> Result<(), ScoreError> {
        let is_dense = self.is_dense;
        let features = self.featurizer.features();
        let mut row = std::mem::take(&mut self.row);
        let columns = self.columns_of(chunk)?;
        let mut records = Records::new(&chunk.bytes, columns.format);
        let mut fields = RecordFields::default();
        let (mut line, mut counted) = (chunk.first_line, 0);
        while records.next(&mut fields) {
            let start = records.started();
            line += memchr_iter(b'\n', &chunk.bytes[counted..start]).count() as u64;
            counted = start;
            if let Err(fault) = columns.encoder.encode(&fields, &mut row) {
                rows.push_bad(line, fault.describe(&fields, columns.encoder.names()));
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
            let id = |&at: &usize| String::from_utf8_lossy(fields.get(at)).into_owned();
            rows.block.ids.extend(columns.ids.iter().map(id));
            rows.end_row(line);
        }
        self.row = row;
        Ok(())
    }
}
