//! Stacked bars: the shares of a whole, one bar for each cell.

use std::fmt::Write;

use paceline_observe::phase_color;

use super::markup::escape;
use crate::palette::COLOR_COUNT;

/// One bar of a [`BarChart`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Bar {
    pub(crate) label: String,
    /// The values of the parts, in the order of [`BarChart::part_names`].
    pub(crate) parts: Vec<f64>,
}

/// A chart of bars. Each part is drawn as a share of its bar.
#[derive(Clone, Debug, Default)]
pub(crate) struct BarChart {
    pub(crate) title: String,
    pub(crate) part_names: Vec<String>,
    pub(crate) bars: Vec<Bar>,
}

const WIDTH: f64 = 400.0;
const TOP: f64 = 22.0;
/// Height of a bar with the label above it.
const ROW: f64 = 37.0;

impl BarChart {
    /// Renders the chart and its legend as HTML.
    pub(crate) fn to_html(&self) -> String {
        let mut html = format!("<figure>{}<figcaption>", self.svg());
        for (i, name) in self.part_names.iter().enumerate() {
            let class = self.class_of(i);
            let _ = write!(html, "<span class=\"key {class}\">{}</span> ", escape(name));
        }
        html.push_str("</figcaption></figure>\n");
        html
    }

    /// The style sheet's class for a part: that of its phase, or else of its place.
    fn class_of(&self, part: usize) -> String {
        let name = self.part_names.get(part).map_or("", String::as_str);
        match phase_color(name) {
            Some(_) => format!("phase-{name}"),
            None => format!("s{}", part % COLOR_COUNT),
        }
    }

    fn svg(&self) -> String {
        let height = TOP + ROW * self.bars.len() as f64;
        let title = escape(&self.title);
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">\
             <text class=\"t\" x=\"0\" y=\"13\">{title}</text>"
        );
        for (row, bar) in self.bars.iter().enumerate() {
            let top = TOP + ROW * row as f64;
            let label = escape(&bar.label);
            let _ = write!(svg, "<text x=\"0\" y=\"{:.0}\">{label}</text>", top + 13.0);
            self.draw_bar(&mut svg, bar, top + 18.0);
        }
        svg.push_str("</svg>");
        svg
    }

    fn draw_bar(&self, svg: &mut String, bar: &Bar, top: f64) {
        let whole: f64 = bar.parts.iter().sum();
        let mut from = 0.0;
        for (i, part) in bar.parts.iter().enumerate() {
            let share = if whole > 0.0 { part / whole } else { 0.0 };
            let width = share * WIDTH;
            if width >= 0.05 {
                let name = self.part_names.get(i).map_or(String::new(), |name| escape(name));
                let _ = write!(
                    svg,
                    "<rect class=\"{}\" x=\"{from:.1}\" y=\"{top:.0}\" width=\"{width:.1}\" \
                     height=\"13\"><title>{name}: {:.1} %</title></rect>",
                    self.class_of(i),
                    100.0 * share
                );
            }
            if width >= 34.0 {
                let _ = write!(
                    svg,
                    "<text class=\"in {}\" x=\"{:.1}\" y=\"{:.1}\">{:.0} %</text>",
                    self.class_of(i),
                    from + width / 2.0,
                    top + 10.2,
                    100.0 * share
                );
            }
            from += width;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_bar_fill_it() {
        let bars = BarChart {
            title: "t".into(),
            part_names: ["a", "b", "c"].map(String::from).to_vec(),
            bars: vec![Bar { label: "x".into(), parts: vec![1.0, 0.0, 3.0] }],
        };
        let svg = bars.svg();
        let widths: Vec<f64> = svg
            .split("width=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap().parse().unwrap())
            .collect();
        assert_eq!(widths, [100.0, 300.0]);
        assert!(svg.contains("c: 75.0 %"));
    }

    #[test]
    fn a_bar_whose_parts_are_zero_is_empty() {
        let bar = Bar { label: "x".into(), parts: vec![0.0, 0.0] };
        let bars = BarChart {
            part_names: vec!["a".into(), "b".into()],
            bars: vec![bar],
            ..BarChart::default()
        };
        assert!(!bars.svg().contains("<rect"));
    }
}
