//! The job on a command line.

use std::path::PathBuf;

use clap::Args;

/// The job and the settings that change it.
#[derive(Args, Clone, Debug, Default)]
pub struct JobArgs {
    /// Job file [default: the built-in job]
    #[arg(value_name = "JOB.toml")]
    pub file: Option<PathBuf>,
    /// Set a key of the job; the value is TOML, and a bare word is text. The last one for a key
    /// counts
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
}
