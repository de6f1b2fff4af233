//! The SHA-256 of a model file: the summary of its run has it, so that a file that changed since is
//! noticed before it is used.

use std::io::Read;
use std::path::Path;

use paceline_filemap::open_regular;
use sha2::{Digest, Sha256};

use crate::error::RunFileError;
use crate::hex_digest::hex;
use crate::model_reader::ModelReader;
use crate::names::files;
use crate::summary::{StoredSummary, read_summary};

/// How much of a file is read at a time, in bytes.
const READ_BYTES: usize = 1 << 20;

/// Checks a run's model against the summary beside it. A model without a summary, or of a run that
/// kept no digest, is not checked.
///
/// # Errors
/// If the file is not the one that the run has written, or cannot be read.
pub fn check_model_digest(path: &Path) -> Result<(), RunFileError> {
    if path.file_name().is_none_or(|name| name != files::MODEL) {
        return Ok(());
    }
    let Some(expected) = kept_digest(&path.with_file_name(files::SUMMARY)) else { return Ok(()) };
    // A file that claims another length than it has is not read to its end.
    ModelReader::open(path)?;
    let found = digest_of(path)?;
    if found == expected {
        return Ok(());
    }
    Err(RunFileError::Refused(format!(
        "{}: its SHA-256 is {found}, but {} beside it has {expected}: the file changed after the \
         run wrote it; restore it, or delete model_sha256 from the summary to use it as it is",
        path.display(),
        files::SUMMARY
    )))
}

/// The digest in a summary.
fn kept_digest(summary: &Path) -> Option<String> {
    StoredSummary::parse(&read_summary(summary).ok()?)?.model_sha256.clone()
}

fn digest_of(path: &Path) -> Result<String, RunFileError> {
    let unreadable = || RunFileError::at("read", path);
    let mut file = open_regular(path).map_err(unreadable())?;
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; READ_BYTES]);
    loop {
        let read = file.read(&mut buffer).map_err(unreadable())?;
        if read == 0 {
            return Ok(hex(hash));
        }
        hash.update(&buffer[..read]);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use paceline_model::{Group, Layout};
    use paceline_observe::Summary;

    use super::*;
    use crate::model_file::ModelWriter;

    #[test]
    fn a_model_that_changed_after_its_run_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(files::MODEL);
        let mut layout = Layout::new();
        layout.push("weight", &[3, 2], Group::Weights);
        let mut file = ModelWriter::create(&path, &layout, 1, None).unwrap();
        file.write(&[0.5; 6]).unwrap();
        let digest = file.finish().unwrap();
        assert_eq!(digest_of(&path).unwrap(), digest);
        check_model_digest(&path).unwrap();
        let summary = Summary { model_sha256: Some(digest), ..Summary::default() };
        let text = serde_json::to_string(&summary).unwrap();
        fs::write(dir.path().join(files::SUMMARY), text).unwrap();
        check_model_digest(&path).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&path, &bytes).unwrap();
        let error = check_model_digest(&path).unwrap_err().to_string();
        assert!(error.contains("changed after the run") && error.contains("restore"), "{error}");
        // Under another name it is another file.
        let other = dir.path().join("other.safetensors");
        fs::rename(&path, &other).unwrap();
        check_model_digest(&other).unwrap();
    }
}
