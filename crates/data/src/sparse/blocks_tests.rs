//! Tests of cutting streams into blocks.

use proptest::prelude::*;

use super::*;

/// A source that returns at most a few bytes at a time.
struct SlowSource<'a>(&'a [u8], usize);

impl Read for SlowSource<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.0.len().min(self.1).min(buffer.len());
        buffer[..len].copy_from_slice(&self.0[..len]);
        self.0 = &self.0[len..];
        Ok(len)
    }
}

/// The blocks of a stream; `None` for a line above the limit.
fn all(bytes: &[u8], step: usize, unit: BlockUnit) -> Vec<Option<Vec<u8>>> {
    let mut reader = BlockReader::new(SlowSource(bytes, step), unit, 0, 0);
    let (mut found, mut block) = (Vec::new(), InputBlock::default());
    let mut number = 0;
    while reader.next(&mut block).unwrap() {
        assert_eq!(block.number, number);
        number = block.end_number;
        found.push((!block.is_long_line).then(|| block.bytes.clone()));
    }
    assert_eq!(block.end_offset, bytes.len() as u64);
    found
}

proptest! {
    #[test]
    fn short_text_is_one_block(bytes in "[a\n]{0,40}", step in 1usize..50) {
        let found = all(bytes.as_bytes(), step, BlockUnit::Line);
        let expected: Vec<_> =
            (!bytes.is_empty()).then(|| Some(bytes.into_bytes())).into_iter().collect();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn blocks_are_whole_lines_and_together_the_stream() {
    let line = [b"x".repeat(999), b"\n".to_vec()].concat();
    let text = line.repeat(10_000);
    let found = all(&text, 70_000, BlockUnit::Line);
    assert!(found.len() > 2 && found.iter().flatten().all(|block| block.ends_with(b"\n")));
    assert_eq!(found.into_iter().flatten().collect::<Vec<_>>().concat(), text);
}

#[test]
fn a_line_that_is_longer_than_a_block_is_skipped() {
    for len in [BLOCK_BYTES, 3 * BLOCK_BYTES + 17] {
        for end in ["", "\n", "\nafter", "\nafter\n"] {
            let text = ["before\n", &"x".repeat(len), end].concat();
            let found = all(text.as_bytes(), 1 << 20, BlockUnit::Line);
            assert_eq!(found[0].as_deref(), Some(&b"before\n"[..]));
            assert_eq!(found[1], None, "{len}");
            assert_eq!(found.len(), if end.len() > 1 { 3 } else { 2 });
        }
    }
}

#[test]
fn records_stay_whole() {
    let mut bytes = Vec::new();
    for len in [10, BLOCK_BYTES + 5, 3, 0] {
        paceline_tfrecord::append_record(&mut bytes, |record| record.extend(vec![7; len]));
    }
    let found: Vec<_> = all(&bytes, 100_000, BlockUnit::Record).into_iter().flatten().collect();
    assert_eq!(found.concat(), bytes);
    for block in found {
        let mut rest = &block[..];
        while !rest.is_empty() {
            rest = &rest[record_len(rest, MAX_RECORD_BYTES).unwrap().unwrap()..];
        }
    }
}
