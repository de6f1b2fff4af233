use proptest::prelude::*;

use super::*;

/// A data page of 300 bytes (8 in the file) with the statistics of a text and an integer.
const DATA: &[u8] = &[
    0x15, 0, 0x15, 0xd8, 0x04, 0x15, 16, // type, unpacked, packed
    0x2c, 0x15, 6, 0x15, 0, 0x15, 6, 0x15, 6, // values and encodings
    0x1c, 0x18, 2, b'h', b'i', 0x26, 4, 0x41, 0, // statistics
    0, 0,
];

/// A dictionary of 40 bytes with 5 values.
const DICTIONARY: &[u8] = &[0x15, 4, 0x15, 80, 0x15, 80, 0x4c, 0x15, 10, 0x15, 0, 0x11, 0, 0];

#[test]
fn the_size_of_a_page_and_the_values_of_a_dictionary_are_read() {
    let data = PageClaims { unpacked: 300, dictionary_values: 0 };
    assert_eq!(PageClaims::parse(DATA), Some(data));
    let dictionary = PageClaims { unpacked: 40, dictionary_values: 5 };
    assert_eq!(PageClaims::parse(DICTIONARY), Some(dictionary));
}

#[test]
fn fields_of_later_versions_are_left_out() {
    let later = [&DATA[..DATA.len() - 1], &[0x78, 1, b'x', 0x19 & 0xf0 | 12, 0x15, 2, 0, 0]];
    assert_eq!(PageClaims::parse(&later.concat()), PageClaims::parse(DATA));
}

#[test]
fn a_header_that_the_library_would_read_differently_is_refused() {
    // The size as a flag, which has no bytes here and one there.
    assert_eq!(PageClaims::parse(&[0x15, 0, 0x11, 0x15, 16, 0]), None);
    assert_eq!(PageClaims::parse(&[DATA, &[0]].concat()), None, "more bytes than the header");
    assert_eq!(PageClaims::parse(&DATA[..DATA.len() - 1]), None, "fewer");
    let deep = [&[0x9c][..], &[0x1c; 1_000_000]].concat();
    assert_eq!(PageClaims::parse(&deep), None);
}

#[test]
fn the_last_of_several_sizes_counts() {
    let twice = [0x15, 0, 0x15, 80, 0x15, 80, 0x05, 4, 90, 0];
    assert_eq!(PageClaims::parse(&twice).unwrap().unpacked, 45);
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        PageClaims::parse(&bytes);
    }
}
