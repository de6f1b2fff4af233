//! Translates a trained model into an ONNX file.

use paceline_record::{InputKind, ModelForm, RecordElements};
use paceline_score::TrainedModel;

use crate::columns::{RowFeatures, add_columns, add_vectors};
use crate::factors::{FACTOR_NAMES, add_factors};
use crate::graph::Graph;
use crate::layers::add_layers;
use crate::schema::{Attribute, Dimension, ElementType};

/// The largest message of protobuf, in bytes.
const MAX_BYTES: usize = i32::MAX as usize;

/// The attribute of a node that converts numbers to floats.
const TO_FLOAT: [(&str, Attribute); 1] = [("to", Attribute::Int(ElementType::Float as i64))];

/// An exported model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The ONNX file.
    pub bytes: Vec<u8>,
    /// What the graph takes, and what of the featuriser is left to the caller.
    pub notes: Vec<String>,
}

/// Why a model cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum OnnxError {
    /// The file would be larger than protobuf allows.
    #[error(
        "the model has {bytes} bytes of parameters, and an ONNX file has at most {MAX_BYTES}; \
         train with fewer features or smaller layers"
    )]
    TooLarge {
        /// Bytes of all parameters.
        bytes: usize,
    },
}

/// Exports a model.
///
/// # Errors
/// If the file would be too large.
pub fn export(model: &TrainedModel) -> Result<Exported, OnnxError> {
    let bytes = 4 * model.params().len();
    if bytes > MAX_BYTES {
        return Err(OnnxError::TooLarge { bytes });
    }
    let mut graph = Graph::default();
    let mut notes = Vec::new();
    let scores = match &model.description().form {
        ModelForm::Logistic { features } => add_linear(&mut graph, model, *features, &mut notes),
        form @ (ModelForm::Fm { .. }
        | ModelForm::Ffm { .. }
        | ModelForm::Deep { .. }
        | ModelForm::SparseSoftmax { .. }) => {
            let Some(form) = form.factors() else { unreachable!("it has entries") };
            let rows = add_rows(&mut graph, model, form.features(), &mut notes);
            add_tensors(&mut graph, model);
            add_factors(&mut graph, model, &form, &rows, &mut notes)
        }
        ModelForm::Softmax { .. } => {
            let input = add_dense_input(&mut graph, model, &mut notes);
            let flat = [("axis", Attribute::Int(1))];
            let flat = graph.node("Flatten", &[&input], "flat", &flat);
            add_tensors(&mut graph, model);
            let transposed = [("transB", Attribute::Int(1))];
            graph.node("Gemm", &[&flat, "weight", "bias"], "class_scores", &transposed)
        }
        ModelForm::Network { .. } => {
            let input = add_dense_input(&mut graph, model, &mut notes);
            add_tensors(&mut graph, model);
            let Some(network) = model.architecture() else {
                unreachable!("a network has an architecture")
            };
            add_layers(&mut graph, network, input)
        }
    };
    add_outputs(&mut graph, model, &scores);
    if graph.tensor_bytes() > MAX_BYTES - (16 << 20) {
        return Err(OnnxError::TooLarge { bytes });
    }
    let form = model.description().form.name();
    let input = serde_json::json!(model.description().input).to_string();
    let classes = serde_json::json!(model.class_names()).to_string();
    let metadata =
        [("classes", classes), ("featurizer", input), ("paceline.notes", notes.join("\n"))];
    Ok(Exported { bytes: graph.finish(form, &notes.join(" "), &metadata), notes })
}

/// Adds all parameters as constant tensors, by their names.
fn add_tensors(graph: &mut Graph, model: &TrainedModel) {
    for tensor in model.layout().tensors() {
        graph.floats(&tensor.name, &tensor.shape, &model.params()[tensor.range.clone()]);
    }
}

/// Adds logistic regression over keys and values. Returns the score of each row, `[N, 1]`.
fn add_linear(
    graph: &mut Graph,
    model: &TrainedModel,
    features: usize,
    notes: &mut Vec<String>,
) -> String {
    let rows = add_rows(graph, model, features, notes);
    add_tensors(graph, model);
    graph.ints("last_axis", &[1]);
    graph.node("Gather", &["weight", &rows.keys], "weights_of_keys", &[]);
    graph.node("Mul", &["weights_of_keys", &rows.values], "products", &[]);
    let keep = [("keepdims", Attribute::Int(1))];
    graph.node("ReduceSum", &["products", "last_axis"], "sums", &keep);
    graph.node("Add", &["sums", "bias"], "row_scores", &[])
}

