//! Line charts: curves, and figures over batch size or workers.

use std::fmt::Write;

use super::axis_scale::AxisScale;
use super::markup::{escape, tick_text};
use crate::figure::format_number;
use crate::palette::COLOR_COUNT;

/// One line of a [`LineChart`].
#[derive(Clone, Debug, Default)]
pub(crate) struct ChartLine {
    /// Name in the legend.
    pub(crate) label: String,
    pub(crate) points: Vec<(f64, f64)>,
    /// Standard deviation of each point; empty if it is unknown.
    pub(crate) spread: Vec<f64>,
    /// Draws the line thin and dashed: it is the ideal, not a measurement.
    pub(crate) is_ideal: bool,
}

/// A chart of lines over a numeric axis.
#[derive(Clone, Debug, Default)]
pub(crate) struct LineChart {
    pub(crate) title: String,
    pub(crate) x_title: String,
    pub(crate) y_title: String,
    pub(crate) lines: Vec<ChartLine>,
    /// Whether there are few points, each with a marker and a tick of its own.
    pub(crate) is_sparse: bool,
    /// Whether the vertical axis starts at 0.
    pub(crate) from_zero: bool,
}

const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 250.0;
// Margins around the plot, for ticks and titles.
const LEFT: f64 = 44.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 40.0;

impl LineChart {
    /// Whether no measured line has two points.
    pub(crate) fn is_empty(&self) -> bool {
        self.measured().all(|line| line.points.len() < 2)
    }

    fn measured(&self) -> impl Iterator<Item = &ChartLine> {
        self.lines.iter().filter(|line| !line.is_ideal)
    }

    /// Renders the chart and its legend as HTML.
    pub(crate) fn to_html(&self) -> String {
        let mut html = format!("<figure>{}", self.svg());
        if self.lines.len() > 1 {
            html.push_str("<figcaption>");
            for (i, line) in self.lines.iter().enumerate() {
                let class = class_of(i, line);
                let _ = write!(html, "<span class=\"key {class}\">{}</span> ", escape(&line.label));
            }
            html.push_str("</figcaption>");
        }
        html.push_str("</figure>\n");
        html
    }

