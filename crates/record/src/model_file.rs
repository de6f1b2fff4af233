//! `model.safetensors`: trained parameters by name, readable from Python and by [`load`], with a
//! description of the model in its metadata.
//!
//! ```
//! use paceline_model::{Group, Layout};
//! use paceline_record::RunFileError;
//! use paceline_record::model_file::{ModelWriter, load};
//!
//! # let scratch = tempfile::tempdir().unwrap();
//! # let path = scratch.path().join("model.safetensors");
//! let mut layout = Layout::new();
//! layout.push("weight", &[2, 2], Group::Weights);
//! let params = [0.5, -1.0, 2.0, 0.0];
//! let mut file = ModelWriter::create(&path, &layout, 100, None)?;
//! params.chunks(3).try_for_each(|chunk| file.write(chunk))?;
//! file.finish()?;
//! assert_eq!(load(&path, &layout)?, params);
//! # Ok::<(), RunFileError>(())
//! ```

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use paceline_filemap::read_regular;
use paceline_model::Layout;
use safetensors::tensor::{Dtype, SafeTensors};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::error::RunFileError;
use crate::hex_digest::hex;
use crate::model_description::{
    DESCRIPTION_VERSION, FEATURIZER, MODEL, ModelDescription, ModelForm,
};
use crate::model_reader::{ModelReader, too_short};
use crate::whole_file::temporary_path;

/// The largest file that [`load`] reads, in bytes.
const MAX_FILE_BYTES: u64 = 16 << 30;

/// Numbers of a block that becomes a hole in the file if all of them are zero: a block of most file
/// systems.
const HOLE_FLOATS: usize = 1_024;

/// The bytes of such a block.
static HOLE: [u8; 4 * HOLE_FLOATS] = [0; 4 * HOLE_FLOATS];

/// Writes a model file, chunk by chunk, so that a large model need not be in memory twice. The file
/// is complete or absent: [`finish`](ModelWriter::finish) gives it its name.
///
/// The header is written here and not by the `safetensors` crate: that crate keeps metadata in a
/// hash map, whose order changes from run to run, but equal seeds must give equal files.
#[derive(Debug)]
pub struct ModelWriter {
    path: PathBuf,
    temporary: PathBuf,
    file: fs::File,
    /// Of all bytes so far.
    hash: Sha256,
    /// Parameters that are not yet written.
    missing: usize,
}

impl ModelWriter {
    /// Starts the file of a model with this layout and the parameters of global step `step`.
    /// Without a description, predictions need the job that trained the model.
    pub fn create(
        path: &Path,
        layout: &Layout,
        step: u64,
        description: Option<&ModelDescription>,
    ) -> Result<Self, RunFileError> {
        let temporary = temporary_path(path);
        let file = fs::File::create(&temporary).map_err(RunFileError::at("write", path))?;
        let (path, hash) = (path.to_owned(), Sha256::new());
        let mut writer = Self { path, temporary, file, hash, missing: layout.len() };
        let header = header(layout, step, description);
        writer.write_bytes(&(header.len() as u64).to_le_bytes())?;
        writer.write_bytes(header.as_bytes())?;
        Ok(writer)
    }

    /// Writes the next parameters, in the order of the layout.
    ///
    /// # Panics
    /// If there are more than the layout has.
    pub fn write(&mut self, params: &[f32]) -> Result<(), RunFileError> {
        assert!(params.len() <= self.missing, "{} parameters too many", params.len());
        self.missing -= params.len();
        // Blocks of zeros become holes: most features of a sparse model may never have occurred.
        let mut rest = params;
        while !rest.is_empty() {
            let blocks = || rest.chunks(HOLE_FLOATS);
            // Compared as a whole: a release build does not optimise this crate, or a loop in it.
            let is_hole = |block: &[f32]| {
                *bytemuck::cast_slice::<f32, u8>(block) == HOLE[..size_of_val(block)]
            };
            let first = blocks().next().is_some_and(is_hole);
            let alike = blocks().take_while(|block| is_hole(block) == first);
            let (run, others) = rest.split_at(alike.map(<[f32]>::len).sum());
            if first {
                self.hash.update(bytemuck::cast_slice::<f32, u8>(run));
                let over = SeekFrom::Current(size_of_val(run) as i64);
                self.file.seek(over).map_err(RunFileError::at("write", &self.path))?;
            } else {
                self.write_bytes(bytemuck::cast_slice(run))?;
            }
            rest = others;
        }
        Ok(())
    }

    /// Completes the file. Returns its SHA-256, for the run's summary.
    ///
    /// # Panics
    /// If parameters are missing.
    pub fn finish(mut self) -> Result<String, RunFileError> {
        assert_eq!(self.missing, 0, "parameters are missing");
        // The file may end with a hole.
        let sized = self.file.stream_position().and_then(|end| self.file.set_len(end));
        let synced = sized.and_then(|()| self.file.sync_all());
        let renamed = synced.and_then(|()| fs::rename(&self.temporary, &self.path));
        renamed.map_err(RunFileError::at("write", &self.path))?;
        Ok(hex(std::mem::take(&mut self.hash)))
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), RunFileError> {
        self.hash.update(bytes);
        self.file.write_all(bytes).map_err(RunFileError::at("write", &self.path))
    }
}

