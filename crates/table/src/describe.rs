//! Prints how the columns of a table would be used, as a section of a job file.

use std::fmt::Write as _;
use std::path::Path;

use paceline_data::sparse::source_files;
use paceline_data::{DataError, OpenObserver};

use crate::column::{CodeChoice, ColumnChoice, ScaleChoice};
use crate::infer::PlannedColumn;
use crate::open::{PlannedTable, TableSpec, plan_columns, plan_table};
use crate::table_text::TableText;

/// Bits of a hash for a dense model, as a job has them by default.
const DENSE_BITS: u32 = 10;

/// The sections `[data]` and `[data.columns]` of a job for this table, with the reasons as
/// comments.
///
/// # Errors
/// If the first file cannot be read.
pub fn describe_table(
    spec: &TableSpec,
    observer: &mut dyn OpenObserver,
) -> Result<String, DataError> {
    let files = source_files(&spec.path)?;
    let mut table = plan_columns(spec, &files[0], false, observer)?;
    if needs_dense_model(&table) {
        let spec = TableSpec { bits: DENSE_BITS, ..spec.clone() };
        table = plan_columns(&spec, &files[0], false, observer)?;
    }
    Ok(section(&spec.path.display().to_string(), &table))
}

/// As [`describe_table`], for text that is read from a stream.
///
/// # Errors
/// As [`describe_table`].
pub fn describe_stream(
    spec: &TableSpec,
    source: &mut dyn std::io::Read,
) -> Result<String, DataError> {
    let name = Path::new("standard input");
    let unpacked = paceline_data::unpack::Unpacked::new(source);
    let mut content = unpacked.map_err(DataError::io("read", name))?;
    let text = TableText::open(name, Box::new(&mut content), &spec.format)?;
    let mut table = plan_table(spec, &text, false)?;
    if needs_dense_model(&table) {
        table = plan_table(&TableSpec { bits: DENSE_BITS, ..spec.clone() }, &text, false)?;
    }
    Ok(section("PATH", &table))
}

/// Whether the label has more classes than logistic regression tells apart.
fn needs_dense_model(table: &PlannedTable) -> bool {
    table.label.as_ref().is_some_and(|label| label.classes > 2)
}

fn section(path: &str, table: &PlannedTable) -> String {
    let mut text = format!("[data]\nkind = \"table\"\npath = {}\n", quoted(path));
    let format = table.format;
    if !format.header {
        text += "header = false\n";
    }
    if let Some(word) = delimiter_word(format.delimiter) {
        let _ = writeln!(text, "delimiter = {word:?}");
    }
    text += "\n[data.columns]\n";
    for column in &table.columns {
        let setting = format!("{} = {}", key(&column.name), setting(&column.choice));
        match &column.why {
            Some(why) => {
                let doubt =
                    column.doubt.as_ref().map_or(String::new(), |doubt| format!("; {doubt}"));
                let _ = writeln!(text, "{setting:<48} # {why}{doubt}");
            }
            None => {
                let _ = writeln!(text, "{setting}");
            }
        }
    }
    let is_label = |column: &PlannedColumn| matches!(column.choice, ColumnChoice::Label { .. });
    if !table.columns.iter().any(is_label) {
        text += "# No column is clearly the label: to train, declare one of them as \"label\".\n";
    }
    if let Some(uneven) = &table.uneven {
        let _ = writeln!(text, "# {uneven}.");
    }
    if let Some(label) = table.label.as_ref().filter(|_| needs_dense_model(table)) {
        let setting = "[model]\nkind = \"softmax\"";
        let _ = writeln!(text, "\n{setting:<56} # the label has {} classes", label.classes);
    }
    text
}

/// What a job calls a delimiter other than a comma.
fn delimiter_word(delimiter: u8) -> Option<&'static str> {
    match delimiter {
        b'\t' => Some("tab"),
        b';' => Some("semicolon"),
        b'|' => Some("pipe"),
        b' ' => Some("space"),
        _ => None,
    }
}

fn setting(choice: &ColumnChoice) -> String {
    let codes = |codes: &CodeChoice| match *codes {
        CodeChoice { bits: Some(bits), .. } => format!(", bits = {bits}"),
        CodeChoice { min_count: Some(count), .. } => format!(", min_count = {count}"),
        CodeChoice { bits: None, min_count: None } => String::new(),
    };
    match choice {
        ColumnChoice::Label { classes } if classes.is_empty() => "\"label\"".into(),
        ColumnChoice::Label { classes } => {
            let classes: Vec<_> = classes.iter().map(|class| quoted(class)).collect();
            format!("{{ as = \"label\", classes = [{}] }}", classes.join(", "))
        }
        ColumnChoice::Number(ScaleChoice::Standard) => "\"number\"".into(),
        ColumnChoice::Number(ScaleChoice::Raw) => "{ as = \"number\", scale = \"raw\" }".into(),
        ColumnChoice::Number(ScaleChoice::Log) => "{ as = \"number\", scale = \"log\" }".into(),
        ColumnChoice::Number(ScaleChoice::Buckets(count)) => {
            format!("{{ as = \"number\", scale = \"buckets\", buckets = {count} }}")
        }
        ColumnChoice::Category(choice) => {
            format!("{{ as = \"category\"{} }}", codes(choice))
        }
        ColumnChoice::List { separator, codes: choice } => {
            let separator = quoted(&separator.to_string());
            format!("{{ as = \"list\", separator = {separator}{} }}", codes(choice))
        }
        ColumnChoice::Text { bits, ngrams } => {
            let bits = bits.map_or(String::new(), |bits| format!(", bits = {bits}"));
            format!("{{ as = \"text\", ngrams = {ngrams}{bits} }}")
        }
        ColumnChoice::Weight => "\"weight\"".into(),
        ColumnChoice::Id => "\"id\"".into(),
        ColumnChoice::Ignore => "\"ignore\"".into(),
    }
}

/// A key as TOML writes it.
fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if !name.is_empty() && name.chars().all(is_bare) { name.into() } else { quoted(name) }
}

/// Text as TOML writes it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\t' => quoted.push_str("\\t"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", c as u32);
            }
            c => quoted.push(c),
        }
    }
    quoted + "\""
}
