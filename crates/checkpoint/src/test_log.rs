//! The tests of a run, on which its end may depend, for a process that continues the run.
//!
//! A file of lines beside the checkpoints: a test each, the time that the run had trained for at a
//! checkpoint, or the step that the run returned to, which voids all later lines. A process that
//! dies in the middle of a line costs that line.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

use paceline_filemap::read_regular;
use serde::{Deserialize, Serialize};

use crate::dir::CheckpointDir;
use crate::error::CheckpointError;

/// A larger file is not a log of tests.
const MAX_BYTES: u64 = 1 << 30;

/// A test of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoggedTest {
    /// The global step of the parameters that were tested.
    pub step: u64,
    /// Examples tested.
    pub examples: u64,
    /// The mean loss.
    pub loss: f64,
    /// The share of correct answers.
    pub accuracy: f64,
    /// The area under the ROC curve, if there is one.
    pub auc: Option<f64>,
}

/// A line of the file. Figures are written as their bits too: decimals of a number need not
/// give the same one back.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Rewound { rewound_to: u64 },
    Trained { step: u64, trained_s: f64 },
    Test { step: u64, examples: u64, loss: Option<f64>, bits: TestBits },
}

#[derive(Serialize, Deserialize)]
struct TestBits {
    loss: u64,
    accuracy: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    auc: Option<u64>,
}

/// Writes down the tests of a run.
#[derive(Debug)]
pub struct TestLog {
    path: PathBuf,
    file: File,
    trained_s: f64,
}

impl CheckpointDir {
    /// Where the tests of the run are written down.
    pub fn test_log_path(&self) -> PathBuf {
        self.path().join(TestLog::FILE)
    }

    /// The tests of the run, as far as they are written down.
    pub fn test_log(&self) -> Result<TestLog, CheckpointError> {
        let path = self.test_log_path();
        let opened = fs::create_dir_all(self.path())
            .and_then(|()| File::options().append(true).create(true).open(&path));
        let file = opened.map_err(CheckpointError::at("write", &path))?;
        Ok(TestLog { path, file, trained_s: 0.0 })
    }
}

impl TestLog {
    /// The file's name.
    pub const FILE: &'static str = "tests.jsonl";

    /// Writes a test down.
    pub fn write(&mut self, test: &LoggedTest) -> Result<(), CheckpointError> {
        let LoggedTest { step, examples, loss, accuracy, auc } = *test;
        let auc = auc.map(f64::to_bits);
        let bits = TestBits { loss: loss.to_bits(), accuracy: accuracy.to_bits(), auc };
        self.append(&Line::Test { step, examples, loss: Some(loss), bits })
    }

    /// Writes down for how many seconds the run has trained, at a checkpoint of this step.
    pub fn write_trained(&mut self, step: u64, trained_s: f64) -> Result<(), CheckpointError> {
        self.append(&Line::Trained { step, trained_s })
    }

    /// For how many seconds the run had trained at the step that it last continued from.
    pub fn trained_s(&self) -> f64 {
        self.trained_s
    }

    /// The run continues from a step: returns the tests up to there, of each step the last one, in
    /// the order of their steps. Later ones are void.
    pub fn rewind(&mut self, step: u64) -> Result<Vec<LoggedTest>, CheckpointError> {
        let cannot = || CheckpointError::at("read", &self.path);
        let text = read_regular(&self.path, MAX_BYTES).map_err(cannot())?;
        let text = String::from_utf8_lossy(&text);
        let (mut tests, mut times) = (BTreeMap::new(), BTreeMap::new());
        for line in text.lines().filter_map(|line| serde_json::from_str(line).ok()) {
            match line {
                Line::Rewound { rewound_to } => {
                    tests.retain(|&step, _| step <= rewound_to);
                    times.retain(|&step, _| step <= rewound_to);
                }
                Line::Trained { step, trained_s } => {
                    times.insert(step, trained_s);
                }
                Line::Test { step, examples, bits, .. } => {
                    let [loss, accuracy] = [bits.loss, bits.accuracy].map(f64::from_bits);
                    let auc = bits.auc.map(f64::from_bits);
                    let test = LoggedTest { step, examples, loss, accuracy, auc };
                    tests.insert(step, test);
                }
            }
        }
        let all = tests.len() + times.len();
        tests.retain(|&tested, _| tested <= step);
        times.retain(|&reached, _| reached <= step);
        self.trained_s = times.values().last().copied().unwrap_or(0.0);
        if tests.len() + times.len() < all {
            self.append(&Line::Rewound { rewound_to: step })?;
        }
        Ok(tests.into_values().collect())
    }

    /// Waits until everything is on the disk.
    pub fn sync(&mut self) -> Result<(), CheckpointError> {
        self.file.sync_data().map_err(CheckpointError::at("write", &self.path))
    }

    fn append(&mut self, line: &Line) -> Result<(), CheckpointError> {
        let written = serde_json::to_string(line).map_err(io::Error::from).and_then(|line| {
            // In one write, so that a line is whole or at the end of the file.
            self.file.write_all(format!("\n{line}").as_bytes())
        });
        written.map_err(CheckpointError::at("write", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn test(step: u64, loss: f64) -> LoggedTest {
        LoggedTest { step, examples: 7, loss, accuracy: 0.1 + loss, auc: Some(loss / 3.0) }
    }

    #[test]
    fn tests_come_back_bit_for_bit_up_to_the_step_that_is_continued_from() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = CheckpointDir::new(scratch.path().join("checkpoints"));
        let mut log = dir.test_log().unwrap();
        assert_eq!(log.rewind(0).unwrap(), []);
        for (step, loss) in [(10, 0.1 + 0.2), (20, f64::NAN), (30, 0.7)] {
            log.write(&test(step, loss)).unwrap();
        }
        let mut again = dir.test_log().unwrap();
        let found = again.rewind(25).unwrap();
        assert_eq!(found.iter().map(|test| test.step).collect::<Vec<_>>(), [10, 20]);
        assert_eq!(found[0], test(10, 0.1 + 0.2));
        assert!(found[1].loss.is_nan());
        // The test of step 30 is void, even for a process that continues from later.
        again.write(&test(40, 0.5)).unwrap();
        again.write(&test(40, 0.6)).unwrap();
        let found = dir.test_log().unwrap().rewind(50).unwrap();
        assert_eq!(found.iter().map(|test| test.step).collect::<Vec<_>>(), [10, 20, 40]);
        assert_eq!(found[2], test(40, 0.6));
    }

    #[test]
    fn a_line_that_was_never_finished_costs_that_test_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = CheckpointDir::new(scratch.path());
        dir.test_log().unwrap().write(&test(10, 0.5)).unwrap();
        let path = scratch.path().join(TestLog::FILE);
        File::options().append(true).open(&path).unwrap().write_all(b"\n{\"step\":20,\"e").unwrap();
        dir.test_log().unwrap().write(&test(30, 0.25)).unwrap();
        let found = dir.test_log().unwrap().rewind(100).unwrap();
        assert_eq!(found, [test(10, 0.5), test(30, 0.25)]);
    }
}
