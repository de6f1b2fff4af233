//! Images without their empty parts.
//!
//! Most of a handwritten digit is background. So an image is cut into patches of eight adjacent
//! pixels. A bitmap has a bit for each patch, set if the patch has ink, and only the patches with
//! ink are stored. This is done once, takes two fifths of the memory of the pixels, and lets a
//! model skip from ink to ink.

use std::sync::Arc;

use memmap2::MmapMut;

use crate::images::Images;

/// Pixels of a patch.
const PATCH: usize = 8;
/// Bits of a word.
const WORD: usize = u64::BITS as usize;
/// If more than this share of the patches has ink, skipping the others saves no time.
const MAX_INKED_SHARE: f64 = 0.65;

/// 64-bit words shared between threads.
pub type SharedWords = Arc<dyn AsRef<[u64]> + Send + Sync>;

/// Images as bitmaps and patches. Clones share the words.
#[derive(Clone)]
pub struct Patches {
    words: SharedWords,
    starts: Arc<Vec<u32>>,
    labels: Vec<u32>,
}

impl Patches {
    /// Cuts images into patches. Returns `None` if an image is not a whole number of patches, too
    /// few patches are empty to save time, or the words are more than 2^32 - 1.
    pub fn of(images: &Images) -> Option<Self> {
        let width = images.inputs();
        if !width.is_multiple_of(PATCH) {
            return None;
        }
        let bitmap_words = (width / PATCH).div_ceil(WORD);
        let all = images.len() * width / PATCH;
        let most = (all as f64 * MAX_INKED_SHARE) as usize + images.len() * bitmap_words;
        let inked = images.pixels().as_chunks::<PATCH>().0.iter().filter(|&&patch| patch != EMPTY);
        let needed = inked.count() + images.len() * bitmap_words;
        if needed > most || u32::try_from(needed).is_err() {
            return None;
        }
        let mut map = HugePageWords::new(needed)?;
        let words = map.words();
        let (mut starts, mut end) = (vec![0], 0);
        for image in images.pixels().chunks_exact(width) {
            let bitmap = end;
            end += bitmap_words;
            for (at, &patch) in image.as_chunks::<PATCH>().0.iter().enumerate() {
                if patch != EMPTY {
                    words[bitmap + at / WORD] |= 1 << (at % WORD);
                    words[end] = u64::from_ne_bytes(patch);
                    end += 1;
                }
            }
            starts.push(end as u32);
        }
        Some(Self::new(map, starts, images))
    }

    /// The patches of these images, whose words begin at `starts`.
    pub(crate) fn new(
        words: impl AsRef<[u64]> + Send + Sync + 'static,
        starts: Vec<u32>,
        images: &Images,
    ) -> Self {
        let labels = images.labels().iter().map(|&label| label.into()).collect();
        Self { words: Arc::new(words), starts: Arc::new(starts), labels }
    }

    /// All images, image after image. Each is its bitmap, in whole words, followed by a word for
    /// each patch with ink, whose bytes are the pixels in memory order.
    pub fn words(&self) -> &SharedWords {
        &self.words
    }

    /// The word at which each image begins, and after the last image the number of words.
    pub fn starts(&self) -> &Arc<Vec<u32>> {
        &self.starts
    }

    /// The classes of all images.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }
}

const EMPTY: [u8; PATCH] = [0; PATCH];

/// Zeroed words, in huge pages where the system has them. Shuffled images lie anywhere in memory,
/// and with small pages each access would miss the TLB, which is slowest on a virtual machine.
struct HugePageWords {
    map: MmapMut,
    len: usize,
}

impl HugePageWords {
    /// Allocates `len` words. Returns `None` if the system cannot.
    fn new(len: usize) -> Option<Self> {
        let map = MmapMut::map_anon((len * size_of::<u64>()).max(1)).ok()?;
        #[cfg(target_os = "linux")]
        {
            // If the system ignores the advice, only speed is lost.
            let _ = map.advise(memmap2::Advice::HugePage);
        }
        Some(Self { map, len })
    }

    fn words(&mut self) -> &mut [u64] {
        let bytes = self.len * size_of::<u64>();
        bytemuck::cast_slice_mut(&mut self.map[..bytes])
    }
}

impl AsRef<[u64]> for HugePageWords {
    #[inline]
    fn as_ref(&self) -> &[u64] {
        bytemuck::cast_slice(&self.map[..self.len * size_of::<u64>()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_patches_with_ink_are_stored_and_marked() {
        // 66 patches an image: two words of bitmap.
        let mut pixels = vec![0; 3 * 528];
        (pixels[0], pixels[63], pixels[527], pixels[528 + 512]) = (1, 255, 9, 7);
        let images = Images::new(22, 24, 10, pixels, vec![1, 2, 3]).unwrap();
        let patches = Patches::of(&images).unwrap();
        let patch = |at: usize, pixel: u8| {
            let mut bytes = [0; PATCH];
            bytes[at] = pixel;
            u64::from_ne_bytes(bytes)
        };
        let first = [0b1000_0001, 0b10, patch(0, 1), patch(7, 255), patch(7, 9)];
        let words = (**patches.words()).as_ref();
        assert_eq!(words[..5], first);
        assert_eq!(words[5..], [0, 0b1, patch(0, 7), 0, 0]);
        assert_eq!(patches.starts()[..], [0, 5, 8, 10]);
        assert_eq!(patches.labels(), [1, 2, 3]);
    }

    #[test]
    fn images_full_of_ink_or_of_odd_sizes_have_no_patches() {
        let full = Images::new(2, 4, 10, vec![1; 80], vec![0; 10]).unwrap();
        assert!(Patches::of(&full).is_none());
        let odd = Images::new(3, 3, 10, vec![0; 90], vec![0; 10]).unwrap();
        assert!(Patches::of(&odd).is_none());
    }
}
