//! Removes what is compiled for tests only.

use super::{RustToken, RustTokenKind};

/// The tokens without the items marked `#[cfg(test)]`. A file marked so as a whole has none.
pub(crate) fn without_tests(tokens: &[RustToken]) -> Vec<RustToken> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at].is('#') && tokens.get(at + 1).is_some_and(|token| token.is('!')) {
            if is_cfg_test(&tokens[at + 2..]) {
                return Vec::new();
            }
        } else if tokens[at].is('#') && is_cfg_test(&tokens[at + 1..]) {
            at = end_of_item(tokens, end_of_group(tokens, at + 1));
            continue;
        }
        kept.push(tokens[at].clone());
        at += 1;
    }
    kept
}

/// Whether the tokens start with `[cfg(test)]` or `[cfg(all(test, …`.
fn is_cfg_test(tokens: &[RustToken]) -> bool {
    let word = |at: usize, word: &str| tokens.get(at).is_some_and(|token| token.is_word(word));
    if !(word(1, "cfg") && tokens[0].is('[')) {
        return false;
    }
    word(3, "test") || word(3, "all") && word(5, "test")
}

/// The index after the item or field that starts at `at`, further attributes included.
fn end_of_item(tokens: &[RustToken], mut at: usize) -> usize {
    while at < tokens.len() && tokens[at].is('#') {
        at = end_of_group(tokens, at + 1);
    }
    let keywords = [
        "pub",
        "mod",
        "fn",
        "use",
        "impl",
        "struct",
        "enum",
        "union",
        "const",
        "static",
        "type",
        "trait",
        "unsafe",
        "async",
        "extern",
        "macro_rules",
        "let",
    ];
    let is_item =
        tokens.get(at).and_then(RustToken::word).is_some_and(|word| keywords.contains(&word));
    while at < tokens.len() {
        match tokens[at].kind {
            RustTokenKind::Symbol(';') => return at + 1,
            RustTokenKind::Symbol(',') if !is_item => return at + 1,
            RustTokenKind::Symbol('}') => return at,
            // `use a::{b, c};` and `let x = {…};` end after their braces, other items with them.
            RustTokenKind::Symbol('{') => {
                at = end_of_group(tokens, at);
                if !tokens.get(at).is_some_and(|token| token.is(';') || token.is(',')) {
                    return at;
                }
            }
            RustTokenKind::Symbol('(' | '[') => at = end_of_group(tokens, at),
            _ => at += 1,
        }
    }
    at
}

/// The index after the bracket that closes the one at `at`.
pub(super) fn end_of_group(tokens: &[RustToken], mut at: usize) -> usize {
    let mut depth = 0usize;
    while at < tokens.len() {
        match tokens[at].kind {
            RustTokenKind::Symbol('(' | '[' | '{') => depth += 1,
            RustTokenKind::Symbol(')' | ']' | '}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return at;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::super::tokens;
    use super::*;

    fn kept(source: &str) -> Vec<String> {
        let kept = without_tests(&tokens(source));
        kept.iter().filter_map(|token| token.word().map(str::to_owned)).collect()
    }

    #[test]
    fn test_modules_functions_and_imports_are_removed() {
        assert_eq!(kept("fn a() {} #[cfg(test)] mod tests { use super::*; }"), ["fn", "a"]);
        assert_eq!(kept("#[cfg(test)] mod tests; fn a() {}"), ["fn", "a"]);
        assert_eq!(kept("#[cfg(test)] #[x] use a::{b, c}; fn d() {}"), ["fn", "d"]);
        assert_eq!(kept("#[cfg(test)] fn a<A, B>(a: [A; 2]) {} fn d() {}"), ["fn", "d"]);
        assert_eq!(kept("struct A { #[cfg(test)] b: B, c: C }"), ["struct", "A", "c", "C"]);
    }

    #[test]
    fn other_conditions_stay_and_a_file_of_tests_is_empty() {
        assert_eq!(kept("#[cfg(unix)] fn a() {}"), ["cfg", "unix", "fn", "a"]);
        assert!(kept("#![cfg(test)] fn a() {}").is_empty());
    }
}
