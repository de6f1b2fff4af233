//! Lines fit beside each other on a screen, and files are short enough to be read whole.

use crate::source_tree::{Language, SourceFile};

/// The most columns of a line of source.
const SOURCE_COLUMNS: usize = 100;

/// The most columns of a line of a document.
const DOCUMENT_COLUMNS: usize = 110;

/// The most lines of a source file.
const FILE_LINES: usize = 450;

pub(crate) fn check(files: &[SourceFile]) -> Vec<String> {
    files.iter().flat_map(long_lines).collect()
}

/// Source files only: readers look things up in documents and configuration instead of reading them
/// whole.
pub(crate) fn check_files(files: &[SourceFile]) -> Vec<String> {
    let is_source =
        |file: &&SourceFile| file.language() != Language::Document && !file.path.ends_with(".toml");
    let counted = files.iter().filter(is_source).map(|file| (file, file.text.lines().count()));
    counted
        .filter(|(_, lines)| *lines > FILE_LINES)
        .map(|(file, lines)| format!("{}:1: {lines} lines, more than {FILE_LINES}", file.path))
        .collect()
}

fn long_lines(file: &SourceFile) -> Vec<String> {
    let is_document = file.language() == Language::Document;
    let most = if is_document { DOCUMENT_COLUMNS } else { SOURCE_COLUMNS };
    let mut found = Vec::new();
    let mut in_code = false;
    for (number, line) in (1..).zip(file.text.lines()) {
        let columns = if is_document {
            in_code ^= line.trim_start().starts_with("```");
            // Tables and examples cannot be broken.
            if in_code || line.trim_start().starts_with('|') { 0 } else { without_links(line) }
        } else if file.path.ends_with(".toml") && line.contains('"') {
            // Neither can a string in TOML.
            0
        } else {
            line.chars().count()
        };
        if columns > most {
            found.push(format!("{}:{number}: {columns} columns, more than {most}", file.path));
        }
    }
    found
}

/// The columns of a line of Markdown without the addresses of its links.
fn without_links(line: &str) -> usize {
    let mut columns = line.chars().count();
    for (at, _) in line.match_indices("](") {
        let address = line[at + 2..].split(')').next().unwrap_or_default();
        columns -= address.chars().count();
    }
    let plain = line.match_indices("http").filter(|(at, _)| !line[..*at].ends_with("]("));
    for (at, _) in plain {
        let address = line[at..].split([' ', '>', ')']).next().unwrap_or_default();
        columns -= address.chars().count();
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn lines_are_measured_in_characters() {
        assert!(check(&[file("a.rs", "ü".repeat(100))]).is_empty());
        let faults = check(&[file("a.rs", format!("x\n{}", "ü".repeat(101)))]);
        assert_eq!(faults, ["a.rs:2: 101 columns, more than 100"]);
    }

    #[test]
    fn strings_in_toml_do_not_count() {
        let long = "x".repeat(120);
        assert!(check(&[file("a.toml", format!("a = \"{long}\""))]).is_empty());
        assert_eq!(check(&[file("a.toml", format!("# {long}"))]).len(), 1);
    }

    #[test]
    fn tables_code_and_addresses_of_documents_do_not_count() {
        let long = "x".repeat(120);
        let kept = format!("| {long} |\n```\n{long}\n```\n[a]({long}) <https://{long}>\n");
        assert!(check(&[file("a.md", kept)]).is_empty());
        assert_eq!(check(&[file("a.md", long)]), ["a.md:1: 120 columns, more than 110"]);
    }

    #[test]
    fn source_files_have_a_limit_and_documents_have_none() {
        let long = "x\n".repeat(451);
        assert_eq!(check_files(&[file("a.rs", &*long)]), ["a.rs:1: 451 lines, more than 450"]);
        assert!(check_files(&[file("a.md", &*long), file("b.rs", "x\n".repeat(450))]).is_empty());
    }
}
