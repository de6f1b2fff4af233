//! The words of a text and their sequences, as hashes.

use crate::hash::{combine, hash_bytes};

/// The most words of one text that are used.
const MOST_WORDS: usize = 10_000;

/// Calls `take` with the hash of each word in lower case, and of each sequence of up to `ngrams`
/// words. Letters and digits make up words; everything else is between words.
pub(crate) fn for_each_ngram(
    text: &[u8],
    ngrams: u32,
    word: &mut Vec<u8>,
    last: &mut Vec<u64>,
    mut take: impl FnMut(u64),
) {
    last.clear();
    let mut words = 0;
    for chunk in text.utf8_chunks() {
        for part in chunk.valid().split(|c: char| !c.is_alphanumeric()) {
            if part.is_empty() || words == MOST_WORDS {
                continue;
            }
            words += 1;
            let hash = hash_lowercase(part, word);
            take(hash);
            // Sequences that end with this word, the shortest first.
            for start in (0..last.len()).rev() {
                let sequence =
                    last[start..].iter().skip(1).fold(last[start], |h, &w| combine(h, w));
                take(combine(sequence, hash));
            }
            last.push(hash);
            if last.len() + 1 > ngrams as usize {
                last.remove(0);
            }
        }
    }
}

fn hash_lowercase(part: &str, word: &mut Vec<u8>) -> u64 {
    word.clear();
    if part.is_ascii() {
        word.extend(part.bytes().map(|byte| byte.to_ascii_lowercase()));
    } else {
        let mut bytes = [0; 4];
        for letter in part.chars().flat_map(char::to_lowercase) {
            word.extend_from_slice(letter.encode_utf8(&mut bytes).as_bytes());
        }
    }
    hash_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(text: &str, ngrams: u32) -> Vec<u64> {
        let (mut found, mut word, mut last) = (Vec::new(), Vec::new(), Vec::new());
        for_each_ngram(text.as_bytes(), ngrams, &mut word, &mut last, |hash| found.push(hash));
        found
    }

    #[test]
    fn words_are_letters_and_digits_in_lower_case() {
        let hash = |word: &str| hash_bytes(word.as_bytes());
        assert_eq!(
            hashes("A red-brick HOUSE, no. 7!", 1),
            ["a", "red", "brick", "house", "no", "7"].map(hash)
        );
        assert_eq!(hashes("Älter", 1), [hash("älter")]);
        assert!(hashes(" .. ", 2).is_empty());
    }

    #[test]
    fn sequences_of_words_have_hashes_of_their_own() {
        let [a, b, c] = ["a", "b", "c"].map(|word| hash_bytes(word.as_bytes()));
        assert_eq!(hashes("a b c", 2), [a, b, combine(a, b), c, combine(b, c)]);
        let three = combine(combine(a, b), c);
        assert_eq!(hashes("a b c", 3), [a, b, combine(a, b), c, combine(b, c), three]);
    }
}
