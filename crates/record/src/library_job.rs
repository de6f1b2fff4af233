//! `job.toml` of a run that has no job: one that a program trained with the library.

use crate::error::RunFileError;
use crate::names::{LIBRARY_KEY, files};
use crate::run_dir::RunDir;

/// The content of the job file, for a run that a program trained with the library.
///
/// The page and reports read the same keys as in a job. The key [`LIBRARY_KEY`] marks the file: the
/// `paceline` program does not have the model, so it cannot train or test it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LibraryJob {
    /// The run's name.
    pub name: String,
    /// The seed.
    pub seed: u64,
    /// The model's name.
    pub model: String,
    /// The kind of data.
    pub data: String,
    /// Where the data is from, for people.
    pub data_origin: String,
    /// Examples per worker and step.
    pub batch: usize,
    /// How workers share the parameters, such as `sync`.
    pub mode: String,
    /// Gradients that complete a step of mode `sync`, if not those of all workers.
    pub quorum: Option<usize>,
    /// Workers.
    pub workers: usize,
    /// Parameter servers.
    pub servers: usize,
}

impl LibraryJob {
    /// Writes the job file of the run. The file is complete or absent.
    pub fn write(&self, run: &RunDir) -> Result<(), RunFileError> {
        run.write(files::JOB, self.to_toml().as_bytes())
    }

    fn to_toml(&self) -> String {
        // JSON's strings are TOML's basic strings.
        let text = |text: &str| serde_json::Value::from(text).to_string();
        let quorum = self.quorum.map_or(String::new(), |quorum| format!("quorum = {quorum}\n"));
        format!(
            "# A program trained this run with the library; `paceline train` cannot run it.\n\
             {LIBRARY_KEY} = true\nname = {}\nseed = {}\n\n\
             [model]\nkind = {}\n\n[data]\nkind = {}\norigin = {}\n\n[train]\nbatch = {}\n\n\
             [cluster]\nmode = {}\nworkers = {}\nservers = {}\n{quorum}",
            text(&self.name),
            self.seed,
            text(&self.model),
            text(&self.data),
            text(&self.data_origin),
            self.batch,
            text(&self.mode),
            self.workers,
            self.servers,
        )
    }
}
