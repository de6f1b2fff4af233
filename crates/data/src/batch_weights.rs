//! The weights of a batch's examples: their own times those of their classes.

use std::sync::Arc;

/// Combines the weights of examples with those of classes. Without either, every batch gets an
/// empty slice, and nothing is computed.
#[derive(Clone, Debug, Default)]
pub struct BatchWeights {
    /// A weight for each class; empty if there are none.
    classes: Arc<[f32]>,
    combined: Vec<f32>,
}

impl BatchWeights {
    /// Multiplies weights of examples by these of classes, if there are any.
    pub fn new(classes: &Arc<[f32]>) -> Self {
        Self { classes: classes.clone(), combined: Vec::new() }
    }

    /// The weights of examples with these labels and weights of their own, which are empty if the
    /// data has none.
    #[inline]
    pub fn of<'a>(&'a mut self, labels: &[u32], own: &'a [f32]) -> &'a [f32] {
        if self.classes.is_empty() {
            return own;
        }
        self.combined.clear();
        self.combined.extend(labels.iter().map(|&label| self.classes[label as usize]));
        for (weight, own) in self.combined.iter_mut().zip(own) {
            *weight *= own;
        }
        &self.combined
    }

    /// The weight of one example.
    #[inline]
    pub fn of_one(&self, label: u32, own: Option<f32>) -> f32 {
        let of_class = self.classes.get(label as usize).copied().unwrap_or(1.0);
        own.map_or(of_class, |own| of_class * own)
    }
}

#[cfg(test)]
mod tests;
