//! The manifest: the file that makes a checkpoint complete.
//!
//! It is JSON for people and tools. Its last field is the CRC-32C of every byte before it, so that
//! a changed digit is noticed like a changed parameter.

use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

use paceline_exchange::{ChunkMarks, SlotMark};
use paceline_filemap::read_regular;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The version of the format.
pub const FORMAT: u32 = 1;
/// More slots than any run has.
const MAX_SLOTS: usize = 1 << 16;
/// The text before the checksum.
const SEAL: &str = ",\n  \"crc32c\": \"";

/// Where a batch plan starts to count: at `step` it stands at `position` in the sequence of
/// examples. Both are 0 until a run is resumed with other slots or another batch size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanOrigin {
    /// A step of the plan.
    pub step: u64,
    /// The position at that step, in examples.
    pub position: u64,
}

/// What all shards of a checkpoint have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckpointInfo {
    /// The version of this format.
    pub format: u32,
    /// The version of the program.
    pub paceline: String,
    /// The step the checkpoint is named after.
    pub step: u64,
    /// The sharing mode's name.
    pub mode: String,
    /// The run's seed.
    pub seed: u64,
    /// Slots of the plan.
    pub slots: usize,
    /// Examples per slot and step.
    pub batch: usize,
    /// Whether a step of the plan is one update. If not, each slot counts its own steps.
    pub common_step: bool,
    /// Where the plan starts to count.
    pub origin: PlanOrigin,
    /// Identifies the job.
    pub job_digest: String,
    /// Identifies the layout of the parameters.
    pub layout_digest: String,
    /// The names of the optimizer's state.
    #[serde(rename = "optimizer_slots")]
    pub optimizer_state: Vec<String>,
    /// Slots whose gradient is in the files as the servers know it: all if gradients travel as
    /// changes, otherwise none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub known_gradients: usize,
    /// The model's tensors, in the order of the flat parameters.
    pub tensors: Vec<TensorEntry>,
    /// How many shards there are.
    pub shard_count: usize,
    /// Whether shards of a table have keys from two parts of the model, so that their numbers of
    /// parameters are right and their ranges are not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_spread: bool,
    /// The run's generation when the checkpoint was taken; 0 without servers.
    #[serde(default)]
    pub generation: u64,
}

impl CheckpointInfo {
    /// The number of the model's parameters, if it is one.
    fn model_size(&self) -> Option<u64> {
        let size = |shape: &[usize]| {
            shape.iter().try_fold(1_u64, |size, &length| size.checked_mul(length as u64))
        };
        let mut tensors = self.tensors.iter();
        tensors.try_fold(0_u64, |sum, tensor| sum.checked_add(size(&tensor.shape)?))
    }
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A tensor of the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorEntry {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
}

/// One shard: a range of the flat parameters in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardEntry {
    /// The file's name.
    pub file: String,
    /// The file's length.
    pub bytes: u64,
    /// The file's CRC-32C, in hexadecimal digits.
    pub crc32c: String,
    /// The first parameter.
    pub from: u64,
    /// The one after the last.
    pub to: u64,
    /// If a key has several parameters: the number of entries in the file. Others do not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<u64>,
    /// Whether the entries have marks that say when they were last named.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_marks: bool,
    /// Keys in the file that have no entry, but were named.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub counted: usize,
    /// How far each slot had come on each chunk.
    #[serde(rename = "parts")]
    pub chunks: Vec<ChunkEntry>,
    /// The number of updates after which the run stops, if it was asked to. Only server 0 has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_at: Option<u64>,
}

impl ShardEntry {
    /// Whether its file is long enough for the keys of its entries, and for those that it only
    /// counts, with their counts.
    fn has_room(&self) -> bool {
        let counted = (self.counted as u64).checked_mul(2);
        let numbers = counted.and_then(|counted| counted.checked_add(self.entries.unwrap_or(0)));
        numbers.is_some_and(|numbers| numbers <= self.bytes / 4)
    }

    /// Whether the shard has some of these parameters.
    pub(crate) fn overlaps(&self, params: &Range<usize>) -> bool {
        (self.from as usize) < params.end && params.start < self.to as usize
    }
}

/// How far each slot had come on a chunk of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkEntry {
    /// Updates made.
    pub version: u64,
    /// For each slot the sequence of its last push, and that push's step.
    pub slots: Vec<(u64, u64)>,
}

