//! The machine that executes a sweep.

use std::fs;

use serde::{Deserialize, Serialize};

/// Properties of a machine that matter to figures.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct MachineInfo {
    /// Model name of the processor.
    pub processor: String,
    /// Hardware threads that the process may use.
    pub threads: usize,
    /// Installed memory.
    pub memory_bytes: u64,
    /// Operating system and kernel release.
    pub system: String,
}

impl MachineInfo {
    /// Describes the machine this process runs on; what cannot be found out is empty or 0.
    pub fn current() -> Self {
        let field = |file: &str, name: &str| {
            let text = fs::read_to_string(file).unwrap_or_default();
            let line = text.lines().find(|line| line.starts_with(name))?.split_once(':')?.1;
            Some(line.trim().to_owned())
        };
        let kilobytes = field("/proc/meminfo", "MemTotal");
        let kilobytes = kilobytes.and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            processor: field("/proc/cpuinfo", "model name").unwrap_or_default(),
            threads: std::thread::available_parallelism().map_or(0, usize::from),
            memory_bytes: kilobytes.unwrap_or_default() * 1024,
            system: format!("{} {}", std::env::consts::OS, release.trim()).trim().to_owned(),
        }
    }

    /// One line of text for reports.
    pub fn describe(&self) -> String {
        let processor = match self.processor.as_str() {
            "" => "unknown processor",
            name => name,
        };
        let memory = self.memory_bytes as f64 / f64::from(1 << 30);
        format!("{processor}, {} threads, {memory:.1} GiB, {}", self.threads, self.system)
    }
}
