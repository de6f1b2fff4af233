//! Finds out what input files are, and opens them for a model.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use paceline_arrays::{
    ArrayInputSpec, ArrayLabels, PictureOptions, Pictures, RecordInputSpec, open_array_inputs,
    open_record_inputs,
};
use paceline_data::sniff::{FileKind, sniff_file};
use paceline_data::sparse::{FeatureNames, LabelRule, open_row_cache, source_files};
use paceline_data::{
    ElementForm, Images, OnBad, OpenObserver, OpenReport, SparseKind, SparseRows, SparseSpec, idx,
    open_sparse,
};
use paceline_record::{InputKind, RecordElements, RowNames};

use crate::error::ScoreError;
use crate::example_scorer::{ExampleInput, ExampleLabels, ExampleSource};
use crate::scoring::ScoreInput;
use crate::text_chunks::TextSource;
use crate::trained_model::TrainedModel;

/// The deepest folder that is searched for pictures.
const MAX_DEPTH: usize = 16;

/// Files to score.
#[derive(Clone, Debug, Default)]
pub struct InputFiles {
    /// Files, folders or patterns; `-` is standard input.
    pub paths: Vec<PathBuf>,
    /// The labels of an IDX or numpy file. Without it they are looked for beside the inputs.
    pub labels: Option<PathBuf>,
    /// Whether rows need labels, as for an evaluation.
    pub needs_labels: bool,
    /// What to do about bad rows of files that are read as a whole before they are scored.
    pub on_bad: OnBad,
}

/// Opens files as input of a model. Some files are read or unpacked as a whole first; `observer`
/// follows how far that has come.
///
/// # Errors
/// If no file is named, one cannot be opened, or one is of a kind that the model does not take.
pub fn open_input(
    model: &TrainedModel,
    files: &InputFiles,
    observer: &mut dyn OpenObserver,
) -> Result<ScoreInput, ScoreError> {
    if files.paths.is_empty() {
        return Err(ScoreError::Refused("name an input, or - for standard input".into()));
    }
    let kind = &model.description().input.kind;
    let takes_labels = matches!(kind, InputKind::Digits { .. } | InputKind::Numpy { .. });
    if files.labels.is_some() && !takes_labels {
        let what = "labels in a file of their own are for IDX images and numpy arrays";
        return Err(ScoreError::Refused(what.into()));
    }
    match kind {
        InputKind::Images { size, resize, mean, std } => {
            let options = picture_options(*size, *resize, *mean, *std)?;
            open_pictures(model, files, &options).map(ScoreInput::Examples)
        }
        InputKind::Digits { rows, columns } => {
            open_idx(model, files, [*rows, *columns]).map(ScoreInput::Examples)
        }
        InputKind::TfRecord { features, names } => open_records(files, *features, names, observer),
        InputKind::Numpy { .. } => open_arrays(files, kind, observer).map(ScoreInput::Examples),
        InputKind::Records {
            shape,
            elements: RecordElements::Pictures { resize, mean, std },
            ..
        } if !has_records(files)? => {
            let size = shape[1];
            let options = picture_options(size, *resize, *mean, *std)?;
            open_pictures(model, files, &options).map(ScoreInput::Examples)
        }
        InputKind::Records { .. } => open_dense_records(files, kind).map(ScoreInput::Examples),
        InputKind::Libsvm { .. } | InputKind::Clicks { .. } => {
            open_text(files, &|kind| kind == FileKind::Libsvm, "LIBSVM text")
        }
        InputKind::Libffm { .. } => {
            open_text(files, &|kind| kind == FileKind::Libffm, "LIBFFM text")
        }
        InputKind::Criteo { .. } => {
            // Without its label, a line has 39 columns.
            let is_log = |kind| matches!(kind, FileKind::Criteo | FileKind::Table(b'\t'));
            open_text(files, &is_log, "Criteo's 40 columns")
        }
        InputKind::Array { shape } => Err(ScoreError::Refused(format!(
            "the file does not say where the {} numbers of an example come from, because an \
             earlier version or a program of your own wrote it; predict with --test, train the \
             model again, or export it",
            shape.iter().product::<usize>()
        ))),
        InputKind::Table { .. } => {
            use FileKind::{Criteo, Parquet, Table};
            let is_table = |kind| matches!(kind, Table(_) | Parquet | Criteo);
            open_text(files, &is_table, "a table")
        }
    }
}

