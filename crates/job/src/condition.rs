//! The conditions under which a key of the job file applies.

use super::layer_path::at_place;
use super::value::one_of;

/// A condition on other keys.
#[derive(Clone, Debug)]
pub(super) enum KeyCondition {
    /// A key has one of these values.
    Has { key: String, values: &'static [&'static str] },
    /// A flag is true.
    IsTrue(&'static str),
    /// At least one of these keys is set.
    AnySet(&'static [&'static str]),
    /// A key is not set.
    NotSet(&'static str),
    /// The groups of parameters do not both set this key of theirs.
    NotInBothGroups(&'static str),
    /// At least one of these conditions holds.
    Any(Vec<KeyCondition>),
    /// The run waits for lost tasks to return.
    WaitsForTasks,
}

impl KeyCondition {
    /// The condition for the keys of this layer or column.
    pub(super) fn at(&self, place: Option<&str>) -> KeyCondition {
        match self {
            KeyCondition::Has { key, values } => {
                KeyCondition::Has { key: at_place(key, place), values }
            }
            other => other.clone(),
        }
    }

    /// The condition as Markdown, for documentation.
    pub(super) fn markdown(&self) -> String {
        match self {
            KeyCondition::Has { key, values } => {
                let key = key.rsplit_once('#').map_or(key.as_str(), |(_, name)| &name[1..]);
                format!("with `{key}` = {}", one_of(values))
            }
            KeyCondition::IsTrue(key) => format!("with `{key}` = true"),
            KeyCondition::AnySet(keys) => {
                let keys: Vec<_> = keys.iter().map(|key| format!("`{key}`")).collect();
                format!("with {}", keys.join(" or "))
            }
            KeyCondition::NotSet(key) => format!("without `{key}`"),
            KeyCondition::NotInBothGroups(key) => {
                format!("without both `weights.{key}` and `biases.{key}`")
            }
            KeyCondition::Any(any) => {
                any.iter().map(Self::markdown).collect::<Vec<_>>().join(", or ")
            }
            KeyCondition::WaitsForTasks => {
                "if the run waits for lost tasks (`cluster.on_worker_loss` or \
                 `cluster.on_server_loss`)"
                    .into()
            }
        }
    }

    /// The condition as plain text, for errors.
    pub(super) fn text(&self) -> String {
        self.markdown().replace('`', "")
    }
}
