//! Words that make a sentence hard to read. A process or thread is "it", and is named.

use crate::source_tree::SourceFile;

const WORDS: &[&str] = &["whoever", "somebody", "nobody", "so many", "left in peace"];

/// How many lines of the project may have one of them.
const MOST_LINES: usize = 60;

pub(crate) fn check(files: &[SourceFile]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        for (number, line) in (1..).zip(file.text.lines()) {
            let lower = line.to_lowercase();
            if let Some(word) = WORDS.iter().find(|word| has_word(&lower, word)) {
                found.push(format!("{}:{number}: \"{word}\": {}", file.path, line.trim()));
            }
        }
    }
    if found.len() > MOST_LINES {
        found.push(format!("{} lines with such words, more than {MOST_LINES}", found.len()));
        return found;
    }
    Vec::new()
}

/// Whether a line has a word that no longer word contains.
fn has_word(line: &str, word: &str) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        !line[..at].ends_with(is_letter) && !line[at + word.len()..].starts_with(is_letter)
    })
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn words_are_found_whole_and_in_any_case() {
        assert!(has_word("the old server", "old"));
        assert!(!has_word("it told an older one", "old"));
        let text = format!("{}\n", WORDS[0].to_uppercase());
        let faults = check(&[file("a.md", text.repeat(MOST_LINES + 1))]);
        assert_eq!(faults.len(), MOST_LINES + 2);
        assert!(faults[0].starts_with("a.md:1: "), "{}", faults[0]);
        assert!(check(&[file("a.md", text.repeat(MOST_LINES))]).is_empty());
    }
}
