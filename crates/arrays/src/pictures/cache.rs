//! A cache of scaled pictures, up to a limit.
//!
//! A small collection is read hundreds of times, and decoding is most of the work. So scaled
//! pictures are cached as bytes until the limit is reached; after that, the cached pictures stay
//! and the others are decoded each time. Nothing is evicted: every epoch reads every picture once,
//! so no other choice would be better.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use super::resize::Planes;

/// Scaled pictures by index, with a limit that several caches may share.
#[derive(Debug)]
pub(super) struct PictureCache {
    pictures: Vec<OnceLock<Box<Planes>>>,
    left_bytes: Arc<AtomicUsize>,
}

impl PictureCache {
    /// An empty cache for `examples` pictures, which takes its memory from `left_bytes`.
    pub(super) fn new(examples: usize, left_bytes: Arc<AtomicUsize>) -> Self {
        Self { pictures: (0..examples).map(|_| OnceLock::new()).collect(), left_bytes }
    }

    /// The picture, if it is cached.
    pub(super) fn get(&self, example: usize) -> Option<&Planes> {
        self.pictures[example].get().map(Box::as_ref)
    }

    /// Caches the picture if the limit allows, else returns it as the error.
    pub(super) fn insert(&self, example: usize, picture: Planes) -> Result<&Planes, Planes> {
        let bytes = picture.values.len() + size_of::<Planes>();
        let take = |left: usize| left.checked_sub(bytes);
        // The counter guards no other memory, so no ordering is needed.
        if self.left_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            return Err(picture);
        }
        let mut ours = false;
        let cached = self.pictures[example].get_or_init(|| {
            ours = true;
            Box::new(picture)
        });
        if !ours {
            self.left_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        Ok(cached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_cached_up_to_the_limit_and_counted_once() {
        let picture = || Planes { rows: 10, cols: 10, values: vec![7; 300] };
        let limit = 2 * (300 + size_of::<Planes>());
        let left = Arc::new(AtomicUsize::new(limit));
        let cache = PictureCache::new(3, left.clone());
        assert!(cache.get(0).is_none());
        assert!(cache.insert(0, picture()).is_ok() && cache.insert(0, picture()).is_ok());
        assert_eq!(left.load(Ordering::Relaxed), limit / 2);
        assert!(cache.insert(2, picture()).is_ok());
        assert_eq!(cache.insert(1, picture()), Err(picture()));
        assert_eq!((cache.get(2), cache.get(1)), (Some(&picture()), None));
    }
}
