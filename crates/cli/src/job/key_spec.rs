//! The description of a key of the job file.

use super::condition::KeyCondition;
use super::value::one_of;

/// One key of the job file.
#[derive(Debug)]
pub(super) struct KeySpec {
    /// The full, dotted name.
    pub(super) path: String,
    /// The values it accepts.
    pub(super) kind: ValueKind,
    /// The default as TOML; `None` if the key is then absent.
    pub(super) default: Option<&'static str>,
    /// The conditions under which this key applies; all must hold.
    pub(super) conditions: Vec<KeyCondition>,
    /// A description of one line.
    pub(super) help: &'static str,
}

/// The values that a key accepts.
#[derive(Clone, Copy, Debug)]
pub(super) enum ValueKind {
    /// A whole number in a range, both ends included.
    Whole { min: u64, max: u64 },
    /// A finite number above a limit.
    Above(f64),
    /// A finite number, at least a limit.
    From(f64),
    /// A number from 0 up to, but not including, 1.
    Fraction,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A word that is valid in a file name.
    Name,
    /// A file or directory.
    Path,
    /// A host and a port.
    Address,
    /// True or false.
    Flag,
    /// The rate of a network, such as `"1gbit"`.
    Rate,
}

impl ValueKind {
    /// Describes the accepted values, for errors and documentation.
    pub(super) fn describe(self) -> String {
        match self {
            ValueKind::Whole { min, max } if max >= u64::from(u32::MAX) => {
                format!("a whole number from {min} up")
            }
            ValueKind::Whole { min, max } => format!("a whole number from {min} to {max}"),
            ValueKind::Above(limit) => format!("a number above {limit}"),
            ValueKind::From(limit) => format!("a number from {limit} up"),
            ValueKind::Fraction => "a number from 0 up to, but not including, 1".into(),
            ValueKind::Word(words) => one_of(words),
            ValueKind::Name => "a name of at most 100 letters, digits, '-', '_' and '.'".into(),
            ValueKind::Path => "a path".into(),
            ValueKind::Address => "HOST:PORT".into(),
            ValueKind::Flag => "true or false".into(),
            ValueKind::Rate => {
                "a rate such as \"1gbit\" or \"100mbit\", from 100kbit to 100gbit".into()
            }
        }
    }
}

/// A key with a default.
pub(super) fn key(
    path: &str,
    kind: ValueKind,
    default: &'static str,
    help: &'static str,
) -> KeySpec {
    KeySpec { default: Some(default), ..optional(path, kind, help) }
}

/// A key without a default.
pub(super) fn optional(path: &str, kind: ValueKind, help: &'static str) -> KeySpec {
    KeySpec { path: path.to_owned(), kind, default: None, conditions: Vec::new(), help }
}

impl KeySpec {
    /// Makes the key apply only if the key `path` has one of these values.
    pub(super) fn with(self, path: &str, values: &'static [&'static str]) -> Self {
        self.when(KeyCondition::Has { key: path.to_owned(), values })
    }

    /// Makes the key apply only if this condition holds too.
    pub(super) fn when(mut self, condition: KeyCondition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// The key's section; empty for the keys at the top.
    pub(super) fn section(&self) -> &str {
        self.path.rsplit_once('.').map_or("", |(section, _)| section)
    }

    /// The key's name inside its section.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit_once('.').map_or(&self.path, |(_, name)| name)
    }
}
