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
    List(Vec<JobValue>),
}

impl JobValue {
    /// Converts a TOML value. The error describes a value that no key accepts.
    pub(super) fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        match value {
            DeValue::String(text) => Ok(JobValue::Text(text.to_string())),
            DeValue::Boolean(flag) => Ok(JobValue::Flag(*flag)),
            DeValue::Integer(digits) => i64::from_str_radix(digits.as_str(), digits.radix())
                .map(JobValue::Whole)
                .map_err(|_| {
                    let [text, most] = [digits.as_str(), &i64::MAX.to_string()];
                    format!("{text} is out of range: whole numbers end at {most}")
                }),
            DeValue::Float(digits) => digits
                .as_str()
                .parse()
                .map(JobValue::Number)
                .map_err(|_| format!("{} is not a number", digits.as_str())),
            other => Err(format!("takes one value, not {}", described(other.type_str()))),
        }
    }

    /// Converts a TOML value of a key that takes lists.
    pub(super) fn from_toml_list(value: &DeValue<'_>) -> Result<Self, String> {
        match value {
            DeValue::Array(items) => {
                let items = items.iter().map(|item| Self::from_toml_list(item.get_ref()));
                Ok(JobValue::List(items.collect::<Result<_, _>>()?))
            }
            other => Self::from_toml(other),
        }
    }

    /// Describes the value, for errors.
    pub(super) fn describe(&self) -> String {
        match self {
            JobValue::Text(text) => format!("the text {text:?}"),
            JobValue::Flag(flag) => flag.to_string(),
            JobValue::Whole(whole) => whole.to_string(),
            JobValue::Number(number) => format!("{number:?}"),
            JobValue::List(_) => format!("the list {self}"),
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
            JobValue::List(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if index > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
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
