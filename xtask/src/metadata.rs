//! What cargo knows of the workspace.

use serde_json::Value;

use crate::process::cargo;

/// The output of `cargo metadata` with these further arguments.
pub(crate) fn metadata(args: &[&str]) -> Result<Value, String> {
    let output = cargo(&["metadata", "--format-version", "1", "--locked"])
        .args(args)
        .output()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}
