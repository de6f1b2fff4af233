//! Some of a set of examples.

use std::sync::Arc;

use crate::error::DataError;
use crate::examples::Examples;
use crate::hold_out::{choose_by_class, test_order};

/// Some examples of a set, in an order of their own.
pub struct SelectedExamples {
    all: Arc<dyn Examples>,
    which: Vec<u32>,
}

impl SelectedExamples {
    /// Splits off `count` randomly drawn examples: the others in their order, and the drawn ones.
    /// Each class contributes in proportion to its size, if the classes are known without reading
    /// the examples. Equal seeds draw equal examples.
    ///
    /// # Errors
    /// If no example would be left.
    pub fn hold_out(
        all: &Arc<dyn Examples>,
        count: usize,
        seed: u64,
    ) -> Result<[Self; 2], DataError> {
        let len = all.len();
        if count >= len {
            let what = format!("{count} of {len} examples cannot be held out");
            return Err(DataError::Examples { what });
        }
        let numbers = 0..len as u32;
        let classes: Option<Vec<u32>> = numbers.clone().map(|one| all.class_of(one)).collect();
        let classes = classes.unwrap_or_else(|| vec![0; len]);
        let held = choose_by_class(classes.into_iter(), count, seed);
        let mut is_held = vec![false; len];
        held.iter().for_each(|&example| is_held[example as usize] = true);
        let rest = numbers.filter(|&example| !is_held[example as usize]).collect();
        Ok([rest, test_order(held, seed)].map(|which| Self { all: all.clone(), which }))
    }
}

impl Examples for SelectedExamples {
    fn len(&self) -> usize {
        self.which.len()
    }

    fn shape(&self) -> [usize; 3] {
        self.all.shape()
    }

    fn classes(&self) -> usize {
        self.all.classes()
    }

    fn class_of(&self, example: u32) -> Option<u32> {
        self.all.class_of(self.which[example as usize])
    }

    fn has_weights(&self) -> bool {
        self.all.has_weights()
    }

    fn weight_of(&self, example: u32) -> f32 {
        self.all.weight_of(self.which[example as usize])
    }

    fn fill(&self, example: u32, draw: u64, out: &mut [f32]) -> Result<u32, DataError> {
        self.all.fill(self.which[example as usize], draw, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_memory::InMemoryExamples;

    #[test]
    fn both_parts_together_are_the_whole_and_classes_are_in_both() {
        let rows = (0..50).map(|i| ([i as f32], u32::from(i % 10 == 0)));
        let all = InMemoryExamples::from_rows(rows).unwrap();
        let all: Arc<dyn Examples> = Arc::new(all);
        let [rest, held] = SelectedExamples::hold_out(&all, 10, 1).unwrap();
        assert_eq!((rest.len(), held.len()), (40, 10));
        let read = |set: &SelectedExamples| -> Vec<u32> {
            (0..set.len() as u32)
                .map(|example| {
                    let mut value = [0.0];
                    let label = set.fill(example, 0, &mut value).unwrap();
                    assert_eq!(Some(label), set.class_of(example));
                    value[0] as u32
                })
                .collect()
        };
        let mut values = [read(&rest), read(&held)].concat();
        values.sort_unstable();
        assert_eq!(values, (0..50).collect::<Vec<_>>());
        assert_eq!(read(&held).iter().filter(|value| value.is_multiple_of(10)).count(), 1);
        assert!(SelectedExamples::hold_out(&all, 50, 1).is_err());
    }
}
