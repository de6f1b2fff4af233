//! The reference of all keys, which `docs/job.md` contains.

use std::fmt::Write;

use super::schema::KEYS;

/// What precedes the keys of a layer.
const ABOUT_LAYERS: &str = "A list: each `[[model.layers]]` is one layer of a network \
(`model.kind` = \"network\"), numbered from 0.\n`--set model.layers.1.size=64` and `[sweep]` set \
the key of one layer.\n\n";

/// What precedes the keys of a column.
const ABOUT_COLUMNS: &str = "A key for each column of a table, by its name, or by its number from \
1: `age = \"number\"` is short for\n`age = { as = \"number\" }`. The first rows decide on columns \
that are not listed; `paceline data describe FILE`\nprints what they decide.\n\n";

/// The table as Markdown, for `docs/job.md`.
pub fn reference_markdown() -> String {
    let mut text = String::new();
    let mut section = None;
    for key in KEYS.iter() {
        if section != Some(key.section()) {
            section = Some(key.section());
            let title = if key.section().is_empty() { "At the top" } else { key.title() };
            let _ = write!(text, "\n## {title}\n\n");
            if key.is_of_layers() {
                text.push_str(ABOUT_LAYERS);
            }
            if key.is_of_columns() {
                text.push_str(ABOUT_COLUMNS);
            }
            text.push_str("| key | takes | default | meaning |\n");
            text.push_str("|---|---|---|---|\n");
        }
        let mut default = key.default.map_or(String::from("none"), |value| format!("`{value}`"));
        for case in &key.cases {
            let conditions = case.describe(|key| format!("`{key}`"));
            let _ = write!(default, "; `{}` if {conditions}", case.value);
        }
        // The first condition of a layer's or column's key is that there are layers or columns.
        let is_repeated = key.is_of_layers() || key.is_of_columns();
        let conditions = key.conditions.iter().skip(usize::from(is_repeated));
        let with: String = conditions.map(|with| format!("; {}", with.markdown())).collect();
        let takes = key.kind.describe();
        let _ = writeln!(text, "| `{}` | {takes} | {default} | {}{with} |", key.name(), key.help);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_has_every_key_once() {
        let reference = reference_markdown();
        for key in KEYS.iter() {
            let section = if key.section().is_empty() { "At the top" } else { key.title() };
            let after = reference.split(&format!("## {section}\n")).nth(1).expect(section);
            let table = after.split("\n## ").next().unwrap();
            let rows = table.matches(&format!("| `{}` |", key.name())).count();
            assert_eq!(rows, 1, "{}", key.path);
        }
    }
}
