//! Splits Rust source into tokens. Comments are dropped; literals are kept whole.

/// One token and the line it starts on, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RustToken {
    pub(crate) kind: RustTokenKind,
    pub(crate) line: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RustTokenKind {
    /// An identifier or keyword, without `r#`.
    Word(String),
    /// A string, character or number. A plain string keeps its text between the quotes.
    Literal(String),
    Lifetime,
    /// `::`
    PathSep,
    Symbol(char),
}

impl RustToken {
    pub(crate) fn word(&self) -> Option<&str> {
        match &self.kind {
            RustTokenKind::Word(word) => Some(word),
            _ => None,
        }
    }

    pub(crate) fn is_word(&self, word: &str) -> bool {
        self.word() == Some(word)
    }

    pub(crate) fn is(&self, symbol: char) -> bool {
        self.kind == RustTokenKind::Symbol(symbol)
    }

    pub(crate) fn is_path_sep(&self) -> bool {
        self.kind == RustTokenKind::PathSep
    }
}

/// The tokens of a source file. Text that is not Rust gives some tokens, never a panic.
pub(crate) fn tokens(source: &str) -> Vec<RustToken> {
    let mut lexer =
        RustLexer { chars: source.chars().collect(), at: 0, line: 1, tokens: Vec::new() };
    while lexer.at < lexer.chars.len() {
        lexer.next();
    }
    lexer.tokens
}

struct RustLexer {
    chars: Vec<char>,
    at: usize,
    line: usize,
    tokens: Vec<RustToken>,
}

impl RustLexer {
    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    /// Steps over one character.
    fn step(&mut self) {
        if self.peek(0) == '\n' {
            self.line += 1;
        }
        self.at += 1;
    }

    fn push(&mut self, kind: RustTokenKind, line: usize) {
        self.tokens.push(RustToken { kind, line });
    }

    fn next(&mut self) {
        let (line, first) = (self.line, self.peek(0));
        if first.is_whitespace() {
            self.step();
        } else if first == '/' && self.peek(1) == '/' {
            while self.at < self.chars.len() && self.peek(0) != '\n' {
                self.step();
            }
        } else if first == '/' && self.peek(1) == '*' {
            self.skip_block_comment();
        } else if first == '"' {
            self.string(line);
        } else if first == '\'' {
            self.quote(line);
        } else if is_word_char(first) {
            self.word(line);
        } else if first == ':' && self.peek(1) == ':' {
            self.at += 2;
            self.push(RustTokenKind::PathSep, line);
        } else {
            self.at += 1;
            self.push(RustTokenKind::Symbol(first), line);
        }
    }

    fn skip_block_comment(&mut self) {
        let mut depth = 0;
        while self.at < self.chars.len() {
            match (self.peek(0), self.peek(1)) {
                ('/', '*') => (depth, self.at) = (depth + 1, self.at + 2),
                ('*', '/') => (depth, self.at) = (depth - 1, self.at + 2),
                _ => self.step(),
            }
            if depth == 0 {
                return;
            }
        }
    }

    /// A string with escapes, from its opening quote.
    fn string(&mut self, line: usize) {
        self.step();
        let start = self.at;
        while self.at < self.chars.len() && self.peek(0) != '"' {
            if self.peek(0) == '\\' {
                self.step();
            }
            self.step();
        }
        let end = self.at.min(self.chars.len());
        let text = self.chars[start..end].iter().collect();
        self.step();
        self.push(RustTokenKind::Literal(text), line);
    }

    /// A string without escapes, from the first `#` or quote after its `r`.
    fn raw_string(&mut self, line: usize) {
        let mut hashes = 0;
        while self.peek(0) == '#' {
            hashes += 1;
            self.step();
        }
        self.step();
        let start = self.at;
        let closes = |lexer: &Self| {
            lexer.peek(0) == '"' && (1..=hashes).all(|ahead| lexer.peek(ahead) == '#')
        };
        while self.at < self.chars.len() && !closes(self) {
            self.step();
        }
        let text = self.chars.get(start..self.at).unwrap_or_default().iter().collect();
        self.at += 1 + hashes;
        self.push(RustTokenKind::Literal(text), line);
    }

    /// A lifetime or a character.
    fn quote(&mut self, line: usize) {
        if is_word_char(self.peek(1)) && self.peek(2) != '\'' {
            self.step();
            while is_word_char(self.peek(0)) {
                self.step();
            }
            return self.push(RustTokenKind::Lifetime, line);
        }
        self.step();
        if self.peek(0) == '\\' {
            self.step();
        }
        self.step();
        while self.at < self.chars.len() && self.peek(0) != '\'' {
            self.step();
        }
        self.step();
        self.push(RustTokenKind::Literal(String::new()), line);
    }

    /// A word, a number, or the prefix of a string or character such as `r#"`, `b'` or `br"`.
    fn word(&mut self, line: usize) {
        let start = self.at;
        while is_word_char(self.peek(0)) {
            self.at += 1;
        }
        let word: String = self.chars[start..self.at].iter().collect();
        let is_raw_word = word == "r" && self.peek(0) == '#' && is_word_char(self.peek(1));
        match (word.as_str(), self.peek(0)) {
            ("r" | "br" | "cr", '"') => self.raw_string(line),
            ("r", '#') if is_raw_word => {
                self.at += 1;
                self.word(line);
            }
            ("r" | "br" | "cr", '#') => self.raw_string(line),
            ("b" | "c", '"') => self.string(line),
            ("b", '\'') => self.quote_of_byte(line),
            _ if word.starts_with(|first: char| first.is_ascii_digit()) => {
                self.push(RustTokenKind::Literal(word), line);
            }
            _ => self.push(RustTokenKind::Word(word), line),
        }
    }

    /// A byte such as `b'x'`: never a lifetime.
    fn quote_of_byte(&mut self, line: usize) {
        self.step();
        while self.at < self.chars.len() && self.peek(0) != '\'' {
            if self.peek(0) == '\\' {
                self.step();
            }
            self.step();
        }
        self.step();
        self.push(RustTokenKind::Literal(String::new()), line);
    }
}

fn is_word_char(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<String> {
        tokens(source).iter().filter_map(|token| token.word().map(str::to_owned)).collect()
    }

    #[test]
    fn comments_and_literals_hold_no_words() {
        let source = "a // b\n/* c /* d */ e */ f \"g \\\" h\" r#\"i \" j\"# b'k' '\\'' 'l' m";
        assert_eq!(words(source), ["a", "f", "m"]);
    }

    #[test]
    fn lifetimes_are_not_characters() {
        assert_eq!(
            words("fn f<'a>(x: &'a str, y: &'static u8) { 'x'; b'\\''; z }"),
            ["fn", "f", "x", "str", "y", "u8", "z"]
        );
    }

    #[test]
    fn raw_identifiers_lose_their_prefix_and_numbers_are_literals() {
        assert_eq!(words("r#type 1_000u32 0xff 1.5e3 x0"), ["type", "x0"]);
    }

    #[test]
    fn lines_are_counted_through_strings_and_comments() {
        let found = tokens("a\n\"b\nc\"\n/*\n*/ d::e");
        let last: Vec<_> = found.iter().map(|token| token.line).collect();
        assert_eq!(last, [1, 2, 5, 5, 5]);
        assert!(found[3].is_path_sep());
    }

    #[test]
    fn text_that_is_not_rust_does_not_panic() {
        for source in ["\"", "'", "/*", "r#\"", "b'", "'\\", "\"\\", "r#"] {
            tokens(source);
        }
    }
}
