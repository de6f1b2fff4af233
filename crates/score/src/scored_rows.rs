//! Rows on their way through scoring: features, then scores.

use std::sync::Arc;

use paceline_data::sparse::SparseRow;
use paceline_model::Rows;

/// The label of a row that has none.
pub(crate) const NO_LABEL: u32 = u32::MAX;

/// The features of some rows, which a scorer takes at once.
#[derive(Debug, Default)]
pub(crate) struct FeatureBlock {
    /// The index of each sparse row's first key, and the end of the last row.
    starts: Vec<u32>,
    keys: Vec<u32>,
    /// The values of the keys; empty as long as all are 1.
    values: Vec<f32>,
    /// The fields of the keys; empty if the model needs none.
    fields: Vec<u16>,
    /// All values of dense examples.
    pub(crate) dense: Vec<f32>,
    /// The class of each row, or [`NO_LABEL`].
    pub(crate) labels: Vec<u32>,
    /// The texts that identify rows, as many for each row as the input has id columns.
    pub(crate) ids: Vec<String>,
}

impl FeatureBlock {
    pub(crate) fn clear(&mut self) {
        self.starts.clear();
        self.starts.push(0);
        self.keys.clear();
        self.values.clear();
        self.fields.clear();
        self.dense.clear();
        self.labels.clear();
        self.ids.clear();
    }

    /// Appends a sparse row; no values means that all are 1.
    #[inline]
    pub(crate) fn push_row(&mut self, keys: &[u32], values: &[f32], label: Option<u32>) {
        if !values.is_empty() && self.values.is_empty() {
            self.values.resize(self.keys.len(), 1.0);
        }
        let has_values = !values.is_empty() || !self.values.is_empty();
        self.keys.extend_from_slice(keys);
        self.values.extend_from_slice(values);
        if has_values {
            self.values.resize(self.keys.len(), 1.0);
        }
        self.starts.push(self.keys.len() as u32);
        self.push_label(label);
    }

    /// Appends the fields of the keys of the row that was appended last.
    pub(crate) fn push_fields(&mut self, fields: impl IntoIterator<Item = u16>) {
        self.fields.extend(fields);
    }

    /// Appends a sparse row as a vector of this many values.
    pub(crate) fn push_vector(&mut self, row: SparseRow<'_>, values: usize, label: Option<u32>) {
        let at = self.dense.len();
        self.dense.resize(at + values, 0.0);
        for (index, &key) in row.keys.iter().enumerate() {
            self.dense[at + key as usize] = row.value(index);
        }
        self.push_label(label);
    }

    /// Appends the label of a row whose features were appended.
    #[inline]
    pub(crate) fn push_label(&mut self, label: Option<u32>) {
        self.labels.push(label.unwrap_or(NO_LABEL));
    }

    pub(crate) fn fields(&self) -> &[u16] {
        &self.fields
    }

    pub(crate) fn rows(&self) -> Rows<'_> {
        Rows { starts: &self.starts, places: &self.keys, values: &self.values }
    }
}

/// Rows with their scores, in the order of the input.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScoredRows {
    /// The name of the input.
    pub(crate) source: Arc<str>,
    /// What the numbers count: lines or rows.
    pub(crate) unit: &'static str,
    /// Scores of a row.
    pub(crate) outputs: usize,
    /// The scores, row after row.
    pub(crate) scores: Vec<f32>,
    /// The number of each row in its input, from 1.
    pub(crate) numbers: Vec<u64>,
    /// The class of each row, or [`NO_LABEL`].
    pub(crate) labels: Vec<u32>,
    /// The texts that identify rows, as many for each row as the input has id columns.
    pub(crate) ids: Vec<String>,
    /// The rows that cannot be scored, in order.
    pub(crate) bad: Vec<BadRow>,
}

/// A row that cannot be scored.
#[derive(Clone, Debug)]
pub(crate) struct BadRow {
    /// The number of scored rows before it.
    pub(crate) before: usize,
    /// The text that identifies it, if the input has names.
    pub(crate) name: Option<String>,
    /// The texts of the input's id columns; empty if they are unknown.
    pub(crate) ids: Vec<String>,
    /// Its number in the input, from 1.
    pub(crate) number: u64,
    pub(crate) what: String,
}

impl ScoredRows {
    /// What is wrong with a bad row, and where it is.
    pub(crate) fn place(&self, bad: &BadRow) -> String {
        let BadRow { name, number, what, .. } = bad;
        match name {
            Some(name) => format!("{name}: {what}"),
            None => format!("{}, {} {number}: {what}", self.source, self.unit),
        }
    }

    /// The scores of each row.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &[f32]> {
        self.scores.chunks_exact(self.outputs.max(1))
    }
}
