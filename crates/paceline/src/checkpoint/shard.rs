//! One shard of a checkpoint as a safetensors file.
//!
//! Parameters lie in it under the names of the model's tensors, the optimizer's slots under
//! `optimizer.<slot>.<tensor>`. A tensor that lies in the shard as a whole has its shape. Of one
//! that is cut between servers the piece is a row of numbers, and the file's metadata tells which:
//! `pieces` is JSON, by name the first number and the one after the last. Joined in the order of
//! the files, pieces are the tensor.

use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

use paceline_model::Layout;
use serde_json::{Map, Value, json};

/// What is written at a time.
const CHUNK_BYTES: usize = 4 << 20;

/// Which numbers a shard's file has: a column of parameters, then one for each slot.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    pub(crate) shard: Range<usize>,
    pub(crate) slots: Vec<String>,
}

impl Columns {
    /// How many numbers there are in all.
    pub(crate) fn len(&self) -> usize {
        self.shard.len() * (1 + self.slots.len())
    }
}

/// Writes a shard under a temporary name, and renames it once it is on disk; its length and its
/// checksum.
pub(crate) fn write_shard(
    path: &Path,
    layout: &Layout,
    columns: &Columns,
    step: u64,
    values: &[f32],
) -> io::Result<(u64, u32)> {
    assert_eq!(values.len(), columns.len(), "numbers of a shard");
    let header = header(layout, columns, step);
    let temporary = path.with_extension("tmp");
    let written = write_all(&temporary, &header, values)
        .and_then(|crc| fs::rename(&temporary, path).map(|()| crc));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    let bytes = 8 + header.len() + size_of_val(values);
    Ok((bytes as u64, written?))
}

fn write_all(path: &Path, header: &str, values: &[f32]) -> io::Result<u32> {
    let mut file = File::create(path)?;
    let mut crc = 0;
    let mut put = |bytes: &[u8]| {
        crc = crc32c::crc32c_append(crc, bytes);
        file.write_all(bytes)
    };
    put(&(header.len() as u64).to_le_bytes())?;
    put(header.as_bytes())?;
    bytemuck::cast_slice(values).chunks(CHUNK_BYTES).try_for_each(put)?;
    file.sync_all()?;
    Ok(crc)
}

/// The JSON that says what lies where, with spaces behind it so that the numbers are aligned.
fn header(layout: &Layout, columns: &Columns, step: u64) -> String {
    let (mut entries, mut pieces) = (Map::new(), Map::new());
    let names = [None].into_iter().chain(columns.slots.iter().map(Some));
    for (column, slot) in names.enumerate() {
        for tensor in layout.tensors() {
            let from = tensor.range.start.max(columns.shard.start);
            let to = tensor.range.end.min(columns.shard.end);
            if from >= to {
                continue;
            }
            let name = match slot {
                None => tensor.name.clone(),
                Some(slot) => format!("optimizer.{slot}.{}", tensor.name),
            };
            let is_whole = tensor.range == (from..to);
            let shape = if is_whole { tensor.shape.clone() } else { vec![to - from] };
            if !is_whole {
                let piece = [from, to].map(|at| at - tensor.range.start);
                pieces.insert(name.clone(), json!(piece));
            }
            let start = column * columns.shard.len();
            let offsets =
                [from, to].map(|at| (start + at - columns.shard.start) * size_of::<f32>());
            entries.insert(name, json!({"dtype": "F32", "shape": shape, "data_offsets": offsets}));
        }
    }
    let mut metadata = json!({
        "format": "pt",
        "global_step": step.to_string(),
        "paceline": env!("CARGO_PKG_VERSION"),
    });
    if !pieces.is_empty() {
        metadata["pieces"] = Value::Object(pieces).to_string().into();
    }
    let mut about = Map::new();
    about.insert("__metadata__".into(), metadata);
    about.extend(entries);
    let json = Value::Object(about).to_string();
    let aligned = json.len().next_multiple_of(8);
    format!("{json:<aligned$}")
}
