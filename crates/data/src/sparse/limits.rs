//! Limits for files of rows.
//!
//! A damaged or hostile file may claim any length. These limits are far above what click models
//! need, and low enough that a reader never takes more than some tens of megabytes.

/// The longest line of text, in bytes.
pub const MAX_LINE_BYTES: usize = 1 << 20;

/// How much of one line is skipped before a stream is given up, in bytes. A packed file of a few
/// megabytes can claim to be a line without end.
pub const MAX_SKIPPED_BYTES: u64 = 2 << 30;

/// Why a stream is given up within a line.
pub fn endless_line() -> String {
    format!(
        "longer than {MAX_SKIPPED_BYTES} bytes, so the rest of the file is not read; see how the \
         file was made, and remove the line"
    )
}

/// The longest TFRecord, in bytes.
pub const MAX_RECORD_BYTES: u64 = 16 << 20;

/// The greatest number of entries of a row.
pub const MAX_ROW_ENTRIES: usize = 1 << 20;

/// The greatest number of features: keys have 32 bits, and so has the number of a model's
/// parameters, which also has a bias.
pub const MAX_FEATURES: usize = u32::MAX as usize - 1;

/// Up to this many features, the greatest index of a file is trusted to give their number.
pub(super) const MAX_UNASKED_FEATURES: usize = 1 << 26;

/// With more features than that, the number of entries must be at least this share of theirs.
pub(super) const LEAST_ENTRIES_PER_FEATURE: f64 = 1e-3;

/// The greatest number of rows: a batch plan numbers examples with 32 bits.
pub const MAX_ROWS: u64 = u32::MAX as u64;
