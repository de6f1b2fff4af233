//! Functions fit on a screen.

use crate::rust::{RustToken, RustTokenKind, tokens};
use crate::source_tree::{Language, SourceFile};

/// The most lines of a function, from `fn` to its last brace.
const FUNCTION_LINES: usize = 70;

pub(crate) fn check(files: &[SourceFile]) -> Vec<String> {
    let rust = files.iter().filter(|file| file.language() == Language::Rust);
    rust.flat_map(|file| {
        let functions = functions(&tokens(&file.text)).into_iter();
        functions.filter(|function| function.lines > FUNCTION_LINES).map(|function| {
            let FunctionSpan { name, line, lines } = function;
            format!("{}:{line}: fn {name} has {lines} lines, more than {FUNCTION_LINES}", file.path)
        })
    })
    .collect()
}

struct FunctionSpan {
    name: String,
    line: usize,
    lines: usize,
}

/// Every function with a body, those inside others too.
fn functions(tokens: &[RustToken]) -> Vec<FunctionSpan> {
    let mut found = Vec::new();
    for (at, pair) in tokens.windows(2).enumerate() {
        let (true, Some(name)) = (pair[0].is_word("fn"), pair[1].word()) else { continue };
        if let Some(last) = last_line(&tokens[at..]) {
            let line = pair[0].line;
            found.push(FunctionSpan { name: name.to_owned(), line, lines: last - line + 1 });
        }
    }
    found
}

/// The line of the brace that ends the function; none if it has no body.
fn last_line(tokens: &[RustToken]) -> Option<usize> {
    let mut depth = 0;
    for token in tokens {
        match token.kind {
            RustTokenKind::Symbol(';') if depth == 0 => return None,
            RustTokenKind::Symbol('(' | '[' | '{') => depth += 1,
            RustTokenKind::Symbol('}') if depth == 1 => return Some(token.line),
            RustTokenKind::Symbol(')' | ']' | '}') => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn a_function_is_measured_from_its_name_to_its_brace() {
        let body = "x();\n".repeat(68);
        let fits = format!("/// Doc\nfn fits(a: [u8; 2]) {{\n{body}}}\n");
        assert!(check(&[file("a.rs", fits)]).is_empty());
        let long = format!("trait T {{ fn none(&self); }}\nfn long() {{\n{body}\n}}\n");
        let faults = check(&[file("a.rs", long)]);
        assert_eq!(faults, ["a.rs:2: fn long has 71 lines, more than 70"]);
    }
}
