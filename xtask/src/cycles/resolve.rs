//! Which module a path leads to: the one that defines the item, not one that re-exports it.

use super::imports::{Binding, Import};
use super::module_tree::SourceModule;

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathTarget {
    /// An item that this module defines.
    ItemOf(usize),
    /// The module itself, as a namespace: what is used of it, other paths tell.
    Namespace(usize),
}

/// How many re-exports one path may lead through; more are taken for a circle.
const MOST_REEXPORTS: usize = 32;

/// Follows a path of `module`. Nothing if it leads out of the crate.
pub(crate) fn resolve(
    modules: &[SourceModule],
    module: usize,
    path: &[String],
) -> Option<PathTarget> {
    PathResolver { modules, left: MOST_REEXPORTS }.relative(module, path)
}

/// The module that one of `module`'s imports makes it depend on.
pub(crate) fn dependency(
    modules: &[SourceModule],
    module: usize,
    import: &Import,
) -> Option<usize> {
    match (resolve(modules, module, &import.path)?, &import.binding) {
        (PathTarget::ItemOf(target), _) | (PathTarget::Namespace(target), Binding::Glob) => {
            Some(target)
        }
        (PathTarget::Namespace(_), _) => None,
    }
}

struct PathResolver<'a> {
    modules: &'a [SourceModule],
    left: usize,
}

impl PathResolver<'_> {
    /// A path as written in `module`.
    fn relative(&mut self, module: usize, path: &[String]) -> Option<PathTarget> {
        let first = path.first()?;
        match first.as_str() {
            "crate" => self.within(0, &path[1..]),
            "self" => self.within(module, &path[1..]),
            "super" => {
                let parent = self.modules[module].parent?;
                if path.get(1).is_some_and(|next| next == "super") {
                    self.relative(parent, &path[1..])
                } else {
                    self.within(parent, &path[1..])
                }
            }
            _ if self.modules[module].children.contains_key(first) => self.within(module, path),
            _ => self.through_binding(module, first, &path[1..]),
        }
    }

    /// A path below `module`.
    fn within(&mut self, module: usize, path: &[String]) -> Option<PathTarget> {
        let Some(first) = path.first() else { return Some(PathTarget::Namespace(module)) };
        let this = &self.modules[module];
        let is_leaf = path.len() == 1;
        // A function and a module may share a name; the function is the one re-exported.
        if is_leaf && let Some(target) = self.through_binding(module, first, &[]) {
            return Some(target);
        }
        if let Some(&child) = this.children.get(first) {
            return self.within(child, &path[1..]);
        }
        if this.items.contains(first) {
            return Some(PathTarget::ItemOf(module));
        }
        if this.imports.iter().any(|import| import.binding == Binding::Name(first.clone())) {
            return self.through_binding(module, first, &path[1..]);
        }
        self.through_globs(module, path).or(Some(PathTarget::ItemOf(module)))
    }

    /// A path whose first segment a `use` of `module` has brought in.
    fn through_binding(
        &mut self,
        module: usize,
        name: &str,
        rest: &[String],
    ) -> Option<PathTarget> {
        let bound = |import: &&Import| matches!(&import.binding, Binding::Name(n) if n == name);
        let import = self.modules[module].imports.iter().find(bound)?;
        // `use self::name` or `use name` of a module next to it: no way further.
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let path = [&import.path[..], rest].concat();
        let is_itself = path.first().is_some_and(|first| first == name);
        if is_itself && !self.modules[module].children.contains_key(name) {
            return None;
        }
        self.relative(module, &path)
    }

    /// An item that `module` re-exports with all others of a module.
    fn through_globs(&mut self, module: usize, path: &[String]) -> Option<PathTarget> {
        let modules = self.modules;
        let globs = modules[module].imports.iter().filter(|i| i.binding == Binding::Glob);
        for glob in globs {
            if self.left == 0 {
                return None;
            }
            self.left -= 1;
            let Some(PathTarget::Namespace(from)) = self.relative(module, &glob.path) else {
                continue;
            };
            let has_it = modules[from].items.contains(&path[0])
                || modules[from].children.contains_key(&path[0])
                || modules[from]
                    .imports
                    .iter()
                    .any(|i| i.binding == Binding::Name(path[0].clone()));
            if from != module && has_it {
                return self.within(from, path);
            }
        }
        None
    }
}
