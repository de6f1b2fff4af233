//! Scores examples that are found by their index: images, pictures and cached rows.

use std::ops::Range;
use std::sync::Arc;

use paceline_data::{
    BatchBuffer, DataError, ElementForm, Examples, Images, Patches, SparseBuffer, SparseRows,
};
use paceline_model::Rows;

use crate::error::ScoreError;
use crate::scored_rows::{BadRow, NO_LABEL, ScoredRows};
use crate::scorer::Scorer;

/// Rows of a portion.
const ROWS: usize = 4_096;
/// Images of a portion: those that softmax regression takes at once.
const IMAGES: usize = 1_024;
/// Pictures of a portion; each takes milliseconds.
const PICTURES: usize = 16;
/// Values of the other examples of a portion.
const VALUES: usize = 256 << 10;

/// Examples that are found by their index.
#[derive(Clone)]
pub enum ExampleSource {
    /// Grey images in memory.
    Images(Arc<Images>),
    /// Dense examples, read one by one.
    Examples(Arc<dyn Examples>),
    /// Sparse rows.
    Rows(SparseRows),
}

/// Where the classes of examples come from.
#[derive(Clone, Debug)]
pub enum ExampleLabels {
    /// The examples have their own.
    Own,
    /// They have none.
    None,
    /// These, by index.
    Given(Arc<[Option<u32>]>),
}

/// Examples to score.
#[derive(Clone)]
pub struct ExampleInput {
    /// The examples.
    pub source: ExampleSource,
    /// Where their classes come from.
    pub labels: ExampleLabels,
    /// The name of each example, as the path of a picture; without names they are numbered.
    pub names: Option<Arc<[String]>>,
    /// Where they come from, for messages.
    pub origin: Arc<str>,
    /// Bad rows that were left out when the input was opened.
    pub skipped: u64,
}

impl ExampleInput {
    /// Examples with their own classes.
    pub fn labelled(source: ExampleSource, origin: &str) -> Self {
        let (labels, origin) = (ExampleLabels::Own, origin.into());
        Self { source, labels, names: None, origin, skipped: 0 }
    }

    /// The same examples without classes.
    #[must_use]
    pub fn without_labels(self) -> Self {
        Self { labels: ExampleLabels::None, ..self }
    }

    /// The number of examples.
    pub fn len(&self) -> usize {
        match &self.source {
            ExampleSource::Images(images) => images.len(),
            ExampleSource::Examples(examples) => examples.len(),
            ExampleSource::Rows(rows) => rows.len(),
        }
    }

    /// Whether there are no examples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of inputs of an example.
    pub fn inputs(&self) -> usize {
        match &self.source {
            ExampleSource::Images(images) => images.inputs(),
            ExampleSource::Examples(examples) => examples.inputs(),
            ExampleSource::Rows(rows) => rows.features(),
        }
    }

    /// The most examples of a portion that one thread scores.
    pub(crate) fn portion_len(&self) -> usize {
        match &self.source {
            ExampleSource::Images(_) => IMAGES,
            ExampleSource::Examples(examples) => {
                let is_picture = self.names.is_some()
                    || matches!(examples.element_form(), ElementForm::Pictures);
                let most = if is_picture { PICTURES } else { ROWS };
                (VALUES / self.inputs().max(1)).clamp(1, most)
            }
            ExampleSource::Rows(_) => ROWS,
        }
    }
}

/// Scores examples on one thread.
pub(crate) struct ExampleScorer {
    input: ExampleInput,
    /// The images in patches, if the trainer would score them so.
    patches: Option<Patches>,
    scorer: Scorer,
    images: BatchBuffer,
    rows: SparseBuffer,
    values: Vec<f32>,
}

impl ExampleScorer {
    pub(crate) fn new(input: &ExampleInput, patches: Option<&Patches>, scorer: Scorer) -> Self {
        Self {
            input: input.clone(),
            patches: patches.cloned(),
            scorer,
            images: BatchBuffer::default(),
            rows: SparseBuffer::default(),
            values: Vec::new(),
        }
    }

