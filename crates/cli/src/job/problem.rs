//! What is wrong with a job, and where.

use std::fmt;
use std::path::PathBuf;

/// Where a value of the job came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A job file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1; none for the file as a whole.
        line: Option<usize>,
    },
    /// A `--set` on the command line.
    Set {
        /// Its text.
        text: String,
    },
    /// Nobody set it.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File { path, line } => {
                f.write_str(&one_line(&path.to_string_lossy()))?;
                line.map_or(Ok(()), |line| write!(f, ":{line}"))
            }
            Origin::Set { text } => write!(f, "--set {}", one_line(text)),
            Origin::Default => f.write_str("default"),
        }
    }
}

/// Text with its control characters spelled out: a place is also written into comments of
/// `job.toml`, which a line break would end.
fn one_line(text: &str) -> String {
    text.chars().fold(String::new(), |mut line, c| {
        if c.is_control() {
            line.extend(c.escape_default())
        } else {
            line.push(c)
        }
        line
    })
}

/// One thing that is wrong with a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it stands.
    pub origin: Origin,
    /// What is wrong, starting with the key, and what to do.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.message)
    }
}

/// Everything that is wrong with a job, in the order of the file and then of the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            write!(f, "{}{problem}", if i == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl Problems {
    /// Puts them in the order a reader mends them in; those of one line stay as found.
    pub(super) fn in_order(mut problems: Vec<Problem>) -> Self {
        problems.sort_by_key(|problem| match problem.origin {
            Origin::File { line, .. } => (0, line),
            Origin::Set { .. } => (1, None),
            Origin::Default => (2, None),
        });
        Self(problems)
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}