    fn svg(&self) -> String {
        let (x, y) = self.scales();
        let at = |point: (f64, f64)| {
            let across = LEFT + x.position(point.0) * (WIDTH - LEFT - RIGHT);
            let down = HEIGHT - BOTTOM - y.position(point.1) * (HEIGHT - TOP - BOTTOM);
            (across, down)
        };
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            escape(&self.title)
        );
        let _ = write!(svg, "<text class=\"t\" x=\"0\" y=\"13\">{}</text>", escape(&self.title));
        self.draw_axes(&mut svg, &x, &y, at);
        for (i, line) in self.lines.iter().enumerate() {
            self.draw_line(&mut svg, line, class_of(i, line).as_str(), at);
        }
        svg.push_str("</svg>");
        svg
    }

    fn scales(&self) -> (AxisScale, AxisScale) {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let least = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(f64::INFINITY, f64::min);
        let most = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(f64::NEG_INFINITY, f64::max);
        let x = if self.is_sparse {
            AxisScale::at(points().map(|point| point.0).collect())
        } else {
            AxisScale::tight(least(|point| point.0), most(|point| point.0))
        };
        let low = if self.from_zero { 0.0 } else { least(|point| point.1) };
        let tops = self.lines.iter().flat_map(|line| {
            line.points.iter().zip(&line.spread).map(|(point, spread)| point.1 + spread)
        });
        (x, AxisScale::linear(low, tops.fold(most(|point| point.1), f64::max)))
    }

    fn draw_axes(
        &self,
        svg: &mut String,
        x: &AxisScale,
        y: &AxisScale,
        at: impl Fn((f64, f64)) -> (f64, f64),
    ) {
        for &tick in &y.ticks {
            let (_, down) = at((0.0, tick));
            let text = tick_text(tick, y.step);
            let _ = write!(
                svg,
                "<path class=\"g\" d=\"M{LEFT} {down:.1}H{:.0}\"/>\
                 <text class=\"e\" x=\"{:.0}\" y=\"{:.1}\">{text}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                down + 4.0
            );
        }
        let foot = HEIGHT - BOTTOM;
        let mut free_from = f64::NEG_INFINITY;
        for &tick in &x.ticks {
            let (across, _) = at((tick, 0.0));
            let text = if self.is_sparse { setting_text(tick) } else { tick_text(tick, x.step) };
            let half = 3.5 * text.len() as f64;
            let _ = write!(svg, "<path class=\"a\" d=\"M{across:.1} {foot}v4\"/>");
            if across - half < free_from {
                continue; // It would overlap the previous label.
            }
            free_from = across + half + 4.0;
            let _ = write!(
                svg,
                "<text class=\"m\" x=\"{across:.1}\" y=\"{}\">{text}</text>",
                foot + 17.0
            );
        }
        let _ = write!(
            svg,
            "<path class=\"a\" d=\"M{LEFT} {foot}H{:.0}\"/>\
             <text class=\"m\" x=\"{:.0}\" y=\"{:.0}\">{}</text>\
             <text class=\"r\" x=\"{:.0}\" y=\"13\">{}</text>",
            WIDTH - RIGHT,
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 5.0,
            escape(&self.x_title),
            WIDTH - RIGHT,
            escape(&self.y_title)
        );
    }

    fn draw_line(
        &self,
        svg: &mut String,
        line: &ChartLine,
        class: &str,
        at: impl Fn((f64, f64)) -> (f64, f64),
    ) {
        let mut path = String::new();
        for (i, &point) in line.points.iter().enumerate() {
            let (across, down) = at(point);
            let _ = write!(path, "{}{across:.1} {down:.1}", if i == 0 { "M" } else { "L" });
        }
        let label = escape(&line.label);
        let _ = write!(svg, "<path class=\"l {class}\" d=\"{path}\"><title>{label}</title></path>");
        if !self.is_sparse || line.is_ideal {
            return;
        }
        for (i, &point) in line.points.iter().enumerate() {
            let (across, down) = at(point);
            if let Some(&spread) = line.spread.get(i).filter(|spread| **spread > 0.0) {
                let (_, top) = at((point.0, point.1 + spread));
                let (_, foot) = at((point.0, (point.1 - spread).max(0.0)));
                let _ = write!(
                    svg,
                    "<path class=\"l thin {class}\" d=\"M{across:.1} {top:.1}V{foot:.1}\"/>"
                );
            }
            let value = format_number(point.1, 2);
            let _ = write!(
                svg,
                "<circle class=\"{class}\" cx=\"{across:.1}\" cy=\"{down:.1}\" r=\"3.2\">\
                 <title>{label}: {value} at {}</title></circle>",
                setting_text(point.0)
            );
        }
    }
}

/// The style sheet's class for a line.
fn class_of(index: usize, line: &ChartLine) -> String {
    match (line.is_ideal, index / COLOR_COUNT) {
        (true, _) => "ideal".into(),
        (false, 0) => format!("s{index}"),
        (false, _) => format!("s{} dash", index % COLOR_COUNT),
    }
}

/// A setting's value as a tick label.
fn setting_text(value: f64) -> String {
    if value >= 10_000.0 { tick_text(value, 1000.0) } else { format!("{value}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: &[(f64, f64)]) -> LineChart {
        let line =
            ChartLine { label: "a < b".into(), points: points.to_vec(), ..ChartLine::default() };
        LineChart { title: "t".into(), lines: vec![line], is_sparse: true, ..LineChart::default() }
    }

    #[test]
    fn every_point_lies_within_the_chart() {
        let svg = chart(&[(1.0, 3.0), (40.0, 1e6), (600.0, 0.0)]).svg();
        for (mark, most) in [("cx=\"", WIDTH), ("cy=\"", HEIGHT)] {
            let places: Vec<f64> = svg
                .split(mark)
                .skip(1)
                .map(|rest| rest.split('"').next().unwrap().parse().unwrap())
                .collect();
            assert_eq!(places.len(), 3);
            assert!(places.iter().all(|place| (0.0..=most).contains(place)), "{places:?}");
        }
        assert!(!svg.contains("NaN") && svg.contains("a &lt; b"));
    }

    #[test]
    fn a_line_needs_two_points() {
        assert!(chart(&[(1.0, 1.0)]).is_empty());
        assert!(!chart(&[(1.0, 1.0), (2.0, 1.0)]).is_empty());
        assert!(!chart(&[(1.0, 0.0), (1.0, 0.0)]).svg().contains("NaN"));
    }
}
