//! Files of other programs and of earlier runs.

use std::fs;
use std::path::Path;

use paceline_arrays::{NumpySpec, PictureOptions, Pictures, open_numpy};
use paceline_data::idx::{read_pair, write_images, write_labels};
use paceline_data::{Examples, ignore_reports};
use paceline_model::{Group, Layout};
use paceline_record::model_file::{ModelWriter, describe, load};
use paceline_record::{InputDescription, InputKind, ModelDescription, ModelForm};
use paceline_score::TrainedModel;

use crate::scratch::{scratch_dir, scratch_file, written};

/// Two files in one input: the first byte times 256 plus the second is the length of the first.
pub(crate) fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    let Some(([high, low], rest)) = bytes.split_first_chunk() else { return (&[], &[]) };
    rest.split_at((usize::from(*high) * 256 + usize::from(*low)).min(rest.len()))
}

pub(crate) fn joined(first: &[u8], second: &[u8]) -> Vec<u8> {
    [&(first.len() as u16).to_be_bytes()[..], first, second].concat()
}

/// Images and labels of MNIST.
pub(crate) fn idx(bytes: &[u8]) {
    let (images, labels) = split(bytes);
    let (images, labels) = (scratch_file("images", images), scratch_file("labels", labels));
    if let Ok(set) = read_pair(&images, &labels, 10) {
        let mut values = vec![0.0; set.rows() * set.cols()];
        (0..set.len().min(3)).for_each(|example| {
            let _ = set.fill(example as u32, 0, &mut values);
        });
    }
}

pub(crate) fn idx_seeds() -> Vec<Vec<u8>> {
    let images = written("seed", |path| {
        write_images(path, 2, 3, &[7; 18]).expect("images");
    });
    let labels = written("seed", |path| write_labels(path, &[0, 9, 3]).expect("labels"));
    vec![joined(&images, &labels)]
}

fn open_arrays(path: &Path) {
    if let Ok(set) = open_numpy(&NumpySpec::at(path)) {
        let mut values = vec![0.0; set.train.inputs()];
        for example in 0..set.train.len().min(3) {
            let _ = set.train.fill(example as u32, 0, &mut values);
        }
    }
}

/// Arrays of numpy.
pub(crate) fn npy(bytes: &[u8]) {
    let (inputs, labels) = split(bytes);
    let dir = scratch_dir().join("arrays");
    fs::create_dir_all(&dir).expect("a directory in memory");
    for (name, content) in [("x.npy", inputs), ("y.npy", labels)] {
        fs::write(dir.join(name), content).expect("a file in memory");
    }
    open_arrays(&dir);
}

/// An array in numpy's format.
fn array(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    let header = format!("{header:<117}\n");
    let len = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &len[..], header.as_bytes(), data].concat()
}

pub(crate) fn npy_seeds() -> Vec<Vec<u8>> {
    let labels = array("|u1", "(4,)", &[0, 1, 1, 0]);
    let floats: Vec<u8> = (0..8).flat_map(|value| (value as f32).to_le_bytes()).collect();
    vec![
        joined(&array("<f4", "(4, 2)", &floats), &labels),
        joined(&array("|u1", "(4, 2, 3)", &[9; 24]), &labels),
        joined(&array("<i8", "(4, 1)", &[0; 32]), &labels),
    ]
}

/// An archive of arrays.
pub(crate) fn npz(bytes: &[u8]) {
    open_arrays(&scratch_file("arrays.npz", bytes));
}

pub(crate) fn npz_seeds() -> Vec<Vec<u8>> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../arrays/tests/golden");
    let files = fs::read_dir(golden).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut archives: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|ending| ending == "npz")).collect();
    archives.sort();
    archives.iter().filter_map(|path| fs::read(path).ok()).collect()
}

/// A picture in a folder of pictures.
pub(crate) fn picture(bytes: &[u8]) {
    let dir = scratch_dir().join("pictures");
    for class in ["a", "b"] {
        fs::create_dir_all(dir.join(class)).expect("a directory in memory");
        fs::write(dir.join(class).join("1.png"), bytes).expect("a file in memory");
    }
    let options = PictureOptions::new(8, 1);
    if let Ok(set) = Pictures::open_observed(&dir, &options, &mut ignore_reports()) {
        let mut values = vec![0.0; set.train.inputs()];
        let _ = set.train.fill(0, 0, &mut values);
    }
}

pub(crate) fn picture_seeds() -> Vec<Vec<u8>> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../arrays/tests/golden");
    let files = fs::read_dir(golden).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_picture = |path: &std::path::PathBuf| {
        path.extension().is_some_and(|ending| ["png", "jpg", "jpeg"].iter().any(|e| ending == *e))
    };
    let mut pictures: Vec<_> = files.filter(is_picture).collect();
    pictures.sort();
    let mut seeds: Vec<_> = pictures.iter().filter_map(|path| fs::read(path).ok()).collect();
    seeds.retain(|seed| seed.len() < 32 << 10);
    seeds.push(small_png());
    seeds
}

/// A grey picture of one pixel.
fn small_png() -> Vec<u8> {
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0\x3a\x7e\x9b\x55\0\0\0\nIDAT\
      \x78\x9c\x63\x60\0\0\0\x02\0\x01\x48\xaf\xa4\x71\0\0\0\0IEND\xae\x42\x60\x82"
        .to_vec()
}

pub(crate) fn model_layout() -> Layout {
    let mut layout = Layout::new();
    layout.push("weight", &[3, 2], Group::Weights);
    layout.push("bias", &[3], Group::Biases);
    layout
}

/// A trained model.
pub(crate) fn model(bytes: &[u8]) {
    let path = scratch_file("model.safetensors", bytes);
    let _ = describe(&path);
    let _ = load(&path, &model_layout());
    let _ = TrainedModel::load(&path);
}

pub(crate) fn model_seeds() -> Vec<Vec<u8>> {
    let names = ["a", "b", "c"].map(String::from).to_vec();
    let description = ModelDescription {
        input: InputDescription::new(InputKind::Digits { rows: 1, columns: 2 }, names),
        form: ModelForm::Softmax { inputs: 2, classes: 3 },
    };
    let file = |description: Option<&ModelDescription>| {
        written("seed", |path| {
            let layout = model_layout();
            let mut file = ModelWriter::create(path, &layout, 5, description).expect("a model");
            file.write(&[0.5; 9]).expect("a model");
            file.finish().expect("a model");
        })
    };
    vec![file(None), file(Some(&description))]
}