/// Whether the first bytes of a file do not tell its kind; reading its rows will.
fn is_unknown(kind: FileKind) -> bool {
    matches!(kind, FileKind::Empty | FileKind::Text)
}

/// Refuses a file that is of another kind.
fn wrong_kind(path: &Path, found: FileKind, takes: &str) -> ScoreError {
    if found == FileKind::Empty {
        return ScoreError::Refused(format!("{}: the file is empty", path.display()));
    }
    let remedy = match found {
        FileKind::Utf16 | FileKind::CarriageReturns | FileKind::Gzip | FileKind::Packed => {
            found.remedy()
        }
        FileKind::Office => "save its table as CSV",
        _ => "",
    };
    let remedy = if remedy.is_empty() { String::new() } else { format!("; {remedy}") };
    ScoreError::Refused(format!(
        "{}: this looks like {}, but the model takes {takes}{remedy}",
        path.display(),
        found.describe()
    ))
}

/// How the pictures that a description names are read.
fn picture_options(
    size: usize,
    resize: usize,
    mean: [f32; 3],
    std: [f32; 3],
) -> Result<PictureOptions, ScoreError> {
    if size == 0 || resize < size || !std.iter().all(|std| *std > 0.0) {
        let what = "the model's description of its pictures is impossible";
        return Err(ScoreError::Refused(what.into()));
    }
    Ok(PictureOptions { resize, mean, std, ..PictureOptions::new(size, 0) })
}

/// The one path of an input that is not a stream.
fn one_path<'a>(files: &'a InputFiles, takes: &str) -> Result<&'a Path, ScoreError> {
    match &files.paths[..] {
        [path] if path.as_os_str() == "-" => Err(ScoreError::Refused(format!(
            "the model takes {takes}, which cannot be read from standard input; name a file"
        ))),
        [path] => Ok(path),
        _ => Err(ScoreError::Refused(format!(
            "the model takes {takes}: name one file, one directory or one pattern"
        ))),
    }
}

/// Lines of text, or caches of rows.
fn open_text(
    files: &InputFiles,
    fits: &dyn Fn(FileKind) -> bool,
    takes: &str,
) -> Result<ScoreInput, ScoreError> {
    let mut sources = Vec::new();
    for path in &files.paths {
        if path.as_os_str() == "-" {
            sources.push(TextSource::StandardInput);
            continue;
        }
        for file in source_files(path)? {
            match sniff_file(&file)? {
                FileKind::RowCache if files.paths.len() == 1 => {
                    return Ok(ScoreInput::Examples(open_cache(&file)?));
                }
                FileKind::RowCache => {
                    let what = format!("{}: score a cache of rows by itself", file.display());
                    return Err(ScoreError::Refused(what));
                }
                kind if fits(kind) || is_unknown(kind) => sources.push(TextSource::File(file)),
                kind => return Err(wrong_kind(&file, kind, takes)),
            }
        }
    }
    if sources.iter().filter(|source| **source == TextSource::StandardInput).count() > 1 {
        return Err(ScoreError::Refused("standard input can be read only once".into()));
    }
    Ok(ScoreInput::Text(sources))
}

