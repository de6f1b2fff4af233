//! The features of a `tf.train.Example` by name.

use paceline_tfrecord::proto::{ProtoError, ProtoFields, ProtoValue, packed_floats, take_varint};

/// The list of one feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FeatureList<'a> {
    pub(crate) kind: ListKind,
    list: &'a [u8],
}

/// The type of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListKind {
    Bytes,
    Floats,
    Integers,
}

/// The features with these names; `None` for those that an Example lacks.
pub(crate) fn features<'a, const N: usize>(
    record: &'a [u8],
    names: [&str; N],
) -> Result<[Option<FeatureList<'a>>; N], ProtoError> {
    let mut found = [None; N];
    for features in nested(record, 1) {
        for entry in nested(features?, 1) {
            let (mut name, mut feature) = (&[][..], &[][..]);
            for field in ProtoFields::new(entry?) {
                match field? {
                    (1, ProtoValue::Bytes(bytes)) => name = bytes,
                    (2, ProtoValue::Bytes(bytes)) => feature = bytes,
                    _ => {}
                }
            }
            // As in any protobuf map, the last of several entries with a name counts.
            for (place, _) in found.iter_mut().zip(names).filter(|(_, n)| n.as_bytes() == name) {
                *place = feature_list(feature)?;
            }
        }
    }
    Ok(found)
}

/// All names of an Example's features, at most 20; for messages.
pub(crate) fn names(record: &[u8]) -> Vec<String> {
    let entries = nested(record, 1).flatten().flat_map(|features| nested(features, 1).flatten());
    let name = |entry| {
        ProtoFields::new(entry).flatten().find_map(|field| match field {
            (1, ProtoValue::Bytes(name)) => Some(String::from_utf8_lossy(name).into_owned()),
            _ => None,
        })
    };
    entries.filter_map(name).take(20).collect()
}

fn nested(message: &[u8], number: u32) -> impl Iterator<Item = Result<&[u8], ProtoError>> {
    ProtoFields::new(message).filter_map(move |field| match field {
        Ok((found, ProtoValue::Bytes(bytes))) if found == number => Some(Ok(bytes)),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    })
}

fn feature_list(feature: &[u8]) -> Result<Option<FeatureList<'_>>, ProtoError> {
    let mut found = None;
    for field in ProtoFields::new(feature) {
        if let (number @ 1..=3, ProtoValue::Bytes(list)) = field? {
            let kind = match number {
                1 => ListKind::Bytes,
                2 => ListKind::Floats,
                _ => ListKind::Integers,
            };
            found = Some(FeatureList { kind, list });
        }
    }
    Ok(found)
}

impl<'a> FeatureList<'a> {
    /// Calls `take` with each number of a list of floats or integers.
    pub(crate) fn numbers(&self, mut take: impl FnMut(f64)) -> Result<(), ProtoError> {
        for field in ProtoFields::new(self.list) {
            match (self.kind, field?) {
                (ListKind::Floats, (1, ProtoValue::Bytes(packed))) => {
                    packed_floats(packed)?.for_each(|value| take(value.into()));
                }
                (ListKind::Floats, (1, ProtoValue::Fixed32(bits))) => {
                    take(f32::from_bits(bits).into());
                }
                (ListKind::Integers, (1, ProtoValue::Bytes(mut packed))) => {
                    while !packed.is_empty() {
                        take(take_varint(&mut packed)? as i64 as f64);
                    }
                }
                (ListKind::Integers, (1, ProtoValue::Varint(value))) => take(value as i64 as f64),
                _ => {}
            }
        }
        Ok(())
    }

    /// The first element of a list of bytes.
    pub(crate) fn bytes(&self) -> Result<Option<&'a [u8]>, ProtoError> {
        for field in ProtoFields::new(self.list) {
            if let (1, ProtoValue::Bytes(bytes)) = field? {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }
}
