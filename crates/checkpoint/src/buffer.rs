//! One shard of a checkpoint as a safetensors file.
//!
//! Parameters have the names of the model's tensors, the optimizer's state has names of the form
//! `optimizer.<state>.<tensor>`; where gradients travel as changes, each slot's gradient as the
//! servers know it has names of the form `known_gradient.<slot>.<tensor>`. A tensor that lies
//! wholly in the shard has its shape. A tensor that is cut between servers is a row of numbers, and
//! the file's metadata says which: `pieces` is JSON that maps its name to the first number and the
//! one after the last. Concatenated in the order of the files, the pieces are the tensor.
//!
//! A copy of a shard lies in memory as its file does on disk, in whole blocks, so that it can be
//! written without the page cache. That halves the processor time of a checkpoint and leaves the
//! memory to training.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use memmap2::MmapMut;
use paceline_model::Layout;
use serde_json::{Map, Value, json};

/// Bytes written at a time.
const WRITE_BYTES: usize = 1 << 20;
/// Without the page cache, writes must be whole blocks at addresses that are multiples of this.
const BLOCK_BYTES: usize = 4096;
/// The flag that makes writes bypass the page cache.
#[cfg(target_os = "linux")]
const UNCACHED: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;
#[cfg(not(target_os = "linux"))]
const UNCACHED: i32 = 0;

/// The columns of a shard's file: the parameters, then each state of the optimizer, then each
/// slot's gradient as the servers know it.
#[derive(Clone, Debug)]
pub(crate) struct ShardColumns {
    pub(crate) shard: Range<usize>,
    pub(crate) states: Vec<String>,
    pub(crate) known_gradients: usize,
}

impl ShardColumns {
    /// The number of values.
    pub(crate) fn len(&self) -> usize {
        self.shard.len() * (1 + self.states.len() + self.known_gradients)
    }

    /// What each column's names begin with.
    fn prefixes(&self) -> impl Iterator<Item = String> {
        let states = self.states.iter().map(|state| format!("optimizer.{state}."));
        let known = (0..self.known_gradients).map(|slot| format!("known_gradient.{slot}."));
        [String::new()].into_iter().chain(states).chain(known)
    }
}

/// A copy of a shard as it lies in its file: the header, the numbers, and zeros to the end of the
/// last block.
pub(crate) struct CheckpointBuffer {
    /// Page-aligned, in huge pages where the system has them: copying, checksums and writing then
    /// miss the TLB less often.
    memory: MmapMut,
    values: Range<usize>,
}

impl CheckpointBuffer {
    /// Memory for a copy.
    pub(crate) fn new(layout: &Layout, columns: &ShardColumns) -> io::Result<Self> {
        let header_bytes = 8 + header(layout, columns, u64::MAX).len();
        let start = header_bytes.next_multiple_of(BLOCK_BYTES);
        let end = start + columns.len() * size_of::<f32>();
        let mut memory = MmapMut::map_anon(end.next_multiple_of(BLOCK_BYTES))?;
        #[cfg(target_os = "linux")]
        {
            // Advice the system ignores costs speed and nothing else.
            let _ = memory.advise(memmap2::Advice::HugePage);
        }
        // Allocates the pages now, so that no update waits for them during the copy.
        memory.iter_mut().step_by(BLOCK_BYTES).for_each(|byte| *byte = 0);
        Ok(Self { memory, values: start..end })
    }

    /// The columns, one after the other.
    pub(crate) fn values_mut(&mut self) -> &mut [f32] {
        bytemuck::cast_slice_mut(&mut self.memory[self.values.clone()])
    }

    /// Writes the header, padded with spaces up to the numbers.
    fn set_header(&mut self, json: &str) {
        let (len, text) = self.memory[..self.values.start].split_at_mut(8);
        len.copy_from_slice(&(text.len() as u64).to_le_bytes());
        text[..json.len()].copy_from_slice(json.as_bytes());
        text[json.len()..].fill(b' ');
    }
}

/// A file's length and checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileSum {
    pub(crate) bytes: u64,
    pub(crate) crc32c: u32,
}

/// Writes a shard under a temporary name and renames it once it is on disk.
pub(crate) fn write_shard(
    path: &Path,
    layout: &Layout,
    columns: &ShardColumns,
    step: u64,
    buffer: &mut CheckpointBuffer,
) -> io::Result<FileSum> {
    buffer.set_header(&header(layout, columns, step));
    let temporary = path.with_extension("tmp");
    let written = match write_all(&temporary, UNCACHED, buffer) {
        // This file system cannot bypass the page cache.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            write_all(&temporary, 0, buffer)
        }
        written => written,
    };
    let written = written.and_then(|sum| fs::rename(&temporary, path).map(|()| sum));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn write_all(path: &Path, flags: i32, buffer: &CheckpointBuffer) -> io::Result<FileSum> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(flags)
        .open(path)?;
    let len = buffer.values.end;
    let (mut at, mut crc32c) = (0, 0);
    for chunk in buffer.memory.chunks(WRITE_BYTES) {
        crc32c = crc32c::crc32c_append(crc32c, &chunk[..chunk.len().min(len - at)]);
        file.write_all(chunk)?;
        at += chunk.len();
    }
    file.set_len(len as u64)?;
    file.sync_all()?;
    Ok(FileSum { bytes: len as u64, crc32c })
}

/// The JSON header of the file.
fn header(layout: &Layout, columns: &ShardColumns, step: u64) -> String {
    let (mut entries, mut pieces) = (Map::new(), Map::new());
    for (column, prefix) in columns.prefixes().enumerate() {
        for tensor in layout.tensors() {
            let from = tensor.range.start.max(columns.shard.start);
            let to = tensor.range.end.min(columns.shard.end);
            if from >= to {
                continue;
            }
            let name = format!("{prefix}{}", tensor.name);
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
    let mut info = Map::new();
    info.insert("__metadata__".into(), metadata);
    info.extend(entries);
    Value::Object(info).to_string()
}
