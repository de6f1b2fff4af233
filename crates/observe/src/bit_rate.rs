//! The rate of a network link, as job files write it.

/// Units of a rate, as `tc` writes them.
const UNITS: [(&str, f64); 3] = [("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)];

/// Parses a number with its unit, such as `1.5 mbit`, into bits a second. The caller checks the
/// range.
///
/// ```
/// use paceline_observe::parse_bit_rate;
///
/// assert_eq!(parse_bit_rate("1.5 mbit"), Some(1.5e6));
/// assert_eq!(parse_bit_rate("1000"), None);
/// ```
pub fn parse_bit_rate(text: &str) -> Option<f64> {
    let (unit, scale) = UNITS.into_iter().find(|(unit, _)| text.ends_with(unit))?;
    Some(text.strip_suffix(unit)?.trim().parse::<f64>().ok()? * scale)
}
