//! `model.safetensors`: trained parameters by name, for Python and for us.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use paceline_model::Layout;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use crate::Failure;
use crate::run::write_whole;

/// Larger files cannot be ours.
const MAX_FILE_BYTES: u64 = 16 << 30;

/// Writes the parameters under the layout's names and shapes, whole or not at all.
pub fn save(path: &Path, layout: &Layout, params: &[f32], step: u64) -> Result<(), Failure> {
    assert_eq!(params.len(), layout.len(), "parameters");
    let views: Result<Vec<_>, _> = layout
        .tensors()
        .iter()
        .map(|tensor| {
            let bytes = bytemuck::cast_slice(&params[tensor.range.clone()]);
            Ok((tensor.name.as_str(), TensorView::new(Dtype::F32, tensor.shape.clone(), bytes)?))
        })
        .collect();
    let about = HashMap::from([
        ("format".to_owned(), "pt".to_owned()),
        ("paceline".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ("global_step".to_owned(), step.to_string()),
    ]);
    write_whole(path, |temporary| {
        views
            .and_then(|views| safetensors::serialize_to_file(views, Some(about), temporary))
            .map_err(std::io::Error::other)
    })
}

/// Reads parameters back into the order of the layout. Names and shapes must agree.
pub fn load(path: &Path, layout: &Layout) -> Result<Vec<f32>, Failure> {
    let wrong = |why: String| Failure::Usage(format!("{}: {why}", path.display()));
    let about = fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
    if !about.is_file() || about.len() > MAX_FILE_BYTES {
        return Err(wrong("this is not a safetensors file".into()));
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
        save(&path, &layout(3), &params, 5).unwrap();
        let loaded = load(&path, &layout(3)).unwrap();
        assert_eq!(
            params.map(f32::to_bits).to_vec(),
            loaded.iter().map(|p| p.to_bits()).collect::<Vec<_>>()
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file stays");
    }

    #[test]
    fn a_file_of_another_model_is_refused_with_the_tensor_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.safetensors");
        save(&path, &layout(3), &[0.0; 9], 0).unwrap();
        let error = load(&path, &layout(4)).unwrap_err().to_string();
        assert!(error.contains("\"weight\"") && error.contains("[4, 2]"), "{error}");
    }

    #[test]
    fn a_damaged_file_is_refused_at_every_length() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.safetensors");
        save(&path, &layout(3), &[0.0; 9], 0).unwrap();
        let whole = fs::read(&path).unwrap();
        for len in 0..whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            assert_eq!(load(&path, &layout(3)).unwrap_err().exit_code(), 2, "cut to {len}");
        }
    }
}
