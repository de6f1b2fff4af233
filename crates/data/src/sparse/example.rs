//! `tf.train.Example`: a row as TensorFlow's programs store it, one in each TFRecord.
//!
//! An Example maps names to lists. Three names are used, unless the caller has others: `label`
//! (one int64), `index` (int64s) and `value` (floats, one for each index; without it all are 1).
//! The rest is ignored. The record is parsed in place: no map is built, and lists are copied only
//! into the row.
//!
//! ```text
//! Example   { Features features = 1 }
//! Features  { map<string, Feature> feature = 1 }   an entry is { key = 1, value = 2 }
//! Feature   { BytesList = 1 | FloatList = 2 | Int64List = 3 }   each { repeated value = 1 }
//! ```

use paceline_tfrecord::proto::{ProtoError, ProtoFields, ProtoValue, ProtoWriter};

use super::limits::MAX_ROW_ENTRIES;
use super::row::{RowBuffer, SparseRow};
use super::row_fault::RowFault;

const FLOATS: u32 = 2;
const INTEGERS: u32 = 3;

/// The names of the features that make up a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureNames {
    /// The label: one int64.
    pub label: String,
    /// The indices: int64s.
    pub index: String,
    /// The values: floats, one for each index.
    pub value: String,
}

impl Default for FeatureNames {
    fn default() -> Self {
        FeatureNames { label: "label".into(), index: "index".into(), value: "value".into() }
    }
}

/// Parses a record into `row`.
pub(crate) fn parse(
    record: &[u8],
    names: &FeatureNames,
    row: &mut RowBuffer,
) -> Result<(), RowFault> {
    row.clear();
    let (mut label, mut index, mut value) = (None, None, None);
    for features in nested(record, 1) {
        for entry in nested(features?, 1) {
            let (name, feature) = named(entry?)?;
            // As in any protobuf map, the last of several entries with a name counts.
            if name == names.index.as_bytes() {
                index = Some(feature);
            } else if name == names.label.as_bytes() {
                label = Some(feature);
            } else if name == names.value.as_bytes() {
                value = Some(feature);
            }
        }
    }
    if row.has_label() {
        row.set_label(single(label)?)?;
    }
    // Indices that are too large are collected too, and checked once at the end.
    let mut all = 0;
    integers(index, "index", |index| {
        all |= index as u64;
        row.keys.push(index as u32);
        if row.keys.len() > MAX_ROW_ENTRIES { Err(RowFault::TooManyEntries) } else { Ok(()) }
    })?;
    if all > u64::from(u32::MAX) {
        return Err(RowFault::Index);
    }
    match value {
        Some(feature) => floats(feature, &mut row.values)?,
        None => row.values.resize(row.keys.len(), 1.0),
    }
    Ok(())
}

/// Appends a row as an Example.
pub(crate) fn write(row: SparseRow<'_>, out: &mut Vec<u8>) {
    ProtoWriter::new(out).message(1, |features| {
        // Sorted by name, as TensorFlow's deterministic serialisation does.
        feature(features, "index", |list| {
            list.message(INTEGERS, |list| {
                list.packed_uint64s(1, row.keys.iter().map(|&k| k.into()))
            });
        });
        feature(features, "label", |list| {
            list.message(INTEGERS, |list| list.packed_uint64s(1, [row.label.into()].into_iter()));
        });
        feature(features, "value", |list| {
            list.message(FLOATS, |list| {
                let values = (0..row.keys.len()).map(|index| row.value(index));
                list.packed_floats_from(1, values);
            });
        });
    });
}

fn feature(features: &mut ProtoWriter<'_>, name: &str, encode: impl FnOnce(&mut ProtoWriter<'_>)) {
    features.message(1, |entry| {
        entry.string(1, name);
        entry.message(2, encode);
    });
}

/// The nested messages of one field.
fn nested(message: &[u8], number: u32) -> impl Iterator<Item = Result<&[u8], ProtoError>> {
    ProtoFields::new(message).filter_map(move |field| match field {
        Ok((found, ProtoValue::Bytes(bytes))) if found == number => Some(Ok(bytes)),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    })
}

/// The name and the Feature of an entry of the map.
fn named(entry: &[u8]) -> Result<(&[u8], &[u8]), RowFault> {
    let (mut name, mut feature) = (&[][..], &[][..]);
    for field in ProtoFields::new(entry) {
        match field? {
            (1, ProtoValue::Bytes(bytes)) => name = bytes,
            (2, ProtoValue::Bytes(bytes)) => feature = bytes,
            _ => {}
        }
    }
    Ok((name, feature))
}

/// The list of a Feature, which must be of the given kind; empty if the Feature has no list.
fn list<'a>(feature: &'a [u8], kind: u32, name: &'static str) -> Result<&'a [u8], RowFault> {
    let (mut found, mut list) = (kind, &[][..]);
    for field in ProtoFields::new(feature) {
        if let (number @ 1..=3, ProtoValue::Bytes(bytes)) = field? {
            (found, list) = (number, bytes);
        }
    }
    if found == kind { Ok(list) } else { Err(RowFault::Type(name)) }
}

/// The single integer of the label.
fn single(feature: Option<&[u8]>) -> Result<i64, RowFault> {
    let mut label = None;
    integers(feature, "label", |value| match label.replace(value) {
        None => Ok(()),
        Some(_) => Err(RowFault::Label),
    })?;
    label.ok_or(RowFault::Label)
}

/// Calls `take` with each integer of a Feature, packed or not.
#[inline]
fn integers(
    feature: Option<&[u8]>,
    name: &'static str,
    mut take: impl FnMut(i64) -> Result<(), RowFault>,
) -> Result<(), RowFault> {
    let Some(feature) = feature else { return Ok(()) };
    for field in ProtoFields::new(list(feature, INTEGERS, name)?) {
        match field? {
            (1, ProtoValue::Bytes(mut packed)) => {
                while !packed.is_empty() {
                    take(varint(&mut packed)? as i64)?;
                }
            }
            (1, ProtoValue::Varint(value)) => take(value as i64)?,
            (1, _) => return Err(RowFault::Type(name)),
            _ => {}
        }
    }
    Ok(())
}

/// Takes a varint. One of up to four bytes, as most keys have, needs no branch for each byte.
#[inline]
fn varint(bytes: &mut &[u8]) -> Result<u64, RowFault> {
    if let Some(&first) = bytes.first_chunk::<4>() {
        let word = u32::from_le_bytes(first);
        // The first byte without its top bit is the last one of the varint.
        let ends = !word & 0x8080_8080;
        if ends != 0 {
            let len = ends.trailing_zeros() / 8 + 1;
            let word = word & (u32::MAX >> (32 - 8 * len));
            *bytes = &bytes[len as usize..];
            let value = word & 0x7f
                | (word & 0x7f00) >> 1
                | (word & 0x7f_0000) >> 2
                | (word & 0x7f00_0000) >> 3;
            return Ok(value.into());
        }
    }
    Ok(paceline_tfrecord::proto::take_varint(bytes)?)
}

fn floats(feature: &[u8], values: &mut Vec<f32>) -> Result<(), RowFault> {
    for field in ProtoFields::new(list(feature, FLOATS, "value")?) {
        match field? {
            (1, ProtoValue::Bytes(packed)) => {
                values.extend(paceline_tfrecord::proto::packed_floats(packed)?);
            }
            (1, ProtoValue::Fixed32(bits)) => values.push(f32::from_bits(bits)),
            (1, _) => return Err(RowFault::Type("value")),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "example_tests.rs"]
mod tests;
