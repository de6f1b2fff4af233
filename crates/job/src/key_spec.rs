//! The description of a key of the job file.

use super::condition::KeyCondition;
use super::value::{JobValue, one_of};

/// One key of the job file.
#[derive(Debug)]
pub(super) struct KeySpec {
    /// The full, dotted name.
    pub(super) path: String,
    /// The values it accepts.
    pub(super) kind: ValueKind,
    /// The default as TOML; `None` if the key is then absent.
    pub(super) default: Option<&'static str>,
    /// Defaults that depend on other keys. The first that applies replaces `default`.
    pub(super) cases: Vec<DefaultCase>,
    /// The conditions under which this key applies; all must hold.
    pub(super) conditions: Vec<KeyCondition>,
    /// A description of one line.
    pub(super) help: &'static str,
}

/// A default for jobs in which all of some conditions hold.
#[derive(Debug)]
pub(super) struct DefaultCase {
    pub(super) conditions: Vec<DefaultCondition>,
    /// The default as TOML.
    pub(super) value: &'static str,
}

impl DefaultCase {
    /// Describes the conditions. `quote` formats the name of a key.
    pub(super) fn describe(&self, quote: impl Fn(&str) -> String) -> String {
        let conditions = self.conditions.iter().map(|condition| {
            let key = quote(&condition.key);
            match condition.values {
                [] => format!("{key} is set"),
                values => format!("{key} is {}", values.join(" or ")),
            }
        });
        conditions.collect::<Vec<_>>().join(" and ")
    }
}

/// What a default depends on.
#[derive(Debug)]
pub(super) struct DefaultCondition {
    pub(super) key: String,
    /// The condition holds if the key has one of these values, or any value if this is empty.
    pub(super) values: &'static [&'static str],
}

/// The values that a key accepts.
#[derive(Clone, Copy, Debug)]
pub(super) enum ValueKind {
    /// A whole number in a range, both ends included.
    Whole { min: u64, max: u64 },
    /// A whole number in a range, both ends included, or this word.
    WholeOr { min: u64, max: u64, word: &'static str },
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
    /// Any text that is not empty.
    Text,
    /// A file or directory.
    Path,
    /// A directory, or a place in an object store.
    Storage,
    /// A host and a port.
    Address,
    /// True or false.
    Flag,
    /// A list of finite numbers from 0 up.
    Weights,
    /// A list of whole numbers from 1 up to this one.
    Sizes { max: u64 },
    /// A number above 0 and at most 1.
    Share,
    /// A number above 0 and below 1, or a file or directory.
    ShareOrPath,
    /// The rate of a network, such as `"1gbit"`.
    Rate,
    /// An amount of memory, such as `"8gb"`.
    Memory,
    /// One character.
    Character,
    /// A list of texts.
    Texts,
    /// A list of lists of texts.
    TextLists,
}

impl ValueKind {
    /// Describes the accepted values, for errors and documentation.
    pub(super) fn describe(self) -> String {
        match self {
            ValueKind::Whole { min, max } if max >= UNSAID_MAX => {
                format!("a whole number from {min} up")
            }
            ValueKind::Whole { min, max } => format!("a whole number from {min} to {max}"),
            ValueKind::WholeOr { min, max, word } => {
                format!("{}, or {word:?}", ValueKind::Whole { min, max }.describe())
            }
            ValueKind::Above(limit) => format!("a number above {limit}"),
            ValueKind::From(limit) => format!("a number from {limit} up"),
            ValueKind::Fraction => "a number from 0 up to, but not including, 1".into(),
            ValueKind::Word(words) => one_of(words),
            ValueKind::Name => "a name of at most 100 letters, digits, '-', '_' and '.'".into(),
            ValueKind::Text => "a text".into(),
            ValueKind::Path => "a path".into(),
            ValueKind::Storage => "a directory, or s3://BUCKET/PREFIX".into(),
            ValueKind::Address => "HOST:PORT".into(),
            ValueKind::Flag => "true or false".into(),
            ValueKind::Weights => "a list of numbers from 0 up".into(),
            ValueKind::Sizes { max } => format!("a list of whole numbers from 1 to {max}"),
            ValueKind::Share => "a number above 0, at most 1".into(),
            ValueKind::ShareOrPath => "a number between 0 and 1, or a path".into(),
            ValueKind::Rate => {
                "a rate such as \"1gbit\" or \"100mbit\", from 100kbit to 100gbit".into()
            }
            ValueKind::Memory => "an amount such as \"8gb\" or \"512mb\", from 1mb up".into(),
            ValueKind::Character => "one character".into(),
            ValueKind::Texts => "a list of texts".into(),
            ValueKind::TextLists => "a list of lists of texts".into(),
        }
    }
}

impl ValueKind {
    /// Whether the value is a list.
    pub(super) fn takes_list(self) -> bool {
        use ValueKind::{Sizes, TextLists, Texts, Weights};
        matches!(self, Weights | Sizes { .. } | Texts | TextLists)
    }

