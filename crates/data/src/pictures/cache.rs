//! Pictures that have been read once, as far as a limit allows.
//!
//! A small collection is read a hundred times over, and decoding is most of the work. So scaled
//! pictures are kept as bytes until the limit is reached; from then on what is kept stays and
//! the rest is read each time. Nothing is ever thrown out: as every epoch asks for every picture
//! once, no choice of which to keep would be better than this one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use super::resize::Planes;

/// Scaled pictures by number, with a limit that several caches may share.
#[derive(Debug)]
pub(super) struct PictureCache {
    slots: Vec<OnceLock<Box<Planes>>>,
    left_bytes: Arc<AtomicUsize>,
}

impl PictureCache {
    /// An empty cache for `examples` pictures that may take what is left of `left_bytes`.
    pub(super) fn new(examples: usize, left_bytes: Arc<AtomicUsize>) -> Self {
        Self { slots: (0..examples).map(|_| OnceLock::new()).collect(), left_bytes }
    }

    /// The picture, if it is here.
    pub(super) fn get(&self, example: usize) -> Option<&Planes> {
        self.slots[example].get().map(Box::as_ref)
    }

    /// Keeps the picture if there is room, else hands it back.
    pub(super) fn keep(&self, example: usize, picture: Planes) -> Result<&Planes, Planes> {
        let bytes = picture.values.len() + size_of::<Planes>();
        let take = |left: usize| left.checked_sub(bytes);
        // The counter guards nothing but itself, so no order with other memory is needed.
        if self.left_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            return Err(picture);
        }
        let mut ours = false;
        let kept = self.slots[example].get_or_init(|| {
            ours = true;
            Box::new(picture)
        });
        if !ours {
            self.left_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_pictures_until_the_limit_and_counts_each_once() {
        let picture = || Planes { rows: 10, cols: 10, values: vec![7; 300] };
        let room = 2 * (300 + size_of::<Planes>());
        let left = Arc::new(AtomicUsize::new(room));
        let cache = PictureCache::new(3, left.clone());
        assert!(cache.get(0).is_none());
        assert!(cache.keep(0, picture()).is_ok() && cache.keep(0, picture()).is_ok());
        assert_eq!(left.load(Ordering::Relaxed), room / 2);
        assert!(cache.keep(2, picture()).is_ok());
        assert_eq!(cache.keep(1, picture()), Err(picture()));
        assert_eq!((cache.get(2), cache.get(1)), (Some(&picture()), None));
    }
}
