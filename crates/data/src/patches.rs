//! Images without their empty parts.
//!
//! Most of a handwritten digit is background. So an image is cut into patches of eight pixels in
//! a row; a map has a bit for each of them, set if there is ink in it, and only those with ink are
//! kept. That is done once. It takes two fifths of the memory of the pixels, and whoever works on
//! the images can go from ink to ink.

use std::sync::Arc;

use memmap2::MmapMut;

use crate::images::Images;

/// Pixels of a patch.
const PATCH: usize = 8;
/// Bits of a word.
const WORD: usize = u64::BITS as usize;
/// If more than this share of the patches have ink, going from one to the next saves nothing.
const MOST_INK: f64 = 0.65;

/// Words that threads share.
pub type SharedWords = Arc<dyn AsRef<[u64]> + Send + Sync>;

/// Images as maps and patches, shared for as long as anybody looks at them.
#[derive(Clone)]
pub struct Patches {
    words: SharedWords,
    starts: Arc<Vec<u32>>,
    labels: Vec<u32>,
}

impl Patches {
    /// Looks at all images; nothing if they are not whole patches, there is ink nearly everywhere,
    /// or they are more than can be counted.
    pub fn of(images: &Images) -> Option<Self> {
        let width = images.inputs();
        if !width.is_multiple_of(PATCH) {
            return None;
        }
        let map_words = (width / PATCH).div_ceil(WORD);
        let all = images.len() * width / PATCH;
        let most = (all as f64 * MOST_INK) as usize + images.len() * map_words;
        let inked = images.pixels().as_chunks::<PATCH>().0.iter().filter(|&&patch| patch != EMPTY);
        let needed = inked.count() + images.len() * map_words;
        if needed > most || u32::try_from(needed).is_err() {
            return None;
        }
        let mut room = Room::new(needed)?;
        let words = room.words();
        let (mut starts, mut end) = (vec![0], 0);
        for image in images.pixels().chunks_exact(width) {
            let map = end;
            end += map_words;
            for (at, &patch) in image.as_chunks::<PATCH>().0.iter().enumerate() {
                if patch != EMPTY {
                    words[map + at / WORD] |= 1 << (at % WORD);
                    words[end] = u64::from_ne_bytes(patch);
                    end += 1;
                }
            }
            starts.push(end as u32);
        }
        Some(Self {
            words: Arc::new(room),
            starts: Arc::new(starts),
            labels: images.labels().iter().map(|&label| label.into()).collect(),
        })
    }

    /// All images, one behind the other. Each is its map, in whole words, and then a word for each
    /// patch with ink, whose bytes are the pixels as they lie in memory.
    pub fn words(&self) -> &SharedWords {
        &self.words
    }

    /// Where each image begins, and at last where they end.
    pub fn starts(&self) -> &Arc<Vec<u32>> {
        &self.starts
    }

    /// The classes of all images.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }
}

const EMPTY: [u8; PATCH] = [0; PATCH];

/// Zeroed words, in huge pages where the system has them: shuffled images lie anywhere, and in
/// small pages each would miss the page tables, which is what takes longest on a virtual machine.
struct Room {
    map: MmapMut,
    len: usize,
}

impl Room {
    /// Room for so many words; nothing if the system has none.
    fn new(len: usize) -> Option<Self> {
        let map = MmapMut::map_anon((len * size_of::<u64>()).max(1)).ok()?;
        #[cfg(target_os = "linux")]
        {
            // Advice that is not taken costs speed and nothing else.
            let _ = map.advise(memmap2::Advice::HugePage);
        }
        Some(Self { map, len })
    }

    fn words(&mut self) -> &mut [u64] {
        let bytes = self.len * size_of::<u64>();
        bytemuck::cast_slice_mut(&mut self.map[..bytes])
    }
}

impl AsRef<[u64]> for Room {
    #[inline]
    fn as_ref(&self) -> &[u64] {
        bytemuck::cast_slice(&self.map[..self.len * size_of::<u64>()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_with_ink_are_kept_and_marked_and_no_others() {
        // 66 patches an image: two words of map.
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