impl From<&ChunkMarks> for ChunkEntry {
    fn from(marks: &ChunkMarks) -> Self {
        let slots = marks.slots.iter().map(|mark| (mark.last_sequence, mark.step)).collect();
        Self { version: marks.version, slots }
    }
}

impl From<&ChunkEntry> for ChunkMarks {
    fn from(entry: &ChunkEntry) -> Self {
        let slots = entry
            .slots
            .iter()
            .map(|&(last_sequence, step)| SlotMark { last_sequence, step })
            .collect();
        Self { version: entry.version, slots }
    }
}

/// One shard's piece of the manifest, until all shards are written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ShardPiece {
    pub(crate) info: CheckpointInfo,
    pub(crate) shard: ShardEntry,
}

/// The contents of a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// What all shards have in common.
    #[serde(flatten)]
    pub info: CheckpointInfo,
    /// The shards, in the order of their parameters.
    pub shards: Vec<ShardEntry>,
}

impl Manifest {
    /// The file's name.
    pub const FILE: &'static str = "manifest.json";
    /// A longer file is not a manifest.
    pub const MAX_BYTES: u64 = 256 << 20;

    /// Updates made.
    pub fn global_step(&self) -> u64 {
        self.shards.first().and_then(|shard| shard.chunks.first()).map_or(0, |chunk| chunk.version)
    }

    /// The number of parameters.
    pub fn params(&self) -> u64 {
        self.shards.last().map_or(0, |shard| shard.to)
    }

    /// The length of all files except the manifest.
    pub fn bytes(&self) -> u64 {
        self.shards.iter().fold(0, |sum, shard| sum.saturating_add(shard.bytes))
    }

    /// Checks that its parts fit together.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.info.format != FORMAT {
            return Err(format!("it is of format {}, not {FORMAT}", self.info.format));
        }
        if self.info.slots > MAX_SLOTS {
            return Err(format!("it has {} slots, and no run has that many", self.info.slots));
        }
        let mut from = 0;
        for shard in &self.shards {
            if !is_plain_name(&shard.file) {
                return Err(format!("{:?} is not the name of a file in its directory", shard.file));
            }
            if !shard.has_room() {
                return Err(format!("the shard {} is too short for its entries", shard.file));
            }
            let has_slots = |chunk: &ChunkEntry| chunk.slots.len() == self.info.slots;
            if shard.from != from || shard.to < from || !shard.chunks.iter().all(has_slots) {
                return Err(format!("the shard {} does not fit the others", shard.file));
            }
            from = shard.to;
        }
        let all_there = self.shards.len() == self.info.shard_count && !self.shards.is_empty();
        if all_there && self.info.model_size() == Some(from) {
            return Ok(());
        }
        Err("the shards are not all of the model".into())
    }
}

/// Whether this is the name of a file, without a path, that is not hidden.
pub fn is_plain_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=128).contains(&name.len()) && !name.starts_with('.') && name.bytes().all(is_plain)
}

/// Writes a sealed file under a temporary name, then renames it. `writer` makes the name unique.
pub(crate) fn write_sealed(path: &Path, writer: &str, what: &impl Serialize) -> io::Result<()> {
    let json = serde_json::to_string_pretty(what)?;
    let body = json.strip_suffix("\n}").unwrap_or(&json);
    let text = format!("{body}{SEAL}{:08x}\"\n}}\n", crc32c::crc32c(body.as_bytes()));
    let temporary = path.with_extension(format!("{writer}.tmp"));
    let written = File::create(&temporary)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written?;
    sync_dir(path.parent().unwrap_or(Path::new(".")))
}

/// Reads a sealed file; the error says what is wrong with it.
pub(crate) fn read_sealed<T: DeserializeOwned>(path: &Path) -> Result<T, String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let wrong = |why: String| format!("{name}: {why}");
    let text = read_regular(path, Manifest::MAX_BYTES).map_err(|error| wrong(error.to_string()))?;
    let text = str::from_utf8(&text).map_err(|error| wrong(error.to_string()))?;
    parse_sealed(text).map_err(wrong)
}

/// Reads the text of a sealed file; the error says what is wrong with it.
pub(crate) fn parse_sealed<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let Some(at) = text.rfind(SEAL) else { return Err("it has no checksum".into()) };
    let body = &text[..at];
    if text[at..] != format!("{SEAL}{:08x}\"\n}}\n", crc32c::crc32c(body.as_bytes())) {
        return Err("its checksum does not agree".into());
    }
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// Makes renames in a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// A digest as hexadecimal text.
pub fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
