//! The secret that all tasks of a run share.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::error::PlaceError;

/// The environment variable through which the launcher gives its tasks the run's secret.
pub const TOKEN_VARIABLE: &str = "PACELINE_TOKEN";

/// The longest secret, in bytes. The protocol's handshake takes no longer one.
const MAX_TOKEN_BYTES: usize = 256;

/// The run's secret: the launcher's, or the one in `file`; empty if there is none.
pub fn run_token(file: Option<&Path>) -> Result<Vec<u8>, PlaceError> {
    if let Some(token) = std::env::var_os(TOKEN_VARIABLE) {
        return Ok(token.into_encoded_bytes());
    }
    let Some(path) = file else { return Ok(Vec::new()) };
    read_token("cluster.token_file", path).map(String::into_bytes)
}

/// The secret in a file, which the key or option `option` names.
pub fn read_token(option: &str, path: &Path) -> Result<String, PlaceError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| PlaceError::Usage(format!("{option} {}: {error}", path.display())))?;
    let token = text.trim();
    if !(1..=MAX_TOKEN_BYTES).contains(&token.len()) {
        return Err(PlaceError::Usage(format!(
            "{option} {} must hold 1 to {MAX_TOKEN_BYTES} characters",
            path.display(),
        )));
    }
    Ok(token.to_owned())
}

/// A new secret.
pub(crate) fn make_token() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