/// The keys and values of rows: from columns, or as inputs.
fn add_rows(
    graph: &mut Graph,
    model: &TrainedModel,
    features: usize,
    notes: &mut Vec<String>,
) -> RowFeatures {
    match model.table_featurizer() {
        Some(table) => add_columns(graph, table, &taken_names(model), notes),
        None => add_keys(graph, model, features, notes),
    }
}

/// The names in a graph that are not those of columns.
fn taken_names(model: &TrainedModel) -> Vec<&str> {
    const NAMES: [&str; 24] = [
        "weight",
        "bias",
        "keys",
        "values",
        "flat",
        "features",
        "example_shape",
        "planes",
        "last_axis",
        "weights_of_keys",
        "products",
        "sums",
        "row_scores",
        "class_scores",
        "scores",
        "scores_flat",
        "opposite",
        "both",
        "probabilities",
        "zero",
        "class",
        "score",
        "score_axis",
        "is_second",
    ];
    let tensors = model.layout().tensors().iter().map(|tensor| tensor.name.as_str());
    NAMES.into_iter().chain(FACTOR_NAMES).chain(tensors).collect()
}

/// Adds keys and values as inputs.
fn add_keys(
    graph: &mut Graph,
    model: &TrainedModel,
    features: usize,
    notes: &mut Vec<String>,
) -> RowFeatures {
    let shape = [Dimension::Named("N"), Dimension::Named("K")];
    let about_keys = format!("keys of the features that are not zero, from 0 to {}", features - 1);
    graph.input("keys", ElementType::Int64, &shape, &about_keys);
    let about_values = "values of the keys; 0 for a key that only fills the row";
    graph.input("values", ElementType::Float, &shape, about_values);
    notes.push(format!(
        "inputs: keys (int64, N x K), from 0 to {}, and values (float, N x K); rows with fewer \
         than K features are filled up with any key and the value 0",
        features - 1
    ));
    notes.extend(key_note(&model.description().input.kind));
    RowFeatures { keys: "keys".into(), values: "values".into() }
}

/// What the caller of a sparse model must do to get keys.
fn key_note(kind: &InputKind) -> Option<String> {
    match kind {
        InputKind::Libsvm { first_index: 0, .. } => {
            Some("keys are the indices of LIBSVM text, which count from 0".into())
        }
        InputKind::Libffm { .. } => {
            Some("keys are the indices of LIBFFM text, which count from 0".into())
        }
        InputKind::Libsvm { .. } | InputKind::Clicks { .. } => {
            Some("keys are the indices of LIBSVM text less 1: there, indices count from 1".into())
        }
        InputKind::TfRecord { .. } => {
            Some("keys and values are those of the tf.train.Example".into())
        }
        InputKind::Criteo { .. } => Some(
            "not in the graph: hashing Criteo's columns into keys, which ONNX cannot express; \
             docs/formats.md has the function. Every value is 1"
                .into(),
        ),
        // The nodes of the columns have notes of their own.
        InputKind::Table { .. }
        | InputKind::Digits { .. }
        | InputKind::Images { .. }
        | InputKind::Numpy { .. }
        | InputKind::Records { .. }
        | InputKind::Array { .. } => None,
    }
}

/// Adds the input of a dense model, with the scaling of pixels. Returns a value of the shape
/// `[N, channels, rows, columns]`, or of two dimensions for values that are not an image.
fn add_dense_input(graph: &mut Graph, model: &TrainedModel, notes: &mut Vec<String>) -> String {
    let batch = Dimension::Named("N");
    let size = Dimension::Size;
    let kind = &model.description().input.kind;
    match kind {
        InputKind::Digits { rows, columns } => {
            let shape = [batch, size(*rows), size(*columns)];
            graph.input("images", ElementType::Uint8, &shape, "grey pixels; 255 is full ink");
            notes.push(format!("input: images (uint8, N x {rows} x {columns}), as in IDX files"));
            graph.node("Cast", &["images"], "pixels", &TO_FLOAT);
            graph.floats("white", &[], &[255.0]);
            graph.node("Div", &["pixels", "white"], "scaled", &[]);
            graph.ints("channel_axis", &[1]);
            graph.node("Unsqueeze", &["scaled", "channel_axis"], "planes", &[])
        }
        InputKind::Images { size: side, resize, mean, std } => {
            add_pictures(graph, [*side, *resize], mean, std, notes)
        }
        InputKind::Records {
            shape,
            elements: RecordElements::Pictures { resize, mean, std },
            ..
        } => add_pictures(graph, [shape[1], *resize], mean, std, notes),
        _ => {
            let vectors = add_features(graph, model, notes);
            let ModelForm::Network { input, .. } = &model.description().form else {
                return vectors;
            };
            let sizes = input.map(|size| size as i64);
            graph.ints("example_shape", &[&[0], &sizes[..]].concat());
            graph.node("Reshape", &[&vectors, "example_shape"], "planes", &[])
        }
    }
}

