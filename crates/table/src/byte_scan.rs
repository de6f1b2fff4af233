//! Finds the bytes of a text that end fields and records, 64 bytes at a time.

/// A place where a field ends, or a quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundByte {
    /// Where it is in the text.
    pub(crate) at: usize,
    /// Whether it is a newline or a quote, and not a delimiter.
    pub(crate) is_special: bool,
}

/// Walks through the delimiters, newlines and quotes of a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteScan {
    delimiter: u8,
    quote: u8,
    /// The first of the 64 bytes that the masks are of, and the first after them.
    base: usize,
    next: usize,
    /// A bit for each byte that was not returned yet.
    found: u64,
    special: u64,
}

impl ByteScan {
    /// Finds delimiters, newlines and `quote`; if there are no quotes, it is a newline too.
    pub(crate) fn new(delimiter: u8, quote: u8) -> Self {
        ByteScan { delimiter, quote, base: 0, next: 0, found: 0, special: 0 }
    }

    /// Continues at another byte.
    pub(crate) fn restart(&mut self, at: usize) {
        (self.next, self.found) = (at, 0);
    }

    /// The next byte of the text that was looked for.
    #[inline(always)]
    pub(crate) fn next(&mut self, text: &[u8]) -> Option<FoundByte> {
        while self.found == 0 {
            if self.next >= text.len() {
                return None;
            }
            self.look(text);
        }
        let bit = self.found.trailing_zeros();
        self.found &= self.found - 1;
        let is_special = self.special >> bit & 1 == 1;
        Some(FoundByte { at: self.base + bit as usize, is_special })
    }

    /// Looks at the next 64 bytes.
    #[inline(always)]
    fn look(&mut self, text: &[u8]) {
        self.base = self.next;
        self.next += 64;
        let rest = &text[self.base..];
        if let Some(bytes) = rest.first_chunk::<64>() {
            self.compare(bytes);
            return;
        }
        let mut bytes = [0; 64];
        bytes[..rest.len()].copy_from_slice(rest);
        self.compare(&bytes);
        self.found &= (1 << rest.len()) - 1;
    }

    #[inline(always)]
    fn compare(&mut self, bytes: &[u8; 64]) {
        self.special = equal_bytes(bytes, b'\n') | equal_bytes(bytes, self.quote);
        self.found = self.special | equal_bytes(bytes, self.delimiter);
    }
}

/// A bit for each byte that equals `wanted`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn equal_bytes(bytes: &[u8; 64], wanted: u8) -> u64 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set1_epi8};
    let (quarters, _) = bytes.as_chunks::<16>();
    quarters.iter().rev().fold(0, |mask, &quarter| {
        #[expect(unsafe_code, reason = "the instructions have no safe form")]
        // SAFETY: they need SSE2, which every x86-64 processor has.
        let equal = unsafe {
            let equal = _mm_cmpeq_epi8(bytemuck::cast(quarter), _mm_set1_epi8(wanted as i8));
            _mm_movemask_epi8(equal)
        };
        mask << 16 | u64::from(equal as u16)
    })
}

/// A bit for each byte that equals `wanted`.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn equal_bytes(bytes: &[u8; 64], wanted: u8) -> u64 {
    plain_equal_bytes(bytes, wanted)
}

/// The same without vectors.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[inline(always)]
fn plain_equal_bytes(bytes: &[u8; 64], wanted: u8) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().rev().fold(0, |mask, &word| {
        let differs = u64::from_le_bytes(word) ^ (u64::from(wanted) * 0x0101_0101_0101_0101);
        // The highest bit of each byte that is zero, which no carry disturbs.
        let equal = !((differs & LOW).wrapping_add(LOW) | differs | LOW) >> 7;
        mask << 8 | equal.wrapping_mul(0x0102_0408_1020_4080) >> 56
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_wanted_byte_is_found_once_in_order(
            text in "[ab,\"\n\u{80}]{0,300}", start in 0usize..300,
        ) {
            let text = text.as_bytes();
            let mut scan = ByteScan::new(b',', b'"');
            scan.restart(start);
            let found: Vec<FoundByte> = std::iter::from_fn(|| scan.next(text)).collect();
            let expected = text.iter().enumerate().skip(start);
            let expected = expected.filter(|(_, byte)| b",\"\n".contains(byte));
            let expected = expected.map(|(at, &byte)| FoundByte { at, is_special: byte != b',' });
            prop_assert_eq!(found, expected.collect::<Vec<_>>());
        }

        #[test]
        fn bytes_are_compared_equally_with_and_without_vectors(
            bytes in proptest::array::uniform32(0u8..4), high: u8, wanted in 0u8..4,
        ) {
            let flip = |i: usize| if i > 40 { high } else { 0 };
            let bytes: [u8; 64] = std::array::from_fn(|i| bytes[i % 32] ^ flip(i));
            let expected = (0..64).filter(|&i| bytes[i] == wanted).map(|i| 1 << i).sum::<u64>();
            prop_assert_eq!(equal_bytes(&bytes, wanted), expected);
            prop_assert_eq!(plain_equal_bytes(&bytes, wanted), expected);
        }
    }
}
