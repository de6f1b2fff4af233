//! Finds the features of one featuriser among those of another, by what they mean.
//!
//! A model that training starts from has the featuriser of its own training data. There, a word may
//! be missing or have another place, and columns may be in another order.

use std::collections::HashMap;
use std::ops::Range;

use crate::column::{CategoryCodes, ColumnRole, NumberScale};
use crate::featurizer::Featurizer;

/// Features that two featurisers have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchedFeatures {
    /// The features.
    pub to: Range<usize>,
    /// The first of them in the other featuriser.
    pub from: usize,
}

impl Featurizer {
    /// The features that `other` has, too, in ascending order.
    ///
    /// Columns are matched by name and use: hashes by their number of bits, buckets by their
    /// number, words by themselves. A word that `other` lacks is matched with the feature that it
    /// has there: that of all other values. A scaled number keeps its feature if the kind of scale
    /// is equal: it counts standard deviations in both.
    pub fn match_features(&self, other: &Featurizer) -> Vec<MatchedFeatures> {
        let (firsts, other_firsts) = (self.first_features(), other.first_features());
        let mut matched = Vec::new();
        for (column, &to) in self.columns.iter().zip(&firsts) {
            let known = other.columns.iter().position(|known| known.name == column.name);
            let Some(known) = known else { continue };
            let from = other_firsts[known] as usize;
            let role = &other.columns[known].role;
            match_column(&column.role, role, to as usize, from, &mut matched);
        }
        for (cross, &to) in self.crosses.iter().zip(&firsts[self.columns.len()..]) {
            if let Some(known) = other.crosses.iter().position(|known| known == cross) {
                let from = other_firsts[other.columns.len() + known] as usize;
                push(&mut matched, to as usize, from, 1 << cross.bits);
            }
        }
        matched
    }

    /// Checks that `other` has the same fields in the same order, for a model whose parameters are
    /// for fields.
    ///
    /// # Errors
    /// If the fields differ: a clause that names those of both, and says what `other` needs.
    pub fn check_fields(&self, other: &Featurizer) -> Result<(), String> {
        let [ours, theirs] = [self, other].map(Featurizer::field_names);
        if ours == theirs {
            return Ok(());
        }
        let [ours, theirs] = [ours, theirs].map(|names| names.join(", "));
        let remedy = match (self.number_fields, other.number_fields) {
            (false, true) => "; set model.numbers = \"inputs\"",
            (true, false) => "; set model.numbers = \"vectors\"",
            _ => "",
        };
        Err(format!(
            "has the fields {theirs}, but the table has {ours}; a model of fields needs the same \
             columns in the same order (words may be added){remedy}"
        ))
    }
}

fn match_column(
    role: &ColumnRole,
    known: &ColumnRole,
    to: usize,
    from: usize,
    matched: &mut Vec<MatchedFeatures>,
) {
    use ColumnRole::{Category, List, Number, Text};
    match (role, known) {
        (Number(scale), Number(known)) if is_like(scale, known) => {
            push(matched, to, from, role.width());
        }
        (Category(codes), Category(known)) => match_codes(codes, known, to, from, matched),
        (List { separator, codes }, List { separator: known_separator, codes: known })
            if separator == known_separator =>
        {
            match_codes(codes, known, to, from, matched)
        }
        (Text { .. }, Text { .. }) if role == known => push(matched, to, from, role.width()),
        _ => {}
    }
}

/// Whether two numbers are scaled the same way, though by other parameters.
fn is_like(scale: &NumberScale, known: &NumberScale) -> bool {
    use NumberScale::{Buckets, Log, Raw, Standard};
    match (scale, known) {
        (Raw, Raw) | (Standard { .. }, Standard { .. }) | (Log { .. }, Log { .. }) => true,
        (Buckets { bounds }, Buckets { bounds: known }) => bounds.len() == known.len(),
        _ => false,
    }
}

