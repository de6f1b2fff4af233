//! What a run has written.

use std::fs;
use std::path::PathBuf;

use safetensors::SafeTensors;
use serde_json::Value;

use super::python::events;

/// A run directory, which may still be growing.
pub(crate) struct RunFolder {
    pub(crate) path: PathBuf,
}

impl RunFolder {
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn str(&self) -> &str {
        self.path.to_str().unwrap()
    }

    pub(crate) fn summary(&self) -> Value {
        serde_json::from_slice(&fs::read(self.file("summary.json")).unwrap()).unwrap()
    }

    /// Whether the run has a complete checkpoint.
    pub(crate) fn has_checkpoint(&self) -> bool {
        let entries = fs::read_dir(self.file("checkpoints")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).any(|path| path.join("manifest.json").exists())
    }

    pub(crate) fn model(&self) -> Vec<u8> {
        fs::read(self.file("model.safetensors")).unwrap()
    }

    /// All parameters of a softmax model: its weights, then its biases.
    pub(crate) fn params(&self) -> Vec<f32> {
        let bytes = self.model();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let words = ["weight", "bias"].map(|name| tensors.tensor(name).unwrap().data().to_vec());
        words.concat().as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word)).collect()
    }

    /// A task's entry in the summary.
    pub(crate) fn task(&self, name: &str) -> Value {
        let summary = self.summary();
        let tasks = summary["tasks"].as_array().unwrap();
        tasks.iter().find(|task| task["task"] == name).expect(name).clone()
    }

    /// The log of a task. Empty if there is none yet.
    pub(crate) fn log(&self, task: &str) -> String {
        let path = self.file(&task.replace(':', "_")).join("log.txt");
        fs::read_to_string(path).unwrap_or_default()
    }

    /// The bytes of events that a task has written so far. The number grows with every step.
    pub(crate) fn event_bytes(&self, task: &str) -> u64 {
        let entries = fs::read_dir(self.file(&task.replace(':', "_"))).into_iter().flatten();
        let events = entries.flatten().filter(|entry| {
            entry.file_name().to_string_lossy().starts_with("events.out.tfevents.")
        });
        events.map(|entry| entry.metadata().map_or(0, |metadata| metadata.len())).sum()
    }

    /// The events of worker 0, as TensorBoard reads them.
    pub(crate) fn worker_events(&self) -> Value {
        events(&self.path)["runs"]["worker_0"].clone()
    }
}
