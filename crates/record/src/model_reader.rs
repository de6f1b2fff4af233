//! Reads parts of a model file, so that a task that needs a shard need not hold the whole model.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use paceline_filemap::open_regular;
use safetensors::tensor::{Dtype, Metadata};

use crate::error::RunFileError;

/// The longest header, in bytes: that of the format.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// A model file whose header has been read and checked.
///
/// ```
/// use paceline_model::{Group, Layout};
/// use paceline_record::model_file::ModelWriter;
/// use paceline_record::{ModelReader, RunFileError};
///
/// # let scratch = tempfile::tempdir().unwrap();
/// # let path = scratch.path().join("model.safetensors");
/// let mut layout = Layout::new();
/// layout.push("weight", &[2, 2], Group::Weights);
/// let mut file = ModelWriter::create(&path, &layout, 100, None)?;
/// file.write(&[0.5, -1.0, 2.0, 0.0])?;
/// file.finish()?;
///
/// let model = ModelReader::open(&path)?;
/// assert_eq!((&*model.tensors()[0].name, &*model.tensors()[0].shape), ("weight", &[2, 2][..]));
/// let mut values = [0.0; 2];
/// model.read(0, 1, &mut values).unwrap();
/// assert_eq!(values, [-1.0, 2.0]);
/// # Ok::<(), RunFileError>(())
/// ```
#[derive(Debug)]
pub struct ModelReader {
    file: File,
    tensors: Vec<StoredTensor>,
    metadata: HashMap<String, String>,
}

/// A tensor of a model file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTensor {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Where its values begin in the file.
    start: u64,
}

/// Why a file of this length, in bytes, cannot be a model file: it lacks the length of its header.
pub(crate) fn too_short(len: u64) -> Option<&'static str> {
    match len {
        0 => Some("it is empty"),
        1..8 => Some("it ends within its header"),
        _ => None,
    }
}

impl ModelReader {
    /// Reads the header of a model file.
    ///
    /// # Errors
    /// If the file cannot be read, is not a sound safetensors file, or has numbers other than f32.
    pub fn open(path: &Path) -> Result<Self, RunFileError> {
        let wrong = |why: String| RunFileError::Refused(format!("{}: {why}", path.display()));
        let unsound = |why: &dyn std::fmt::Display| {
            wrong(format!("this is not a sound safetensors file: {why}"))
        };
        let file = open_regular(path).map_err(|error| wrong(error.to_string()))?;
        let about = file.metadata().map_err(|error| wrong(error.to_string()))?;
        if let Some(why) = too_short(about.len()) {
            return Err(unsound(&why));
        }
        let mut length = [0; 8];
        file.read_exact_at(&mut length, 0).map_err(|error| unsound(&error))?;
        let header = u64::from_le_bytes(length);
        if header > MAX_HEADER_BYTES {
            return Err(wrong(
                "this is not a model file: it is not a sound safetensors file".into(),
            ));
        }
        let data = 8 + header;
        if data > about.len() {
            return Err(unsound(&"it ends within its header"));
        }
        let mut bytes = vec![0; header as usize];
        file.read_exact_at(&mut bytes, 8).map_err(|error| unsound(&error))?;
        let metadata: Metadata = serde_json::from_slice(&bytes).map_err(|error| unsound(&error))?;
        let mut stored: Vec<_> = metadata.tensors().into_iter().collect();
        stored.sort_by_key(|(_, info)| info.data_offsets);
        let (mut tensors, mut end) = (Vec::with_capacity(stored.len()), 0);
        for (name, info) in stored {
            if info.dtype != Dtype::F32 {
                let found = info.dtype;
                return Err(wrong(format!("tensor {name:?} is {found:?}, and must be F32")));
            }
            let (from, to) = info.data_offsets;
            let numbers = info.shape.iter().try_fold(1, |all: usize, &len| all.checked_mul(len));
            let bytes = numbers.and_then(|numbers| numbers.checked_mul(size_of::<f32>()));
            if from != end || bytes.and_then(|bytes| from.checked_add(bytes)) != Some(to) {
                return Err(unsound(&format!("tensor {name:?} is not where it should be")));
            }
            end = to;
            tensors.push(StoredTensor {
                name,
                shape: info.shape.clone(),
                start: data + from as u64,
            });
        }
        let expected = data + end as u64;
        if about.len() != expected {
            return Err(unsound(&format!("it has {} bytes, not {expected}", about.len())));
        }
        let metadata = metadata.metadata().clone().unwrap_or_default();
        Ok(Self { file, tensors, metadata })
    }

    /// A text of the file's metadata.
    pub(crate) fn metadata(&self, name: &str) -> Option<&str> {
        self.metadata.get(name).map(String::as_str)
    }

    /// The tensors, in the order of the file.
    pub fn tensors(&self) -> &[StoredTensor] {
        &self.tensors
    }

    /// Reads values of a tensor, from the value at `from` on.
    ///
    /// # Panics
    /// If there is no such tensor.
    pub fn read(&self, tensor: usize, from: usize, out: &mut [f32]) -> io::Result<()> {
        let start = self.tensors[tensor].start + (from * size_of::<f32>()) as u64;
        self.file.read_exact_at(bytemuck::cast_slice_mut(out), start)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use paceline_model::{Group, Layout};

    use super::*;
    use crate::model_file::ModelWriter;

    #[test]
    fn a_truncated_file_is_refused_at_every_length() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.safetensors");
        let mut layout = Layout::new();
        layout.push("weight", &[3, 2], Group::Weights);
        let mut file = ModelWriter::create(&path, &layout, 1, None).unwrap();
        file.write(&[0.5; 6]).unwrap();
        file.finish().unwrap();
        let whole = fs::read(&path).unwrap();
        ModelReader::open(&path).unwrap();
        for len in 0..whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            let error = ModelReader::open(&path).unwrap_err();
            assert!(matches!(error, RunFileError::Refused(_)), "cut to {len}: {error}");
        }
    }
}
