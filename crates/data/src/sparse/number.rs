//! Fast parsing of numbers.
//!
//! Rows of click data consist almost entirely of short whole numbers. They and short decimals are
//! parsed here; anything else goes to the standard library. Every value is the `f32` nearest to the
//! text.

/// Parses the whole number at the start of `text`, and returns it with the rest. `None` if the text
/// does not begin with a digit, or the number has more than 18 digits.
#[inline]
pub(crate) fn whole(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    let mut len = 0;
    while let Some(digit) = text.get(len).map(|byte| byte.wrapping_sub(b'0')).filter(|d| *d < 10) {
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        len += 1;
    }
    (1..=18).contains(&len).then(|| (value, &text[len..]))
}

/// Parses `text` as a whole number with an optional sign.
#[inline]
pub(crate) fn signed(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text.split_first()? {
        (b'-', rest) => (true, rest),
        (b'+', rest) => (false, rest),
        _ => (false, text),
    };
    let (value, rest) = whole(digits)?;
    let value = value as i64; // 18 digits fit
    rest.is_empty().then_some(if negative { -value } else { value })
}

/// The powers of ten that an `f32` represents exactly.
const TENS: [f32; 11] = [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10];

/// Parses `text` as a number, which may be infinite or NaN.
#[inline]
pub fn float(text: &[u8]) -> Option<f32> {
    match short_decimal(text) {
        Some(value) => Some(value),
        None => std::str::from_utf8(text).ok()?.parse().ok(),
    }
}

/// Parses a decimal without exponent whose digits make up a number below 2^24: then the digits and
/// the power of ten are exact, and the division rounds once.
#[inline]
fn short_decimal(text: &[u8]) -> Option<f32> {
    let (negative, digits) = match text.split_first()? {
        (b'-', rest) => (true, rest),
        _ => (false, text),
    };
    let (mut value, mut decimals, mut point) = (0u32, 0, false);
    if digits.is_empty() || digits.len() > 9 {
        return None;
    }
    for &byte in digits {
        match byte {
            b'0'..=b'9' => {
                value = value * 10 + u32::from(byte - b'0'); // 9 digits fit into 32 bits
                decimals += usize::from(point);
            }
            b'.' if !point && digits.len() > 1 => point = true,
            _ => return None,
        }
    }
    if value >= 1 << 24 {
        return None;
    }
    let value = if decimals == 0 { value as f32 } else { value as f32 / TENS[decimals] };
    Some(if negative { -value } else { value })
}

/// Appends a whole number in decimal.
pub fn put_decimal(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return out.extend_from_slice(&digits[at..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn floats_equal_those_of_the_standard_library(
            text in "[-+]?[0-9]{0,9}[.]?[0-9]{0,9}(e-?[0-9]{1,2})?",
        ) {
            let expected: Option<f32> = text.parse().ok();
            let found = float(text.as_bytes());
            prop_assert_eq!(found.map(f32::to_bits), expected.map(f32::to_bits), "{}", text);
        }

        #[test]
        fn whole_numbers_equal_those_of_the_standard_library(text in "[-+]?[0-9]{0,20}") {
            let digits = text.trim_start_matches(['-', '+']).len();
            let expected: Option<i64> = text.parse().ok().filter(|_| digits <= 18);
            prop_assert_eq!(signed(text.as_bytes()), expected);
        }
    }

    #[test]
    fn the_text_after_a_number_is_returned() {
        assert_eq!(whole(b"17:1"), Some((17, &b":1"[..])));
        assert_eq!(whole(b":1"), None);
        assert_eq!(whole(b"9999999999999999999999:1"), None);
        assert_eq!(float(b"nan").map(f32::is_nan), Some(true));
        assert_eq!(float(b"1e39"), Some(f32::INFINITY));
        assert_eq!(float(b"."), None);
        assert_eq!(float(b"1.5.2"), None);
        assert_eq!(float(b"\xff"), None);
    }
}
