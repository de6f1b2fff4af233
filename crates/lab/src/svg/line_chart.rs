//! Lines over a number: curves, and figures over batch size or workers.

use std::fmt::Write;

use super::{AxisScale, COLOURS, escape, tick_text};

/// One line.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChartLine {
    /// What it shows, in the legend.
    pub(crate) label: String,
    /// Where it goes through.
    pub(crate) points: Vec<(f64, f64)>,
    /// How far each point's value spreads up and down; empty if that is not known.
    pub(crate) spread: Vec<f64>,
    /// Drawn thin and dashed: what should be, not what was measured.
    pub(crate) is_ideal: bool,
}

/// A chart of lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct LineChart {
    /// What it shows.
    pub(crate) title: String,
    /// What goes across.
    pub(crate) x_title: String,
    /// What goes up.
    pub(crate) y_title: String,
    /// The lines.
    pub(crate) series: Vec<ChartLine>,
    /// Few points, each of which is marked and has its own tick; else a smooth course.
    pub(crate) is_sparse: bool,
    /// Whether the upward axis begins at 0.
    pub(crate) from_zero: bool,
}

const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 250.0;
/// Around the plot: room for the ticks.
const LEFT: f64 = 44.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 40.0;

impl LineChart {
    /// Whether there is anything to draw.
    pub(crate) fn is_empty(&self) -> bool {
        self.measured().all(|series| series.points.len() < 2)
    }

    fn measured(&self) -> impl Iterator<Item = &ChartLine> {
        self.series.iter().filter(|series| !series.is_ideal)
    }

    /// The chart with its legend, as HTML.
    pub(crate) fn figure(&self) -> String {
        let mut html = format!("<figure>{}", self.svg());
        if self.series.len() > 1 {
            html.push_str("<figcaption>");
            for (i, series) in self.series.iter().enumerate() {
                let class = class_of(i, series);
                let _ =
                    write!(html, "<span class=\"key {class}\">{}</span> ", escape(&series.label));
            }
            html.push_str("</figcaption>");
        }
        html.push_str("</figure>\n");
        html
    }

    fn svg(&self) -> String {
        let (x, y) = self.scales();
        let at = |point: (f64, f64)| {
            let across = LEFT + x.place(point.0) * (WIDTH - LEFT - RIGHT);
            let down = HEIGHT - BOTTOM - y.place(point.1) * (HEIGHT - TOP - BOTTOM);
            (across, down)
        };
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
            escape(&self.title)
        );
        let _ = write!(svg, "<text class=\"t\" x=\"0\" y=\"13\">{}</text>", escape(&self.title));
        self.axes(&mut svg, &x, &y, at);
        for (i, series) in self.series.iter().enumerate() {
            self.line(&mut svg, series, class_of(i, series).as_str(), at);
        }
        svg.push_str("</svg>");
        svg
    }

    fn scales(&self) -> (AxisScale, AxisScale) {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let least = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(f64::INFINITY, f64::min);
        let most = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(f64::NEG_INFINITY, f64::max);
        let x = match self.is_sparse {
            true => AxisScale::at(points().map(|point| point.0).collect()),
            false => AxisScale::tight(least(|point| point.0), most(|point| point.0)),
        };
        let low = if self.from_zero { 0.0 } else { least(|point| point.1) };
        let tops = self.series.iter().flat_map(|series| {
            series.points.iter().zip(&series.spread).map(|(point, spread)| point.1 + spread)
        });
        (x, AxisScale::linear(low, tops.fold(most(|point| point.1), f64::max)))
    }

    fn axes(
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
            let text = if self.is_sparse { plain(tick) } else { tick_text(tick, x.step) };
            let half = 3.5 * text.len() as f64;
            let _ = write!(svg, "<path class=\"a\" d=\"M{across:.1} {foot}v4\"/>");
            if across - half < free_from {
                continue; // It would run into the one before.
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

    fn line(
        &self,
        svg: &mut String,
        series: &ChartLine,
        class: &str,
        at: impl Fn((f64, f64)) -> (f64, f64),
    ) {
        let mut path = String::new();
        for (i, &point) in series.points.iter().enumerate() {
            let (across, down) = at(point);
            let _ = write!(path, "{}{across:.1} {down:.1}", if i == 0 { "M" } else { "L" });
        }
        let label = escape(&series.label);
        let _ = write!(svg, "<path class=\"l {class}\" d=\"{path}\"><title>{label}</title></path>");
        if !self.is_sparse || series.is_ideal {
            return;
        }
        for (i, &point) in series.points.iter().enumerate() {
            let (across, down) = at(point);
            if let Some(&spread) = series.spread.get(i).filter(|spread| **spread > 0.0) {
                let (_, top) = at((point.0, point.1 + spread));
                let (_, foot) = at((point.0, (point.1 - spread).max(0.0)));
                let _ = write!(
                    svg,
                    "<path class=\"l thin {class}\" d=\"M{across:.1} {top:.1}V{foot:.1}\"/>"
                );
            }
            let value = crate::figure::format_number(point.1, 2);
            let _ = write!(
                svg,
                "<circle class=\"{class}\" cx=\"{across:.1}\" cy=\"{down:.1}\" r=\"3.2\">\
                 <title>{label}: {value} at {}</title></circle>",
                plain(point.0)
            );
        }
    }
}

/// The class that gives a line its colour.
fn class_of(index: usize, series: &ChartLine) -> String {
    match (series.is_ideal, index / COLOURS) {
        (true, _) => "ideal".into(),
        (false, 0) => format!("s{index}"),
        (false, _) => format!("s{} dash", index % COLOURS),
    }
}

/// A value as it was set.
fn plain(value: f64) -> String {
    if value >= 10_000.0 { tick_text(value, 1000.0) } else { format!("{value}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: &[(f64, f64)]) -> LineChart {
        let series =
            ChartLine { label: "a < b".into(), points: points.to_vec(), ..ChartLine::default() };
        LineChart {
            title: "t".into(),
            series: vec![series],
            is_sparse: true,
            ..LineChart::default()
        }
    }

    #[test]
    fn every_point_lies_within_the_picture() {
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
