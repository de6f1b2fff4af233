//! The columns of a table: what a job says about them, and what training has made of it.

use serde::{Deserialize, Serialize};

/// The bits of a hash that a column may use.
pub const HASH_BITS: std::ops::RangeInclusive<u32> = 1..=28;

/// The lengths of the longest sequence of words that a text may use.
pub(crate) const NGRAMS: std::ops::RangeInclusive<u32> = 1..=5;

/// What a job says about one column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSpec {
    /// The column's name, or its number from 1.
    pub column: String,
    /// How it is used.
    pub choice: ColumnChoice,
}

impl ColumnSpec {
    /// The label, whose values are all classes.
    pub fn label(column: &str) -> Self {
        Self { column: column.to_owned(), choice: ColumnChoice::Label { classes: Vec::new() } }
    }
}

/// How a column is used, before the data is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnChoice {
    /// The class of the row.
    Label {
        /// The names of the classes in their order; empty if all values are classes.
        classes: Vec<String>,
    },
    /// A number.
    Number(ScaleChoice),
    /// One of several values.
    Category(CodeChoice),
    /// Several such values.
    List {
        /// The character between two values.
        separator: char,
        /// How values become numbers.
        codes: CodeChoice,
    },
    /// Words.
    Text {
        /// Bits of the hash of a word; `None` means as many as the table's default.
        bits: Option<u32>,
        /// The longest sequence of words that counts as one feature.
        ngrams: u32,
    },
    /// The weight of the row.
    Weight,
    /// Not used, but copied to predictions.
    Id,
    /// Not used.
    Ignore,
}

/// How a number is scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleChoice {
    /// As it is.
    Raw,
    /// Mean 0 and deviation 1.
    Standard,
    /// The logarithm of 1 plus its magnitude, with its sign, standardised.
    Log,
    /// The number of the quantile it lies in, as one of this many categories.
    Buckets(u32),
}

/// How categories become numbers. Without either, the first rows decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodeChoice {
    /// Hash a category to this number of bits.
    pub bits: Option<u32>,
    /// Number the categories that occur at least this often.
    pub min_count: Option<u64>,
}

/// A column of a trained featuriser.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// The column's name; its number from 1 if the table has no header.
    pub name: String,
    /// How it is used.
    #[serde(flatten)]
    pub role: ColumnRole,
}

/// How a column is used, with everything that was learnt from the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "as", rename_all = "lowercase")]
pub enum ColumnRole {
    /// The class of the row.
    Label {
        /// The names of the classes in their order.
        classes: Vec<String>,
    },
    /// A number.
    Number(NumberScale),
    /// One of several values.
    Category(CategoryCodes),
    /// Several such values.
    List {
        /// The character between two values.
        separator: char,
        /// How values become numbers.
        #[serde(flatten)]
        codes: CategoryCodes,
    },
    /// Words.
    Text {
        /// Bits of the hash of a word.
        bits: u32,
        /// The longest sequence of words that counts as one feature.
        ngrams: u32,
    },
    /// The weight of the row.
    Weight,
    /// Not used, but copied to predictions.
    Id,
    /// Not used.
    Ignore,
}

/// How a number is scaled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "scale", rename_all = "lowercase")]
pub enum NumberScale {
    /// As it is.
    Raw,
    /// `(x - mean) / deviation`.
    Standard {
        /// The mean of the training rows.
        mean: f32,
        /// Their standard deviation.
        deviation: f32,
    },
    /// `(l - mean) / deviation`, where `l` is `ln(1 + |x|)` with the sign of `x`.
    Log {
        /// The mean of the training rows' `l`.
        mean: f32,
        /// Their standard deviation.
        deviation: f32,
    },
    /// The number of bounds that are at most `x`.
    Buckets {
        /// Rising bounds.
        bounds: Vec<f32>,
    },
}

/// How categories become numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "codes", rename_all = "lowercase")]
pub enum CategoryCodes {
    /// The first bits of a hash.
    Hashed {
        /// The number of bits.
        bits: u32,
    },
    /// The place in a list. All others share one number.
    Vocabulary {
        /// The list.
        words: Vec<String>,
    },
}

impl CategoryCodes {
    /// The number of features: one for each code, and for a vocabulary one for other values.
    fn width(&self) -> usize {
        match self {
            CategoryCodes::Hashed { bits } => 1 << bits,
            CategoryCodes::Vocabulary { words } => words.len() + 1,
        }
    }
}

impl ColumnRole {
    /// The number of features the column has. The first of them is that of a missing value.
    pub fn width(&self) -> usize {
        match self {
            ColumnRole::Number(NumberScale::Buckets { bounds }) => bounds.len() + 2,
            ColumnRole::Number(_) => 2,
            ColumnRole::Category(codes) | ColumnRole::List { codes, .. } => 1 + codes.width(),
            ColumnRole::Text { bits, .. } => 1 + (1 << bits),
            ColumnRole::Label { .. } | ColumnRole::Weight => 0,
            ColumnRole::Id | ColumnRole::Ignore => 0,
        }
    }

    /// Whether the column is one number, after the feature of a missing one.
    pub(crate) fn is_scaled_number(&self) -> bool {
        matches!(self, ColumnRole::Number(scale) if !matches!(scale, NumberScale::Buckets { .. }))
    }

    /// Bits of the column's hash, if it has one.
    pub(crate) fn hash_bits(&self) -> Option<u32> {
        match self {
            ColumnRole::Category(CategoryCodes::Hashed { bits })
            | ColumnRole::List { codes: CategoryCodes::Hashed { bits }, .. }
            | ColumnRole::Text { bits, .. } => Some(*bits),
            _ => None,
        }
    }

    /// Whether the column can be used as it says.
    pub(crate) fn is_sound(&self) -> bool {
        match self {
            ColumnRole::Number(
                NumberScale::Standard { mean, deviation } | NumberScale::Log { mean, deviation },
            ) => mean.is_finite() && deviation.is_finite() && *deviation > 0.0,
            ColumnRole::Number(NumberScale::Buckets { bounds }) => {
                bounds.iter().all(|bound| bound.is_finite())
                    && bounds.is_sorted_by(|bound, next| bound < next)
            }
            ColumnRole::Text { ngrams, .. } => NGRAMS.contains(ngrams),
            _ => true,
        }
    }

    /// The name of the feature at an index of the column's own.
    pub(crate) fn name_of(&self, column: &str, index: usize) -> String {
        match (self, index) {
            (_, 0) => format!("{column} missing"),
            (ColumnRole::Number(NumberScale::Buckets { .. }), _) => {
                format!("{column} in bucket {}", index - 1)
            }
            (ColumnRole::Number(_), _) => column.to_owned(),
            (
                ColumnRole::Category(CategoryCodes::Vocabulary { words })
                | ColumnRole::List { codes: CategoryCodes::Vocabulary { words }, .. },
                _,
            ) => match index.checked_sub(2) {
                None => format!("{column}=other"),
                Some(word) => format!("{column}={}", words[word]),
            },
            _ => format!("{column}#{}", index - 1),
        }
    }
}
