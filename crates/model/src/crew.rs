//! The threads that share a model's arithmetic.
//!
//! Work is handed out as pieces of an output slice, each computed by one thread alone and in
//! one order, so what comes out does not depend on who did what, nor on how many threads there
//! are. With one thread everything runs where it is called.

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// A fixed number of threads.
pub(crate) struct Crew {
    /// None if the caller's thread is enough.
    pool: Option<ThreadPool>,
}

impl Crew {
    /// Starts the threads; the system may refuse.
    pub(crate) fn new(threads: usize) -> Result<Self, String> {
        if threads <= 1 {
            return Ok(Self { pool: None });
        }
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("crew-{index}"))
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self { pool: Some(pool) })
    }

    /// How many threads there are.
    pub(crate) fn threads(&self) -> usize {
        self.pool.as_ref().map_or(1, ThreadPool::current_num_threads)
    }

    /// Whether the caller's thread is the only one.
    pub(crate) fn is_one(&self) -> bool {
        self.pool.is_none()
    }

    /// Does two things, perhaps at a time.
    pub(crate) fn join(&self, one: impl FnOnce() + Send, other: impl FnOnce() + Send) {
        if self.is_one() {
            one();
            other();
        } else {
            rayon::join(one, other);
        }
    }

    /// Does something on one of the threads, so that what it shares out is at hand.
    pub(crate) fn enter<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.pool {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }

    /// Shares out the pieces of a slice: `work(index, piece)` for each.
    pub(crate) fn each(
        &self,
        whole: &mut [f32],
        piece: usize,
        work: impl Fn(usize, &mut [f32]) + Sync,
    ) {
        if self.pool.is_some() {
            let pieces = whole.par_chunks_mut(piece).enumerate().with_max_len(1);
            pieces.for_each(|(index, piece)| work(index, piece));
        } else {
            whole.chunks_mut(piece).enumerate().for_each(|(index, piece)| work(index, piece));
        }
    }

    /// Shares out the pieces of two slices that belong together, each with the size of its
    /// pieces: `work(index, piece, other)`.
    pub(crate) fn both(
        &self,
        (whole, piece): (&mut [f32], usize),
        (other, other_piece): (&mut [f32], usize),
        work: impl Fn(usize, &mut [f32], &mut [f32]) + Sync,
    ) {
        if self.pool.is_some() {
            let pieces = whole.par_chunks_mut(piece).zip(other.par_chunks_mut(other_piece));
            let pieces = pieces.enumerate().with_max_len(1);
            pieces.for_each(|(index, (piece, other))| work(index, piece, other));
        } else {
            let pieces = whole.chunks_mut(piece).zip(other.chunks_mut(other_piece));
            pieces.enumerate().for_each(|(index, (piece, other))| work(index, piece, other));
        }
    }
}
