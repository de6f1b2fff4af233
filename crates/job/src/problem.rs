//! Problems of a job, and their origins.

use std::fmt;
use std::path::PathBuf;

/// The origin of a value of the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingOrigin {
    /// A job file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1; `None` for the file as a whole.
        line: Option<usize>,
    },
    /// A `--set` on the command line.
    Set {
        /// The text after `--set`.
        text: String,
    },
    /// The definition of a built-in network.
    Network {
        /// The network's name in job files.
        name: &'static str,
    },
    /// The value is a default of the built-in job.
    BuiltIn,
    /// The value is a default that depends on something.
    Derived {
        /// What it depends on.
        why: String,
    },
    /// The value is a default.
    Default,
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingOrigin::File { path, line } => {
                f.write_str(&one_line(&path.to_string_lossy()))?;
                line.map_or(Ok(()), |line| write!(f, ":{line}"))
            }
            SettingOrigin::Set { text } => write!(f, "--set {}", one_line(text)),
            SettingOrigin::Network { name } => write!(f, "definition of {name}"),
            SettingOrigin::BuiltIn => f.write_str("default of the built-in job"),
            SettingOrigin::Derived { why } => write!(f, "default: {}", one_line(why)),
            SettingOrigin::Default => f.write_str("default"),
        }
    }
}

/// Escapes control characters: an origin is also written as a comment in `job.toml`, which a line
/// break would end.
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

/// One problem of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where the problem is.
    pub origin: SettingOrigin,
    /// What is wrong and what to do, starting with the key.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            // A default is nothing that the user can look up.
            SettingOrigin::Derived { .. } | SettingOrigin::Default | SettingOrigin::BuiltIn => {
                write!(f, "{} ({})", self.message, self.origin)
            }
            origin => write!(f, "{origin}: {}", self.message),
        }
    }
}

/// All problems of a job, in the order of the file and then of the command line.
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
    /// Sorts the problems by file, line and command line. Problems of one line keep their order.
    pub(super) fn in_order(mut problems: Vec<Problem>) -> Self {
        problems.sort_by_key(|problem| match problem.origin {
            SettingOrigin::File { line, .. } => (0, line),
            SettingOrigin::Set { .. } => (1, None),
            SettingOrigin::Network { .. }
            | SettingOrigin::BuiltIn
            | SettingOrigin::Derived { .. }
            | SettingOrigin::Default => (2, None),
        });
        Self(problems)
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

/// Removes repeated problems; the first of each stays.
pub(super) fn remove_duplicates(problems: &mut Vec<Problem>) {
    let mut found: Vec<Problem> = Vec::new();
    problems.retain(|problem| {
        let is_new = !found.contains(problem);
        if is_new {
            found.push(problem.clone());
        }
        is_new
    });
}