/// Adds pictures as input. `sides` are those of the crop and of the shorter side before it.
fn add_pictures(
    graph: &mut Graph,
    sides: [usize; 2],
    mean: &[f32; 3],
    std: &[f32; 3],
    notes: &mut Vec<String>,
) -> String {
    let [side, resize] = sides;
    let shape =
        [Dimension::Named("N"), Dimension::Size(side), Dimension::Size(side), Dimension::Size(3)];
    graph.input("pictures", ElementType::Uint8, &shape, "red, green and blue pixels");
    notes.push(format!("input: pictures (uint8, N x {side} x {side} x 3), in RGB"));
    notes.push(format!(
        "not in the graph: decoding, scaling the shorter side to {resize} pixels, and cropping \
         the central {side} x {side}; the normalisation is in the graph"
    ));
    graph.node("Cast", &["pictures"], "pixels", &TO_FLOAT);
    let axes = [("perm", Attribute::Ints(vec![0, 3, 1, 2]))];
    graph.node("Transpose", &["pixels"], "channels", &axes);
    graph.floats("mean", &[3, 1, 1], &mean.map(|mean| 255.0 * mean));
    graph.floats("deviation", &[3, 1, 1], &std.map(|std| 255.0 * std));
    graph.node("Sub", &["channels", "mean"], "centred", &[]);
    graph.node("Div", &["centred", "deviation"], "planes", &[])
}

/// Adds an input that becomes vectors, `[N, values]`.
fn add_features(graph: &mut Graph, model: &TrainedModel, notes: &mut Vec<String>) -> String {
    let values = model.inputs();
    if let Some(table) = model.table_featurizer() {
        let rows = add_columns(graph, table, &taken_names(model), notes);
        return add_vectors(graph, &rows, values);
    }
    let shape = [Dimension::Named("N"), Dimension::Size(values)];
    let bytes = match &model.description().input.kind {
        InputKind::Numpy { pixels, .. } => *pixels,
        InputKind::Records { elements, .. } => *elements == RecordElements::Pixels,
        _ => false,
    };
    if bytes {
        graph.input("pixels", ElementType::Uint8, &shape, "bytes, channel by channel");
        notes.push(format!("input: pixels (uint8, N x {values}), channel by channel"));
        graph.node("Cast", &["pixels"], "numbers", &TO_FLOAT);
        graph.floats("white", &[], &[255.0]);
        return graph.node("Div", &["numbers", "white"], "features", &[]);
    }
    graph.input("features", ElementType::Float, &shape, "the numbers of an example");
    notes.push(format!("input: features (float, N x {values})"));
    if let InputKind::Libsvm { first_index, .. } = model.description().input.kind {
        notes.push(format!("feature i is that of the index i + {first_index} of LIBSVM text"));
    }
    "features".into()
}

/// Adds the three outputs.
fn add_outputs(graph: &mut Graph, model: &TrainedModel, scores: &str) {
    graph.node("Identity", &[scores], "scores", &[]);
    let last = [("axis", Attribute::Int(1))];
    if model.outputs() == 1 {
        graph.node("Neg", &["scores"], "opposite", &[]);
        graph.node("Concat", &["opposite", "scores"], "both", &last);
        graph.node("Sigmoid", &["both"], "probabilities", &[]);
        graph.floats("zero", &[], &[0.0]);
        graph.ints("score_axis", &[1]);
        graph.node("Squeeze", &["scores", "score_axis"], "score", &[]);
        graph.node("Greater", &["score", "zero"], "is_second", &[]);
        let whole = [("to", Attribute::Int(ElementType::Int64 as i64))];
        graph.node("Cast", &["is_second"], "class", &whole);
    } else {
        graph.node("Softmax", &["scores"], "probabilities", &last);
        let attributes = [("axis", Attribute::Int(1)), ("keepdims", Attribute::Int(0))];
        graph.node("ArgMax", &["scores"], "class", &attributes);
    }
    let batch = Dimension::Named("N");
    let classes = [batch, Dimension::Size(model.classes())];
    graph.output("probabilities", ElementType::Float, &classes);
    graph.output("class", ElementType::Int64, &[batch]);
    graph.output("scores", ElementType::Float, &[batch, Dimension::Size(model.outputs())]);
}
