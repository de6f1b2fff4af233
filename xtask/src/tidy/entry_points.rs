//! The table of entry points in `ARCHITECTURE.md` names files that exist, in the crates that have
//! them.

use crate::source_tree::SourceFile;

const DOCUMENT: &str = "ARCHITECTURE.md";

pub(crate) fn check(files: &[SourceFile]) -> Vec<String> {
    let Some(document) = files.iter().find(|file| file.path == DOCUMENT) else {
        return vec![format!("{DOCUMENT}: there is no such file")];
    };
    let mut found = Vec::new();
    for (number, line) in (1..).zip(document.text.lines()).filter(|(_, row)| row.starts_with('|')) {
        // A crate's name precedes the names of its files.
        let mut folder = String::new();
        for name in line.split('`').skip(1).step_by(2) {
            let of_crate = format!("crates/{name}/");
            if files.iter().any(|file| file.path.starts_with(&of_crate)) {
                folder = of_crate;
            } else if name.ends_with(".rs") && !is_there(files, &folder, name) {
                found.push(format!("{DOCUMENT}:{number}: {folder} has no {name}"));
            }
        }
    }
    found
}

/// Whether a folder has a file of this name at any depth, or the workspace has it at this path.
fn is_there(files: &[SourceFile], folder: &str, name: &str) -> bool {
    let end = format!("/{name}");
    files
        .iter()
        .any(|file| file.path == name || file.path.starts_with(folder) && file.path.ends_with(&end))
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn files_are_looked_for_in_the_crate_before_them() {
        let table = "| to change | open |\n|---|---|\n\
                     | one | `a`: `x.rs`, `deep/y.rs`; `b`: `y.rs` |\n| all | `tests/all.rs` |\n";
        let files = [
            file(DOCUMENT, table),
            file("crates/a/src/x.rs", ""),
            file("crates/a/src/deep/y.rs", ""),
            file("crates/b/src/z.rs", ""),
            file("tests/all.rs", ""),
        ];
        assert_eq!(check(&files), [format!("{DOCUMENT}:3: crates/b/ has no y.rs")]);
    }
}
