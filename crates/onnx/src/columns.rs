//! Translates the featuriser of a table into nodes, as far as ONNX can express it.
//!
//! Every column gives a key and a value for each row, as in `paceline-table`: numbers and
//! vocabularies become nodes, and what needs a hash or words is left to the caller, who passes keys
//! and values.

use paceline_table::{CategoryCodes, Column, ColumnRole, Featurizer, NumberScale};

use crate::graph::Graph;
use crate::schema::{Attribute, Dimension, ElementType};

/// The first feature of a column, from which its others are counted.
type FirstFeature = i64;

/// The keys and values of all rows, `[N, K]`.
pub(crate) struct RowFeatures {
    pub(crate) keys: String,
    pub(crate) values: String,
}

/// Adds the inputs of a table and the nodes that turn them into keys and values. `taken` are names
/// that the graph uses otherwise.
pub(crate) fn add_columns(
    graph: &mut Graph,
    featurizer: &Featurizer,
    taken: &[&str],
    notes: &mut Vec<String>,
) -> RowFeatures {
    let mut columns = ColumnNodes { graph, keys: Vec::new(), values: Vec::new() };
    columns.constants();
    let (mut numbers, mut texts, mut left) = (Vec::new(), Vec::new(), Vec::new());
    let mut first: FirstFeature = 0;
    for (index, column) in featurizer.columns.iter().enumerate() {
        let Column { name, role } = column;
        let input = input_name(name, featurizer, taken);
        let prefix = format!("#{index}");
        let width = role.width() as FirstFeature;
        match role {
            ColumnRole::Number(scale) => {
                columns.number(&input, &prefix, first, scale);
                numbers.push(input);
            }
            ColumnRole::Category(CategoryCodes::Vocabulary { words }) => {
                columns.vocabulary(&input, &prefix, first, words);
                texts.push(input);
            }
            _ if width > 0 => {
                left.push(format!(
                    "{name:?} ({}: keys {first} to {})",
                    why(role),
                    first + width - 1
                ));
            }
            _ => {}
        }
        first += width;
    }
    for cross in &featurizer.crosses {
        let last = first + (1 << cross.bits) - 1;
        left.push(format!(
            "{:?} (a hashed cross: keys {first} to {last})",
            cross.columns.join(" x ")
        ));
        first = last + 1;
    }
    note(&numbers, &texts, &left, notes);
    columns.finish(!left.is_empty(), first)
}

/// How the names of the nodes of layers end.
const LAYER_PARTS: [&str; 8] =
    [".out", ".sums", ".flat", ".image", ".shape", ".rows", ".columns", ".down"];

/// The name of a column's input: its own, unless the graph needs that for itself. Names that begin
/// with `#` are those of nodes, and layers may have any name before [`LAYER_PARTS`].
fn input_name(name: &str, featurizer: &Featurizer, taken: &[&str]) -> String {
    let is_of_layer = |name: &str| LAYER_PARTS.iter().any(|part| name.ends_with(part));
    let is_free =
        |name: &str| !taken.contains(&name) && !name.starts_with('#') && !is_of_layer(name);
    let mut input = if name.starts_with('#') { format!("_{name}") } else { name.to_owned() };
    let is_column = |input: &str| featurizer.columns.iter().any(|column| column.name == input);
    while !is_free(&input) || input != name && is_column(&input) {
        input.push('_');
    }
    input
}

/// Why a column is not in the graph.
fn why(role: &ColumnRole) -> &'static str {
    match role {
        ColumnRole::Text { .. } => "hashed words",
        ColumnRole::List { .. } => "a list",
        _ => "a hash",
    }
}

