//! Models with several numbers for each feature: factorization machines, field-aware ones, those
//! with a perceptron, and softmax regression.
//!
//! A graph has no loop over pairs. The products of all pairs follow from sums over keys, less what
//! each key would add with itself.

use paceline_factor::{DeepShape, FactorForm};
use paceline_score::TrainedModel;

use crate::columns::RowFeatures;
use crate::graph::Graph;
use crate::schema::{Attribute, Dimension, ElementType};

/// The names of this file's nodes, which no column may have.
pub(crate) const FACTOR_NAMES: [&str; 53] = [
    "fields",
    "field_of_key",
    "fields_of_keys",
    "field_count",
    "off_and_on",
    "is_field",
    "by_field",
    "key_axis",
    "entry_axis",
    "field_axis",
    "entries",
    "entry_values",
    "entry_products",
    "weight_part",
    "vector_part",
    "last_of_entry",
    "first_of_vector",
    "linear_products",
    "linear_scores",
    "vectors",
    "vector_sums",
    "squared_sums",
    "squared_vectors",
    "squares",
    "twice_pairs",
    "twice_scores",
    "half",
    "pair_scores",
    "entry_scores",
    "vector_shape",
    "sum_shape",
    "perceptron_inputs",
    "row_scores",
    "all_axes",
    "sums_by_fields",
    "sums_by_other_fields",
    "vectors_by_field",
    "own_field",
    "own_vectors",
    "all_products",
    "embedded",
    "first_field",
    "first_number",
    "last_number",
    "is_vector_field",
    "has_vector",
    "used_vectors",
    "all_embedded",
    "vector_inputs",
    "sums_of_values",
    "numbers",
    "number_inputs",
    "output.out",
];

/// Adds a model with several numbers for each feature, whose tensors are in the graph. Returns the
/// scores of each row: one, or one for each class.
pub(crate) fn add_factors(
    graph: &mut Graph,
    model: &TrainedModel,
    form: &FactorForm,
    rows: &RowFeatures,
    notes: &mut Vec<String>,
) -> String {
    match form {
        FactorForm::Softmax { .. } => add_sparse_softmax(graph, rows),
        FactorForm::Fm { .. } => {
            add_entries(graph, rows);
            add_pairs(graph, "vectors");
            add_scores(graph, "pair_scores", "bias")
        }
        FactorForm::Ffm { fields, rank, .. } => {
            add_entries(graph, rows);
            add_fields(graph, model, *fields, rows, notes);
            add_field_pairs(graph, *fields as i64, *rank as i64);
            add_scores(graph, "pair_scores", "bias")
        }
        FactorForm::Deep(shape) => {
            add_entries(graph, rows);
            add_fields(graph, model, form.fields(), rows, notes);
            let (vectors, inputs) = add_inputs(graph, shape);
            let output = add_perceptron(graph, shape, &inputs);
            if !shape.has_pairs {
                return graph.node("Add", &["linear_scores", &output], "row_scores", &[]);
            }
            add_pairs(graph, &vectors);
            add_scores(graph, "pair_scores", &output)
        }
    }
}

/// The sum of the linear scores and two other parts.
fn add_scores(graph: &mut Graph, pairs: &str, rest: &str) -> String {
    graph.node("Add", &["linear_scores", pairs], "entry_scores", &[]);
    graph.node("Add", &["entry_scores", rest], "row_scores", &[])
}

/// The entries of each row's keys times their values, split into linear weights and vectors.
fn add_entries(graph: &mut Graph, rows: &RowFeatures) {
    graph.ints("key_axis", &[1]);
    graph.ints("entry_axis", &[2]);
    graph.node("Gather", &["factors", &rows.keys], "entries", &[]);
    graph.node("Unsqueeze", &[&rows.values, "entry_axis"], "entry_values", &[]);
    graph.node("Mul", &["entries", "entry_values"], "entry_products", &[]);
    graph.ints("weight_part", &[0]);
    graph.ints("first_of_vector", &[1]);
    graph.ints("last_of_entry", &[i64::MAX]);
    let parts = ["entry_products", "weight_part", "first_of_vector", "entry_axis"];
    graph.node("Slice", &parts, "linear_products", &[]);
    let parts = ["entry_products", "first_of_vector", "last_of_entry", "entry_axis"];
    graph.node("Slice", &parts, "vectors", &[]);
    let drop = [("keepdims", Attribute::Int(0))];
    graph.node("ReduceSum", &["linear_products", "key_axis"], "linear_scores", &drop);
}

