//! Checks the lists of lengths in the pages of a Parquet file, before the library makes room for
//! them.
//!
//! Texts may be stored as a list of their lengths and then their bytes, or as what each shares with
//! the one before and the rest. A list begins with the number of its lengths, which the library
//! takes at its word, so a page of twenty bytes could claim any memory. [`CheckedLengths`] stands
//! between the pages and what decodes them.

use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::Result;

use crate::parquet_pages::{MemoryClaim, unsound};
use crate::thrift::take_unsigned;

/// The longest page of texts that share their beginnings: each may become as long as the page.
const MOST_SHARED_BYTES: usize = 16 << 20;

/// The pages of a column.
pub(crate) struct CheckedLengths<P> {
    pages: P,
    /// Whether values may be missing; if so, a page begins with which.
    has_missing: bool,
    claim: MemoryClaim,
}

impl<P: PageReader> CheckedLengths<P> {
    pub(crate) fn new(pages: P, has_missing: bool, claim: MemoryClaim) -> Self {
        Self { pages, has_missing, claim }
    }

    fn check(&mut self, page: &Page) -> Result<()> {
        let (bytes, lists) = match (page, page.encoding()) {
            (Page::DictionaryPage { .. }, _) => return Ok(()),
            (_, Encoding::DELTA_LENGTH_BYTE_ARRAY) => (page.buffer(), 1),
            (_, Encoding::DELTA_BYTE_ARRAY) => (page.buffer(), 2),
            _ => return Ok(()),
        };
        if lists == 2 && bytes.len() > MOST_SHARED_BYTES {
            return Err(unsound("a page of more than 16 MB of texts that share their beginnings"));
        }
        let values = self.values(page).ok_or_else(|| unsound("a page with unusual levels"))?;
        let lengths = count_lengths(values, lists, page.num_values().into());
        let lengths = lengths.ok_or_else(|| unsound("texts with unsound lists of lengths"))?;
        if !self.claim.raise((4 * lengths).saturating_sub(bytes.len() as u64)) {
            return Err(unsound(&format!("{lengths} lengths of texts in {} bytes", bytes.len())));
        }
        Ok(())
    }

    /// What follows the levels of a page.
    fn values<'p>(&self, page: &'p Page) -> Option<&'p [u8]> {
        let bytes: &[u8] = page.buffer();
        match *page {
            Page::DataPageV2 { def_levels_byte_len, rep_levels_byte_len, .. } => {
                bytes.get(def_levels_byte_len as usize..)?.get(rep_levels_byte_len as usize..)
            }
            _ if !self.has_missing => Some(bytes),
            Page::DataPage { def_level_encoding: Encoding::RLE, .. } => {
                let (length, rest) = bytes.split_first_chunk()?;
                rest.get(usize::try_from(i32::from_le_bytes(*length)).ok()?..)
            }
            _ => None,
        }
    }
}

/// The lengths in all lists at the beginning of these bytes, where each has at most `most`. `None`
/// if one has more or a list ends early.
///
/// A list is a header (the lengths of a block, the parts of a block, the lengths in all and the
/// first one) and then blocks: the least difference, the bits of a difference in each part, and the
/// parts. The last block ends with the part that has the last length.
fn count_lengths(mut bytes: &[u8], lists: usize, most: u64) -> Option<u64> {
    let mut all = 0;
    for list in 1..=lists {
        let [block, parts, lengths, _first] = [(); 4].map(|()| take_unsigned(&mut bytes));
        let (part, lengths) = (block?.checked_div(parts?)?, lengths?);
        if lengths > most || part == 0 {
            return None;
        }
        all += lengths;
        let mut left = lengths.saturating_sub(1);
        while list < lists && left > 0 {
            take_unsigned(&mut bytes)?;
            for &bits in bytes.split_off(..usize::try_from(parts?).ok()?)? {
                if left > 0 {
                    let packed = part.checked_mul(bits.into())? / 8;
                    bytes.split_off(..usize::try_from(packed).ok()?)?;
                }
                left = left.saturating_sub(part);
            }
        }
    }
    Some(all)
}

impl<P: PageReader> Iterator for CheckedLengths<P> {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl<P: PageReader> PageReader for CheckedLengths<P> {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.pages.get_next_page()?;
        if let Some(page) = &page {
            self.check(page)?;
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    /// A list of three lengths from 5, each one more than the last.
    const THREE: &[u8] = &[0x80, 1, 4, 3, 10, 2, 0, 0, 0, 0];

    #[test]
    fn lengths_are_counted_in_one_list_and_in_two() {
        assert_eq!(count_lengths(THREE, 1, 3), Some(3));
        assert_eq!(count_lengths(THREE, 2, 3), None, "the second list is missing");
        assert_eq!(count_lengths(&[THREE, THREE].concat(), 2, 3), Some(6));
        assert_eq!(count_lengths(&[THREE, THREE].concat(), 2, 2), None, "more than values");
        // A part has 32 differences of 3 bits, and the parts after the last length have none.
        let packed = [&[0x80, 1, 4, 34, 10, 0, 3, 3, 9, 9][..], &[0; 24], THREE].concat();
        assert_eq!(count_lengths(&packed, 2, 40), Some(37));
    }

    #[test]
    fn lists_that_would_never_end_are_refused() {
        for list in [[0, 4, 3, 10], [0x7f, 0, 3, 10], [1, 4, 3, 10]] {
            assert_eq!(count_lengths(&list, 1, 3), None, "{list:?}");
        }
    }

    /// The pages of a column: one, again and again.
    struct SamePage(Page);

    impl Iterator for SamePage {
        type Item = Result<Page>;

        fn next(&mut self) -> Option<Self::Item> {
            Some(Ok(self.0.clone()))
        }
    }

    impl PageReader for SamePage {
        fn get_next_page(&mut self) -> Result<Option<Page>> {
            self.next().transpose()
        }

        fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
            Ok(None)
        }

        fn skip_next_page(&mut self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn columns_may_claim_so_many_lengths_together() {
        // 30 million lengths of 0, in one part.
        let lengths: &[u8] = &[0x80, 0x80, 0x80, 0x10, 1, 0x80, 0x87, 0xa7, 0x0e, 0];
        let page = Page::DataPage {
            buf: Bytes::from_static(lengths),
            num_values: 30_000_000,
            encoding: Encoding::DELTA_LENGTH_BYTE_ARRAY,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        let claimed = Arc::default();
        let column =
            || CheckedLengths::new(SamePage(page.clone()), false, MemoryClaim::of(&claimed));
        let (mut first, mut second) = (column(), column());
        assert!(first.get_next_page().is_ok());
        assert!(first.get_next_page().is_ok(), "the room of the page before is used again");
        let error = second.get_next_page().unwrap_err().to_string();
        assert!(error.contains("30000000 lengths of texts in 10 bytes"), "{error}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_counted_without_a_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..80)
        ) {
            count_lengths(&bytes, 2, u64::MAX);
        }
    }
}
