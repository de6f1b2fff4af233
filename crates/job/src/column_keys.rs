//! The keys of tables and their columns, for the table of all keys.

use super::condition::KeyCondition;
use super::key_spec::{KeySpec, ValueKind, key, optional};

/// A column's use.
const COLUMN_USE: &str = "data.columns.#.as";
/// Bits of a hash.
pub(super) const BITS: ValueKind = ValueKind::Whole { min: 1, max: 28 };

/// Every key of a column.
pub(super) fn column_keys() -> Vec<KeySpec> {
    let uses =
        ValueKind::Word(&["label", "number", "category", "list", "text", "weight", "id", "ignore"]);
    let at = |name: &str| format!("data.columns.#.{name}");
    let help = "what the column is: the class of a row; a number; one of several values; several \
                values; words; the weight of a row; not used, but copied to predictions; not used";
    let scales = ValueKind::Word(&["standard", "raw", "log", "buckets"]);
    let scale = "standard: mean 0 and deviation 1; log: the same of the logarithm of 1 plus the \
                 magnitude, with its sign; buckets: by quantiles, as categories";
    let bits = "hash values, or words, to this number of bits; by default a column with few \
                different values in the first rows has a vocabulary instead, and other columns \
                use `data.bits`";
    let min_count = "number the values that occur at least this often in the training rows; all \
                     others share one feature";
    let classes = "names of the classes in their order; by default all values, numbers by size \
                   and others in alphabetical order";
    let count = ValueKind::Whole { min: 1, max: u32::MAX as u64 };
    let keys = vec![
        optional(COLUMN_USE, uses, help),
        optional(&at("classes"), ValueKind::Texts, classes).with(COLUMN_USE, &["label"]),
        key(&at("scale"), scales, "\"standard\"", scale).with(COLUMN_USE, &["number"]),
        key(&at("buckets"), ValueKind::Whole { min: 2, max: 10_000 }, "10", "number of buckets")
            .with(COLUMN_USE, &["number"])
            .with(&at("scale"), &["buckets"]),
        optional(&at("bits"), BITS, bits).with(COLUMN_USE, &["category", "list", "text"]),
        optional(&at("min_count"), count, min_count).with(COLUMN_USE, &["category", "list"]),
        key(&at("separator"), ValueKind::Character, "\" \"", "character between two values")
            .with(COLUMN_USE, &["list"]),
        key(
            &at("ngrams"),
            ValueKind::Whole { min: 1, max: 5 },
            "1",
            "longest sequence of words that is a feature",
        )
        .with(COLUMN_USE, &["text"]),
    ];
    let table = || KeyCondition::Has { key: "data.kind".into(), values: &["table"] };
    keys.into_iter().map(|key| key.when_first(table())).collect()
}

/// The keys of `[data]` that only tables have.
pub(super) fn table_keys(kind: &str, model: &str, sparse: &'static [&'static str]) -> Vec<KeySpec> {
    let table: &[&str] = &["table"];
    let header = "whether the first line of every file names the columns; detected by default";
    let delimiter = "character between two fields; detected by default";
    let delimiters = ValueKind::Word(&["comma", "tab", "semicolon", "pipe", "space"]);
    let quotes = "whether double quotes enclose fields; if not, they are ordinary characters";
    let bits = "bits of the hash of a category, word or cross, and of the size of a vocabulary";
    let cross = "lists of columns whose combinations are features";
    vec![
        optional("data.header", ValueKind::Flag, header).with(kind, table),
        optional("data.delimiter", delimiters, delimiter).with(kind, table),
        key("data.quotes", ValueKind::Flag, "true", quotes).with(kind, table),
        key("data.bits", BITS, "10", bits).default_when("18", &[(model, sparse)]).with(kind, table),
        optional("data.cross", ValueKind::TextLists, cross).with(kind, table),
    ]
}
