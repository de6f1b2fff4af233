//! What a directory holds of an earlier start of a job's run, and which earlier defaults a job
//! keeps when it continues that run.

use std::iter;
use std::path::{Path, PathBuf};

use paceline_engine::checkpoint::CheckpointDir;
use paceline_place::AgreedRun;
use paceline_record::names::{files, folders};

use crate::model_keys::DEEP;
use crate::raw::RawJob;
use crate::schema::FILES;

/// A run that was started before.
pub struct EarlierRun {
    /// The run is of the same job.
    pub is_same: bool,
    /// The run has ended by itself. One that was interrupted has not.
    pub is_over: bool,
    /// The step of its newest complete checkpoint.
    pub checkpoint: Option<u64>,
}

impl EarlierRun {
    /// The run in this directory, compared with a job. `is_over` says whether it has ended.
    pub fn read(dir: &Path, job: &RawJob, is_over: bool) -> Self {
        let earlier = RawJob::read(&dir.join(files::JOB));
        let checkpoints = CheckpointDir::new(dir.join(folders::CHECKPOINTS));
        let mut steps = checkpoints.steps().into_iter();
        Self {
            is_same: earlier.is_ok_and(|earlier| job.is_same_as(&earlier)),
            is_over,
            checkpoint: steps.find(|&step| checkpoints.is_complete(step)),
        }
    }

    /// The run of this job in this directory, or in one with a number behind its name, if there is
    /// one that is finished or can continue. Otherwise a new one in the first that is free: the
    /// scheduler's job may train several.
    pub fn own_or_free(dir: &Path, job: &RawJob, is_over: impl Fn(&Path) -> bool) -> AgreedRun {
        for dir in numbered(dir) {
            if !dir.join(files::JOB).exists() {
                return AgreedRun { dir, checkpoint: None, is_finished: false };
            }
            let found = Self::read(&dir, job, is_over(&dir));
            if found.is_same && (found.is_over || found.checkpoint.is_some()) {
                let checkpoint = found.checkpoint.filter(|_| !found.is_over);
                return AgreedRun { dir, checkpoint, is_finished: found.is_over };
            }
        }
        unreachable!("some number is free")
    }

    /// A new run in this directory, or in the first with a number behind its name that is free.
    pub fn free(dir: &Path) -> AgreedRun {
        let is_free = |dir: &PathBuf| !dir.join(files::JOB).exists();
        let dir = numbered(dir).find(is_free);
        let dir = dir.unwrap_or_else(|| unreachable!("some number is free"));
        AgreedRun { dir, checkpoint: None, is_finished: false }
    }
}

/// This directory, and then those with a number behind its name, from 2.
fn numbered(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let dir = dir.to_owned();
    let others = dir.clone();
    let numbered = (2..).map(move |number: u32| others.with_file_name(format!("{name}-{number}")));
    iter::once(dir).chain(numbered)
}

impl RawJob {
    /// Holds out the examples that an earlier run with the job `earlier` held out, if that run is
    /// from a version without `data.split`: a test example must not become a training example.
    /// Returns whether the job is changed.
    pub fn keep_split_of(&mut self, earlier: &RawJob) -> bool {
        let resolved = self.resolve();
        let is_set = |job: &RawJob, key| job.entries.contains_key(key);
        let keeps = FILES.contains(&resolved.word("data.kind").as_str())
            && !is_set(self, "data.split")
            && !is_set(earlier, "data.split")
            && !is_set(self, "data.test_path");
        if keeps {
            self.set("data.split=plain");
        }
        keeps
    }

    /// Lets the numbers of a table multiply vectors, as in an earlier run with the job `earlier` of
    /// a version without `model.numbers`. Returns whether the job is changed.
    pub fn keep_numbers_of(&mut self, earlier: &RawJob) -> bool {
        let resolved = self.resolve();
        let is_set = |job: &RawJob| job.entries.contains_key("model.numbers");
        let keeps = DEEP.contains(&resolved.word("model.kind").as_str())
            && resolved.word("data.kind") == "table"
            && !is_set(self)
            && !is_set(earlier);
        if keeps {
            self.set("model.numbers=vectors");
        }
        keeps
    }
}
