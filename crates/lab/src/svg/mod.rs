//! Charts as SVG.
//!
//! A chart is markup inside the report's page. Its colors are classes that the page's style sheet
//! defines, so that screen (light and dark) and print each have their own. A point shows its value
//! when the mouse rests on it. Legends are HTML beside the SVG, because only HTML wraps on a phone.

mod axis_scale;
mod bar_chart;
mod line_chart;
mod markup;
mod value_bars;

pub(crate) use bar_chart::{Bar, BarChart};
pub(crate) use line_chart::{ChartLine, LineChart};
pub(crate) use markup::{escape, escape_sentence};
pub(crate) use value_bars::{ValueBar, ValueBars};
