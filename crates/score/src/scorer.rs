//! Computes scores: exactly those that a test of the trainer judges.

use std::sync::Arc;

use paceline_data::Patches;
use paceline_model::{Batch, Model, Network, Rows, SharedPatches, Softmax, Tally};
use paceline_record::ModelForm;

use crate::error::ScoreError;
use crate::trained_model::TrainedModel;

/// Memory for the values of a block of a network's examples, in bytes.
const BLOCK_BYTES: usize = 64 << 20;
/// The most examples of a block of a network.
const MOST_EXAMPLES: usize = 128;

/// Computes the scores of examples with a trained model. It holds scratch memory, so every thread
/// has one of its own ([`TrainedModel::scorer`]).
///
/// Scores are those that a test while training judges, bit for bit. A score of a model with one
/// score for each class goes through softmax to become a probability; the single score of logistic
/// regression goes through the logistic function, and belongs to the second class.
pub struct Scorer {
    params: Arc<[f32]>,
    outputs: usize,
    inputs: usize,
    /// `None` for logistic regression, whose scores need no scratch memory.
    model: Option<Box<dyn Model>>,
    takes_rows: bool,
    /// The same for images in patches, if it has such a form.
    patch_model: Option<Softmax>,
    tally: Tally,
    labels: Vec<u32>,
    scores: Vec<f32>,
}

impl TrainedModel {
    /// A scorer, for one thread.
    ///
    /// # Errors
    /// If the model cannot be built.
    pub fn scorer(&self) -> Result<Scorer, ScoreError> {
        Scorer::new(self)
    }
}

impl Scorer {
    fn new(trained: &TrainedModel) -> Result<Self, ScoreError> {
        let model: Option<Box<dyn Model>> = match (&trained.description().form, trained) {
            (ModelForm::Logistic { .. }, _) => None,
            (
                ModelForm::Fm { .. }
                | ModelForm::Ffm { .. }
                | ModelForm::Deep { .. }
                | ModelForm::SparseSoftmax { .. },
                _,
            ) => trained.description().form.factors().map(|form| form.build(1.0) as _),
            (ModelForm::Softmax { inputs, classes }, _) => {
                Some(Box::new(Softmax::new(*inputs, *classes)))
            }
            (ModelForm::Network { .. }, trained) => {
                let Some(network) = trained.architecture() else {
                    unreachable!("a network has an architecture")
                };
                let block = (BLOCK_BYTES / 4 / network.values().max(1)).clamp(1, MOST_EXAMPLES);
                let built = Network::of(network.clone(), block, 1);
                Some(Box::new(built.map_err(|error| ScoreError::Refused(error.to_string()))?))
            }
        };
        let patch_model = match trained.description().form {
            ModelForm::Softmax { inputs, classes } => {
                Some(Softmax::for_patches(inputs, classes, 1).map_err(ScoreError::Refused)?)
            }
            _ => None,
        };
        Ok(Self {
            params: trained.params().clone(),
            outputs: trained.outputs(),
            inputs: trained.inputs(),
            model,
            takes_rows: trained.is_sparse(),
            patch_model,
            tally: Tally::keeping_scores(),
            labels: Vec::new(),
            scores: Vec::new(),
        })
    }

    /// Scores of an example.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Whether the model takes sparse rows.
    pub fn takes_rows(&self) -> bool {
        self.takes_rows
    }

    /// The scores of sparse rows, example after example. `fields` has the field of each key, if the
    /// model needs fields.
    ///
    /// # Panics
    /// If the model takes dense examples, a key is not below its number of features, or fields that
    /// it needs are missing or not below their number.
    pub fn score_rows(&mut self, rows: Rows<'_>, fields: &[u16]) -> &[f32] {
        assert!(self.takes_rows, "the model takes dense examples");
        let Some(model) = &mut self.model else {
            self.scores.clear();
            rows.linear_scores(&self.params, &mut self.scores);
            return &self.scores;
        };
        self.tally.clear();
        // Scores do not depend on labels.
        let examples = rows.starts.len() - 1;
        self.labels.resize(examples.max(self.labels.len()), 0);
        for from in (0..examples).step_by(model.max_block()) {
            let to = (from + model.max_block()).min(examples);
            let rows = Rows { starts: &rows.starts[from..=to], ..rows };
            let block = Batch::sparse(rows, &self.labels[from..to]).with_fields(fields);
            model.evaluate(&self.params, block, &mut self.tally);
        }
        self.tally.scores()
    }

    /// The scores of dense examples, given by all their values.
    ///
    /// # Panics
    /// If the model takes sparse rows, or the values are not those of whole examples.
    pub fn score_values(&mut self, values: &[f32]) -> &[f32] {
        assert!(!self.takes_rows, "the model takes sparse rows");
        let Some(model) = &mut self.model else { unreachable!("it takes dense examples") };
        assert!(values.len().is_multiple_of(self.inputs), "values of whole examples");
        self.tally.clear();
        let most = model.max_block();
        for values in values.chunks(most * self.inputs) {
            let examples = values.len() / self.inputs;
            // Scores do not depend on labels.
            self.labels.resize(examples.max(self.labels.len()), 0);
            let block = Batch::dense(values, &self.labels[..examples]);
            model.evaluate(&self.params, block, &mut self.tally);
        }
        self.tally.scores()
    }

    /// Whether it scores images in patches, as the trainer does for mostly empty images.
    pub fn takes_patches(&self) -> bool {
        self.patch_model.is_some()
    }

    /// The scores of some images in patches.
    ///
    /// # Panics
    /// If it [does not take](Self::takes_patches) patches, or there are no such images.
    pub fn score_patches(&mut self, patches: &Patches, which: &[u32]) -> &[f32] {
        let Some(model) = &mut self.patch_model else { panic!("the model takes no patches") };
        self.tally.clear();
        for which in which.chunks(model.max_block()) {
            let (words, starts) = (patches.words(), patches.starts());
            self.labels.resize(which.len().max(self.labels.len()), 0);
            let examples = SharedPatches { words, starts, which };
            let block = Batch::patches(examples, &self.labels[..which.len()]);
            model.evaluate(&self.params, block, &mut self.tally);
        }
        self.tally.scores()
    }
}
