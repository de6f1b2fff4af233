//! The rate of a network link, as job files write it.

use paceline_observe::parse_bit_rate;

/// The rates a link may have, in bits per second.
const RATES: std::ops::RangeInclusive<f64> = 1e5..=1e11;

/// Parses a number with its unit; the rate in bits per second.
pub(super) fn parse_rate(text: &str) -> Option<u64> {
    parse_bit_rate(text).filter(|rate| RATES.contains(rate)).map(|rate| rate as u64)
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