fn note(numbers: &[String], texts: &[String], left: &[String], notes: &mut Vec<String>) {
    let names = |names: &[String]| {
        names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
    };
    if !numbers.is_empty() {
        notes.push(format!(
            "inputs of numbers (float, N x 1; NaN is a missing value): {}",
            names(numbers)
        ));
    }
    if !texts.is_empty() {
        notes.push(format!(
            "inputs of texts (string, N x 1, without blanks at the ends; an empty text is a \
             missing value): {}",
            names(texts)
        ));
    }
    if !left.is_empty() {
        notes.push(format!(
            "not in the graph, because ONNX cannot express it: {}. Their features are the inputs \
             keys (int64, N x K) and values (float, N x K), as the metadata entry \"featurizer\" \
             describes them; rows with fewer than K are filled up with any key and the value 0",
            left.join(", ")
        ));
    }
}

/// Adds the nodes of columns.
struct ColumnNodes<'g> {
    graph: &'g mut Graph,
    keys: Vec<String>,
    values: Vec<String>,
}

impl ColumnNodes<'_> {
    fn constants(&mut self) {
        self.graph.floats("#zero", &[], &[0.0]);
        self.graph.floats("#one", &[], &[1.0]);
        self.graph.floats("#least", &[], &[f32::MIN]);
        self.graph.floats("#greatest", &[], &[f32::MAX]);
    }

    fn input(&mut self, name: &str, element: ElementType, about: &str) {
        let shape = [Dimension::Named("N"), Dimension::Size(1)];
        self.graph.input(name, element, &shape, about);
    }

    fn number(&mut self, input: &str, prefix: &str, first: FirstFeature, scale: &NumberScale) {
        self.input(input, ElementType::Float, "a number; NaN if it is missing");
        let name = |part: &str| format!("{prefix}.{part}");
        let missing = self.graph.node("IsNaN", &[input], &name("missing"), &[]);
        let (missing_key, key) = (name("missing_key"), name("number_key"));
        self.graph.ints(&missing_key, &[first]);
        self.graph.ints(&key, &[first + 1]);
        let mut key = key;
        let value = if let NumberScale::Buckets { bounds } = scale {
            if !bounds.is_empty() {
                let (limits, whole) = (name("bounds"), Attribute::Int(ElementType::Int64 as i64));
                self.graph.floats(&limits, &[1, bounds.len()], bounds);
                let above = [limits.as_str(), input];
                let above = self.graph.node("LessOrEqual", &above, &name("above"), &[]);
                let above = self.graph.node("Cast", &[&above], &name("counted"), &[("to", whole)]);
                let axis = name("bounds_axis");
                self.graph.ints(&axis, &[1]);
                let bucket = self.graph.node("ReduceSum", &[&above, &axis], &name("bucket"), &[]);
                key = self.graph.node("Add", &[&bucket, &key], &name("bucket_key"), &[]);
            }
            "#one".to_owned()
        } else {
            let known = [missing.as_str(), "#zero", input];
            let known = self.graph.node("Where", &known, &name("known"), &[]);
            let scaled = self.scaled(&known, prefix, scale);
            self.graph.node("Clip", &[&scaled, "#least", "#greatest"], &name("value"), &[])
        };
        let keys = [missing.as_str(), &missing_key, &key];
        let keys = self.graph.node("Where", &keys, &name("keys"), &[]);
        let values = [missing.as_str(), "#one", &value];
        let values = self.graph.node("Where", &values, &name("values"), &[]);
        self.keys.push(keys);
        self.values.push(values);
    }

    /// A number that is not missing, scaled.
    fn scaled(&mut self, number: &str, prefix: &str, scale: &NumberScale) -> String {
        let name = |part: &str| format!("{prefix}.{part}");
        let (number, mean, deviation) = match scale {
            NumberScale::Raw | NumberScale::Buckets { .. } => return number.to_owned(),
            NumberScale::Standard { mean, deviation } => (number.to_owned(), mean, deviation),
            NumberScale::Log { mean, deviation } => {
                let size = self.graph.node("Abs", &[number], &name("size"), &[]);
                let more = self.graph.node("Add", &[&size, "#one"], &name("more"), &[]);
                let log = self.graph.node("Log", &[&more], &name("log"), &[]);
                let sign = self.graph.node("Sign", &[number], &name("sign"), &[]);
                (self.graph.node("Mul", &[&log, &sign], &name("signed_log"), &[]), mean, deviation)
            }
        };
        self.graph.floats(&name("mean"), &[], &[*mean]);
        self.graph.floats(&name("deviation"), &[], &[*deviation]);
        let centred = self.graph.node("Sub", &[&number, &name("mean")], &name("centred"), &[]);
        self.graph.node("Div", &[&centred, &name("deviation")], &name("scaled"), &[])
    }

    fn vocabulary(&mut self, input: &str, prefix: &str, first: FirstFeature, words: &[String]) {
        self.input(input, ElementType::String, "a text; empty if it is missing");
        let name = |part: &str| format!("{prefix}.{part}");
        let texts = [String::new()].into_iter().chain(words.iter().cloned()).collect();
        let keys = [first].into_iter().chain(first + 2..first + 2 + words.len() as i64).collect();
        let attributes = [
            ("keys_strings", Attribute::Texts(texts)),
            ("values_int64s", Attribute::Ints(keys)),
            ("default_int64", Attribute::Int(first + 1)),
        ];
        let keys = self.graph.node("LabelEncoder", &[input], &name("keys"), &attributes);
        // A one for each key.
        let same = self.graph.node("Equal", &[&keys, &keys], &name("same"), &[]);
        let to_float = [("to", Attribute::Int(ElementType::Float as i64))];
        let values = self.graph.node("Cast", &[&same], &name("values"), &to_float);
        self.keys.push(keys);
        self.values.push(values);
    }

    /// Joins the columns. Every feature that a row has is among the keys.
    fn finish(mut self, has_more: bool, features: FirstFeature) -> RowFeatures {
        if has_more {
            let shape = [Dimension::Named("N"), Dimension::Named("K")];
            let about = format!("keys of the other columns, from 0 to {}", features - 1);
            self.graph.input("keys", ElementType::Int64, &shape, &about);
            let about = "values of the keys; 0 for a key that only fills the row";
            self.graph.input("values", ElementType::Float, &shape, about);
            self.keys.push("keys".into());
            self.values.push("values".into());
        }
        let axis = [("axis", Attribute::Int(1))];
        let mut join = |parts: &[String], name: &str| {
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            self.graph.node("Concat", &parts, name, &axis)
        };
        RowFeatures { keys: join(&self.keys, "#keys"), values: join(&self.values, "#values") }
    }
}