    /// What was probably meant by a value that is not accepted, as the end of a sentence.
    pub(super) fn hint(self, value: &JobValue) -> String {
        let (words, text) = match (self, value) {
            (ValueKind::Word(words), JobValue::Text(text)) => (words, text),
            (ValueKind::Whole { max, .. } | ValueKind::WholeOr { max, .. }, value) => {
                return whole_hint(max, value);
            }
            (ValueKind::Path | ValueKind::ShareOrPath | ValueKind::Storage, value) => {
                return path_hint(self, value);
            }
            (
                ValueKind::Above(_) | ValueKind::From(_) | ValueKind::Fraction | ValueKind::Share,
                JobValue::Text(text),
            ) => return number_hint(text),
            _ => return String::new(),
        };
        let text = text.to_lowercase();
        let elsewhere = OTHER_WORDS.iter().find(|(other, _)| *other == text);
        if let Some((_, word)) = elsewhere.filter(|(_, word)| words.contains(word)) {
            return format!("; did you mean {word:?}?");
        }
        let likeness = |word: &str| strsim::normalized_damerau_levenshtein(word, &text);
        let nearest = words.iter().map(|word| (likeness(word), word));
        let nearest = nearest.reduce(|best, next| if next.0 > best.0 { next } else { best });
        match nearest.filter(|(likeness, _)| *likeness > 0.5) {
            Some((_, word)) => format!("; did you mean {word:?}?"),
            None => String::new(),
        }
    }
}

/// Words of other programs, and what means the same here.
const OTHER_WORDS: [(&str, &str); 10] = [
    ("csv", "table"),
    ("tsv", "table"),
    ("parquet", "table"),
    ("svmlight", "libsvm"),
    ("svm", "libsvm"),
    ("npz", "numpy"),
    ("npy", "numpy"),
    ("mlp", "network"),
    ("cnn", "lenet"),
    ("allreduce", "mirrored"),
];

/// From this limit on, the description of a range leaves its end out.
const UNSAID_MAX: u64 = u32::MAX as u64;

/// Says why a number that looks whole and large enough is not accepted.
fn whole_hint(max: u64, value: &JobValue) -> String {
    match value {
        JobValue::Whole(whole) if max >= UNSAID_MAX && *whole > 0 => {
            format!("; the greatest is {max}")
        }
        JobValue::Number(number) if number.fract() == 0.0 && (0.0..1e18).contains(number) => {
            format!("; write {number:.0}, without a point or an exponent")
        }
        _ => String::new(),
    }
}

/// Says what to write for a number with a decimal comma.
fn number_hint(text: &str) -> String {
    let point = text.replacen(',', ".", 1);
    let is_number = text.contains(',') && point.parse::<f64>().is_ok_and(f64::is_finite);
    if is_number { format!("; write {point}, with a point") } else { String::new() }
}

/// Says what to write for a text that is no path.
fn path_hint(kind: ValueKind, value: &JobValue) -> String {
    let JobValue::Text(text) = value else { return String::new() };
    if let (ValueKind::ShareOrPath, Some(share)) = (kind, share_in_words(text)) {
        format!("; for a share write {share}")
    } else if text.contains("://") && !matches!(kind, ValueKind::Storage) {
        "; fetch the file first, and give its path".into()
    } else if let Some(rest) = text.strip_prefix("~/") {
        let home = std::env::var("HOME").unwrap_or_else(|_| "/home/NAME".into());
        format!("; the shell has not replaced the ~: write {home}/{rest}")
    } else {
        String::new()
    }
}

/// The share that a text probably means which is not written as a number in TOML: 20% or 0,2.
pub(super) fn share_in_words(text: &str) -> Option<f64> {
    let percent = text.strip_suffix('%').and_then(|percent| percent.trim().parse::<f64>().ok());
    let with_comma = || text.contains(',').then(|| text.replacen(',', ".", 1).parse().ok())?;
    percent.map(|percent| percent / 100.0).or_else(with_comma)
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
    KeySpec {
        path: path.to_owned(),
        kind,
        default: None,
        cases: Vec::new(),
        conditions: Vec::new(),
        help,
    }
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

    /// As [`KeySpec::when`]; the condition is named before the others if it does not hold.
    pub(super) fn when_first(mut self, condition: KeyCondition) -> Self {
        self.conditions.insert(0, condition);
        self
    }

    /// Makes `value` the default if every one of these keys has one of its values; a key without
    /// values must only be set. Keys that the default depends on precede this one in the schema.
    pub(super) fn default_when(
        mut self,
        value: &'static str,
        conditions: &[(&str, &'static [&'static str])],
    ) -> Self {
        let conditions = conditions.iter();
        let conditions =
            conditions.map(|&(key, values)| DefaultCondition { key: key.to_owned(), values });
        self.cases.push(DefaultCase { conditions: conditions.collect(), value });
        self
    }

    /// The key's section; empty for the keys at the top.
    pub(super) fn section(&self) -> &str {
        self.path.rsplit_once('.').map_or("", |(section, _)| section)
    }

    /// The section as a job file writes it.
    pub(super) fn title(&self) -> &str {
        self.section().strip_suffix(".#").unwrap_or(self.section())
    }

    /// Whether each layer of a network has this key.
    pub(super) fn is_of_layers(&self) -> bool {
        self.path.starts_with("model.layers.#")
    }

    /// Whether each column of a table has this key.
    pub(super) fn is_of_columns(&self) -> bool {
        self.path.starts_with("data.columns.#")
    }

    /// The key's name inside its section.
    pub(super) fn name(&self) -> &str {
        self.path.rsplit_once('.').map_or(&self.path, |(_, name)| name)
    }
}
