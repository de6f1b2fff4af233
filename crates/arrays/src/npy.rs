//! The header of a `.npy` file: the type, the order and the shape of an array.
//!
//! ```text
//! \x93NUMPY, version (2 bytes), length of the text (2 bytes; 4 from version 2 on), text, elements
//! text: {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 784), }
//! ```
//!
//! The text is a literal of Python. Only what numpy writes is accepted; nothing is evaluated.

use std::fmt;

/// How every file begins.
const MAGIC: &[u8] = b"\x93NUMPY";

/// The longest text, in bytes; numpy's own limit is 10,000.
const MAX_TEXT_BYTES: usize = 64 * 1024;

/// The most dimensions; numpy's own limit is 64.
const MAX_DIMENSIONS: usize = 64;

/// The type of an array's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ElementKind {
    Bool,
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F32,
    F64,
}

impl ElementKind {
    /// The length of an element, in bytes.
    pub(crate) fn size(self) -> usize {
        match self {
            ElementKind::Bool | ElementKind::U8 | ElementKind::I8 => 1,
            ElementKind::U16 | ElementKind::I16 => 2,
            ElementKind::U32 | ElementKind::I32 | ElementKind::F32 => 4,
            ElementKind::U64 | ElementKind::I64 | ElementKind::F64 => 8,
        }
    }

    /// The kind that numpy describes this way, if elements are little endian.
    fn from_descr(descr: &str) -> Result<Self, NpyFault> {
        let (order, name) = descr.split_at_checked(1).unwrap_or(("", descr));
        let kind = match name {
            "b1" => ElementKind::Bool,
            "u1" => ElementKind::U8,
            "u2" => ElementKind::U16,
            "u4" => ElementKind::U32,
            "u8" => ElementKind::U64,
            "i1" => ElementKind::I8,
            "i2" => ElementKind::I16,
            "i4" => ElementKind::I32,
            "i8" => ElementKind::I64,
            "f4" => ElementKind::F32,
            "f8" => ElementKind::F64,
            _ => return Err(NpyFault::Type(descr.into())),
        };
        if order == ">" && kind.size() > 1 {
            return Err(NpyFault::BigEndian(descr.into()));
        }
        Ok(kind)
    }
}

/// What the header of an array says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NpyHeader {
    pub(crate) kind: ElementKind,
    pub(crate) shape: Vec<usize>,
    /// The length of the header, in bytes.
    pub(crate) len: usize,
    /// The length of the elements, in bytes.
    pub(crate) data_bytes: u64,
}

/// What can be wrong with a `.npy` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NpyFault {
    Magic,
    Version(u8),
    Truncated,
    LongText(usize),
    Text(&'static str),
    Type(String),
    BigEndian(String),
    Objects,
    Fortran,
    TooLarge,
    Length { expected: u64, found: u64 },
}

impl fmt::Display for NpyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic => f.write_str("not a numpy array: it does not begin with \\x93NUMPY"),
            Self::Version(version) => {
                write!(f, "version {version} of the .npy format is unknown; versions are 1 to 3")
            }
            Self::Truncated => f.write_str("cut short within its header; copy it again"),
            Self::LongText(bytes) => {
                write!(f, "its header claims {bytes} bytes, above the limit of {MAX_TEXT_BYTES}")
            }
            Self::Text(what) => write!(f, "its header is malformed: {what}"),
            Self::Type(descr) => {
                write!(f, "elements of the type {descr:?}; convert them: a.astype(\"float32\")")
            }
            Self::BigEndian(descr) => write!(
                f,
                "elements of the type {descr:?} are big endian; convert them: \
                 a.astype(a.dtype.newbyteorder(\"<\"))"
            ),
            Self::Objects => {
                f.write_str("an array of Python objects; convert it: np.array(a.tolist(), \"f4\")")
            }
            Self::Fortran => {
                f.write_str("stored column by column; convert it: np.ascontiguousarray(a)")
            }
            Self::TooLarge => f.write_str("its header claims an impossible size; write it again"),
            Self::Length { expected, found } => write!(
                f,
                "{found} bytes follow the header instead of {expected}; it was cut short or \
                 damaged: copy it again"
            ),
        }
    }
}

