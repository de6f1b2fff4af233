//! `docs/environment.md` lists every environment variable that the project reads, and no others.

use std::collections::BTreeSet;

use crate::source_tree::{Language, SourceFile};

const DOCUMENT: &str = "docs/environment.md";

/// What the names of the project's own variables begin with.
const PREFIX: &str = "PACELINE_";

/// The functions that read a variable which a literal names.
const READERS: &[&str] = &["env::var(\"", "env::var_os(\""];

pub(crate) fn check(files: &[SourceFile]) -> Vec<String> {
    let Some(document) = files.iter().find(|file| file.path == DOCUMENT) else {
        return vec![format!("{DOCUMENT}: there is no such file")];
    };
    let listed = listed(&document.text);
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.language() == Language::Rust) {
        for (number, line) in (1..).zip(file.text.lines()) {
            let read = read_variables(&file.path, line).into_iter();
            found.extend(read.filter(|name| !listed.contains(name)).map(|name| {
                format!("{}:{number}: {name} is not in the tables of {DOCUMENT}", file.path)
            }));
        }
    }
    let is_read = |name: &str| {
        let code = files.iter().filter(|file| file.language() != Language::Document);
        code.map(|file| &file.text).any(|text| text.contains(name))
    };
    let stale = listed.iter().filter(|name| !is_read(name));
    found.extend(stale.map(|name| format!("{DOCUMENT}:1: nothing reads {name}")));
    found
}

/// The variables in the first column of the document's tables.
fn listed(document: &str) -> BTreeSet<&str> {
    let rows = document.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    rows.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

/// The variables that a line names: the project's own in any literal, others where a program reads
/// them.
fn read_variables<'a>(path: &str, line: &'a str) -> Vec<&'a str> {
    let literals = line.split('"').skip(1).step_by(2);
    let own = literals.filter(|text| text.starts_with(PREFIX) && text.len() > PREFIX.len());
    let is_name = |text: &&str| text.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let mut names: Vec<_> = own.filter(is_name).collect();
    if path.starts_with("crates/") && path.contains("/src/") {
        let rests = READERS.iter().filter_map(|reader| Some(line.split_once(reader)?.1));
        names.extend(rests.filter_map(|rest| rest.split('"').next()));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn variables_are_listed_if_and_only_if_they_are_read() {
        // This file must not have such names as literals.
        let [first, second] = ["A", "C"].map(|name| format!("{PREFIX}{name}"));
        let table = format!("| variable |\n|---|\n| `{first}`, `HOME` | as well as `B` |\n");
        let faults = |source: &str| {
            check(&[file(DOCUMENT, table.clone()), file("crates/x/src/a.rs", source)])
        };
        let read = format!("let a = \"{first}\";\nlet home = {}HOME\");\n", READERS[0]);
        assert_eq!(faults(&read), Vec::<String>::new());
        let found = faults(&format!("{read}\"{second}\";\n{}SHELL\");\n", READERS[1]));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with(&format!("crates/x/src/a.rs:3: {second} is not")));
        assert!(found[1].starts_with("crates/x/src/a.rs:4: SHELL is not"), "{found:?}");
        let stale = format!("{DOCUMENT}:1: nothing reads HOME");
        assert_eq!(faults(&format!("\"{first}\"")), [stale]);
    }
}
