use std::io::{Read, Write};

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
    assert_eq!(PageClaims::parse(DATA), Some((data, DATA.len())));
    let dictionary = PageClaims { unpacked: 40, dictionary_values: 5 };
    assert_eq!(PageClaims::parse(DICTIONARY), Some((dictionary, DICTIONARY.len())));
}

#[test]
fn fields_of_later_versions_are_left_out() {
    let later = [&DATA[..DATA.len() - 1], &[0x78, 1, b'x', 0x19 & 0xf0 | 12, 0x15, 2, 0, 0]];
    let (claims, length) = PageClaims::parse(&later.concat()).unwrap();
    assert_eq!((claims, length), (PageClaims::parse(DATA).unwrap().0, later.concat().len()));
}

#[test]
fn a_header_that_the_library_would_read_differently_is_refused() {
    // The size as a flag, which has no bytes here and one there.
    assert_eq!(PageClaims::parse(&[0x15, 0, 0x11, 0x15, 16, 0]), None);
    assert_eq!(PageClaims::parse(&DATA[..DATA.len() - 1]), None, "fewer bytes than the header");
    let deep = [&[0x9c][..], &[0x1c; 1_000_000]].concat();
    assert_eq!(PageClaims::parse(&deep), None);
}

#[test]
fn the_last_of_several_sizes_counts() {
    let twice = [0x15, 0, 0x15, 80, 0x15, 80, 0x05, 4, 90, 0];
    assert_eq!(PageClaims::parse(&twice).unwrap().0.unpacked, 45);
}

#[test]
fn a_page_of_bytes_behind_another_header_is_refused() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[DATA, &[7; 300]].concat()).unwrap();
    let pages = CheckedPages::new(&file, MemoryClaim::of(&Arc::default())).unwrap();
    let end = DATA.len() as u64;
    assert!(pages.get_bytes(end, 8).is_err(), "no header was read");
    let mut header = Vec::new();
    pages.get_read(0).unwrap().read_to_end(&mut header).unwrap();
    assert_eq!(header, DATA, "the library cannot read on");
    assert_eq!(*pages.get_bytes(end, 8).unwrap(), [7; 8]);
    assert!(pages.get_bytes(end + 1, 8).is_err());
}

#[test]
fn a_header_as_long_as_its_texts_is_read() {
    for length in [5_000u32, 200_000] {
        let text = vec![b'x'; length as usize];
        let size = [length as u8 | 0x80, (length >> 7) as u8 | 0x80, (length >> 14) as u8];
        let header = [&DATA[..17], &[0x18], &size, &text, &[0, 0, 0]].concat();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[&header[..], &[7; 300]].concat()).unwrap();
        let pages = CheckedPages::new(&file, MemoryClaim::of(&Arc::default())).unwrap();
        let mut read = Vec::new();
        pages.get_read(0).unwrap().read_to_end(&mut read).unwrap();
        assert!(read == header, "{} bytes", read.len());
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        PageClaims::parse(&bytes);
        ThriftInput(&bytes).skip_with_lists(STRUCT, 0);
    }
}