fn open_cache(path: &Path) -> Result<ExampleInput, ScoreError> {
    let rows = open_row_cache(path, &mut |_: OpenReport<'_>| ControlFlow::Continue(()))?;
    Ok(ExampleInput::labelled(ExampleSource::Rows(rows), &path.display().to_string()))
}

/// TFRecords of sparse rows, which are read into a cache of rows first.
fn open_records(
    files: &InputFiles,
    features: usize,
    names: &RowNames,
    observer: &mut dyn OpenObserver,
) -> Result<ScoreInput, ScoreError> {
    let path = one_path(files, "TFRecords")?;
    for file in source_files(path)? {
        match sniff_file(&file)? {
            FileKind::RowCache => return Ok(ScoreInput::Examples(open_cache(&file)?)),
            FileKind::TfRecord | FileKind::Binary => {}
            kind => return Err(wrong_kind(&file, kind, "TFRecords")),
        }
    }
    let spec = SparseSpec {
        features: Some(features),
        on_bad: files.on_bad,
        labels: if files.needs_labels { LabelRule::Binary } else { LabelRule::Absent },
        feature_names: FeatureNames {
            label: names.label.clone(),
            index: names.index.clone(),
            value: names.value.clone(),
        },
        ..SparseSpec::at(SparseKind::TfRecord, path)
    };
    let rows: SparseRows = open_sparse(&spec, observer)?.train;
    let (skipped, origin) = (rows.skipped(), path.display().to_string());
    let input = ExampleInput::labelled(ExampleSource::Rows(rows), &origin);
    Ok(ScoreInput::Examples(ExampleInput { skipped, ..input }))
}

/// Arrays in numpy's files.
fn open_arrays(
    files: &InputFiles,
    kind: &InputKind,
    observer: &mut dyn OpenObserver,
) -> Result<ExampleInput, ScoreError> {
    let InputKind::Numpy { shape, pixels, inputs, labels } = kind else {
        unreachable!("the model takes arrays")
    };
    let path = one_path(files, "numpy's arrays")?;
    if !path.is_dir() {
        match sniff_file(path)? {
            FileKind::Npy | FileKind::Zip => {}
            kind => return Err(wrong_kind(path, kind, "numpy's arrays (.npy or .npz)")),
        }
    }
    let spec = ArrayInputSpec {
        shape: *shape,
        form: if *pixels { ElementForm::Pixels } else { ElementForm::Numbers },
        inputs: inputs.clone(),
        labels: labels.clone(),
    };
    let from = match &files.labels {
        Some(file) => ArrayLabels::File(file.clone()),
        None if files.needs_labels => ArrayLabels::Beside,
        None => ArrayLabels::Unread,
    };
    let arrays = open_array_inputs(path, &spec, &from, observer)?;
    let examples = ExampleSource::Examples(Arc::new(arrays));
    let input = ExampleInput::labelled(examples, &path.display().to_string());
    Ok(if from == ArrayLabels::Unread { input.without_labels() } else { input })
}

/// Whether the input is TFRecords and not pictures.
fn has_records(files: &InputFiles) -> Result<bool, ScoreError> {
    let [path] = &files.paths[..] else { return Ok(false) };
    if path.as_os_str() == "-" {
        return Ok(false);
    }
    if path.is_dir() {
        let mut found = Vec::new();
        find_pictures(path, 0, &mut found)?;
        return Ok(found.is_empty());
    }
    let files = source_files(path)?;
    let kind = files.first().map(|file| sniff_file(file)).transpose()?;
    Ok(!matches!(kind, Some(FileKind::Jpeg | FileKind::Png)))
}

/// TFRecords of dense examples.
fn open_dense_records(files: &InputFiles, kind: &InputKind) -> Result<ExampleInput, ScoreError> {
    let InputKind::Records { shape, inputs, labels, elements } = kind else {
        unreachable!("the model takes records")
    };
    let path = one_path(files, "TFRecords")?;
    for file in source_files(path)? {
        match sniff_file(&file)? {
            FileKind::TfRecord | FileKind::Binary => {}
            kind => return Err(wrong_kind(&file, kind, "TFRecords")),
        }
    }
    let (form, pictures) = match elements {
        RecordElements::Numbers => (ElementForm::Numbers, PictureOptions::new(1, 0)),
        RecordElements::Pixels => (ElementForm::Pixels, PictureOptions::new(1, 0)),
        RecordElements::Pictures { resize, mean, std } => {
            (ElementForm::Pictures, picture_options(shape[1], *resize, *mean, *std)?)
        }
    };
    let spec = RecordInputSpec {
        inputs: inputs.clone(),
        labels: files.needs_labels.then(|| labels.clone()),
        form,
        values: shape.iter().product(),
        pictures,
    };
    let mut ignore = |_: OpenReport<'_>| ControlFlow::Continue(());
    let examples = open_record_inputs(path, &spec, &mut ignore)?;
    let source = ExampleSource::Examples(Arc::new(examples));
    let input = ExampleInput::labelled(source, &path.display().to_string());
    Ok(if files.needs_labels { input } else { input.without_labels() })
}

/// Grey images in IDX files of the model's size.
fn open_idx(
    model: &TrainedModel,
    files: &InputFiles,
    size: [usize; 2],
) -> Result<ExampleInput, ScoreError> {
    let takes = format!("IDX files of grey images of {} x {} pixels", size[0], size[1]);
    let path = one_path(files, &takes)?;
    match sniff_file(path)? {
        FileKind::Idx | FileKind::Binary => {}
        kind => return Err(wrong_kind(path, kind, &takes)),
    }
    let images = idx::read_images(path)?;
    if [images.rows, images.cols] != size {
        return Err(ScoreError::Refused(format!(
            "{}: its images have {} x {} pixels, but the model takes {} x {}",
            path.display(),
            images.rows,
            images.cols,
            size[0],
            size[1]
        )));
    }
    let beside = || labels_beside(path).filter(|_| files.needs_labels);
    let labels_file = files.labels.clone().or_else(beside);
    let labels = labels_file.as_ref().map(|file| idx::read_labels(file)).transpose()?;
    if let (Some(labels), Some(file)) = (&labels, &labels_file)
        && labels.len() != images.count
    {
        return Err(ScoreError::Refused(format!(
            "{} has {} labels, but {} has {} images",
            file.display(),
            labels.len(),
            path.display(),
            images.count
        )));
    }
    let given = match labels {
        None => ExampleLabels::None,
        Some(labels) => {
            let known = |label: &u8| Some(u32::from(*label)).filter(|_| *label != u8::MAX);
            ExampleLabels::Given(labels.iter().map(known).collect())
        }
    };
    let zeros = vec![0; images.count];
    let images = Images::new(size[0], size[1], model.classes(), images.pixels, zeros)?;
    Ok(ExampleInput {
        source: ExampleSource::Images(Arc::new(images)),
        labels: given,
        names: None,
        origin: path.display().to_string().into(),
        skipped: 0,
    })
}

/// The labels that belong to a file of images by its name, as MNIST's do.
fn labels_beside(images: &Path) -> Option<PathBuf> {
    let name = images.file_name()?.to_str()?;
    let labels = name.replace("images-idx3", "labels-idx1").replace("images", "labels");
    let beside = images.with_file_name(&labels);
    (labels != name && beside.is_file()).then_some(beside)
}

/// Pictures in files and folders. A picture in a folder with the name of a class is of that class.
fn open_pictures(
    model: &TrainedModel,
    files: &InputFiles,
    options: &PictureOptions,
) -> Result<ExampleInput, ScoreError> {
    let mut found = Vec::new();
    for path in &files.paths {
        if path.as_os_str() == "-" {
            let what = "pictures cannot be read from standard input; name files or folders";
            return Err(ScoreError::Refused(what.into()));
        }
        if path.is_dir() {
            find_pictures(path, 0, &mut found)?;
        } else {
            match sniff_file(path)? {
                // A damaged picture is a bad row.
                FileKind::Jpeg | FileKind::Png | FileKind::Empty | FileKind::Binary => {}
                kind => return Err(wrong_kind(path, kind, "JPEG and PNG pictures")),
            }
            found.push(path.clone());
        }
    }
    let origin = match &files.paths[..] {
        [path] => path.display().to_string(),
        paths => format!("{} and {} more", paths[0].display(), paths.len() - 1),
    };
    if found.is_empty() {
        return Err(ScoreError::Refused(format!("{origin}: there are no .jpg or .png pictures")));
    }
    let class_of = |path: &PathBuf| {
        let folder = path.parent()?.file_name()?.to_str()?;
        model.class_names().iter().position(|name| name == folder).map(|class| class as u32)
    };
    let labels = ExampleLabels::Given(found.iter().map(class_of).collect());
    let names = found.iter().map(|path| path.display().to_string()).collect();
    let pictures = Pictures::of_files(found, options);
    Ok(ExampleInput {
        source: ExampleSource::Examples(Arc::new(pictures)),
        labels,
        names: Some(names),
        origin: origin.into(),
        skipped: 0,
    })
}

/// The pictures in a folder and in the folders in it, sorted by name.
fn find_pictures(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), ScoreError> {
    let listed = fs::read_dir(folder).map_err(ScoreError::at("list", folder))?;
    let mut entries: Vec<PathBuf> = listed.flatten().map(|entry| entry.path()).collect();
    entries.sort_unstable();
    for path in entries {
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes()[0] == b'.');
        let extension = path.extension().unwrap_or_default();
        let is_picture =
            ["jpg", "jpeg", "png"].iter().any(|known| extension.eq_ignore_ascii_case(known));
        if hidden {
            continue;
        }
        if path.is_dir() && depth < MAX_DEPTH {
            find_pictures(&path, depth + 1, found)?;
        } else if is_picture {
            found.push(path);
        }
    }
    Ok(())
}
