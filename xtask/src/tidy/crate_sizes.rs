//! No crate grows until it holds several ideas.

use std::collections::BTreeMap;

use crate::source_tree::{Language, SourceFile};

/// Lines of source that a crate may have. Tests do not count: they may be as thorough as needed.
const MOST_LINES: usize = 11_000;

/// Lines that the crate of the program may have: what it does belongs into libraries.
const MOST_PROGRAM_LINES: usize = 8_999;

pub(crate) fn check(files: &[SourceFile]) -> Vec<String> {
    let mut crates: BTreeMap<&str, usize> = BTreeMap::new();
    for file in files.iter().filter(|file| file.language() == Language::Rust) {
        let folders: Vec<_> = file.path.split('/').collect();
        if let ["crates", name, "src", ref rest @ ..] = *folders
            && !rest.iter().any(|part| is_test(part))
        {
            *crates.entry(name).or_default() += file.text.lines().count();
        }
    }
    let is_program = |name: &str| {
        let main = format!("crates/{name}/src/main.rs");
        files.iter().any(|file| file.path == main)
    };
    let limit = |name: &str| if is_program(name) { MOST_PROGRAM_LINES } else { MOST_LINES };
    let counted = crates.into_iter().map(|(name, lines)| (name, lines, limit(name)));
    counted
        .filter(|(_, lines, most)| lines > most)
        .map(|(name, lines, most)| {
            format!("crates/{name}: {lines} lines of source, more than {most}")
        })
        .collect()
}

/// Whether this part of a path names a folder or file of tests.
fn is_test(part: &str) -> bool {
    part == "tests" || part == "tests.rs" || part.ends_with("_tests.rs")
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn source_counts_tests_do_not_and_a_program_has_a_lower_limit() {
        let files = [
            file("crates/a/src/lib.rs", "x\n".repeat(11_001)),
            file("crates/b/tests/b.rs", "x\n".repeat(12_000)),
            file("crates/b/src/tests/c.rs", "x\n".repeat(12_000)),
            file("crates/b/src/sweep_tests.rs", "x\n".repeat(12_000)),
            file("crates/a/examples/c.rs", "x\n".repeat(5_000)),
            file("crates/d/src/main.rs", "x\n".repeat(9_000)),
            file("crates/e/src/lib.rs", "x\n".repeat(11_000)),
        ];
        assert_eq!(
            check(&files),
            [
                "crates/a: 11001 lines of source, more than 11000",
                "crates/d: 9000 lines of source, more than 8999",
            ]
        );
    }
}
