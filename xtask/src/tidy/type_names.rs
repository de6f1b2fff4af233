//! Each type name means one thing in the whole workspace, private types and tests included.
//!
//! Associated types do not count: their trait names them. Neither do examples, each of which is a
//! program of its own that a reader sees alone.

use std::collections::BTreeMap;

use crate::rust::{RustToken, RustTokenKind, tokens};
use crate::source_tree::{Language, SourceFile};

pub(crate) fn check(files: &[SourceFile]) -> Vec<String> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let is_checked = |file: &&SourceFile| {
        file.language() == Language::Rust
            && !file.path.split('/').any(|folder| folder == "examples")
    };
    for file in files.iter().filter(is_checked) {
        for definition in definitions(&tokens(&file.text)) {
            let place = format!("{}:{}", file.path, definition.line);
            places.entry(definition.name).or_default().push(place);
        }
    }
    places
        .into_iter()
        .filter(|(_, places)| places.len() > 1)
        .map(|(name, places)| {
            format!("{}: {name} is also defined at {}", places[0], places[1..].join(", "))
        })
        .collect()
}

struct TypeDefinition {
    name: String,
    line: usize,
}

/// The types that a file defines, at any depth.
fn definitions(tokens: &[RustToken]) -> Vec<TypeDefinition> {
    let mut found = Vec::new();
    // For each open brace, whether it opens the body of an `impl` or a trait.
    let mut open: Vec<bool> = Vec::new();
    let mut opens_body = false;
    for (at, token) in tokens.iter().enumerate() {
        match &token.kind {
            RustTokenKind::Symbol('{') => {
                open.push(opens_body);
                opens_body = false;
            }
            RustTokenKind::Symbol('}') => {
                open.pop();
            }
            RustTokenKind::Symbol(';') => opens_body = false,
            RustTokenKind::Word(word) => {
                let is_associated = word == "type" && open.last() == Some(&true);
                if word == "trait" || word == "impl" && starts_item(&tokens[..at]) {
                    opens_body = true;
                }
                if is_type_keyword(word, &tokens[at + 1..]) && !is_associated {
                    let name = tokens.get(at + 1).and_then(RustToken::word);
                    let named = name.filter(|name| name.starts_with(char::is_uppercase));
                    found.extend(
                        named
                            .map(|name| TypeDefinition { name: name.to_owned(), line: token.line }),
                    );
                }
            }
            _ => {}
        }
    }
    found
}

/// `union` is a keyword only before a name and a body or generics.
fn is_type_keyword(word: &str, next: &[RustToken]) -> bool {
    match word {
        "struct" | "enum" | "trait" | "type" => true,
        "union" => next.get(1).is_some_and(|token| token.is('{') || token.is('<')),
        _ => false,
    }
}

/// Whether an item could start after these tokens: `impl` is also part of types.
fn starts_item(before: &[RustToken]) -> bool {
    let Some(last) = before.last() else { return true };
    match &last.kind {
        RustTokenKind::Symbol(symbol) => matches!(symbol, '{' | '}' | ';' | ']'),
        RustTokenKind::Word(word) => word == "unsafe",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn names(source: &str) -> Vec<String> {
        definitions(&tokens(source)).into_iter().map(|definition| definition.name).collect()
    }

    #[test]
    fn associated_types_are_left_out() {
        let source = "struct A; impl T for A { type B = u8; fn f() { struct C; } } \
                      trait D { type E; } fn g(x: impl Fn()) { type F = u8; } type G = u8;";
        assert_eq!(names(source), ["A", "C", "D", "F", "G"]);
    }

    #[test]
    fn names_in_macros_and_unions_in_sets_are_left_out() {
        assert_eq!(names("struct $name; a.union(&B); union C { a: u8 }"), ["C"]);
    }

    #[test]
    fn a_name_defined_twice_is_found_with_its_places() {
        let files = [
            file("a.rs", "struct A;\n"),
            file("b.rs", "\nenum A {}\n"),
            file("examples/c.rs", "struct A;"),
        ];
        assert_eq!(check(&files), ["a.rs:1: A is also defined at b.rs:2"]);
    }
}
