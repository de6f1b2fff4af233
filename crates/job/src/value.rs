//! The values of keys, and their conversion from TOML.

use std::fmt;

use toml::de::DeValue;

/// A value of a key. Tables are not values: they are flattened into keys.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum JobValue {
    Text(String),
    Whole(i64),
    Number(f64),
    Flag(bool),
    Numbers(Vec<f64>),
}

impl JobValue {
    /// Converts a TOML value, which may be a list of numbers if the key takes one. The error
    /// describes a value that the key does not accept.
    pub(super) fn from_toml(value: &DeValue<'_>, takes_list: bool) -> Result<Self, String> {
        match value {
            DeValue::String(text) => Ok(JobValue::Text(text.to_string())),
            DeValue::Boolean(flag) => Ok(JobValue::Flag(*flag)),
            DeValue::Integer(digits) => i64::from_str_radix(digits.as_str(), digits.radix())
                .map(JobValue::Whole)
                .map_err(|_| format!("{} is out of range", digits.as_str())),
            DeValue::Float(digits) => digits
                .as_str()
                .parse()
                .map(JobValue::Number)
                .map_err(|_| format!("{} is not a number", digits.as_str())),
            DeValue::Array(items) if takes_list => {
                let numbers =
                    items.iter().map(|item| match JobValue::from_toml(item.get_ref(), false)? {
                        JobValue::Whole(whole) => Ok(whole as f64),
                        JobValue::Number(number) => Ok(number),
                        other => Err(format!("is a list of numbers, not of {}", other.describe())),
                    });
                numbers.collect::<Result<_, _>>().map(JobValue::Numbers)
            }
            other => Err(format!("takes one value, not {}", described(other.type_str()))),
        }
    }

    /// Describes the value, for errors.
    pub(super) fn describe(&self) -> String {
        match self {
            JobValue::Text(text) => format!("the text {text:?}"),
            JobValue::Flag(flag) => flag.to_string(),
            JobValue::Whole(whole) => whole.to_string(),
            JobValue::Number(number) => number.to_string(),
            JobValue::Numbers(_) => format!("the list {self}"),
        }
    }
}

/// A TOML type with its article.
pub(super) fn described(type_name: &str) -> String {
    let article = if type_name.starts_with(['a', 'i', 'o']) { "an" } else { "a" };
    format!("{article} {type_name}")
}

/// Formats the value as a job file writes it.
impl fmt::Display for JobValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobValue::Text(text) => toml::Value::String(text.clone()).fmt(f),
            JobValue::Whole(whole) => whole.fmt(f),
            JobValue::Number(number) => toml::Value::Float(*number).fmt(f),
            JobValue::Flag(flag) => flag.fmt(f),
            JobValue::Numbers(numbers) => {
                let numbers = numbers.iter().copied().map(toml::Value::Float);
                toml::Value::Array(numbers.collect()).fmt(f)
            }
        }
    }
}

/// A value for display: words without quotes, tables on one line.
pub(super) fn plain(text: &str) -> String {
    match DeValue::parse(text).map(|value| value.into_inner()) {
        Ok(DeValue::String(word)) => word.to_string(),
        _ => text.split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

/// A choice of words, quoted.
pub(super) fn one_of(words: &[&str]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("{word:?}")).collect();
    match quoted.as_slice() {
        [most @ .., last] if !most.is_empty() => format!("{} or {last}", most.join(", ")),
        _ => quoted.concat(),
    }
}
