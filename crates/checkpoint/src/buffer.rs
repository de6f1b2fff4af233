//! One shard of a checkpoint as a safetensors file.
//!
//! Parameters have the names of the model's tensors, the optimizer's state has names of the form
//! `optimizer.<state>.<tensor>`; where gradients travel as changes, each slot's gradient as the
//! servers know it has names of the form `known_gradient.<slot>.<tensor>`. A tensor that lies
//! wholly in the shard has its shape. A tensor that is cut between servers is a row of numbers, and
//! the file's metadata says which: `pieces` is JSON that maps its name to the first number and the
//! one after the last. Concatenated in the order of the files, the pieces are the tensor.
//!
//! If a key of the model has several parameters, the file has only the entries that exist:
//! `entries` has a row of numbers for each, `optimizer.<state>.entries` a row of state, and `keys`
//! the key of each row, in order. Behind the features, the keys name the parameters that every
//! example touches, one row after another. If entries are evicted, `marks` says for each in which
//! period it was last named. If a key gets an entry only after several updates have named it,
//! `counted_keys` and `counts` say how many have, for the keys without an entry.
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

/// How many rows the columns of a shard have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShardRows {
    /// One for each parameter.
    All,
    /// One for each entry that exists, and its key.
    Entries(EntryRows),
}

/// What the file of a table with entries has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EntryRows {
    /// Entries that exist.
    pub(crate) entries: usize,
    /// Whether each has a mark that says when it was last named.
    pub(crate) has_marks: bool,
    /// Keys without an entry that were named.
    pub(crate) counted: usize,
}

impl EntryRows {
    /// The whole numbers behind the values: keys, marks, counted keys, and their counts.
    pub(crate) fn whole_numbers(&self) -> usize {
        self.entries * (1 + usize::from(self.has_marks)) + 2 * self.counted
    }
}

impl ShardColumns {
    /// The number of values.
    fn len(&self, layout: &Layout, rows: ShardRows) -> usize {
        let values = match rows {
            ShardRows::All => self.shard.len(),
            ShardRows::Entries(rows) => rows.entries * layout.width(),
        };
        values * (1 + self.states.len() + self.known_gradients)
    }

    /// The most rows that the columns can have.
    fn most_rows(&self, layout: &Layout) -> ShardRows {
        match layout.width() {
            1 => ShardRows::All,
            width => {
                let keys = self.shard.len().div_ceil(width);
                ShardRows::Entries(EntryRows { entries: keys, has_marks: true, counted: keys })
            }
        }
    }

    /// What each column's names begin with.
    fn prefixes(&self) -> impl Iterator<Item = String> {
        let states = self.states.iter().map(|state| format!("optimizer.{state}."));
        let known = (0..self.known_gradients).map(|slot| format!("known_gradient.{slot}."));
        [String::new()].into_iter().chain(states).chain(known)
    }
}

/// A copy of a shard as it lies in its file: the header, the numbers, the keys of entries if it has
/// entries, and zeros to the end of the last block.
pub(crate) struct CheckpointBuffer {
    /// Page-aligned, in huge pages where the system has them: copying, checksums and writing then
    /// miss the TLB less often.
    memory: MmapMut,
    values: Range<usize>,
    /// Where the whole numbers of entries end: behind the values.
    end: usize,
    rows: ShardRows,
}

impl CheckpointBuffer {
    /// Memory for a copy.
    pub(crate) fn new(layout: &Layout, columns: &ShardColumns) -> io::Result<Self> {
        let most = columns.most_rows(layout);
        let header_bytes = 8 + header(layout, columns, most, u64::MAX).len();
        let start = header_bytes.next_multiple_of(BLOCK_BYTES);
        // Memory for entries is allocated when their number is known.
        let rows =
            if most == ShardRows::All { most } else { ShardRows::Entries(EntryRows::default()) };
        let end = start + columns.len(layout, rows) * size_of::<f32>();
        Ok(Self { memory: touched_memory(end)?, values: start..end, end, rows })
    }

    /// Makes room for this many entries.
    pub(crate) fn fit(
        &mut self,
        layout: &Layout,
        columns: &ShardColumns,
        rows: EntryRows,
    ) -> io::Result<()> {
        self.rows = ShardRows::Entries(rows);
        let values = columns.len(layout, self.rows) * size_of::<f32>();
        self.values.end = self.values.start + values;
        self.end = self.values.end + rows.whole_numbers() * size_of::<u32>();
        if self.end.next_multiple_of(BLOCK_BYTES) > self.memory.len() {
            // More than needed, because entries become more from checkpoint to checkpoint.
            self.memory = touched_memory(self.end + self.end / 4)?;
        }
        Ok(())
    }

    /// How many rows it has.
    pub(crate) fn rows(&self) -> ShardRows {
        self.rows
    }

    /// The whole numbers behind the values; see [`EntryRows`].
    pub(crate) fn whole_numbers_mut(&mut self) -> &mut [u32] {
        bytemuck::cast_slice_mut(&mut self.memory[self.values.end..self.end])
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

/// Memory whose pages are allocated now, so that no update waits for them during the copy.
fn touched_memory(bytes: usize) -> io::Result<MmapMut> {
    let mut memory = MmapMut::map_anon(bytes.next_multiple_of(BLOCK_BYTES))?;
    #[cfg(target_os = "linux")]
    {
        // Advice the system ignores costs speed and nothing else.
        let _ = memory.advise(memmap2::Advice::HugePage);
    }
    memory.iter_mut().step_by(BLOCK_BYTES).for_each(|byte| *byte = 0);
    Ok(memory)
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
    buffer.set_header(&header(layout, columns, buffer.rows, step));
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
    let len = buffer.end;
    let (mut at, mut crc32c) = (0, 0);
    for chunk in buffer.memory[..len.next_multiple_of(BLOCK_BYTES)].chunks(WRITE_BYTES) {
        crc32c = crc32c::crc32c_append(crc32c, &chunk[..chunk.len().min(len - at)]);
        file.write_all(chunk)?;
        at += chunk.len();
    }
    file.set_len(len as u64)?;
    file.sync_all()?;
    Ok(FileSum { bytes: len as u64, crc32c })
}

/// The JSON header of the file.
fn header(layout: &Layout, columns: &ShardColumns, rows: ShardRows, step: u64) -> String {
    if let ShardRows::Entries(rows) = rows {
        return header_with(entry_tensors(layout, columns, rows), Map::new(), step);
    }
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
    header_with(entries, pieces, step)
}

/// The tensors of a file of entries.
fn entry_tensors(layout: &Layout, columns: &ShardColumns, rows: EntryRows) -> Map<String, Value> {
    let count = rows.entries;
    let (mut tensors, mut at, width) = (Map::new(), 0, layout.width());
    let mut add = |name: String, kind: &str, shape: &[usize]| {
        let end = at + shape.iter().product::<usize>() * size_of::<f32>();
        tensors.insert(name, json!({"dtype": kind, "shape": shape, "data_offsets": [at, end]}));
        at = end;
    };
    for prefix in columns.prefixes() {
        add(format!("{prefix}entries"), "F32", &[count, width]);
    }
    add("keys".into(), "U32", &[count]);
    if rows.has_marks {
        add("marks".into(), "U32", &[count]);
    }
    if rows.counted > 0 {
        add("counted_keys".into(), "U32", &[rows.counted]);
        add("counts".into(), "U32", &[rows.counted]);
    }
    tensors
}

fn header_with(entries: Map<String, Value>, pieces: Map<String, Value>, step: u64) -> String {
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
