//! The compact form of Thrift, in which Parquet files describe themselves.

// Types of fields. The type of a flag is its value.
pub(crate) const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
pub(crate) const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
pub(crate) const STRUCT: u8 = 12;

/// How deep values are nested at most: deeper than in any version of the format.
const MOST_DEPTH: u8 = 16;

/// The types of the fields of the statistics in a page's header.
const STATISTICS: &[u8] = &[BINARY, BINARY, I64, I64, BINARY, BINARY, TRUE, TRUE, I64];

/// Takes a number of as many bytes as it needs, the lowest first, from the beginning. `None` if
/// the bytes do not begin with one.
pub(crate) fn take_unsigned(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for at in 0..10 {
        let byte = bytes.split_off_first()?;
        value |= u64::from(byte & 0x7f) << (7 * at);
        if *byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// The rest of some bytes. Every function returns `None` if they are not what it reads.
pub(crate) struct ThriftInput<'a>(pub(crate) &'a [u8]);

impl ThriftInput<'_> {
    fn byte(&mut self) -> Option<u8> {
        self.0.split_off_first().copied()
    }

    fn int64(&mut self) -> Option<i64> {
        let value = take_unsigned(&mut self.0)?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub(crate) fn int32(&mut self) -> Option<i32> {
        i32::try_from(self.int64()?).ok()
    }

    /// The type of the next field of a struct, after the field with this number, which becomes its
    /// own. The inner `None` stands for the struct's end.
    pub(crate) fn field(&mut self, number: &mut i64) -> Option<Option<u8>> {
        let head = self.byte()?;
        if head == 0 {
            return Some(None);
        }
        let step = i64::from(head >> 4);
        // A number that does not grow is written in full.
        *number = if step == 0 { self.int64()? } else { number.checked_add(step)? };
        Some(Some(head & 0xf))
    }

    /// Reads a struct whose first fields have these types. Returns the first one if that is an
    /// `I32`, or 0.
    pub(crate) fn plain_struct(&mut self, types: &[u8], depth: u8) -> Option<i32> {
        let (mut number, mut first) = (0, 0);
        while let Some(kind) = self.field(&mut number)? {
            let place = usize::try_from(number.checked_sub(1)?).ok()?;
            let expected = types.get(place).copied().unwrap_or(kind);
            if expected != kind && (expected, kind) != (TRUE, FALSE) {
                return None;
            }
            match (place, kind) {
                (0, I32) => first = self.int32()?,
                _ if place < types.len() => self.skip(kind, STATISTICS, depth)?,
                _ => self.skip(kind, &[], depth)?,
            }
        }
        Some(first)
    }

    /// Reads a field of this type; if it is a struct, its first fields have the other types. There
    /// are no lists in it.
    pub(crate) fn skip(&mut self, kind: u8, types: &[u8], depth: u8) -> Option<()> {
        match kind {
            TRUE | FALSE => {}
            BYTE => drop(self.byte()?),
            I32 => drop(self.int32()?),
            I16 | I64 => drop(self.int64()?),
            DOUBLE => drop(self.0.split_off(..8)?),
            BINARY => {
                let length = usize::try_from(take_unsigned(&mut self.0)?).ok()?;
                self.0.split_off(..length)?;
            }
            STRUCT if depth < MOST_DEPTH => drop(self.plain_struct(types, depth + 1)?),
            _ => return None,
        }
        Some(())
    }

    /// Reads a field of this type with the lists in it, each of which has a byte or more for every
    /// element. So there are no lists of flags: the library reads those without looking at a byte,
    /// and a few bytes may say that there are thousands of millions.
    pub(crate) fn skip_with_lists(&mut self, kind: u8, depth: u8) -> Option<()> {
        match kind {
            STRUCT if depth < MOST_DEPTH => {
                let mut number = 0;
                while let Some(kind) = self.field(&mut number)? {
                    self.skip_with_lists(kind, depth + 1)?;
                }
            }
            LIST | SET if depth < MOST_DEPTH => {
                let head = self.byte()?;
                let few = u64::from(head >> 4);
                let count = if few == 15 { take_unsigned(&mut self.0)? } else { few };
                let kind = head & 0xf;
                if count > 0 && matches!(kind, TRUE | FALSE) {
                    return None;
                }
                for _ in 0..count {
                    self.skip_with_lists(kind, depth + 1)?;
                }
            }
            _ => self.skip(kind, &[], MOST_DEPTH)?,
        }
        Some(())
    }
}
