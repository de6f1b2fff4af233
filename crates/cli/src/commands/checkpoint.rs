//! `paceline checkpoint`: the checkpoints from which a run can be resumed.

use std::path::Path;

use paceline_engine::checkpoint::CheckpointDir;

use super::data::size;
use super::output::print;
use super::run_path::check_dir;
use crate::Failure;
use crate::train_options::checkpoint_dir;
use paceline_terminal::{counted, fitted_text, output_width, shown_name};

/// Lists the checkpoints of a run. Reads only their manifests.
pub(super) fn list(run: &Path) -> Result<(), Failure> {
    let RunCheckpoints { dir, steps } = RunCheckpoints::open(run)?;
    let titles = ["step", "updates", "mode", "slots", "files", "size", ""];
    let mut rows = vec![titles.map(String::from).to_vec()];
    for step in steps {
        let manifest = dir.manifest(step);
        rows.push(match manifest {
            Ok(manifest) => vec![
                step.to_string(),
                manifest.global_step().to_string(),
                shown_name(&manifest.info.mode),
                manifest.info.slots.to_string(),
                manifest.shards.len().to_string(),
                size(manifest.bytes()),
                String::new(),
            ],
            Err(why) => {
                let mut row = vec![step.to_string()];
                row.resize(titles.len() - 1, "-".into());
                row.push(shown_name(&why));
                row
            }
        });
    }
    print(&fitted_text(&rows, &["files", "slots"], output_width()))
}

/// Reads every byte of a run's checkpoints.
pub(super) fn verify(run: &Path) -> Result<(), Failure> {
    let RunCheckpoints { dir, steps } = RunCheckpoints::open(run)?;
    let mut wrong = 0u64;
    for step in steps {
        let line = match dir.verify(step) {
            Ok(checkpoint) => {
                format!("step {step}: sound, {}", size(checkpoint.manifest.bytes()))
            }
            Err(why) => {
                // A checkpoint that is being written, or was never finished, is not damaged.
                wrong += u64::from(dir.is_complete(step));
                format!("step {step}: {}", shown_name(&why))
            }
        };
        print(&format!("{line}\n"))?;
    }
    match wrong {
        0 => Ok(()),
        _ => Err(Failure::Training(format!("{} cannot be used", counted(wrong, "checkpoint")))),
    }
}

/// The checkpoints of a run.
struct RunCheckpoints {
    dir: CheckpointDir,
    steps: Vec<u64>,
}

impl RunCheckpoints {
    fn open(run: &Path) -> Result<Self, Failure> {
        check_dir(run)?;
        let dir = checkpoint_dir(run);
        let steps = dir.steps();
        if steps.is_empty() {
            return Err(Failure::Usage(format!(
                "{}: there are no checkpoints; a run writes them with checkpoint.every_steps or \
                 checkpoint.every_seconds",
                run.display()
            )));
        }
        Ok(Self { dir, steps })
    }
}
