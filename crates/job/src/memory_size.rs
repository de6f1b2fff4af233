//! Amounts of memory, such as `"8gb"`.

/// The least amount, in bytes.
const LEAST: f64 = 1e6;

/// The bytes that a text means; `None` unless it is a number with a unit.
pub(super) fn parse_memory(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let units = [("tb", 1e12), ("gb", 1e9), ("mb", 1e6)];
    let (number, unit) =
        units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
    let number: f64 = number.trim().parse().ok()?;
    let bytes = number * unit;
    (bytes.is_finite() && bytes >= LEAST).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_a_unit_and_a_limit() {
        let amounts = ["8gb", "1.5 GB", "512MB", "1tb"].map(parse_memory);
        assert_eq!(
            amounts,
            [8_000_000_000, 1_500_000_000, 512_000_000, 1_000_000_000_000].map(Some)
        );
        for text in ["8", "gb", "-1gb", "0.5mb", "nangb", "infgb", "8 gib", "8kb"] {
            assert_eq!(parse_memory(text), None, "{text}");
        }
    }
}
