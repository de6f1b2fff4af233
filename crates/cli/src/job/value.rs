//! The values that keys can have, and how they are told from TOML.

use std::fmt;

use toml::de::DeValue;

/// A value of a key. Tables are not values: they are flattened into keys.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(String),
    Whole(i64),
    Number(f64),
    Flag(bool),
}

impl Value {
    /// Takes over a TOML value, or says what it is if it cannot be the value of any key.
    pub(super) fn from_toml(value: &DeValue<'_>) -> Result<Self, String> {
        match value {
            DeValue::String(text) => Ok(Value::Text(text.to_string())),
            DeValue::Boolean(flag) => Ok(Value::Flag(*flag)),
            DeValue::Integer(digits) => i64::from_str_radix(digits.as_str(), digits.radix())
                .map(Value::Whole)
                .map_err(|_| format!("{} is out of range", digits.as_str())),
            DeValue::Float(digits) => digits
                .as_str()
                .parse()
                .map(Value::Number)
                .map_err(|_| format!("{} is not a number", digits.as_str())),
            other => Err(format!("takes one value, not {}", described(other.type_str()))),
        }
    }

    /// What kind of value this is, in words.
    pub(super) fn describe(&self) -> String {
        match self {
            Value::Text(text) => format!("the text {text:?}"),
            Value::Flag(flag) => flag.to_string(),
            Value::Whole(whole) => whole.to_string(),
            Value::Number(number) => number.to_string(),
        }
    }
}

/// A TOML type with its article.
pub(super) fn described(type_name: &str) -> String {
    let article = if type_name.starts_with(['a', 'i', 'o']) { "an" } else { "a" };
    format!("{article} {type_name}")
}

/// As it is written in a job file.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => toml::Value::String(text.clone()).fmt(f),
            Value::Whole(whole) => whole.fmt(f),
            Value::Number(number) => toml::Value::Float(*number).fmt(f),
            Value::Flag(flag) => flag.fmt(f),
        }
    }
}
