//! What a model is shown at a time.

/// A handful of labelled examples, borrowed from whoever read them.
///
/// `inputs` holds the examples one after another, each as long as the model's input;
/// `labels` holds one class for each.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The examples' values, row after row.
    pub inputs: &'a [f32],
    /// The class of each example.
    pub labels: &'a [u32],
}

impl Batch<'_> {
    /// How many examples there are.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no examples at all.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }
}
