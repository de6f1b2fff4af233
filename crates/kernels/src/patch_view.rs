//! The format of images without their empty patches.

use crate::prefetch::prefetch;

/// Bytes of a patch: as many as an AVX vector holds numbers.
pub const PATCH: usize = 8;
/// Words of a cache line.
const LINE: usize = 8;
/// Cache lines that are prefetched: most images are no longer. Reading the length of each image
/// would cost more than a line too many.
const LINES: usize = 6;

/// Images of bytes, all of one size, without their empty patches.
#[derive(Clone, Copy, Debug)]
pub struct PatchView<'a> {
    /// All images. Each is its map, padded to whole words, and then one word for each patch that is
    /// not empty, with the patch's bytes in memory order.
    pub words: &'a [u64],
    /// The index of each image's first word, and the end of the last image.
    pub starts: &'a [u32],
    /// The selected images.
    pub which: &'a [u32],
}

impl<'a> PatchView<'a> {
    /// Words of the map of an image of `inputs` bytes.
    #[inline]
    pub fn map_words(inputs: usize) -> usize {
        (inputs / PATCH).div_ceil(u64::BITS as usize)
    }

    /// One of the selected images.
    #[inline(always)]
    pub(super) fn image(&self, inputs: usize, index: usize) -> PatchImage<'a> {
        let image = self.which[index] as usize;
        let (from, to) = (self.starts[image] as usize, self.starts[image + 1] as usize);
        let (map, patches) = self.words[from..to].split_at(Self::map_words(inputs));
        PatchImage { map, patches }
    }

    #[inline(always)]
    pub(super) fn prefetch(&self, index: usize) {
        let Some(&image) = self.which.get(index) else { return };
        let start = self.starts[image as usize] as usize;
        for line in 0..LINES {
            prefetch(self.words, start + line * LINE);
        }
    }
}

/// The map and the stored patches of one image.
#[derive(Clone, Copy)]
pub(super) struct PatchImage<'a> {
    pub(super) map: &'a [u64],
    pub(super) patches: &'a [u64],
}
