//! Some of a set of examples.

use std::sync::Arc;

use crate::error::DataError;
use crate::examples::{ElementForm, Examples};
use crate::hold_out::{choose_by_class, test_order};

/// Some examples of a set, in an order of their own; all of them without a list.
#[derive(Clone, Debug)]
pub struct SelectedExamples<E: ?Sized = dyn Examples> {
    source: Arc<E>,
    which: Option<Arc<[u32]>>,
}

impl<E: Examples + ?Sized> SelectedExamples<E> {
    /// All examples of a set.
    pub fn all(source: Arc<E>) -> Self {
        Self { source, which: None }
    }

    /// The examples of a set with these numbers.
    pub fn of(source: Arc<E>, which: Vec<u32>) -> Self {
        Self { source, which: Some(which.into()) }
    }

    /// The set that these examples are from.
    pub fn source(&self) -> &E {
        &self.source
    }

    #[inline]
    fn locate(&self, example: u32) -> u32 {
        self.which.as_ref().map_or(example, |which| which[example as usize])
    }

    /// The same examples of a changed copy of the set.
    #[must_use]
    pub fn map_source(self, change: impl FnOnce(E) -> E) -> Self
    where
        E: Clone,
    {
        Self { source: Arc::new(change(E::clone(&self.source))), which: self.which }
    }

    /// Splits off `count` randomly drawn examples: the others in their order, and the drawn ones.
    /// Each class contributes in proportion to its size, if the classes are known without reading
    /// the examples. Equal seeds draw equal examples.
    ///
    /// # Errors
    /// If no example would be left.
    pub fn hold_out(all: &Arc<E>, count: usize, seed: u64) -> Result<[Self; 2], DataError> {
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
        Ok([rest, test_order(held, seed)].map(|which| Self::of(Arc::clone(all), which)))
    }
}

impl<E: Examples + ?Sized> Examples for SelectedExamples<E> {
    fn len(&self) -> usize {
        self.which.as_ref().map_or(self.source.len(), |which| which.len())
    }

    fn shape(&self) -> [usize; 3] {
        self.source.shape()
    }

    fn classes(&self) -> usize {
        self.source.classes()
    }

    fn class_names(&self) -> &[String] {
        self.source.class_names()
    }

    fn element_form(&self) -> ElementForm {
        self.source.element_form()
    }

    fn class_of(&self, example: u32) -> Option<u32> {
        self.source.class_of(self.locate(example))
    }

    fn has_weights(&self) -> bool {
        self.source.has_weights()
    }

    fn weight_of(&self, example: u32) -> f32 {
        self.source.weight_of(self.locate(example))
    }

    fn fill(&self, example: u32, epoch: u64, out: &mut [f32]) -> Result<u32, DataError> {
        self.source.fill(self.locate(example), epoch, out)
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
