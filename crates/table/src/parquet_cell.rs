//! The values of Parquet's columns as text.

use std::io::Write as _;

use parquet::basic::{ConvertedType, LogicalType};
use parquet::schema::types::ColumnDescriptor;

/// What the stored values of a column stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellForm {
    /// Themselves.
    Plain,
    /// Whole numbers from 0 up.
    Unsigned,
    /// Numbers with this many digits after the point.
    Decimal { digits: usize },
    /// Numbers of 16 bits.
    HalfFloat,
    /// Bytes that are not text.
    Uuid,
}

/// The most digits of a decimal that is read: those of 128 bits.
const MOST_DIGITS: usize = 39;

impl CellForm {
    pub(crate) fn of(column: &ColumnDescriptor) -> Self {
        use ConvertedType::{DECIMAL, UINT_8, UINT_16, UINT_32, UINT_64};
        match (column.converted_type(), column.logical_type_ref()) {
            (DECIMAL, _) => CellForm::Decimal {
                digits: usize::try_from(column.type_scale()).unwrap_or(0).min(MOST_DIGITS),
            },
            (UINT_8 | UINT_16 | UINT_32 | UINT_64, _) => CellForm::Unsigned,
            (_, Some(LogicalType::Float16)) => CellForm::HalfFloat,
            (_, Some(LogicalType::Uuid)) => CellForm::Uuid,
            _ => CellForm::Plain,
        }
    }

    pub(crate) fn put_i32(self, text: &mut Vec<u8>, value: i32) {
        match self {
            CellForm::Unsigned => put(text, &(value as u32)),
            _ => self.put_i64(text, value.into()),
        }
    }

    pub(crate) fn put_i64(self, text: &mut Vec<u8>, value: i64) {
        match self {
            CellForm::Unsigned => put(text, &(value as u64)),
            CellForm::Decimal { digits } => put_decimal(text, value.into(), digits),
            _ => put(text, &value),
        }
    }

    /// Bytes: the text itself, or a number whose first byte is the highest.
    pub(crate) fn put_bytes(self, text: &mut Vec<u8>, bytes: &[u8]) {
        match (self, bytes) {
            (CellForm::Decimal { digits }, [first, ..]) if bytes.len() <= 16 => {
                let sign = if *first >= 0x80 { u8::MAX } else { 0 };
                let mut wide = [sign; 16];
                wide[16 - bytes.len()..].copy_from_slice(bytes);
                put_decimal(text, i128::from_be_bytes(wide), digits);
            }
            (CellForm::HalfFloat, [low, high]) => {
                put(text, &half_float(u16::from_le_bytes([*low, *high])));
            }
            (CellForm::Uuid, _) => {
                for (at, byte) in bytes.iter().enumerate() {
                    if matches!(at, 4 | 6 | 8 | 10) {
                        text.push(b'-');
                    }
                    let _ = write!(text, "{byte:02x}");
                }
            }
            _ => text.extend_from_slice(bytes),
        }
    }
}

pub(crate) fn put(text: &mut Vec<u8>, value: &impl std::fmt::Display) {
    // Writing to memory does not fail.
    let _ = write!(text, "{value}");
}

fn put_decimal(text: &mut Vec<u8>, value: i128, digits: usize) {
    if digits == 0 {
        return put(text, &value);
    }
    let all = format!("{:0>width$}", value.unsigned_abs(), width = digits + 1);
    let (whole, fraction) = all.split_at(all.len() - digits);
    let sign = if value < 0 { "-" } else { "" };
    put(text, &format!("{sign}{whole}.{fraction}"));
}

/// A number of 16 bits: a sign, 5 bits of exponent and 10 bits of fraction.
fn half_float(bits: u16) -> f32 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    let magnitude = match exponent {
        0 => fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1024.0 + fraction) * 2f32.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

/// Appends a field, in quotes if it needs them. An empty field that is the only one of its row
/// needs them: without, the row would be an empty line.
pub(crate) fn put_field(text: &mut Vec<u8>, cell: &[u8], is_only_one: bool) {
    let is_special = |byte: &u8| matches!(byte, b',' | b'"' | b'\n' | b'\r');
    let needs_quotes = cell.iter().any(is_special) || cell.is_empty() && is_only_one;
    if !needs_quotes {
        return text.extend_from_slice(cell);
    }
    text.push(b'"');
    for &byte in cell {
        if byte == b'"' {
            text.push(byte);
        }
        text.push(byte);
    }
    text.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(put: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut text = Vec::new();
        put(&mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn decimals_have_their_point_however_they_are_stored() {
        let form = CellForm::Decimal { digits: 2 };
        for (value, expected) in
            [(1250, "12.50"), (-5, "-0.05"), (i64::MIN, "-92233720368547758.08")]
        {
            assert_eq!(text(|text| form.put_i64(text, value)), expected);
            assert_eq!(text(|text| form.put_bytes(text, &value.to_be_bytes())), expected);
            let wide = i128::from(value).to_be_bytes();
            assert_eq!(text(|text| form.put_bytes(text, &wide)), expected);
        }
        assert_eq!(text(|text| form.put_bytes(text, &[0xff])), "-0.01");
    }

    #[test]
    fn whole_numbers_without_a_sign_stay_positive() {
        assert_eq!(text(|text| CellForm::Unsigned.put_i64(text, -1)), u64::MAX.to_string());
        assert_eq!(text(|text| CellForm::Unsigned.put_i32(text, -1)), u32::MAX.to_string());
        assert_eq!(text(|text| CellForm::Plain.put_i32(text, -1)), "-1");
    }

    #[test]
    fn numbers_of_16_bits_and_identifiers_are_text() {
        for (bits, expected) in
            [(0x3c00u16, "1"), (0xc100, "-2.5"), (0x0001, "0.000000059604645"), (0x7c00, "inf")]
        {
            let bytes = bits.to_le_bytes();
            assert_eq!(text(|text| CellForm::HalfFloat.put_bytes(text, &bytes)), expected);
        }
        let bytes: Vec<u8> = (0..16).collect();
        let expected = "00010203-0405-0607-0809-0a0b0c0d0e0f";
        assert_eq!(text(|text| CellForm::Uuid.put_bytes(text, &bytes)), expected);
    }
}
