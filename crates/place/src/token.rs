//! The secret that all tasks of a run share, and the credential that only reads.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::error::PlaceError;
use paceline_trust::{is_private, keyed_hash, open_credential, random_bytes};

/// The environment variable through which the launcher gives its tasks the run's secret.
pub const TOKEN_VARIABLE: &str = "PACELINE_TOKEN";

/// The shortest secret, in bytes. A peer that may try as often as it likes guesses a shorter one.
const MIN_TOKEN_BYTES: usize = 16;

/// The longest secret, in bytes. The protocol's handshake takes no longer one.
const MAX_TOKEN_BYTES: usize = 256;

/// What the credential for reading is derived with.
const READ_ONLY: &[u8] = b"paceline read-only";

/// The run's secret: that of the environment, or the one in `file`; empty if there is none.
///
/// # Errors
/// If both are there and differ, or one of them cannot be used.
pub fn run_token(file: Option<&Path>) -> Result<Vec<u8>, PlaceError> {
    let variable = std::env::var_os(TOKEN_VARIABLE).map(OsString::into_encoded_bytes);
    choose_token(variable, file)
}

fn choose_token(variable: Option<Vec<u8>>, file: Option<&Path>) -> Result<Vec<u8>, PlaceError> {
    let in_file = file.map(|path| read_token("cluster.token_file", path)).transpose()?;
    let in_file = in_file.map(String::into_bytes);
    let Some(token) = variable else { return Ok(in_file.unwrap_or_default()) };
    check_length(TOKEN_VARIABLE, &token)?;
    if in_file.is_some_and(|other| other != token) {
        return Err(PlaceError::Usage(format!(
            "{TOKEN_VARIABLE} and the file that cluster.token_file names have different secrets; \
             unset the variable, or give both the same"
        )));
    }
    Ok(token)
}

/// The secret in a file, which the key or option `option` names.
///
/// # Errors
/// If the file cannot be read, others may read it, or its secret is too short or too long.
pub fn read_token(option: &str, path: &Path) -> Result<String, PlaceError> {
    let wrong = |why: String| PlaceError::Usage(format!("{option} {}: {why}", path.display()));
    let mut file = open_credential(path).map_err(|error| wrong(error.to_string()))?;
    let about = file.metadata().map_err(|error| wrong(error.to_string()))?;
    if !is_private(&about) {
        let mode = about.mode() & 0o777;
        return Err(wrong(format!(
            "others may read this secret (its mode is {mode:03o}); run `chmod 600 {}`, and choose \
             a new secret if others had access to it",
            path.display()
        )));
    }
    let mut text = String::new();
    // One byte more shows that it is too long. Blanks around the secret do not count.
    let most = 2 * MAX_TOKEN_BYTES as u64 + 1;
    Read::by_ref(&mut file)
        .take(most)
        .read_to_string(&mut text)
        .map_err(|error| wrong(error.to_string()))?;
    let token = text.trim();
    check_length(&format!("{option} {}", path.display()), token.as_bytes())?;
    Ok(token.to_owned())
}

fn check_length(what: &str, token: &[u8]) -> Result<(), PlaceError> {
    if (MIN_TOKEN_BYTES..=MAX_TOKEN_BYTES).contains(&token.len()) {
        return Ok(());
    }
    Err(PlaceError::Usage(format!(
        "{what} has {} characters; a secret must have {MIN_TOKEN_BYTES} to {MAX_TOKEN_BYTES}: \
         `openssl rand -hex 16` makes one",
        token.len()
    )))
}

/// The credential that lets a person or a program read metrics and the page, and nothing else. It
/// follows from the run's secret and does not reveal it.
pub fn read_only_token(token: &str) -> String {
    let hash = keyed_hash(token.as_bytes(), READ_ONLY);
    hash[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A new secret.
pub(crate) fn make_token() -> io::Result<String> {
    let bytes: [u8; 16] = random_bytes()?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_that_others_may_read_or_guess_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let read = |text: &str, mode: u32| {
            let _ = fs::remove_file(&path);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            read_token("--token-file", &path).map_err(|error| error.to_string())
        };
        let secret = "0123456789abcdef";
        assert_eq!(read(&format!(" {secret}\n"), 0o600), Ok(secret.to_owned()));
        assert_eq!(read(secret, 0o400), Ok(secret.to_owned()));
        for mode in [0o644, 0o604, 0o602, 0o660] {
            let error = read(secret, mode).unwrap_err();
            assert!(error.contains("chmod 600") && error.contains("--token-file"), "{error}");
        }
        for text in ["", "  ", &secret[1..], &"x".repeat(257), &" x".repeat(5_000)] {
            let error = read(text, 0o600).unwrap_err();
            assert!(error.contains("16 to 256"), "{error}");
        }
    }

    #[test]
    fn a_secret_of_the_environment_and_another_one_in_a_file_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let (one, other) = ("0123456789abcdef", "0123456789abcdeg");
        fs::write(&path, one).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let choose = |variable: Option<&str>, file: Option<&Path>| {
            choose_token(variable.map(|text| text.into()), file).map_err(|error| error.to_string())
        };
        assert_eq!(choose(Some(one), Some(&path)), Ok(one.into()));
        assert_eq!(choose(Some(other), None), Ok(other.into()));
        assert_eq!(choose(None, Some(&path)), Ok(one.into()));
        assert_eq!(choose(None, None), Ok(Vec::new()));
        let error = choose(Some(other), Some(&path)).unwrap_err();
        assert!(error.contains("PACELINE_TOKEN") && error.contains("cluster.token_file"));
        assert!(!error.contains(one) && !error.contains(other), "{error}");
    }

    #[test]
    fn the_credential_for_reading_is_another_than_the_secret() {
        let [one, other] = ["0123456789abcdef", "0123456789abcdeg"].map(read_only_token);
        assert!(one != other && one.len() == 32);
        // As `openssl dgst -sha256 -hmac` computes it, cut to 32 digits.
        assert_eq!(one, "ec2e6d45dfa4a579f322c6620c50b469");
    }
}
