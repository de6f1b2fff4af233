//! The keys of a resolved job.

use std::collections::BTreeMap;

/// Parses a resolved job into its dotted keys, each with its value as text. Text that is not TOML
/// has no keys.
pub(crate) fn parse_job(text: &str) -> BTreeMap<String, String> {
    let mut keys = BTreeMap::new();
    if let Ok(table) = text.parse::<toml::Table>() {
        add_keys("", &table, &mut keys);
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
    fn nested_keys_are_dotted() {
        let text = "seed = 3 # default\n[train.stop]\nepochs = 2\n[data]\nkind = \"mnist\"";
        let expected = [("data.kind", "mnist"), ("seed", "3"), ("train.stop.epochs", "2")];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(parse_job(text), BTreeMap::from(expected));
    }
}
