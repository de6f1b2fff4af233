//! Operations on words of bits.

/// The set bits of a word, the lowest first.
#[inline(always)]
pub(super) fn set_bits(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        if bits == 0 {
            return None;
        }
        let lowest = bits.trailing_zeros() as usize % 64;
        bits &= bits - 1;
        Some(lowest)
    })
}

/// Transposes a square of bits: bit c of row r becomes bit r of row c. Its quarters change places,
/// then the quarters of each quarter, and so on.
pub(super) fn transpose(rows: &mut [u64; 64]) {
    let (mut width, mut mask) = (32, 0x0000_0000_FFFF_FFFFu64);
    while width > 0 {
        for from in (0..64).step_by(2 * width) {
            for row in from..from + width {
                let moved = ((rows[row] >> width) ^ rows[row + width]) & mask;
                rows[row] ^= moved << width;
                rows[row + width] ^= moved;
            }
        }
        width /= 2;
        mask ^= mask << width;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_square_of_bits_is_transposed() {
        let mut rows: [u64; 64] =
            std::array::from_fn(|row| (row as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let before = rows;
        transpose(&mut rows);
        for (r, before) in before.iter().enumerate() {
            for (c, after) in rows.iter().enumerate() {
                assert_eq!(after >> r & 1, before >> c & 1, "{r},{c}");
            }
        }
    }

    #[test]
    fn set_bits_come_lowest_first() {
        assert_eq!(set_bits(1 << 63 | 0b1010).collect::<Vec<_>>(), [1, 3, 63]);
        assert_eq!(set_bits(0).count(), 0);
    }
}
