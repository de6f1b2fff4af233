//! The reference of all keys, which `docs/job.md` contains.

use std::fmt::Write;

use super::schema::KEYS;

/// The table as Markdown, for `docs/job.md`.
pub fn reference_markdown() -> String {
    let mut text = String::new();
    let mut section = None;
    for key in KEYS.iter() {
        if section != Some(key.section()) {
            section = Some(key.section());
            let title = if key.section().is_empty() { "At the top" } else { key.section() };
            let _ = write!(text, "\n## {title}\n\n| key | takes | default | meaning |\n");
            text.push_str("|---|---|---|---|\n");
        }
        let mut default = key.default.map_or(String::from("none"), |value| format!("`{value}`"));
        for case in &key.cases {
            let conditions = case.describe(|key| format!("`{key}`"));
            let _ = write!(default, "; `{}` if {conditions}", case.value);
        }
        let with: String =
            key.conditions.iter().map(|with| format!("; {}", with.markdown())).collect();
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
            let section = if key.section().is_empty() { "At the top" } else { key.section() };
            let after = reference.split(&format!("## {section}\n")).nth(1).expect(section);
            let table = after.split("\n## ").next().unwrap();
            let rows = table.matches(&format!("| `{}` |", key.name())).count();
            assert_eq!(rows, 1, "{}", key.path);
        }
    }
}