impl NpyHeader {
    /// Parses the header at the start of a file.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, NpyFault> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(NpyFault::Magic)?;
        let ([version, _], rest) = rest.split_first_chunk().ok_or(NpyFault::Truncated)?;
        let (text_bytes, rest) = match version {
            1 => {
                let (len, rest) = rest.split_first_chunk().ok_or(NpyFault::Truncated)?;
                (usize::from(u16::from_le_bytes(*len)), rest)
            }
            2 | 3 => {
                let (len, rest) = rest.split_first_chunk().ok_or(NpyFault::Truncated)?;
                (u32::from_le_bytes(*len) as usize, rest)
            }
            version => return Err(NpyFault::Version(*version)),
        };
        if text_bytes > MAX_TEXT_BYTES {
            return Err(NpyFault::LongText(text_bytes));
        }
        let text = rest.get(..text_bytes).ok_or(NpyFault::Truncated)?;
        let text = std::str::from_utf8(text).map_err(|_| NpyFault::Text("not UTF-8"))?;
        let len = bytes.len() - rest.len() + text_bytes;
        let entries = LiteralParser { text }.dictionary()?;
        if entries.fortran_order && entries.shape.len() > 1 {
            return Err(NpyFault::Fortran);
        }
        let kind = ElementKind::from_descr(&entries.descr)?;
        let mut data_bytes = kind.size() as u64;
        for &size in &entries.shape {
            data_bytes = data_bytes.checked_mul(size as u64).ok_or(NpyFault::TooLarge)?;
        }
        let fits = usize::try_from(data_bytes).is_ok_and(|bytes| bytes <= isize::MAX as usize / 2);
        if !fits {
            return Err(NpyFault::TooLarge);
        }
        Ok(NpyHeader { kind, shape: entries.shape, len, data_bytes })
    }

    /// The most bytes of a file that its header takes up.
    pub(crate) const MAX_LEN: usize = MAX_TEXT_BYTES + 12;
}

/// The three entries of the header's text.
struct HeaderEntries {
    descr: String,
    fortran_order: bool,
    shape: Vec<usize>,
}

/// Reads the text from left to right.
struct LiteralParser<'a> {
    text: &'a str,
}

