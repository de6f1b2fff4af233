//! `cargo xtask cycles`: no crate has modules that import each other in a circle.
//!
//! A module is a source file; an inline `mod name { … }` belongs to its file, and what is compiled
//! for tests only does not count. A file imports another when it names an item that the other
//! defines, in a `use` or in code. A name is followed through re-exports to the module that
//! defines it, so `use crate::Failure` is an import of `failure` and not of `lib.rs`. Naming a
//! module (`use crate::frames;`) imports nothing; naming an item through it (`frames::HEADER`)
//! does. `mod name;` alone imports nothing, but a parent that re-exports its child's items and
//! whose own items the child uses is on a cycle with it.
//!
//! Folders must not form a circle either: the files of a module and of all modules below it are
//! taken together, and no two siblings may import each other. The items of a parent's own file
//! (`mod.rs`) are no part of that: the files' check covers them.

mod folders;
mod graph;
mod imports;
mod module_tree;
mod resolve;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::process::ChoreResult;
use graph::ImportGraph;
use module_tree::{SourceModule, module_tree};
use resolve::dependency;

/// Checks every crate of the workspace.
pub(crate) fn check(root: &Path) -> ChoreResult {
    let mut faults = Vec::new();
    for crate_root in crate_roots(root)? {
        let modules = module_tree(&crate_root)?;
        for knot in knots(&modules) {
            faults.push(format!("{}: {}", shown(root, &crate_root), knot.describe(root, &modules)));
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

/// The root files of all crates: libraries, programs and the process tests.
fn crate_roots(root: &Path) -> Result<Vec<PathBuf>, String> {
    let crates = root.join("crates");
    let entries = fs::read_dir(&crates).map_err(|e| format!("{}: {e}", crates.display()))?;
    let mut folders: Vec<_> = entries.flatten().map(|entry| entry.path().join("src")).collect();
    folders.sort();
    folders.extend([root.join("tests"), root.join("xtask/src")]);
    let files = folders.iter().flat_map(|folder| ["lib.rs", "main.rs"].map(|f| folder.join(f)));
    Ok(files.filter(|file| file.is_file()).collect())
}

fn shown(root: &Path, file: &Path) -> String {
    file.strip_prefix(root).unwrap_or(file).display().to_string()
}

/// Where one module first imports another.
#[derive(Clone, Copy, Debug)]
struct ImportSite {
    from: usize,
    to: usize,
    line: usize,
}

/// Modules, or folders of modules, that all lead to each other.
#[derive(Debug)]
struct ImportKnot {
    what: &'static str,
    members: BTreeSet<usize>,
    cycles: Vec<Vec<ImportSite>>,
    /// The module that stands for a file in the report: itself, or its folder.
    stands_for: BTreeMap<usize, usize>,
}

impl ImportKnot {
    fn describe(&self, root: &Path, modules: &[SourceModule]) -> String {
        let mut text = format!("{} {} import each other", self.members.len(), self.what);
        for cycle in &self.cycles {
            let name = |id: usize| modules[self.stands_for[&id]].name();
            let mut names: Vec<_> = cycle.iter().map(|site| name(site.from)).collect();
            names.extend(cycle.first().map(|site| name(site.from)));
            text.push_str(&format!("\n  {}", names.join(" -> ")));
            for site in cycle {
                let file = shown(root, &modules[site.from].file);
                text.push_str(&format!(
                    "\n    {file}:{} imports {}",
                    site.line,
                    modules[site.to].name()
                ));
            }
        }
        text
    }
}

/// All imports between two files of a crate, the first of each pair.
fn import_sites(modules: &[SourceModule]) -> Vec<ImportSite> {
    let mut seen = BTreeSet::new();
    let mut sites = Vec::new();
    for (from, module) in modules.iter().enumerate() {
        for import in &module.imports {
            let Some(to) = dependency(modules, from, import) else { continue };
            if to != from && seen.insert((from, to)) {
                sites.push(ImportSite { from, to, line: import.line });
            }
        }
    }
    sites
}

fn knots(modules: &[SourceModule]) -> Vec<ImportKnot> {
    let sites = import_sites(modules);
    let files: BTreeMap<_, _> = (0..modules.len()).map(|id| (id, id)).collect();
    let mut found = knots_between("modules", &sites, &files);
    for group in folders::sibling_groups(modules) {
        let between = knots_between("folders", &sites, &group);
        let is_new = |knot: &ImportKnot| found.iter().all(|known| known.members != knot.members);
        let new: Vec<_> = between.into_iter().filter(is_new).collect();
        found.extend(new);
    }
    found
}

/// The knots between the files of `stands_for`, each taken for what it stands for.
fn knots_between(
    what: &'static str,
    sites: &[ImportSite],
    stands_for: &BTreeMap<usize, usize>,
) -> Vec<ImportKnot> {
    let mut graph = ImportGraph::default();
    let mut first_site: BTreeMap<[usize; 2], ImportSite> = BTreeMap::new();
    for site in sites {
        if let (Some(&from), Some(&to)) = (stands_for.get(&site.from), stands_for.get(&site.to)) {
            graph.add(from, to);
            first_site.entry([from, to]).or_insert(*site);
        }
    }
    let with_sites = |cycle: Vec<usize>| {
        let next = cycle.iter().cycle().skip(1);
        cycle.iter().zip(next).map(|(&from, &to)| first_site[&[from, to]]).collect()
    };
    let knots = graph.knots().into_iter();
    knots
        .map(|members| ImportKnot {
            what,
            cycles: graph.covering_cycles(&members).into_iter().map(with_sites).collect(),
            members,
            stands_for: stands_for.clone(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// What the check says of a crate of these files.
    fn faults(files: &[(&str, &str)]) -> String {
        let dir = TempDir::new().unwrap();
        for (name, source) in files {
            let path = dir.path().join("crates/a/src").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, source).unwrap();
        }
        check(dir.path()).err().unwrap_or_default()
    }

    #[test]
    fn a_cycle_is_printed_with_the_place_of_each_import() {
        let found = faults(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::{B};\npub struct A;"),
            ("b.rs", "pub struct B; fn f() { \n\n super::c::g() }"),
            ("c.rs", "pub fn g(a: crate::a::A) {}"),
        ]);
        let expected = "crates/a/src/lib.rs: 3 modules import each other\n  \
                        a -> b -> c -> a\n    \
                        crates/a/src/a.rs:1 imports b\n    \
                        crates/a/src/b.rs:3 imports c\n    \
                        crates/a/src/c.rs:1 imports a";
        assert_eq!(found, expected);
    }

    #[test]
    fn a_re_export_leads_to_the_module_that_defines_the_item() {
        let found = faults(&[
            ("lib.rs", "mod a; mod b; pub use b::B; pub use a::*;"),
            ("a.rs", "use crate::B; pub struct A;"),
            ("b.rs", "pub struct B;"),
        ]);
        assert_eq!(found, "");
        let found = faults(&[
            ("lib.rs", "mod a; mod b; pub use b::B; pub use a::*;"),
            ("a.rs", "use crate::B; pub struct A;"),
            ("b.rs", "pub struct B(crate::A);"),
        ]);
        assert!(found.contains("a -> b -> a"), "{found}");
    }

    #[test]
    fn a_child_that_uses_its_parent_is_on_a_cycle_with_it() {
        let lib = ("lib.rs", "mod a;");
        let found = faults(&[
            lib,
            ("a/mod.rs", "mod b; pub use b::B; struct A;"),
            ("a/b.rs", "use super::A; pub struct B;"),
        ]);
        assert!(found.contains("a -> a::b -> a"), "{found}");
        // What a sibling defines is not the parent's, even if the parent names it.
        let found = faults(&[
            lib,
            ("a/mod.rs", "mod b; mod c; pub use b::B; use c::C;"),
            ("a/b.rs", "use super::C; pub struct B;"),
            ("a/c.rs", "pub struct C;"),
        ]);
        assert_eq!(found, "");
    }

    #[test]
    fn an_item_named_through_a_module_is_an_import_of_the_item() {
        let module = "use crate::a; fn f() { a::g() }";
        let lib = ("lib.rs", "mod a; mod b;");
        assert_eq!(faults(&[lib, ("a.rs", "use crate::b;"), ("b.rs", module)]), "");
        let found = faults(&[lib, ("a.rs", "use crate::b; fn g() { b::f() }"), ("b.rs", module)]);
        assert!(found.contains("a -> b -> a"), "{found}");
    }

    #[test]
    fn folders_must_not_form_a_circle_even_if_files_do_not() {
        let found = faults(&[
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "mod c; mod d; pub use c::C;"),
            ("a/c.rs", "use crate::b::B; pub struct C;"),
            ("a/d.rs", "pub struct D;"),
            ("b.rs", "use crate::a::d::D; pub struct B;"),
        ]);
        let expected = "crates/a/src/lib.rs: 2 folders import each other\n  a -> b -> a\n    \
                        crates/a/src/a/c.rs:1 imports b\n    crates/a/src/b.rs:1 imports a::d";
        assert_eq!(found, expected);
    }

    #[test]
    fn tests_do_not_count() {
        let found = faults(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }"),
        ]);
        assert_eq!(found, "");
    }
}
