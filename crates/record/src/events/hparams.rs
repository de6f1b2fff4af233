//! Hyper-parameters, for TensorBoard's HParams tab.
//!
//! The tab is a table with a row for each *session*: a directory of events in which
//! `EventWriter::hparams_start` was called. Sessions with equal hyper-parameters form a group, and
//! their metrics are averaged. A metric is the last value of a scalar in the session's directory or
//! one below it.
//!
//! An *experiment* lists the columns of the tab. Without any, every scalar of the sessions is a
//! column; of several, TensorBoard shows an arbitrary one. So every run declares the same one.
//!
//! TensorBoard names the top directory `.`, and then does not find metrics *below* a session
//! there. So a session that may be the top directory should have its metrics in its own directory.

use std::fmt::Write as _;

use paceline_tfrecord::proto::ProtoWriter;
use sha2::{Digest, Sha256};

pub(super) const COLUMNS_TAG: &str = "_hparams_/experiment";
pub(super) const START_TAG: &str = "_hparams_/session_start_info";
pub(super) const END_TAG: &str = "_hparams_/session_end_info";

/// A hyper-parameter of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct HParam {
    /// Its name, such as `train.batch`.
    pub name: String,
    /// Its value in this run.
    pub value: HParamValue,
}

impl HParam {
    /// A hyper-parameter: `HParam::new("train.batch", 60)`.
    pub fn new(name: impl Into<String>, value: impl Into<HParamValue>) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

/// The value of a hyper-parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum HParamValue {
    /// A word, such as the mode.
    Text(String),
    /// A whole number. TensorBoard shows `1` and `1.0` alike but does not group them.
    Int(i64),
    /// Any other number.
    Number(f64),
    /// Yes or no.
    Bool(bool),
}

impl From<&str> for HParamValue {
    fn from(value: &str) -> Self {
        Self::Text(value.into())
    }
}

impl From<String> for HParamValue {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<i64> for HParamValue {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for HParamValue {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<bool> for HParamValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionStatus {
    /// It succeeded.
    Success = 1,
    /// It failed.
    Failure = 2,
    /// It has not ended.
    Running = 3,
}

/// The name of the group of sessions with these hyper-parameters: the SHA-256, in hexadecimal, of
/// their JSON as Python writes it, so that runs of TensorFlow and of Paceline form one group.
fn group_name(hparams: &[HParam]) -> String {
    let mut sorted: Vec<_> = hparams.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    let fields: Vec<_> = sorted
        .iter()
        .map(|hparam| format!("{}:{}", json_text(&hparam.name), json_value(&hparam.value)))
        .collect();
    let json = format!("{{{}}}", fields.join(","));
    Sha256::digest(json).iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("writing to a String succeeds");
        hex
    })
}

fn json_value(value: &HParamValue) -> String {
    match value {
        HParamValue::Text(text) => json_text(text),
        HParamValue::Int(int) => int.to_string(),
        HParamValue::Number(number) => json_number(*number),
        HParamValue::Bool(bool) => bool.to_string(),
    }
}

/// A float as Python's `repr` prints it. Both languages print the fewest digits that identify it,
/// but Python uses an exponent of two digits or more below 1e-4 and from 1e16.
fn json_number(number: f64) -> String {
    if !number.is_finite() {
        let infinite = if number > 0.0 { "Infinity" } else { "-Infinity" };
        return if number.is_nan() { "NaN" } else { infinite }.into();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').expect("`e` is in the format");
    let exponent: i32 = exponent.parse().expect("an exponent is a number");
    if number == 0.0 || (-4..16).contains(&exponent) {
        return format!("{number:?}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// Text as Python's `json.dumps` prints it: everything except printable ASCII is escaped.
fn json_text(text: &str) -> String {
    let mut json = String::from('"');
    for c in text.chars() {
        match c {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            '\u{8}' => json.push_str("\\b"),
            '\u{c}' => json.push_str("\\f"),
            ' '..='~' => json.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(json, "\\u{unit:04x}").expect("writing to a String succeeds");
                }
            }
        }
    }
    json.push('"');
    json
}

/// A message of the plugin in data version 0, with one field.
fn plugin_data(field: u32, encode: impl FnOnce(&mut ProtoWriter<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    ProtoWriter::new(&mut bytes).message(field, encode);
    bytes
}

/// TensorBoard's numbers of the types of hyper-parameters.
fn data_type(value: &HParamValue) -> u64 {
    match value {
        HParamValue::Text(_) => 1,
        HParamValue::Bool(_) => 2,
        HParamValue::Int(_) | HParamValue::Number(_) => 3,
    }
}

/// Encodes an `Experiment`: its hyper-parameters and metrics.
pub(super) fn encode_columns(hparams: &[HParam], metrics: &[&str]) -> Vec<u8> {
    plugin_data(2, |experiment| {
        for hparam in hparams {
            experiment.message(4, |info| {
                info.string(1, &hparam.name);
                info.uint64(4, data_type(&hparam.value));
            });
        }
        for metric in metrics {
            experiment.message(5, |info| {
                info.message(1, |name| name.string(2, metric));
            });
        }
    })
}

pub(super) fn encode_start(hparams: &[HParam], now_seconds: f64) -> Vec<u8> {
    plugin_data(3, |w| {
        for hparam in hparams {
            w.message(1, |entry| {
                entry.string(1, &hparam.name);
                entry.message(2, |value| encode_value(value, &hparam.value));
            });
        }
        w.string(4, &group_name(hparams));
        w.double(5, now_seconds);
    })
}

pub(super) fn encode_end(status: SessionStatus, now_seconds: f64) -> Vec<u8> {
    plugin_data(4, |w| {
        w.uint64(1, status as u64);
        w.double(2, now_seconds);
    })
}

/// Encodes a `google.protobuf.Value`, which has one type for all numbers.
fn encode_value(w: &mut ProtoWriter<'_>, value: &HParamValue) {
    match value {
        HParamValue::Text(text) => w.string(3, text),
        HParamValue::Int(int) => w.double(2, *int as f64),
        HParamValue::Number(number) => w.double(2, *number),
        HParamValue::Bool(bool) => w.bool(4, *bool),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_python_prints_them() {
        for (number, python) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.01, "0.01"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (123456789012345.6, "123456789012345.6"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (-2.5e300, "-2.5e+300"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(json_number(number), python);
        }
    }

    #[test]
    fn text_is_escaped_as_python_escapes_it() {
        let python = r#""a \"b\" \\ \n \u007f \u00fc \ud83d\ude00""#;
        assert_eq!(json_text("a \"b\" \\ \n \u{7f} ü 😀"), python);
    }

    #[test]
    fn a_group_does_not_depend_on_the_order() {
        let hparams = [HParam::new("rate", 0.01), HParam::new("batch", 60)];
        let swapped = [hparams[1].clone(), hparams[0].clone()];
        assert_eq!(group_name(&hparams), group_name(&swapped));
        // Of the 24 bytes {"batch":60,"rate":0.01}, by sha256sum.
        let expected = "f14edda8797a274182d82945afaa6fc5f563912fe444206483f0292707f443e6";
        assert_eq!(group_name(&hparams), expected);
    }
}