impl LiteralParser<'_> {
    fn dictionary(&mut self) -> Result<HeaderEntries, NpyFault> {
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        self.expect("{")?;
        while !self.take("}") {
            let key = self.string()?;
            self.expect(":")?;
            match key.as_str() {
                "descr" if self.peeks("[") => return Err(NpyFault::Type("a structure".into())),
                "descr" => descr = Some(self.string()?),
                "fortran_order" => fortran_order = Some(self.truth()?),
                "shape" => shape = Some(self.tuple()?),
                _ => return Err(NpyFault::Text("an unknown key")),
            }
            if !self.take(",") && !self.peeks("}") {
                return Err(NpyFault::Text("a comma is missing"));
            }
        }
        let missing = NpyFault::Text("a key is missing");
        let (Some(descr), Some(fortran_order), Some(shape)) = (descr, fortran_order, shape) else {
            return Err(missing);
        };
        if descr.contains('O') {
            return Err(NpyFault::Objects);
        }
        Ok(HeaderEntries { descr, fortran_order, shape })
    }

    fn skip_blanks(&mut self) {
        self.text = self.text.trim_start_matches([' ', '\t', '\n', '\r']);
    }

    fn peeks(&mut self, token: &str) -> bool {
        self.skip_blanks();
        self.text.starts_with(token)
    }

    fn take(&mut self, token: &str) -> bool {
        let is_there = self.peeks(token);
        if is_there {
            self.text = &self.text[token.len()..];
        }
        is_there
    }

    fn expect(&mut self, token: &str) -> Result<(), NpyFault> {
        if self.take(token) { Ok(()) } else { Err(NpyFault::Text("not a dictionary")) }
    }

    fn string(&mut self) -> Result<String, NpyFault> {
        let quote = if self.take("'") { '\'' } else { '"' };
        if quote == '"' && !self.take("\"") {
            return Err(NpyFault::Text("a string is missing"));
        }
        let (string, rest) =
            self.text.split_once(quote).ok_or(NpyFault::Text("a string does not end"))?;
        self.text = rest;
        Ok(string.into())
    }

    fn truth(&mut self) -> Result<bool, NpyFault> {
        if self.take("True") {
            return Ok(true);
        }
        if self.take("False") { Ok(false) } else { Err(NpyFault::Text("not True or False")) }
    }

    fn tuple(&mut self) -> Result<Vec<usize>, NpyFault> {
        let mut sizes = Vec::new();
        self.expect("(")?;
        while !self.take(")") {
            self.skip_blanks();
            let digits =
                self.text.len() - self.text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let size = self.text[..digits].parse().map_err(|_| NpyFault::TooLarge)?;
            // Python 2 wrote long integers with an L.
            self.text = self.text[digits..].trim_start_matches('L');
            sizes.push(size);
            if sizes.len() > MAX_DIMENSIONS || (!self.take(",") && !self.peeks(")")) {
                return Err(NpyFault::Text("the shape is not a tuple of numbers"));
            }
        }
        Ok(sizes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(version: u8, text: &str) -> Vec<u8> {
        let mut bytes = [MAGIC, &[version, 0]].concat();
        match version {
            1 => bytes.extend((text.len() as u16).to_le_bytes()),
            _ => bytes.extend((text.len() as u32).to_le_bytes()),
        }
        bytes.extend(text.as_bytes());
        bytes
    }

    #[test]
    fn headers_of_all_versions_are_parsed() {
        for version in 1..=3 {
            let text = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2L), }   \n";
            let bytes = header(version, text);
            let parsed = NpyHeader::from_bytes(&bytes).unwrap();
            let len = bytes.len();
            let expected =
                NpyHeader { kind: ElementKind::F32, shape: vec![3, 2], len, data_bytes: 24 };
            assert_eq!(parsed, expected);
        }
    }

    #[test]
    fn faults_say_what_to_do() {
        let check = |text: &str, says: &str| {
            let fault = NpyHeader::from_bytes(&header(1, text)).unwrap_err().to_string();
            assert!(fault.contains(says), "{text}: {fault}");
        };
        let of = |descr: &str, order: &str, shape: &str| {
            format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}}}")
        };
        check(&of("'<f4'", "True", "(3, 2)"), "np.ascontiguousarray");
        check(&of("'>f4'", "False", "(3,)"), "big endian");
        check(&of("'|O'", "False", "(3,)"), "Python objects");
        check(&of("[('a', '<f4')]", "False", "(3,)"), "a structure");
        check(&of("'<f2'", "False", "(3,)"), "astype(\"float32\")");
        check(&of("'<U5'", "False", "(3,)"), "astype(\"float32\")");
        let huge = "(18446744073709551615, 18446744073709551615)";
        check(&of("'<f4'", "False", huge), "impossible size");
        check(&of("'<f4'", "False", "(99999999999999999999999,)"), "impossible size");
        check(&of("'<f4'", "False", "(4611686018427387904,)"), "impossible size");
        check(&of("'<f4'", "False", "(-3,)"), "impossible size");
        check("{'descr': '<f4'}", "a key is missing");
        check("import os", "not a dictionary");
        let fault = NpyHeader::from_bytes(b"PK\x03\x04").unwrap_err();
        assert_eq!(fault, NpyFault::Magic);
        let fault = NpyHeader::from_bytes(b"\x93NUMPY\x09\x00").unwrap_err();
        assert_eq!(fault, NpyFault::Version(9));
        let fault = NpyHeader::from_bytes(b"\x93NUMPY\x02\x00\xff\xff\xff\xff").unwrap_err();
        assert_eq!(fault, NpyFault::LongText(u32::MAX as usize));
    }

    proptest! {
        #[test]
        fn damage_never_panics(at in 0usize..90, byte: u8, cut in 0usize..90) {
            let text = "{'descr': '<f4', 'fortran_order': False, 'shape': (60000, 784), }  \n";
            let mut bytes = header(1, text);
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            bytes.truncate(cut);
            let _ = NpyHeader::from_bytes(&bytes);
        }
    }
}