impl Drop for ModelWriter {
    /// Removes a file that was not completed.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.temporary);
    }
}

/// The JSON header, padded with spaces so that the numbers behind it are aligned to 8 bytes.
fn header(layout: &Layout, step: u64, description: Option<&ModelDescription>) -> String {
    let mut about = Map::new();
    let version = env!("CARGO_PKG_VERSION");
    let mut metadata =
        json!({"format": "pt", "global_step": step.to_string(), "paceline": version});
    if let Some(ModelDescription { input, form }) = description {
        // Metadata is text, so the descriptions are JSON inside it.
        metadata[FEATURIZER] = json!(input).to_string().into();
        metadata[MODEL] = json!(form).to_string().into();
    }
    about.insert("__metadata__".into(), metadata);
    for tensor in layout.tensors() {
        let offsets = [tensor.range.start, tensor.range.end].map(|at| at * size_of::<f32>());
        let entry = json!({"dtype": "F32", "shape": tensor.shape, "data_offsets": offsets});
        about.insert(tensor.name.clone(), entry);
    }
    let json = Value::Object(about).to_string();
    let aligned = json.len().next_multiple_of(8);
    // A width in a format string is limited, and the header is not.
    let spaces = " ".repeat(aligned - json.len());
    json + &spaces
}

/// Reads what a file says about its model; `None` if it says nothing, as files of earlier versions
/// and of models of your own do. Only the header is read.
pub fn describe(path: &Path) -> Result<Option<ModelDescription>, RunFileError> {
    let wrong = |why: String| RunFileError::Refused(format!("{}: {why}", path.display()));
    let file = ModelReader::open(path)?;
    let (Some(input), Some(form)) = (file.metadata(FEATURIZER), file.metadata(MODEL)) else {
        return Ok(None);
    };
    let newer = |text: &str| {
        let version = serde_json::from_str::<Value>(text).ok()?["version"].as_u64()?;
        (version > DESCRIPTION_VERSION.into()).then_some(version)
    };
    if let Some(version) = newer(input) {
        return Err(wrong(format!(
            "its featuriser has version {version}, and this program knows versions up to \
             {DESCRIPTION_VERSION}; use a newer Paceline"
        )));
    }
    let input = serde_json::from_str(input)
        .map_err(|error| wrong(format!("its featuriser cannot be read: {error}")))?;
    let form: ModelForm = serde_json::from_str(form)
        .map_err(|error| wrong(format!("its description of the model cannot be read: {error}")))?;
    Ok(Some(ModelDescription { input, form }))
}

/// Reads parameters into the order of the layout. The file must have exactly the layout's tensors.
pub fn load(path: &Path, layout: &Layout) -> Result<Vec<f32>, RunFileError> {
    let wrong = |why: String| RunFileError::Refused(format!("{}: {why}", path.display()));
    let bytes = read_regular(path, MAX_FILE_BYTES).map_err(|error| wrong(error.to_string()))?;
    let unsound = |why: String| wrong(format!("this is not a sound safetensors file: {why}"));
    if let Some(why) = too_short(bytes.len() as u64) {
        return Err(unsound(why.into()));
    }
    let file = SafeTensors::deserialize(&bytes).map_err(|error| unsound(error.to_string()))?;
    let mut views = Vec::with_capacity(file.len());
    for tensor in layout.tensors() {
        let view = file.tensor(&tensor.name).map_err(|_| {
            let names = file.names().join(", ");
            wrong(format!("the file has no tensor {:?} (it has: {names})", tensor.name))
        })?;
        if view.dtype() != Dtype::F32 || view.shape() != tensor.shape {
            return Err(wrong(format!(
                "tensor {:?} is {:?} {:?}, but the job's model has F32 {:?}",
                tensor.name,
                view.dtype(),
                view.shape(),
                tensor.shape
            )));
        }
        views.push(view);
    }
    if file.len() != layout.tensors().len() {
        return Err(wrong(format!(
            "the file has {} tensors, but the job's model has {}",
            file.len(),
            layout.tensors().len()
        )));
    }
    // The file has all of these numbers: a false header cannot make this allocate more.
    let mut params = vec![0.0; layout.len()];
    for (tensor, view) in layout.tensors().iter().zip(views) {
        let place = &mut params[tensor.range.clone()];
        bytemuck::cast_slice_mut::<f32, u8>(place).copy_from_slice(view.data());
    }
    Ok(params)
}

#[cfg(test)]
mod tests {
    use paceline_model::Group;

    use super::*;
    use crate::model_description::{InputDescription, InputKind};

    fn layout(classes: usize) -> Layout {
        let mut layout = Layout::new();
        layout.push("weight", &[classes, 2], Group::Weights);
        layout.push("bias", &[classes], Group::Biases);
        layout
    }

