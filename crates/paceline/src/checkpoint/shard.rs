//! One shard of a checkpoint as a safetensors file.
//!
//! Parameters lie in it under the names of the model's tensors, the optimizer's slots under
//! `optimizer.<slot>.<tensor>`. A tensor that lies in the shard as a whole has its shape. Of one
//! that is cut between servers the piece is a row of numbers, and the file's metadata tells which:
//! `pieces` is JSON, by name the first number and the one after the last. Joined in the order of
//! the files, pieces are the tensor.
//!
//! A copy of a shard lies in memory as its file does on disk, and in whole blocks, so that it can be
//! written without going through the page cache. That halves what the processors have to do, which
//! have a model to train meanwhile, and leaves the memory to them.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use memmap2::MmapMut;
use paceline_model::Layout;
use serde_json::{Map, Value, json};

/// What is written at a time.
const CHUNK_BYTES: usize = 1 << 20;
/// Without the page cache, a file is written in whole blocks, from addresses that are multiples.
const BLOCK_BYTES: usize = 4096;
/// Says to the system that a file goes past the page cache.
#[cfg(target_os = "linux")]
const UNCACHED: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;
#[cfg(not(target_os = "linux"))]
const UNCACHED: i32 = 0;

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

/// A copy of a shard, as it lies in its file: room for the header, the numbers, and zeros to the end
/// of the last block.
pub(crate) struct Sheet {
    /// Begins at a page, and lies in huge ones where the system has them: there are fewer to look
    /// up for whoever copies, sums up or writes.
    memory: MmapMut,
    values: Range<usize>,
}

impl Sheet {
    /// Memory for a copy.
    pub(crate) fn new(layout: &Layout, columns: &Columns) -> io::Result<Self> {
        let header_bytes = 8 + header(layout, columns, u64::MAX).len();
        let start = header_bytes.next_multiple_of(BLOCK_BYTES);
        let end = start + columns.len() * size_of::<f32>();
        let mut memory = MmapMut::map_anon(end.next_multiple_of(BLOCK_BYTES))?;
        #[cfg(target_os = "linux")]
        {
            // Advice that is not taken costs speed and nothing else.
            let _ = memory.advise(memmap2::Advice::HugePage);
        }
        // Now, and not when an update has to wait for the copy, it is taken from the system.
        memory.iter_mut().step_by(BLOCK_BYTES).for_each(|byte| *byte = 0);
        Ok(Self { memory, values: start..end })
    }

    /// The columns, one behind the other.
    pub(crate) fn values_mut(&mut self) -> &mut [f32] {
        bytemuck::cast_slice_mut(&mut self.memory[self.values.clone()])
    }

    /// Puts the header in its place, with spaces behind it up to the numbers.
    fn set_header(&mut self, json: &str) {
        let (len, text) = self.memory[..self.values.start].split_at_mut(8);
        len.copy_from_slice(&(text.len() as u64).to_le_bytes());
        text[..json.len()].copy_from_slice(json.as_bytes());
        text[json.len()..].fill(b' ');
    }
}

/// Writes a shard under a temporary name, and renames it once it is on disk; its length and its
/// checksum.
pub(crate) fn write_shard(
    path: &Path,
    layout: &Layout,
    columns: &Columns,
    step: u64,
    sheet: &mut Sheet,
) -> io::Result<(u64, u32)> {
    sheet.set_header(&header(layout, columns, step));
    let temporary = path.with_extension("tmp");
    let written = match write_all(&temporary, UNCACHED, sheet) {
        // This file system has no other way than through the page cache.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            write_all(&temporary, 0, sheet)
        }
        written => written,
    };
    let written = written.and_then(|sum| fs::rename(&temporary, path).map(|()| sum));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn write_all(path: &Path, flags: i32, sheet: &Sheet) -> io::Result<(u64, u32)> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(flags)
        .open(path)?;
    let len = sheet.values.end;
    let (mut at, mut crc) = (0, 0);
    for chunk in sheet.memory.chunks(CHUNK_BYTES) {
        crc = crc32c::crc32c_append(crc, &chunk[..chunk.len().min(len - at)]);
        file.write_all(chunk)?;
        at += chunk.len();
    }
    file.set_len(len as u64)?;
    file.sync_all()?;
    Ok((len as u64, crc))
}

/// The JSON that says what lies where.
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
    Value::Object(about).to_string()
}
