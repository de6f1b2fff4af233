//! Curves as JSON for the page.
//!
//! Numbers are written by hand, column by column: most of what the page receives is curves, and a
//! `serde_json` value for each point would cost more than reading the run.

use std::fmt::Write;

use serde_json::json;

use super::run_reader::CurveKey;
use super::series::Bucket;

/// Writes curves of a run, with times relative to its start.
pub(crate) struct CurveWriter {
    json: String,
    start_seconds: f64,
    is_empty: bool,
}

impl CurveWriter {
    /// Begins a list of curves at the end of `json`.
    pub(crate) fn new(mut json: String, start_seconds: f64) -> Self {
        json.push_str("\"curves\":[");
        Self { json, start_seconds, is_empty: true }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Adds a curve as columns: steps (`s`), seconds since the run started (`t`), means (`v`) and,
    /// if buckets hold several points, least and greatest values (`lo`, `hi`).
    pub(crate) fn add(&mut self, key: &CurveKey, buckets: &[Bucket], is_replacement: bool) {
        let comma = if self.is_empty { "" } else { "," };
        self.is_empty = false;
        let (task, tag) = (json!(key.task), json!(key.tag));
        let _ = write!(self.json, "{comma}{{\"task\":{task},\"tag\":{tag}");
        if is_replacement {
            self.json.push_str(",\"replace\":true");
        }
        let start = self.start_seconds;
        self.add_column("s", buckets, |json, bucket| {
            let _ = write!(json, "{}", bucket.step);
        });
        self.add_column("t", buckets, |json, bucket| {
            write_number(json, ((bucket.wall_seconds - start) * 1e3).round() / 1e3);
        });
        self.add_column("v", buckets, |json, bucket| write_value(json, bucket.mean));
        if buckets.iter().any(|bucket| bucket.min != bucket.max) {
            self.add_column("lo", buckets, |json, bucket| write_value(json, bucket.min));
            self.add_column("hi", buckets, |json, bucket| write_value(json, bucket.max));
        }
        self.json.push('}');
    }

    fn add_column(
        &mut self,
        name: &str,
        buckets: &[Bucket],
        write_cell: impl Fn(&mut String, &Bucket),
    ) {
        let _ = write!(self.json, ",\"{name}\":[");
        for (i, bucket) in buckets.iter().enumerate() {
            if i > 0 {
                self.json.push(',');
            }
            write_cell(&mut self.json, bucket);
        }
        self.json.push(']');
    }

    /// Ends the list and returns the text.
    pub(crate) fn finish(mut self) -> String {
        self.json.push(']');
        self.json
    }
}

/// Writes a value with six significant digits, more than a chart shows.
fn write_value(json: &mut String, value: f32) {
    let value = f64::from(value);
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e15).contains(&size) {
        let _ = write!(json, "{value:.5e}");
    } else if size >= 1e6 {
        write_number(json, value.round());
    } else {
        let scale = 10f64.powi(5 - size.max(1e-4).log10().floor() as i32);
        write_number(json, (value * scale).round() / scale);
    }
}

/// Writes a number, or `null` if it is not finite, which JSON cannot express.
fn write_number(json: &mut String, value: f64) {
    if value.is_finite() {
        let _ = write!(json, "{value}");
    } else {
        json.push_str("null");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_six_significant_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.1, "0.1"),
            (2.345_678, "2.34568"),
            (-1_234.567_9, "-1234.57"),
            (12_345_678.0, "12345678"),
            (1.5e-7, "1.50000e-7"),
            (f32::MAX, "3.40282e38"),
        ] {
            let mut json = String::new();
            write_value(&mut json, value);
            assert_eq!(json, text);
            let parsed: f64 = serde_json::from_str(&json).unwrap();
            assert!((parsed - f64::from(value)).abs() <= 1e-5 * f64::from(value).abs());
        }
    }
}
