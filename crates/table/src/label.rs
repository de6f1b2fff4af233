//! Reads the class of a row from its label.

use std::collections::HashMap;

use crate::field_fault::FieldFault;
use crate::hash::BuildWordHasher;
use crate::missing::is_missing;
use crate::number;

/// The most classes of a table: a cached row keeps its class in a byte.
pub(crate) const MOST_CLASSES: usize = 256;
/// The most classes that a column without a telling name may have to be the label, and that a label
/// of numbers may have without a warning.
pub(crate) const MOST_GUESSED_CLASSES: usize = 20;

/// Finds the class of a label.
#[derive(Clone, Debug)]
pub(crate) struct LabelReader {
    classes: HashMap<Box<[u8]>, u32, BuildWordHasher>,
    /// The classes as numbers, if all are: `1.0` is the class `1`.
    numbers: Vec<f32>,
}

/// Why a label has no class.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LabelFault {
    Missing,
    Unseen,
}

impl LabelFault {
    pub(crate) fn at(self, index: usize) -> FieldFault {
        match self {
            LabelFault::Missing => FieldFault::NoLabel,
            LabelFault::Unseen => FieldFault::UnseenLabel { index },
        }
    }
}

impl LabelReader {
    pub(crate) fn new(classes: &[String]) -> Self {
        let numbers: Option<Vec<f32>> =
            classes.iter().map(|class| number::parse(class.as_bytes()).ok()).collect();
        let classes = classes.iter().map(|class| class.as_bytes().into());
        Self { classes: classes.zip(0..).collect(), numbers: numbers.unwrap_or_default() }
    }

    #[inline]
    pub(crate) fn read(&self, field: &[u8]) -> Result<u32, LabelFault> {
        match self.classes.get(field) {
            Some(&class) => Ok(class),
            None => self.read_number(field),
        }
    }

    #[cold]
    fn read_number(&self, field: &[u8]) -> Result<u32, LabelFault> {
        // Among numbers, the texts that programs write for a missing number are not classes.
        if field.is_empty() || !self.numbers.is_empty() && is_missing(field) {
            return Err(LabelFault::Missing);
        }
        let number = number::parse(field).map_err(|_| LabelFault::Unseen)?;
        let class = self.numbers.iter().position(|&class| class == number);
        class.map(|class| class as u32).ok_or(LabelFault::Unseen)
    }
}

/// The classes of these labels in their order: numbers by size, other labels in alphabetical order.
/// A missing number is not a class.
pub(crate) fn sorted_classes(labels: impl Iterator<Item = String>) -> Vec<String> {
    let mut classes: Vec<String> = labels.collect();
    let is_number = |class: &String| number::parse(class.as_bytes()).is_ok();
    if classes.iter().all(|class| is_number(class) || is_missing(class.as_bytes())) {
        classes.retain(is_number);
    }
    let numbers: Option<Vec<f32>> =
        classes.iter().map(|class| number::parse(class.as_bytes()).ok()).collect();
    let Some(numbers) = numbers else {
        classes.sort();
        return classes;
    };
    let mut pairs: Vec<(f32, String)> = numbers.into_iter().zip(classes).collect();
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.len().cmp(&b.1.len())));
    // `1` and `1.0` are one class; the shorter text is its name.
    pairs.dedup_by(|next, kept| next.0 == kept.0);
    pairs.into_iter().map(|(_, class)| class).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(labels: &[&str]) -> Vec<String> {
        sorted_classes(labels.iter().map(|label| (*label).to_owned()))
    }

    #[test]
    fn classes_are_sorted_by_size_or_by_the_alphabet() {
        assert_eq!(classes(&["10", "9", "-1"]), ["-1", "9", "10"]);
        assert_eq!(classes(&["1.0", "0", "1", "+1"]), ["0", "1"]);
        assert_eq!(classes(&["yes", "no"]), ["no", "yes"]);
        assert_eq!(classes(&["1", "NaN", "0", "NA"]), ["0", "1"]);
        assert_eq!(classes(&["none", "some"]), ["none", "some"]);
    }

    #[test]
    fn a_number_is_the_class_of_its_value() {
        let reader = LabelReader::new(&classes(&["0", "1"]));
        assert_eq!(reader.read(b"1").ok(), Some(1));
        assert_eq!(reader.read(b"1.0").ok(), Some(1));
        assert!(matches!(reader.read(b"2"), Err(LabelFault::Unseen)));
        assert!(matches!(reader.read(b"x"), Err(LabelFault::Unseen)));
        assert!(matches!(reader.read(b""), Err(LabelFault::Missing)));
        assert!(matches!(reader.read(b"NaN"), Err(LabelFault::Missing)));
    }
}
