//! The environment as a map: placement reads nothing else, so a test can state a whole environment.

use std::collections::BTreeMap;

use crate::error::PlaceError;

/// The environment variables of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    /// The variables of this process. Those that are not valid UTF-8 are left out.
    pub fn of_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self(std::env::vars_os().filter_map(text).collect())
    }

    /// Whether a variable is set and not blank.
    pub(super) fn has(&self, name: &str) -> bool {
        self.text(name).is_some()
    }

    /// A variable's value. Many managers cannot unset a variable, only empty it: blank is unset.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// A variable that must be a whole number.
    pub(super) fn number(&self, name: &str) -> Result<Option<usize>, PlaceError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let number = text.parse().map(Some);
        number.map_err(|_| PlaceError::Usage(format!("{name}={text} is not a number from 0 up")))
    }

    /// A variable that must be set to a whole number because `reason` is.
    pub(super) fn required(&self, name: &str, reason: &str) -> Result<usize, PlaceError> {
        self.number(name)?.ok_or_else(|| {
            PlaceError::Usage(format!(
                "{} is set, but {name} is not; set both, or neither for a run on this machine \
                 alone",
                self.shown(reason)
            ))
        })
    }

    /// A variable with its value, as in a shell.
    pub(super) fn shown(&self, name: &str) -> String {
        format!("{name}={}", self.text(name).unwrap_or_default())
    }

    /// The first of these variables that is set.
    pub(super) fn first<'a>(&self, names: &[&'a str]) -> Option<&'a str> {
        names.iter().copied().find(|name| self.has(name))
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Variables {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}
