//! The keys of a resolved job.

use std::collections::{BTreeMap, BTreeSet};

/// Parses a resolved job into its dotted keys, each with its value as text. Text that is not TOML
/// has no keys.
pub(crate) fn parse_job(text: &str) -> BTreeMap<String, String> {
    let mut keys = BTreeMap::new();
    if let Ok(table) = text.parse::<toml::Table>() {
        add_keys("", &table, &mut keys);
    }
    keys
}

/// The keys of a resolved job whose lines say that their values are defaults.
pub(crate) fn default_keys(text: &str) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    let mut section = "";
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name;
        }
        let Some((setting, comment)) = line.rsplit_once(" # ") else { continue };
        let Some((key, _)) = setting.split_once(" = ") else { continue };
        if comment == "default"
            || ["default: ", "default of "].iter().any(|w| comment.starts_with(w))
        {
            let dot = if section.is_empty() { "" } else { "." };
            keys.insert(format!("{section}{dot}{key}"));
        }
    }
    keys
}

fn add_keys(prefix: &str, table: &toml::Table, keys: &mut BTreeMap<String, String>) {
    for (key, value) in table {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            toml::Value::Table(table) => add_keys(&path, table, keys),
            toml::Value::String(word) => drop(keys.insert(path, word.clone())),
            other => drop(keys.insert(path, other.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_known_by_their_comments() {
        let text = "seed = 3 # default\n[train.stop]\nepochs = 2   # default: none is set\n\
                    [data]\nkind = \"mnist\" # job.toml:3\nbits = 4 # --set data.bits=4";
        let expected = ["seed", "train.stop.epochs"].map(String::from);
        assert_eq!(default_keys(text), BTreeSet::from(expected));
    }

    #[test]
    fn nested_keys_are_dotted() {
        let text = "seed = 3 # default\n[train.stop]\nepochs = 2\n[data]\nkind = \"mnist\"";
        let expected = [("data.kind", "mnist"), ("seed", "3"), ("train.stop.epochs", "2")];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(parse_job(text), BTreeMap::from(expected));
    }
}