/// What pairs add to the score of a factorization machine: half of the square of the sum of all
/// vectors, less the sum of their squares.
fn add_pairs(graph: &mut Graph, vectors: &str) {
    let drop = [("keepdims", Attribute::Int(0))];
    graph.node("ReduceSum", &[vectors, "key_axis"], "vector_sums", &drop);
    graph.node("Mul", &["vector_sums", "vector_sums"], "squared_sums", &[]);
    graph.node("Mul", &[vectors, vectors], "squared_vectors", &[]);
    graph.node("ReduceSum", &["squared_vectors", "key_axis"], "squares", &drop);
    graph.node("Sub", &["squared_sums", "squares"], "twice_pairs", &[]);
    let keep = [("keepdims", Attribute::Int(1))];
    graph.node("ReduceSum", &["twice_pairs", "key_axis"], "twice_scores", &keep);
    halve_pairs(graph);
}

fn halve_pairs(graph: &mut Graph) {
    graph.floats("half", &[], &[0.5]);
    graph.node("Mul", &["twice_scores", "half"], "pair_scores", &[]);
}

/// Which field each key is in, `[N, K, fields]`: from the key for the columns of a table, otherwise
/// from an input.
fn add_fields(
    graph: &mut Graph,
    model: &TrainedModel,
    fields: usize,
    rows: &RowFeatures,
    notes: &mut Vec<String>,
) {
    let of_keys = if let Some(table) = model.table_featurizer() {
        let map = table.fields();
        let field_of = |key: u32| i64::from(map.field_of(key));
        let all: Vec<i64> = (0..table.features() as u32).map(field_of).collect();
        graph.ints("field_of_key", &all);
        graph.node("Gather", &["field_of_key", &rows.keys], "fields_of_keys", &[])
    } else {
        let shape = [Dimension::Named("N"), Dimension::Named("K")];
        let about = format!("fields of the keys, from 0 to {}", fields - 1);
        graph.input("fields", ElementType::Int64, &shape, &about);
        notes.push(format!(
            "input: fields (int64, N x K), the field of each key, from 0 to {}",
            fields - 1
        ));
        "fields".to_owned()
    };
    graph.ints("field_count", &[fields as i64]);
    graph.floats("off_and_on", &[2], &[0.0, 1.0]);
    let axis = [("axis", Attribute::Int(-1))];
    graph.node("OneHot", &[&of_keys, "field_count", "off_and_on"], "is_field", &axis);
    let turned = [("perm", Attribute::Ints(vec![0, 2, 1]))];
    graph.node("Transpose", &["is_field"], "by_field", &turned);
}

/// What pairs add to the score of a field-aware machine. With `a[f][g]` the sum of the vectors for
/// field g over the keys of field f, all pairs, each key with itself included and every other one
/// twice, add the products of `a[f][g]` and `a[g][f]`.
fn add_field_pairs(graph: &mut Graph, fields: i64, rank: i64) {
    graph.node("MatMul", &["by_field", "vectors"], "vector_sums", &[]);
    graph.ints("sum_shape", &[0, fields, fields, rank]);
    graph.node("Reshape", &["vector_sums", "sum_shape"], "sums_by_fields", &[]);
    let turned = [("perm", Attribute::Ints(vec![0, 2, 1, 3]))];
    graph.node("Transpose", &["sums_by_fields"], "sums_by_other_fields", &turned);
    graph.node("Mul", &["sums_by_fields", "sums_by_other_fields"], "squared_sums", &[]);
    // The vector of each key for its own field.
    graph.ints("vector_shape", &[0, 0, fields, rank]);
    graph.node("Reshape", &["vectors", "vector_shape"], "vectors_by_field", &[]);
    graph.ints("field_axis", &[3]);
    graph.node("Unsqueeze", &["is_field", "field_axis"], "own_field", &[]);
    graph.node("Mul", &["vectors_by_field", "own_field"], "own_vectors", &[]);
    graph.node("Mul", &["own_vectors", "own_vectors"], "squared_vectors", &[]);
    graph.ints("all_axes", &[1, 2, 3]);
    let drop = [("keepdims", Attribute::Int(0))];
    graph.node("ReduceSum", &["squared_sums", "all_axes"], "all_products", &drop);
    graph.node("ReduceSum", &["squared_vectors", "all_axes"], "squares", &drop);
    graph.node("Sub", &["all_products", "squares"], "twice_pairs", &[]);
    graph.node("Unsqueeze", &["twice_pairs", "key_axis"], "twice_scores", &[]);
    halve_pairs(graph);
}