    fn save_params(path: &Path, layout: &Layout, step: u64, params: &[f32]) {
        let mut file = ModelWriter::create(path, layout, step, None).unwrap();
        params.chunks(4).for_each(|chunk| file.write(chunk).unwrap());
        file.finish().unwrap();
    }

    #[test]
    fn saved_parameters_load_bit_for_bit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.safetensors");
        let params = [1.0, -0.0, f32::MIN_POSITIVE, 3.5, 1e30, -7.25, 0.1, 0.2, 0.3];
        save_params(&path, &layout(3), 5, &params);
        let loaded = load(&path, &layout(3)).unwrap();
        assert_eq!(
            params.map(f32::to_bits).to_vec(),
            loaded.iter().map(|p| p.to_bits()).collect::<Vec<_>>()
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file stays");
    }

    #[test]
    fn zeros_take_no_space_and_load_as_zeros() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.safetensors");
        let mut layout = Layout::new();
        layout.push("weight", &[1_000_000], Group::Weights);
        let mut params = vec![0.0; 1_000_000];
        (params[0], params[300_001], params[300_002]) = (1.0, -0.0, 3.0);
        let mut file = ModelWriter::create(&path, &layout, 0, None).unwrap();
        params.chunks(70_001).for_each(|chunk| file.write(chunk).unwrap());
        file.finish().unwrap();
        let bits = |params: &[f32]| params.iter().map(|p| p.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&load(&path, &layout).unwrap()), bits(&params));
        use std::os::unix::fs::MetadataExt;
        let about = fs::metadata(&path).unwrap();
        assert!(about.len() > 4_000_000 && about.blocks() * 512 < 400_000, "{about:?}");
    }

    #[test]
    fn a_file_that_is_not_finished_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.safetensors");
        ModelWriter::create(&path, &layout(3), 5, None).unwrap().write(&[1.0; 4]).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn equal_parameters_give_equal_aligned_files() {
        let dir = tempfile::tempdir().unwrap();
        let files = ["a", "b"].map(|name| {
            save_params(&dir.path().join(name), &layout(3), 7, &[0.5; 9]);
            fs::read(dir.path().join(name)).unwrap()
        });
        assert_eq!(files[0], files[1]);
        let (_, about) = SafeTensors::read_metadata(&files[0]).unwrap();
        assert_eq!(about.metadata().as_ref().unwrap()["global_step"], "7");
        assert_eq!((files[0].len() - 9 * size_of::<f32>()) % 8, 0);
    }

    #[test]
    fn a_header_may_be_long() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.safetensors");
        let mut layout = Layout::new();
        for tensor in 0..2_000 {
            layout.push(&format!("layer.{tensor}.weight"), &[1], Group::Weights);
        }
        let params: Vec<f32> = (0..2_000).map(|value| value as f32).collect();
        save_params(&path, &layout, 0, &params);
        assert_eq!(load(&path, &layout).unwrap(), params);
    }

    #[test]
    fn a_file_of_another_model_is_refused_and_the_tensor_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.safetensors");
        save_params(&path, &layout(3), 0, &[0.0; 9]);
        let error = load(&path, &layout(4)).unwrap_err().to_string();
        assert!(error.contains("\"weight\"") && error.contains("[4, 2]"), "{error}");
    }

    #[test]
    fn a_truncated_file_is_refused_at_every_length() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.safetensors");
        save_params(&path, &layout(3), 0, &[0.0; 9]);
        let whole = fs::read(&path).unwrap();
        for len in 0..whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            let error = load(&path, &layout(3)).unwrap_err();
            assert!(matches!(error, RunFileError::Refused(_)), "cut to {len}: {error}");
        }
    }

    #[test]
    fn a_described_file_says_what_its_model_takes_and_others_say_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.safetensors");
        save_params(&path, &layout(3), 0, &[0.0; 9]);
        assert_eq!(describe(&path).unwrap(), None);
        let names = ["a", "b", "c"].map(String::from).to_vec();
        let description = ModelDescription {
            input: InputDescription::new(InputKind::Digits { rows: 1, columns: 2 }, names),
            form: ModelForm::Softmax { inputs: 2, classes: 3 },
        };
        let mut file = ModelWriter::create(&path, &layout(3), 0, Some(&description)).unwrap();
        file.write(&[0.5; 9]).unwrap();
        file.finish().unwrap();
        assert_eq!(describe(&path).unwrap(), Some(description));
        assert_eq!(load(&path, &layout(3)).unwrap(), [0.5; 9]);
        let whole = fs::read(&path).unwrap();
        let newer = String::from_utf8_lossy(&whole).replace(r#"\"version\":1"#, r#"\"version\":9"#);
        fs::write(&path, newer).unwrap();
        let error = describe(&path).unwrap_err().to_string();
        assert!(error.contains("version 9") && error.contains("newer Paceline"), "{error}");
        for len in [0, 7, 8, 40] {
            fs::write(&path, &whole[..len]).unwrap();
            let error = describe(&path).unwrap_err().to_string();
            assert!(error.contains("sound safetensors"), "cut to {len}: {error}");
        }
    }
}