    pub(crate) fn score(&mut self, which: Range<usize>) -> Result<ScoredRows, ScoreError> {
        let mut scored = ScoredRows {
            source: self.input.origin.clone(),
            unit: "row",
            outputs: self.scorer.outputs(),
            ..ScoredRows::default()
        };
        match self.input.source.clone() {
            ExampleSource::Images(images) => self.score_images(&images, which, &mut scored),
            ExampleSource::Rows(rows) => self.score_rows(&rows, which, &mut scored),
            ExampleSource::Examples(examples) => {
                self.score_examples(&*examples, which, &mut scored)?;
            }
        }
        self.label(&mut scored);
        Ok(scored)
    }

    fn score_images(&mut self, images: &Images, which: Range<usize>, scored: &mut ScoredRows) {
        scored.labels.extend(images.labels()[which.clone()].iter().map(|&label| u32::from(label)));
        scored.numbers.extend(which.clone().map(|index| index as u64 + 1));
        let scores = if let Some(patches) = &self.patches {
            let which: Vec<u32> = which.map(|index| index as u32).collect();
            self.scorer.score_patches(patches, &which)
        } else {
            self.images.fill(images, which);
            self.scorer.score_values(&self.images.inputs)
        };
        scored.scores.extend_from_slice(scores);
    }

    fn score_rows(&mut self, rows: &SparseRows, which: Range<usize>, scored: &mut ScoredRows) {
        scored.numbers.extend(which.clone().map(|index| index as u64 + 1));
        self.rows.fill(rows, which);
        let SparseBuffer { starts, keys, values, labels, fields, .. } = &self.rows;
        scored.labels.extend_from_slice(labels);
        let scores = self.scorer.score_rows(Rows { starts, places: keys, values }, fields);
        scored.scores.extend_from_slice(scores);
    }

    fn score_examples(
        &mut self,
        examples: &dyn Examples,
        which: Range<usize>,
        scored: &mut ScoredRows,
    ) -> Result<(), ScoreError> {
        let inputs = examples.inputs();
        self.values.clear();
        for index in which {
            let at = self.values.len();
            self.values.resize(at + inputs, 0.0);
            let number = index as u64 + 1;
            match examples.fill(index as u32, 0, &mut self.values[at..]) {
                Ok(label) => {
                    scored.labels.push(label);
                    scored.numbers.push(number);
                }
                Err(error) if error.is_bad_example() => {
                    self.values.truncate(at);
                    let name = self.input.names.as_ref().map(|names| names[index].clone());
                    let before = scored.numbers.len();
                    // The place says which picture or file it is.
                    let what = match (&name, error) {
                        (Some(_), DataError::Picture { what, .. }) => what,
                        (_, DataError::BadExample { what }) => {
                            let origin = format!("{}: ", self.input.origin);
                            what.strip_prefix(&*origin).unwrap_or(&what).to_owned()
                        }
                        (_, error) => error.to_string(),
                    };
                    scored.bad.push(BadRow { before, name, ids: Vec::new(), number, what });
                }
                Err(error) => return Err(error.into()),
            }
        }
        scored.scores.extend_from_slice(self.scorer.score_values(&self.values));
        Ok(())
    }

    /// Replaces the labels by those of the input, and adds names.
    fn label(&self, scored: &mut ScoredRows) {
        match &self.input.labels {
            ExampleLabels::Own => {}
            ExampleLabels::None => scored.labels.fill(NO_LABEL),
            ExampleLabels::Given(given) => {
                for (label, number) in scored.labels.iter_mut().zip(&scored.numbers) {
                    *label = given[*number as usize - 1].unwrap_or(NO_LABEL);
                }
            }
        }
        if let Some(names) = &self.input.names {
            let name = |number: &u64| names[*number as usize - 1].clone();
            scored.ids.extend(scored.numbers.iter().map(name));
        }
    }
}
