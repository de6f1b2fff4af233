//! Text and colors of the charts' markup.

/// Escapes text for HTML and SVG, including attribute values.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Units that stay with their number.
const UNITS: [&str; 6] = ["%", "s", "ms", "MB", "GB", "Mbit/s"];

/// Escapes a sentence for HTML. No line ends between a number and its unit.
pub(crate) fn escape_sentence(text: &str) -> String {
    let mut words = text.split(' ');
    let first = words.next().unwrap_or_default().to_owned();
    let sentence = words.fold(first, |sentence, word| {
        let is_unit = UNITS.contains(&word.trim_end_matches(['.', ',', ';', ':', ')']));
        let follows_number = sentence.ends_with(|c: char| c.is_ascii_digit());
        let space = if is_unit && follows_number { '\u{a0}' } else { ' ' };
        format!("{sentence}{space}{word}")
    });
    escape(&sentence)
}

/// Formats a tick: with the digits that `step` needs, and in thousands or millions if large.
pub(crate) fn tick_text(value: f64, step: f64) -> String {
    let (scaled, step, unit) = match value.abs().max(step) {
        size if size >= 1e6 => (value / 1e6, step / 1e6, "M"),
        size if size >= 1e4 => (value / 1e3, step / 1e3, "k"),
        _ => (value, step, ""),
    };
    let digits = (0..6).find(|&digits| {
        let grid = step * 10f64.powi(digits);
        (grid - grid.round()).abs() < 1e-6 * grid.max(1.0) && grid >= 0.5
    });
    let text = format!("{scaled:.*}", digits.unwrap_or(6) as usize);
    let text =
        if text.trim_start_matches('-').chars().all(|c| "0.".contains(c)) { "0" } else { &text };
    if text == "0" { "0".into() } else { format!("{text}{unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_short() {
        let shown = [(0.0, 5.0), (0.25, 0.05), (1500.0, 500.0), (40_000.0, 10_000.0), (2.5e6, 5e5)]
            .map(|(value, step)| tick_text(value, step));
        assert_eq!(shown, ["0", "0.25", "1500", "40k", "2.5M"]);
    }

    #[test]
    fn numbers_stay_with_their_units() {
        let text = escape_sentence("up to 71 %, in 3 s; <s> is 9 sweeps");
        assert_eq!(text, "up to 71\u{a0}%, in 3\u{a0}s; &lt;s&gt; is 9 sweeps");
    }

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(escape(r#"<a b="c">&'"#), "&lt;a b=&quot;c&quot;&gt;&amp;&#39;");
    }
}
