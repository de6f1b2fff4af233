//! The imports of one file: `use` declarations and paths in code.

use crate::rust::{RustToken, RustTokenKind};

/// A path that a file names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Import {
    /// The segments as written, `crate`, `self` and `super` included.
    pub(crate) path: Vec<String>,
    /// The name that a `use` gives to it in this file, or how else it is named.
    pub(crate) binding: Binding,
    pub(crate) line: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    /// `use a::b;` or `use a::b as c;`
    Name(String),
    /// `use a::*;`
    Glob,
    /// A path in code, such as `a::b()`.
    InCode,
}

/// Every import of a file. Of paths in code, all those with at least two segments: only the
/// module tree tells which of them start with a module.
pub(crate) fn imports(tokens: &[RustToken]) -> Vec<Import> {
    let mut scan =
        ImportScan { tokens, at: 0, found: Vec::new(), depth: 0, inline_modules: Vec::new() };
    while scan.at < tokens.len() {
        scan.next();
    }
    scan.found
}

struct ImportScan<'a> {
    tokens: &'a [RustToken],
    at: usize,
    found: Vec<Import>,
    /// Braces that are open.
    depth: usize,
    /// The depths inside the `mod name { … }` blocks that are open. They count as part of the file.
    inline_modules: Vec<usize>,
}

impl ImportScan<'_> {
    fn token(&self, ahead: usize) -> Option<&RustToken> {
        self.tokens.get(self.at + ahead)
    }

    fn is(&self, ahead: usize, symbol: char) -> bool {
        self.token(ahead).is_some_and(|token| token.is(symbol))
    }

    fn word(&self, ahead: usize) -> Option<&str> {
        self.token(ahead).and_then(RustToken::word)
    }

    fn is_path_sep(&self, ahead: usize) -> bool {
        self.token(ahead).is_some_and(RustToken::is_path_sep)
    }

    fn next(&mut self) {
        match &self.tokens[self.at].kind {
            RustTokenKind::Symbol('{') => self.depth += 1,
            RustTokenKind::Symbol('}') => {
                self.inline_modules.pop_if(|depth| *depth == self.depth);
                self.depth = self.depth.saturating_sub(1);
            }
            // A path from the root of all crates, or the rest of one such as `<T>::f`.
            RustTokenKind::PathSep => return self.skip_path(),
            RustTokenKind::Word(word) => match word.as_str() {
                "pub" if self.is(1, '(') => return self.skip_visibility(),
                "mod" if self.is(2, '{') => self.inline_modules.push(self.depth + 1),
                // Not `use<'a>`, which lists what a type captures.
                "use" if !self.is(1, '<') => return self.use_declaration(),
                _ if self.is_path_sep(1) => return self.path_in_code(),
                _ => {}
            },
            _ => {}
        }
        self.at += 1;
    }

    fn skip_visibility(&mut self) {
        while self.at < self.tokens.len() && !self.is(0, ')') {
            self.at += 1;
        }
    }

    fn skip_path(&mut self) {
        while self.is_path_sep(0) {
            self.at += if self.word(1).is_some() { 2 } else { 1 };
        }
    }

    fn path_in_code(&mut self) {
        let line = self.tokens[self.at].line;
        let mut path = Vec::new();
        while let Some(word) = self.word(0) {
            path.push(word.to_owned());
            self.at += 1;
            if !(self.is_path_sep(0) && self.word(1).is_some()) {
                break;
            }
            self.at += 1;
        }
        self.push(path, Binding::InCode, line);
        self.skip_path();
    }

    fn use_declaration(&mut self) {
        self.at += 1;
        if self.is_path_sep(0) {
            // Another crate's.
            while self.at < self.tokens.len() && !self.is(0, ';') {
                self.at += 1;
            }
            return;
        }
        self.use_tree(&[]);
    }

    /// One branch of a `use`, up to what ends it: `,`, `}` or `;`.
    fn use_tree(&mut self, prefix: &[String]) {
        let mut path = prefix.to_vec();
        let line = self.token(0).map_or(0, |token| token.line);
        while let Some(word) = self.word(0).map(str::to_owned) {
            self.at += 1;
            if word != "self" || path.is_empty() {
                path.push(word);
            }
            if !self.is_path_sep(0) {
                break;
            }
            self.at += 1;
        }
        if self.is(0, '*') {
            self.at += 1;
            return self.push(path, Binding::Glob, line);
        }
        if self.is(0, '{') {
            self.at += 1;
            while self.at < self.tokens.len() && !self.is(0, '}') {
                self.use_tree(&path);
                if self.is(0, ',') {
                    self.at += 1;
                } else if !self.is(0, '}') {
                    break;
                }
            }
            self.at += 1;
            return;
        }
        let mut name = path.last().cloned().unwrap_or_default();
        if self.word(0) == Some("as") {
            name = self.word(1).unwrap_or("_").to_owned();
            self.at += 2;
        }
        self.push(path, Binding::Name(name), line);
    }

    /// Takes note of an import. Inside inline modules, `self` and `super` are relative to them:
    /// seen from the file, each such module is one `super` deep.
    fn push(&mut self, mut path: Vec<String>, binding: Binding, line: usize) {
        let supers = path.iter().take_while(|segment| *segment == "super").count();
        let inside = self.inline_modules.len();
        if supers > 0 && inside > 0 {
            path.drain(..supers.min(inside));
            if supers <= inside {
                path.insert(0, "self".to_owned());
            }
        }
        self.found.push(Import { path, binding, line });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rust::tokens;

    fn shown(source: &str) -> Vec<String> {
        let found = imports(&tokens(source));
        found
            .iter()
            .map(|import| match &import.binding {
                Binding::Name(name) => format!("{} = {name}", import.path.join("::")),
                Binding::Glob => format!("{}::*", import.path.join("::")),
                Binding::InCode => import.path.join("::"),
            })
            .collect()
    }

    #[test]
    fn groups_aliases_and_globs_are_taken_apart() {
        let source = "use crate::a::{self, b::{C, d as e}, f::*}; pub(in crate::x) use super::g;";
        assert_eq!(
            shown(source),
            [
                "crate::a = a",
                "crate::a::b::C = C",
                "crate::a::b::d = e",
                "crate::a::f::*",
                "super::g = g",
            ]
        );
    }

    #[test]
    fn paths_in_code_end_at_generics_and_calls() {
        let source =
            "fn f(x: super::a::B<crate::c::D>) -> impl T + use<'_> { e::<F>(); $crate::g!() }";
        assert_eq!(shown(source), ["super::a::B", "crate::c::D", "e", "crate::g"]);
    }

    #[test]
    fn visibility_and_other_crates_are_no_imports() {
        assert!(shown("pub(in crate::a) fn f() { ::std::mem::drop(1) } use ::b::C;").is_empty());
    }

    #[test]
    fn an_inline_module_is_part_of_its_file() {
        let source = "mod a { use super::b::C; use super::super::d; use crate::e; } use super::f;";
        assert_eq!(
            shown(source),
            ["self::b::C = C", "super::d = d", "crate::e = e", "super::f = f",]
        );
    }
}
