//! The sum of gradients that have keys of their own, the same wherever it is taken.

use std::cmp::Ordering;

/// A gradient of some keys, as many numbers for each as the table's width.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyedValues<'a> {
    /// The keys, which rise.
    pub(crate) keys: &'a [u32],
    /// Their numbers.
    pub(crate) values: &'a [f32],
}

/// The same, owned.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyedBuffer {
    pub(crate) keys: Vec<u32>,
    pub(crate) values: Vec<f32>,
}

impl KeyedBuffer {
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.values.clear();
    }

    pub(crate) fn as_ref(&self) -> KeyedValues<'_> {
        KeyedValues { keys: &self.keys, values: &self.values }
    }
}

/// `out = sum + weight * more`: one walk along both lists of keys, each with `width` numbers.
pub(crate) fn merge_scaled(
    width: usize,
    sum: KeyedValues<'_>,
    more: KeyedValues<'_>,
    weight: f32,
    out: &mut KeyedBuffer,
) {
    out.clear();
    let KeyedBuffer { keys, values } = out;
    let most = sum.keys.len() + more.keys.len();
    keys.reserve(most);
    values.reserve(most * width);
    let (i, j) = if width > 1 {
        merge_entries(width, sum, more, weight, keys, values)
    } else {
        merge_numbers(sum, more, weight, keys, values)
    };
    keys.extend_from_slice(&sum.keys[i..]);
    values.extend_from_slice(&sum.values[i * width..]);
    keys.extend_from_slice(&more.keys[j..]);
    values.extend(more.values[j * width..].iter().map(|value| weight * value));
}

/// Merges two gradients of one number for each key up to the end of the shorter list, and returns
/// how many of each it has merged.
fn merge_numbers(
    sum: KeyedValues<'_>,
    more: KeyedValues<'_>,
    weight: f32,
    keys: &mut Vec<u32>,
    values: &mut Vec<f32>,
) -> (usize, usize) {
    let (mut i, mut j) = (0, 0);
    while let (Some(&left), Some(&right)) = (sum.keys.get(i), more.keys.get(j)) {
        let mut value = 0.0;
        if left <= right {
            value = sum.values[i];
            i += 1;
        }
        if right <= left {
            value += weight * more.values[j];
            j += 1;
        }
        keys.push(left.min(right));
        values.push(value);
    }
    (i, j)
}

/// The same with several numbers for each key.
fn merge_entries(
    width: usize,
    sum: KeyedValues<'_>,
    more: KeyedValues<'_>,
    weight: f32,
    keys: &mut Vec<u32>,
    values: &mut Vec<f32>,
) -> (usize, usize) {
    let (mut i, mut j) = (0, 0);
    while let (Some(&left), Some(&right)) = (sum.keys.get(i), more.keys.get(j)) {
        let (ours, theirs) = (&sum.values[i * width..], &more.values[j * width..]);
        let (ours, theirs) = (&ours[..width], &theirs[..width]);
        match left.cmp(&right) {
            Ordering::Less => values.extend_from_slice(ours),
            Ordering::Greater => values.extend(theirs.iter().map(|value| weight * value)),
            Ordering::Equal => {
                values.extend(ours.iter().zip(theirs).map(|(sum, value)| sum + weight * value));
            }
        }
        keys.push(left.min(right));
        i += usize::from(left <= right);
        j += usize::from(right <= left);
    }
    (i, j)
}
