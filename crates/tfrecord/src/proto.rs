//! The protobuf wire format, without a code generator.
//!
//! Paceline uses about a dozen messages of TensorFlow's schemas, all small and unchanged for
//! years. A code generator would be the largest dependency of the workspace, while the wire format
//! fits on one page. A message is a list of fields, each a key (field number and wire type in one
//! varint) and a value: a varint, 4 bytes, 8 bytes, or a length and that many bytes. Strings,
//! packed lists and nested messages are all of the last kind.
//!
//! [`ProtoWriter`] appends fields to a `Vec<u8>`; [`ProtoFields`] iterates over the fields of a
//! message. Neither knows a schema: the caller knows what field 5 means.

use std::fmt;

const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const BYTES: u8 = 2;
const FIXED32: u8 = 5;

/// The greatest field number that protobuf allows.
const MAX_FIELD: u64 = (1 << 29) - 1;

/// Appends the fields of one message to a buffer.
///
/// ```
/// use paceline_tfrecord::proto::ProtoWriter;
///
/// let mut bytes = Vec::new();
/// let mut event = ProtoWriter::new(&mut bytes);
/// event.uint64(2, 300);
/// event.message(5, |summary| summary.string(1, "loss"));
/// assert_eq!(bytes, b"\x10\xac\x02\x2a\x06\x0a\x04loss");
/// ```
#[derive(Debug)]
pub struct ProtoWriter<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> ProtoWriter<'a> {
    /// A writer that appends to `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Appends a `uint64`, a `uint32` or an enum.
    pub fn uint64(&mut self, field: u32, value: u64) {
        self.key(field, VARINT);
        self.varint(value);
    }

    /// Appends an `int64` or `int32` (not a zigzag `sint64`).
    pub fn int64(&mut self, field: u32, value: i64) {
        self.uint64(field, value as u64);
    }

    /// Appends a `bool`.
    pub fn bool(&mut self, field: u32, value: bool) {
        self.uint64(field, value.into());
    }

    /// Appends a `float`.
    pub fn float(&mut self, field: u32, value: f32) {
        self.key(field, FIXED32);
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends a `double`.
    pub fn double(&mut self, field: u32, value: f64) {
        self.key(field, FIXED64);
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends `bytes`.
    pub fn bytes(&mut self, field: u32, value: &[u8]) {
        self.key(field, BYTES);
        self.varint(value.len() as u64);
        self.out.extend_from_slice(value);
    }

    /// Appends a `string`.
    pub fn string(&mut self, field: u32, value: &str) {
        self.bytes(field, value.as_bytes());
    }

    /// Appends a packed list of `float`.
    pub fn packed_floats(&mut self, field: u32, values: &[f32]) {
        self.key(field, BYTES);
        self.varint(4 * values.len() as u64);
        self.out.extend(values.iter().flat_map(|v| v.to_le_bytes()));
    }

    /// Appends a packed list of `float` from an iterator.
    pub fn packed_floats_from(&mut self, field: u32, values: impl ExactSizeIterator<Item = f32>) {
        self.key(field, BYTES);
        self.varint(4 * values.len() as u64);
        self.out.extend(values.flat_map(|v| v.to_le_bytes()));
    }

    /// Appends a packed list of `double`.
    pub fn packed_doubles(&mut self, field: u32, values: &[f64]) {
        self.key(field, BYTES);
        self.varint(8 * values.len() as u64);
        self.out.extend(values.iter().flat_map(|v| v.to_le_bytes()));
    }

    /// Appends a packed list of `uint64`.
    pub fn packed_uint64s(&mut self, field: u32, values: impl Iterator<Item = u64>) {
        self.message(field, |list| values.for_each(|value| list.varint(value)));
    }

    /// Appends a nested message with the fields that `encode` appends.
    pub fn message(&mut self, field: u32, encode: impl FnOnce(&mut ProtoWriter<'_>)) {
        self.key(field, BYTES);
        let start = self.out.len();
        encode(&mut ProtoWriter { out: self.out });
        // The length precedes the message but is known only after it: append it, then rotate.
        let len = self.out.len() - start;
        self.varint(len as u64);
        self.out[start..].rotate_left(len);
    }

    fn key(&mut self, field: u32, wire_type: u8) {
        debug_assert!((1..=MAX_FIELD).contains(&field.into()), "field number {field}");
        self.varint(u64::from(field) << 3 | u64::from(wire_type));
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }
}

/// The value of one field, as it is encoded.
///
/// The encoding does not say whether a varint is signed, or whether bytes are text, a packed list
/// or a message: the caller picks the method that matches the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtoValue<'a> {
    /// An integer, a `bool` or an enum.
    Varint(u64),
    /// Eight bytes: a `double` or a fixed integer.
    Fixed64(u64),
    /// Text, bytes, a packed list or a nested message.
    Bytes(&'a [u8]),
    /// Four bytes: a `float` or a fixed integer.
    Fixed32(u32),
}

impl<'a> ProtoValue<'a> {
    /// The integer, if this is a varint.
    pub fn as_uint64(self) -> Option<u64> {
        if let Self::Varint(value) = self { Some(value) } else { None }
    }

    /// The `float`, if this has four bytes.
    pub fn as_float(self) -> Option<f32> {
        if let Self::Fixed32(bits) = self { Some(f32::from_bits(bits)) } else { None }
    }

    /// The `double`, if this has eight bytes.
    pub fn as_double(self) -> Option<f64> {
        if let Self::Fixed64(bits) = self { Some(f64::from_bits(bits)) } else { None }
    }

    /// The bytes, if this has a length.
    pub fn as_bytes(self) -> Option<&'a [u8]> {
        if let Self::Bytes(bytes) = self { Some(bytes) } else { None }
    }

    /// The text, if this has a length and is UTF-8.
    pub fn as_str(self) -> Option<&'a str> {
        std::str::from_utf8(self.as_bytes()?).ok()
    }
}

