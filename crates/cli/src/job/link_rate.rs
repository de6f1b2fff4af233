//! The rate of a network link, as job files write it.

/// The rates a link may have, in bits per second.
const RATES: std::ops::RangeInclusive<f64> = 1e5..=1e11;
/// Units of a rate, as `tc` writes them.
const UNITS: [(&str, f64); 3] = [("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)];

/// Parses a number with its unit; the rate in bits per second.
pub(super) fn parse_rate(text: &str) -> Option<u64> {
    let (unit, scale) = UNITS.into_iter().find(|(unit, _)| text.ends_with(unit))?;
    let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
    let rate = number * scale;
    RATES.contains(&rate).then_some(rate as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_a_unit_and_limits() {
        let rates = ["1gbit", "1.5 mbit", "100kbit"].map(parse_rate);
        assert_eq!(rates, [Some(1_000_000_000), Some(1_500_000), Some(100_000)]);
        for text in ["1", "gbit", "-1gbit", "99kbit", "nangbit", "infgbit", "1 gbps", "101gbit"] {
            assert_eq!(parse_rate(text), None, "{text}");
        }
    }
}
