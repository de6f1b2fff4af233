//! What the ending of a file's name says about its format.

use std::path::Path;

use crate::error::ScoreError;
use crate::output_rows::OutputFormat;

/// The ending of an exported model.
const ONNX: &str = "onnx";

impl OutputFormat {
    /// The format that the name of a file says; CSV if it has no ending.
    ///
    /// # Errors
    /// If the ending is that of another format.
    pub fn of_name(path: &Path) -> Result<Self, ScoreError> {
        let Some(ending) = ending(path) else { return Ok(Self::Csv) };
        match ending.as_str() {
            "csv" => Ok(Self::Csv),
            "jsonl" | "ndjson" | "json" => Ok(Self::JsonLines),
            "parquet" => Ok(Self::Parquet),
            _ => Err(ScoreError::Refused(format!(
                "-o {}: predictions are not written as .{ending}; end the name with .csv, .jsonl \
                 (or .ndjson, .json) or .parquet, or choose a format with --format",
                path.display()
            ))),
        }
    }
}

/// Checks that the name of a file for an exported model has no ending of another format.
///
/// # Errors
/// If it has.
pub fn check_onnx_name(path: &Path) -> Result<(), ScoreError> {
    match ending(path).filter(|ending| ending != ONNX) {
        None => Ok(()),
        Some(ending) => Err(ScoreError::Refused(format!(
            "-o {}: a model is exported as ONNX, not as .{ending}; end the name with .{ONNX}",
            path.display()
        ))),
    }
}

/// What follows the last dot of a name, in lower case.
fn ending(path: &Path) -> Option<String> {
    path.extension().map(|ending| ending.to_string_lossy().to_lowercase())
}
