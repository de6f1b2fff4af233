//! The documentation of every library crate opens with an example.

use crate::source_tree::SourceFile;

pub(crate) fn check(files: &[SourceFile]) -> Vec<String> {
    files
        .iter()
        .filter(|file| is_library(&file.path) && !has_example(&file.text))
        .map(fault)
        .collect()
}

fn is_library(path: &str) -> bool {
    matches!(path.split('/').collect::<Vec<_>>()[..], ["crates", _, "src", "lib.rs"])
}

/// Whether the comment at the top of a file has a block of code.
fn has_example(text: &str) -> bool {
    text.lines().take_while(|line| line.starts_with("//!")).any(|line| line.starts_with("//! ```"))
}

fn fault(file: &SourceFile) -> String {
    format!("{}:1: the documentation of the crate has no example", file.path)
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn a_crate_without_an_example_in_its_documentation_is_named() {
        let files = [
            file("crates/a/src/lib.rs", "//! A.\n//!\n//! ```\n//! a();\n//! ```\n"),
            file("crates/b/src/lib.rs", "//! B.\n\n/// ```\n/// c();\n/// ```\nfn c() {}\n"),
            file("crates/d/src/other.rs", "//! D.\n"),
        ];
        let expected = ["crates/b/src/lib.rs:1: the documentation of the crate has no example"];
        assert_eq!(check(&files), expected);
    }
}