/// Iterates over the fields of one message, as `(field number, value)`.
///
/// The iterator ends after the first error.
#[derive(Clone, Debug)]
pub struct ProtoFields<'a> {
    rest: &'a [u8],
}

impl<'a> ProtoFields<'a> {
    /// The fields of the message in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn field(&mut self) -> Result<(u32, ProtoValue<'a>), ProtoError> {
        let key = take_varint(&mut self.rest)?;
        let field = key >> 3;
        if !(1..=MAX_FIELD).contains(&field) {
            return Err(ProtoError::FieldNumber);
        }
        let value = match (key & 7) as u8 {
            VARINT => ProtoValue::Varint(take_varint(&mut self.rest)?),
            FIXED64 => ProtoValue::Fixed64(u64::from_le_bytes(take_array(&mut self.rest)?)),
            FIXED32 => ProtoValue::Fixed32(u32::from_le_bytes(take_array(&mut self.rest)?)),
            BYTES => {
                let len = take_varint(&mut self.rest)?;
                let len = usize::try_from(len).map_err(|_| ProtoError::Truncated)?;
                let (bytes, rest) = self.rest.split_at_checked(len).ok_or(ProtoError::Truncated)?;
                self.rest = rest;
                ProtoValue::Bytes(bytes)
            }
            other => return Err(ProtoError::WireType(other)),
        };
        Ok((field as u32, value))
    }
}

impl<'a> Iterator for ProtoFields<'a> {
    type Item = Result<(u32, ProtoValue<'a>), ProtoError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// The values of a packed list of `float`.
///
/// # Errors
/// If the list ends within a value.
pub fn packed_floats(bytes: &[u8]) -> Result<impl Iterator<Item = f32>, ProtoError> {
    let (chunks, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(ProtoError::Truncated);
    }
    Ok(chunks.iter().map(|chunk| f32::from_le_bytes(*chunk)))
}

/// Takes a varint from the front of `bytes`.
///
/// # Errors
/// If the bytes end within it, or it needs more than 64 bits.
pub fn take_varint(bytes: &mut &[u8]) -> Result<u64, ProtoError> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or(ProtoError::Truncated)?;
        *bytes = rest;
        // The tenth byte has room for one bit only.
        if shift == 63 && byte > 1 {
            return Err(ProtoError::Varint);
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(ProtoError::Varint)
}

fn take_array<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], ProtoError> {
    let (array, rest) = bytes.split_first_chunk::<N>().ok_or(ProtoError::Truncated)?;
    *bytes = rest;
    Ok(*array)
}

/// What can be wrong with the bytes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtoError {
    /// The message ends within a field.
    Truncated,
    /// An integer of more than 64 bits.
    Varint,
    /// A field number outside 1 to 2^29 - 1.
    FieldNumber,
    /// A wire type that protobuf does not define, or no longer uses (groups).
    WireType(u8),
}

impl fmt::Display for ProtoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("the message ends within a field"),
            Self::Varint => f.write_str("an integer is longer than 64 bits"),
            Self::FieldNumber => f.write_str("a field number is out of range"),
            Self::WireType(wire_type) => write!(f, "wire type {wire_type} is not supported"),
        }
    }
}

impl std::error::Error for ProtoError {}
