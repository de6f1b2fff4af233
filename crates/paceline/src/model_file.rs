//! `model.safetensors`: trained parameters by name, for Python and for us.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use paceline_model::Layout;
use safetensors::tensor::{Dtype, SafeTensors};
use serde_json::{Map, Value, json};

use crate::Failure;
use crate::link::Show;
use crate::run::write_whole;

/// Larger files cannot be ours.
const MAX_FILE_BYTES: u64 = 16 << 30;

/// Writes the parameters that `show_all` shows, in their order and piece by piece, under the
/// layout's names and shapes, whole or not at all.
///
/// By hand and not by the crate that reads them: its metadata is a hash map, whose order is
/// another one every time, and equal seeds are to give equal files; and it wants to see all
/// parameters at once.
pub fn save(
    path: &Path,
    layout: &Layout,
    step: u64,
    show_all: impl FnOnce(&mut Show<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let header = header(layout, step);
    let mut lost = None;
    let written = write_whole(path, |temporary| {
        let mut file = fs::File::create(temporary)?;
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(header.as_bytes())?;
        let mut count = 0;
        let shown = show_all(&mut |piece| {
            count += piece.len();
            file.write_all(bytemuck::cast_slice(piece)).map_err(Failure::at("write", path))
        });
        let complete = shown.is_ok();
        lost = shown.err();
        assert!(!complete || count == layout.len(), "{count} parameters of {}", layout.len());
        if complete { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
    });
    match lost {
        Some(failure) => Err(failure),
        None => written,
    }
}

/// The JSON that says what lies where, with spaces behind it so that the numbers are aligned.
fn header(layout: &Layout, step: u64) -> String {
    let mut about = Map::new();
    let version = env!("CARGO_PKG_VERSION");
    let metadata = json!({"format": "pt", "global_step": step.to_string(), "paceline": version});
    about.insert("__metadata__".into(), metadata);
    for tensor in layout.tensors() {
        let offsets = [tensor.range.start, tensor.range.end].map(|at| at * size_of::<f32>());
        let entry = json!({"dtype": "F32", "shape": tensor.shape, "data_offsets": offsets});
        about.insert(tensor.name.clone(), entry);
    }
    let json = Value::Object(about).to_string();
    let aligned = json.len().next_multiple_of(8);
    format!("{json:<aligned$}")
}

/// Reads parameters back into the order of the layout. Names and shapes must agree.
pub fn load(path: &Path, layout: &Layout) -> Result<Vec<f32>, Failure> {
    let wrong = |why: String| Failure::Usage(format!("{}: {why}", path.display()));
    let about = fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
    if !about.is_file() {
        return Err(wrong("this is a directory, not a model file".into()));
    }
    if about.len() > MAX_FILE_BYTES {
        return Err(wrong(format!("this is larger than {MAX_FILE_BYTES} bytes, and no model")));
    }
    let bytes = fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let file = SafeTensors::deserialize(&bytes)
        .map_err(|error| wrong(format!("this is not a sound safetensors file: {error}")))?;
    let mut params = vec![0.0; layout.len()];
    for tensor in layout.tensors() {
        let view = file.tensor(&tensor.name).map_err(|_| {
            let names = file.names().join(", ");
            wrong(format!("it has no tensor {:?} (it has: {names})", tensor.name))
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
        let place = &mut params[tensor.range.clone()];
        bytemuck::cast_slice_mut::<f32, u8>(place).copy_from_slice(view.data());
    }
    if file.len() != layout.tensors().len() {
        return Err(wrong(format!(
            "it has {} tensors, but the job's model has {}",
            file.len(),
            layout.tensors().len()
        )));
    }
    Ok(params)
}

#[cfg(test)]
mod tests {
    use paceline_model::Group;

    use super::*;

    fn layout(classes: usize) -> Layout {
        let mut layout = Layout::new();
        layout.push("weight", &[classes, 2], Group::Weights);
        layout.push("bias", &[classes], Group::Biases);
        layout
    }

    #[test]
    fn what_was_saved_is_loaded_bit_for_bit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.safetensors");
        let params = [1.0, -0.0, f32::MIN_POSITIVE, 3.5, 1e30, -7.25, 0.1, 0.2, 0.3];
        save(&path, &layout(3), 5, |show| show(&params)).unwrap();
        let loaded = load(&path, &layout(3)).unwrap();
        assert_eq!(
            params.map(f32::to_bits).to_vec(),
            loaded.iter().map(|p| p.to_bits()).collect::<Vec<_>>()
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file stays");
    }

    #[test]
    fn equal_parameters_give_equal_files_whose_numbers_are_aligned() {
        let dir = tempfile::tempdir().unwrap();
        let files = ["a", "b"].map(|name| {
            save(&dir.path().join(name), &layout(3), 7, |show| show(&[0.5; 9])).unwrap();
            fs::read(dir.path().join(name)).unwrap()
        });
        assert_eq!(files[0], files[1]);
        let (_, about) = SafeTensors::read_metadata(&files[0]).unwrap();
        assert_eq!(about.metadata().as_ref().unwrap()["global_step"], "7");
        assert_eq!((files[0].len() - 9 * size_of::<f32>()) % 8, 0);
    }

    #[test]
    fn a_file_of_another_model_is_refused_with_the_tensor_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.safetensors");
        save(&path, &layout(3), 0, |show| show(&[0.0; 9])).unwrap();
        let error = load(&path, &layout(4)).unwrap_err().to_string();
        assert!(error.contains("\"weight\"") && error.contains("[4, 2]"), "{error}");
    }

    #[test]
    fn a_damaged_file_is_refused_at_every_length() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.safetensors");
        save(&path, &layout(3), 0, |show| show(&[0.0; 9])).unwrap();
        let whole = fs::read(&path).unwrap();
        for len in 0..whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            assert_eq!(load(&path, &layout(3)).unwrap_err().exit_code(), 2, "cut to {len}");
        }
    }
}
