//! How large things in a file of rows may be.
//!
//! A file says how long its lines and records are, and a broken or hostile one says anything.
//! These bounds are far above what click models meet, and small enough that a reader at its
//! worst holds some tens of megabytes.

/// The longest line of text that is read, in bytes.
pub const MAX_LINE_BYTES: usize = 1 << 20;

/// The longest TFRecord that is read, in bytes.
pub const MAX_RECORD_BYTES: u64 = 16 << 20;

/// The most entries that a row may have.
pub const MAX_ROW_ENTRIES: usize = 1 << 20;

/// The most features that data can have: keys are 32 bits wide, and one is left over so that
/// the number itself fits as well.
pub const MAX_FEATURES: usize = u32::MAX as usize;

/// The most rows that data can have, as many as a batch plan can tell apart.
pub const MAX_ROWS: u64 = u32::MAX as u64;