/// The vectors of a row's keys and the inputs of the perceptron: the sums of the vectors of each
/// field and, after them, the numbers, whose keys have no vectors.
fn add_inputs(graph: &mut Graph, shape: &DeepShape) -> (String, String) {
    let flat = [("axis", Attribute::Int(1))];
    if shape.numbers == 0 {
        graph.node("MatMul", &["by_field", "vectors"], "embedded", &[]);
        let inputs = graph.node("Flatten", &["embedded"], "perceptron_inputs", &flat);
        return ("vectors".to_owned(), inputs);
    }
    let (fields, all) = (shape.fields as i64, (shape.fields + shape.numbers) as i64);
    graph.ints("first_field", &[0]);
    graph.ints("first_number", &[fields]);
    graph.ints("last_number", &[all]);
    let parts = ["is_field", "first_field", "first_number", "entry_axis"];
    graph.node("Slice", &parts, "is_vector_field", &[]);
    let keep = [("keepdims", Attribute::Int(1))];
    graph.node("ReduceSum", &["is_vector_field", "entry_axis"], "has_vector", &keep);
    let vectors = graph.node("Mul", &["vectors", "has_vector"], "used_vectors", &[]);
    graph.node("MatMul", &["by_field", &vectors], "all_embedded", &[]);
    let parts = ["all_embedded", "first_field", "first_number", "key_axis"];
    graph.node("Slice", &parts, "embedded", &[]);
    graph.node("Flatten", &["embedded"], "vector_inputs", &flat);
    graph.node("MatMul", &["by_field", "entry_values"], "sums_of_values", &[]);
    let parts = ["sums_of_values", "first_number", "last_number", "key_axis"];
    graph.node("Slice", &parts, "numbers", &[]);
    graph.node("Flatten", &["numbers"], "number_inputs", &flat);
    let inputs =
        graph.node("Concat", &["vector_inputs", "number_inputs"], "perceptron_inputs", &flat);
    (vectors, inputs)
}

/// The perceptron on its inputs. Returns its output, `[N, 1]`.
fn add_perceptron(graph: &mut Graph, shape: &DeepShape, inputs: &str) -> String {
    let mut last = inputs.to_owned();
    let transposed = [("transB", Attribute::Int(1))];
    for layer in 0..shape.hidden.len() {
        let name = format!("hidden.{layer}");
        let (weight, bias) = (format!("{name}.weight"), format!("{name}.bias"));
        let sums =
            graph.node("Gemm", &[&last, &weight, &bias], &format!("{name}.sums"), &transposed);
        last = graph.node("Relu", &[&sums], &format!("{name}.out"), &[]);
    }
    let inputs = [last.as_str(), "output.weight", "output.bias"];
    graph.node("Gemm", &inputs, "output.out", &transposed)
}

/// Softmax regression over keys and values. Returns the scores, `[N, classes]`.
fn add_sparse_softmax(graph: &mut Graph, rows: &RowFeatures) -> String {
    graph.ints("key_axis", &[1]);
    graph.ints("entry_axis", &[2]);
    graph.node("Gather", &["weight", &rows.keys], "entries", &[]);
    graph.node("Unsqueeze", &[&rows.values, "entry_axis"], "entry_values", &[]);
    graph.node("Mul", &["entries", "entry_values"], "entry_products", &[]);
    let drop = [("keepdims", Attribute::Int(0))];
    graph.node("ReduceSum", &["entry_products", "key_axis"], "entry_scores", &drop);
    graph.node("Add", &["entry_scores", "bias"], "class_scores", &[])
}