/// Adds the nodes that turn keys and values into vectors, `[N, features]`.
pub(crate) fn add_vectors(graph: &mut Graph, rows: &RowFeatures, features: usize) -> String {
    graph.ints("#row_axis", &[0]);
    graph.ints("#width", &[features as i64]);
    graph.node("Shape", &[&rows.keys], "#keys_shape", &[]);
    graph.node("Gather", &["#keys_shape", "#row_axis"], "#rows", &[]);
    graph.node("Concat", &["#rows", "#width"], "#shape", &[("axis", Attribute::Int(0))]);
    graph.node("ConstantOfShape", &["#shape"], "#zeros", &[]);
    let add = [("axis", Attribute::Int(1)), ("reduction", Attribute::Text("add".into()))];
    graph.node("ScatterElements", &["#zeros", &rows.keys, &rows.values], "features", &add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_has_an_input_of_its_own() {
        let names = ["weight", "weight_", "#keys", "_#keys", "age", "0.out"];
        let column = |name: &str| format!(r#"{{"name":"{name}","as":"number","scale":"raw"}}"#);
        let text = format!(
            r#"{{"version":1,"kind":"table","crosses":[],"columns":[{}],
                "format":{{"delimiter":",","quotes":true,"header":true}}}}"#,
            names.map(column).join(",")
        );
        let featurizer = Featurizer::from_json(&text).unwrap();
        let inputs = names.map(|name| input_name(name, &featurizer, &["weight"]));
        assert_eq!(inputs, ["weight__", "weight_", "_#keys_", "_#keys", "age", "0.out_"]);
    }
}
