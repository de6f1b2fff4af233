//! The modules of a crate: one for each source file, found by following `mod` declarations.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::imports::{Import, imports};
use crate::rust::{RustToken, RustTokenKind, tokens, without_tests};

/// One source file: what it declares, defines and imports.
#[derive(Debug)]
pub(crate) struct SourceModule {
    /// The path from the crate's root, without `crate`. Empty for the root.
    pub(crate) path: Vec<String>,
    pub(crate) file: PathBuf,
    pub(crate) parent: Option<usize>,
    /// Modules declared here that have a file of their own, by name.
    pub(crate) children: BTreeMap<String, usize>,
    /// Names of the items defined at the top level of the file.
    pub(crate) items: BTreeSet<String>,
    /// All `use` declarations and all paths in code that could name a module of this crate.
    pub(crate) imports: Vec<Import>,
}

impl SourceModule {
    /// How reports call the module.
    pub(crate) fn name(&self) -> String {
        if self.path.is_empty() {
            return self.file.file_name().map_or("root".into(), |n| n.to_string_lossy().into());
        }
        self.path.join("::")
    }
}

/// All modules below a crate's root file. The root is the first.
pub(crate) fn module_tree(root: &Path) -> Result<Vec<SourceModule>, String> {
    let mut modules = Vec::new();
    add_module(&mut modules, None, Vec::new(), root.to_owned())?;
    Ok(modules)
}

fn add_module(
    modules: &mut Vec<SourceModule>,
    parent: Option<usize>,
    path: Vec<String>,
    file: PathBuf,
) -> Result<usize, String> {
    let source = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
    let tokens = without_tests(&tokens(&source));
    let declared = declared_modules(&tokens);
    let folder = children_folder(&file, parent.is_none());
    let id = modules.len();
    modules.push(SourceModule {
        items: items(&tokens),
        imports: imports(&tokens),
        children: BTreeMap::new(),
        path: path.clone(),
        parent,
        file,
    });
    for declaration in declared {
        let child = match &declaration.at {
            Some(at) => modules[id].file.with_file_name(at),
            None => folder.join(format!("{}.rs", declaration.name)),
        };
        let child =
            if child.is_file() { child } else { folder.join(&declaration.name).join("mod.rs") };
        let child_path = [&path[..], std::slice::from_ref(&declaration.name)].concat();
        let child_id = add_module(modules, Some(id), child_path, child)?;
        modules[id].children.insert(declaration.name, child_id);
    }
    Ok(id)
}

/// Where the files of a module's children are.
fn children_folder(file: &Path, is_root: bool) -> PathBuf {
    let is_mod = file.file_stem().is_some_and(|stem| stem == "mod");
    if is_root || is_mod { file.with_file_name("") } else { file.with_extension("") }
}

/// `mod name;`, with the file that a `#[path]` attribute names.
struct ModDeclaration {
    name: String,
    at: Option<String>,
}

fn declared_modules(tokens: &[RustToken]) -> Vec<ModDeclaration> {
    let mut found = Vec::new();
    for (at, window) in tokens.windows(3).enumerate() {
        let [keyword, name, end] = window else { continue };
        if let (true, Some(name), true) = (keyword.is_word("mod"), name.word(), end.is(';')) {
            found.push(ModDeclaration { name: name.to_owned(), at: path_attribute(&tokens[..at]) });
        }
    }
    found
}

/// The file of a `#[path = "…"]` that ends right before an item, visibility allowed.
fn path_attribute(before: &[RustToken]) -> Option<String> {
    let end = before.iter().rposition(|token| token.is(']'))?;
    let is_adjacent = before[end + 1..].iter().all(|token| !token.is(';') && !token.is('}'));
    let [.., key, equals, value] = &before[..end] else { return None };
    match &value.kind {
        RustTokenKind::Literal(file) if is_adjacent && key.is_word("path") && equals.is('=') => {
            Some(file.clone())
        }
        _ => None,
    }
}

/// The names that a file defines at its top level.
fn items(tokens: &[RustToken]) -> BTreeSet<String> {
    let keywords =
        ["struct", "enum", "union", "trait", "type", "fn", "const", "static", "mod", "macro_rules"];
    let mut found = BTreeSet::new();
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.kind {
            RustTokenKind::Symbol('{' | '(' | '[') => depth += 1,
            RustTokenKind::Symbol('}' | ')' | ']') => depth = depth.saturating_sub(1),
            RustTokenKind::Word(ref word) if depth == 0 && keywords.contains(&word.as_str()) => {
                let name_at = if word == "macro_rules" { at + 2 } else { at + 1 };
                let name = tokens.get(name_at).and_then(RustToken::word);
                // Of a file module only the declaration is here.
                let is_file = word == "mod" && tokens.get(at + 2).is_some_and(|t| t.is(';'));
                found.extend(name.filter(|_| !is_file).map(str::to_owned));
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_those_of_the_top_level() {
        let source = "pub struct A { b: B } const fn c() { fn d() {} } mod e; mod f {} \
                      macro_rules! g { () => {} } pub(crate) type H = u8; static mut I: u8 = 0;";
        let found: Vec<_> = items(&tokens(source)).into_iter().collect();
        assert_eq!(found, ["A", "H", "c", "f", "fn", "g", "mut"]);
    }

    #[test]
    fn a_path_attribute_belongs_to_the_next_item_only() {
        let source = "#[path = \"x.rs\"] pub(crate) mod a; mod b;";
        let found = declared_modules(&tokens(source));
        let found: Vec<_> = found.iter().map(|d| (d.name.as_str(), d.at.as_deref())).collect();
        assert_eq!(found, [("a", Some("x.rs")), ("b", None)]);
    }

    #[test]
    fn children_of_a_file_are_in_the_folder_of_its_name() {
        let folder = |file: &str, is_root| children_folder(Path::new(file), is_root);
        assert_eq!(folder("src/lib.rs", true), Path::new("src/"));
        assert_eq!(folder("src/a/mod.rs", false), Path::new("src/a/"));
        assert_eq!(folder("src/a.rs", false), Path::new("src/a"));
    }
}
