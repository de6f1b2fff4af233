//! The manifest: the file that makes a checkpoint complete.
//!
//! It is JSON for everybody, sealed for us: its last field is the CRC-32C of every byte before it,
//! so that a changed digit is noticed like a changed parameter.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use paceline_exchange::{ChunkMarks, SlotMark};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The version of the format.
pub(crate) const FORMAT: u32 = 1;
/// A larger file is none of ours.
const MAX_BYTES: u64 = 256 << 20;
/// What comes before the checksum.
const SEAL: &str = ",\n  \"crc32c\": \"";

/// Where in the row of examples a plan begins to be counted: at this step it stands at this
/// position. It is 0 and 0 until a run is resumed with other slots or another batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The step.
    pub step: u64,
    /// The position.
    pub position: u64,
}

/// What all shards of a checkpoint have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// The version of this format.
    pub format: u32,
    /// The version of the program.
    pub paceline: String,
    /// The step that the checkpoint is named for.
    pub step: u64,
    /// How workers shared the parameters.
    pub mode: String,
    /// What every random choice is drawn from.
    pub seed: u64,
    /// Slots of the plan.
    pub slots: usize,
    /// Examples that a slot takes a step.
    pub batch: usize,
    /// Whether the steps of the plan are the updates, or each slot counts its own.
    pub common_step: bool,
    /// Where the plan begins to be counted.
    pub origin: Origin,
    /// Identifies the job.
    pub job_digest: String,
    /// Identifies the layout of the parameters.
    pub layout_digest: String,
    /// The slots that the optimizer keeps for each parameter.
    pub optimizer_slots: Vec<String>,
    /// The model's tensors, which lie behind each other in this order.
    pub tensors: Vec<TensorEntry>,
    /// How many shards there are.
    pub shard_count: usize,
    /// The generation of the run in which it was taken; 0 without servers.
    #[serde(default)]
    pub generation: u64,
}

/// A tensor of the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorEntry {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
}

/// One shard: a range of the flat parameters, in a file of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardEntry {
    /// The name of the file.
    pub file: String,
    /// Its length.
    pub bytes: u64,
    /// Its CRC-32C, in hexadecimal digits.
    pub crc32c: String,
    /// The first of the flat parameters.
    pub from: u64,
    /// The one after the last.
    pub to: u64,
    /// How far everybody had come on each part.
    pub parts: Vec<PartEntry>,
    /// If the run had been asked to stop: after how many updates. Only the first server knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_at: Option<u64>,
}

/// How far everybody had come on a part of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartEntry {
    /// Updates made.
    pub version: u64,
    /// For each slot the number of its last push that counts, and the step of that push.
    pub slots: Vec<(u64, u64)>,
}

impl From<&ChunkMarks> for PartEntry {
    fn from(marks: &ChunkMarks) -> Self {
        let slots = marks.slots.iter().map(|mark| (mark.last_sequence, mark.step)).collect();
        Self { version: marks.version, slots }
    }
}

impl From<&PartEntry> for ChunkMarks {
    fn from(entry: &PartEntry) -> Self {
        let slots = entry
            .slots
            .iter()
            .map(|&(high, step)| SlotMark { last_sequence: high, step })
            .collect();
        Self { version: entry.version, slots }
    }
}

/// One shard's part of the manifest, until all are there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Piece {
    pub(crate) about: About,
    pub(crate) shard: ShardEntry,
}

/// A whole checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// What all shards have in common.
    #[serde(flatten)]
    pub about: About,
    /// The shards, in the order of their parameters.
    pub shards: Vec<ShardEntry>,
}

impl Manifest {
    /// The file's name.
    pub const FILE: &'static str = "manifest.json";

    /// Updates that had been made.
    pub fn global_step(&self) -> u64 {
        self.shards.first().and_then(|shard| shard.parts.first()).map_or(0, |part| part.version)
    }

    /// How many parameters there are.
    pub fn params(&self) -> u64 {
        self.shards.last().map_or(0, |shard| shard.to)
    }

    /// The length of all files but the manifest.
    pub fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.bytes).sum()
    }

    /// What is wrong with it in itself, if anything is.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.about.format != FORMAT {
            return Err(format!("it is of format {}, not {FORMAT}", self.about.format));
        }
        let mut from = 0;
        for shard in &self.shards {
            let has_slots = |part: &PartEntry| part.slots.len() == self.about.slots;
            if shard.from != from || shard.to < from || !shard.parts.iter().all(has_slots) {
                return Err(format!("the shard {} does not fit the others", shard.file));
            }
            from = shard.to;
        }
        let sizes = self.about.tensors.iter().map(|tensor| tensor.shape.iter().product::<usize>());
        let all_there = self.shards.len() == self.about.shard_count && !self.shards.is_empty();
        match all_there && sizes.sum::<usize>() as u64 == from {
            true => Ok(()),
            false => Err("the shards are not all of the model".into()),
        }
    }
}

/// Writes a sealed file: under a temporary name that nobody else uses, on disk, then by its own.
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

/// Reads a sealed file, or says what is wrong with it.
pub(crate) fn read_sealed<T: DeserializeOwned>(path: &Path) -> Result<T, String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let wrong = |why: String| format!("{name}: {why}");
    let about = fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
    if about.len() > MAX_BYTES {
        return Err(wrong(format!("it is larger than {MAX_BYTES} bytes")));
    }
    let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let Some(at) = text.rfind(SEAL) else { return Err(wrong("it has no checksum".into())) };
    let body = &text[..at];
    if text[at..] != format!("{SEAL}{:08x}\"\n}}\n", crc32c::crc32c(body.as_bytes())) {
        return Err(wrong("its checksum does not agree".into()));
    }
    serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))
}

/// Sees to it that what was renamed in a directory stays so.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
