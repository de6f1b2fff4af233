//! Horizontal bars: one value for each cell.

use std::fmt::Write;

use super::markup::escape;

/// One bar of a [`ValueBars`] chart.
#[derive(Clone, Debug, Default)]
pub(crate) struct ValueBar {
    pub(crate) label: String,
    pub(crate) value: f64,
    /// The value as text, with its unit.
    pub(crate) text: String,
}

/// A chart of values from 0, the best first.
#[derive(Clone, Debug, Default)]
pub(crate) struct ValueBars {
    pub(crate) title: String,
    pub(crate) bars: Vec<ValueBar>,
}

const WIDTH: f64 = 400.0;
/// The longest bar; the rest of the width is for the values.
const LONGEST: f64 = 270.0;
const TOP: f64 = 22.0;
/// Height of a bar with the label above it.
const ROW: f64 = 34.0;

impl ValueBars {
    /// Renders the chart as HTML.
    pub(crate) fn to_html(&self) -> String {
        let height = TOP + ROW * self.bars.len() as f64;
        let title = escape(&self.title);
        let mut svg = format!(
            "<figure><svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">\
             <text class=\"t\" x=\"0\" y=\"13\">{title}</text>"
        );
        let most = self.bars.iter().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
        for (row, bar) in self.bars.iter().enumerate() {
            let top = TOP + ROW * row as f64;
            let width = (LONGEST * bar.value.max(0.0) / most).max(1.0);
            let class = if row == 0 { "s0" } else { "s0 rest" };
            let _ = write!(
                svg,
                "<text x=\"0\" y=\"{:.0}\">{}</text>\
                 <rect class=\"{class}\" x=\"0\" y=\"{:.0}\" width=\"{width:.1}\" height=\"12\"/>\
                 <text class=\"v\" x=\"{:.1}\" y=\"{:.0}\">{}</text>",
                top + 13.0,
                escape(&bar.label),
                top + 18.0,
                width + 6.0,
                top + 28.5,
                escape(&bar.text)
            );
        }
        svg.push_str("</svg></figure>\n");
        svg
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_values_say() {
        let bar = |value: f64| ValueBar { label: "<a>".into(), value, text: format!("{value} s") };
        let chart = ValueBars { title: "t".into(), bars: vec![bar(1.0), bar(2.0)] };
        let html = chart.to_html();
        assert!(html.contains("width=\"135.0\"") && html.contains("width=\"270.0\""), "{html}");
        assert!(html.contains("&lt;a&gt;") && html.contains("2 s"), "{html}");
    }
}