fn match_codes(
    codes: &CategoryCodes,
    known: &CategoryCodes,
    to: usize,
    from: usize,
    matched: &mut Vec<MatchedFeatures>,
) {
    match (codes, known) {
        (CategoryCodes::Hashed { bits }, CategoryCodes::Hashed { bits: known })
            if bits == known =>
        {
            push(matched, to, from, 1 + (1 << bits));
        }
        (CategoryCodes::Vocabulary { words }, CategoryCodes::Vocabulary { words: known }) => {
            let places: HashMap<&str, usize> = known.iter().map(String::as_str).zip(2..).collect();
            // A missing value, and all other values.
            push(matched, to, from, 2);
            for (place, word) in (2..).zip(words) {
                let known = places.get(word.as_str()).copied().unwrap_or(1);
                push(matched, to + place, from + known, 1);
            }
        }
        _ => {}
    }
}

/// Appends features; extends the last ones if these follow them.
fn push(matched: &mut Vec<MatchedFeatures>, to: usize, from: usize, len: usize) {
    match matched.last_mut() {
        Some(last) if last.to.end == to && last.from + last.to.len() == from => {
            last.to.end += len;
        }
        _ => matched.push(MatchedFeatures { to: to..to + len, from }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::Column;
    use crate::featurizer::Cross;
    use crate::text_format::TextFormat;

    fn words(words: &[&str]) -> ColumnRole {
        let words = words.iter().map(ToString::to_string).collect();
        ColumnRole::Category(CategoryCodes::Vocabulary { words })
    }

    fn standard(mean: f32) -> ColumnRole {
        ColumnRole::Number(NumberScale::Standard { mean, deviation: 2.0 })
    }

    fn featurizer(columns: Vec<(&str, ColumnRole)>, crosses: &[&[&str]]) -> Featurizer {
        let column = |(name, role): (&str, ColumnRole)| Column { name: name.into(), role };
        let cross = |names: &&[&str]| Cross {
            columns: names.iter().map(ToString::to_string).collect(),
            bits: 2,
        };
        let columns = columns.into_iter().map(column).collect();
        let crosses = crosses.iter().map(cross).collect();
        Featurizer::new(TextFormat::default(), columns, crosses).unwrap()
    }

    /// The feature of `from` for each feature of `to`.
    fn places(to: &Featurizer, from: &Featurizer) -> Vec<Option<usize>> {
        let mut places = vec![None; to.features()];
        for MatchedFeatures { to, from } in to.match_features(from) {
            to.clone().zip(from..).for_each(|(to, from)| places[to] = Some(from));
        }
        places
    }

    #[test]
    fn a_word_is_found_at_its_new_place_and_a_new_one_was_one_of_the_others() {
        let old = featurizer(vec![("city", words(&["Bonn", "Rome"])), ("age", standard(3.0))], &[]);
        let new = featurizer(
            vec![("age", standard(4.0)), ("city", words(&["Aachen", "Bonn", "Rome"]))],
            &[],
        );
        let expected = [4, 5, 0, 1, 1, 2, 3].map(Some);
        assert_eq!(places(&new, &old), expected);
        let all = old.match_features(&old);
        assert_eq!(all, [MatchedFeatures { to: 0..6, from: 0 }]);
    }

    #[test]
    fn a_column_that_is_used_in_another_way_is_new() {
        let hashed = |bits| ColumnRole::Category(CategoryCodes::Hashed { bits });
        let raw = || ColumnRole::Number(NumberScale::Raw);
        let old = featurizer(vec![("a", raw()), ("b", hashed(1)), ("c", words(&["x"]))], &[]);
        let new = featurizer(vec![("a", standard(1.0)), ("b", hashed(2)), ("c", hashed(1))], &[]);
        assert_eq!(new.match_features(&old), []);
        let new = featurizer(vec![("z", raw()), ("b", hashed(1))], &[]);
        assert_eq!(new.match_features(&old), [MatchedFeatures { to: 2..5, from: 2 }]);
    }

    #[test]
    fn crosses_are_found_by_their_columns() {
        let columns = || vec![("a", words(&["x"])), ("b", words(&["y"]))];
        let old = featurizer(columns(), &[&["a", "b"]]);
        let new = featurizer(columns(), &[&["b", "a"], &["a", "b"]]);
        let found = places(&new, &old);
        assert_eq!(found[6..10], [None; 4]);
        assert_eq!(found[10..], [6, 7, 8, 9].map(Some));
    }
}
