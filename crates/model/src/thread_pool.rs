//! The threads that share a model's arithmetic.
//!
//! Work is handed out as pieces of an output slice. One thread computes a piece, in a fixed order,
//! so the result depends neither on which thread computed what nor on the number of threads. With
//! one thread everything runs on the caller's thread.

use rayon::ThreadPoolBuilder;
use rayon::prelude::*;

/// How the names of threads that compute in the caller's place begin.
pub const POOL_THREADS: &str = "model-";

/// The least number of shares of each thread, if there are as many pieces.
const SHARES: usize = 8;

/// A fixed number of threads.
pub(crate) struct ThreadPool {
    /// `None` if the caller's thread is the only one.
    pool: Option<rayon::ThreadPool>,
}

/// A slice that is cut into pieces of `piece` numbers.
pub(crate) struct Pieces<'a> {
    pub(crate) whole: &'a mut [f32],
    pub(crate) piece: usize,
}

impl ThreadPool {
    /// Starts the threads, which the system may refuse.
    pub(crate) fn new(threads: usize) -> Result<Self, String> {
        if threads <= 1 {
            return Ok(Self { pool: None });
        }
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("{POOL_THREADS}{index}"))
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self { pool: Some(pool) })
    }

    /// The number of threads.
    pub(crate) fn threads(&self) -> usize {
        self.pool.as_ref().map_or(1, rayon::ThreadPool::current_num_threads)
    }

    /// Whether the caller's thread is the only one.
    pub(crate) fn is_single(&self) -> bool {
        self.pool.is_none()
    }

    /// Runs two closures, at the same time if there are several threads.
    pub(crate) fn join(&self, one: impl FnOnce() + Send, other: impl FnOnce() + Send) {
        if self.is_single() {
            one();
            other();
        } else {
            rayon::join(one, other);
        }
    }

    /// Runs a closure on one of the threads. The other methods are called from inside it.
    pub(crate) fn run<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.pool {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }

    /// Calls `work(index, piece)` for each piece of a slice.
    pub(crate) fn for_each_piece(
        &self,
        whole: &mut [f32],
        piece: usize,
        work: impl Fn(usize, &mut [f32]) + Sync,
    ) {
        if self.pool.is_some() {
            share_pieces(whole, piece, &work);
        } else {
            whole.chunks_mut(piece).enumerate().for_each(|(index, piece)| work(index, piece));
        }
    }

    /// Calls `work(index, first, second)` for each pair of pieces of two slices.
    pub(crate) fn for_each_pair(
        &self,
        first: Pieces<'_>,
        second: Pieces<'_>,
        work: impl Fn(usize, &mut [f32], &mut [f32]) + Sync,
    ) {
        if self.pool.is_some() {
            share_pairs(first, second, &work);
        } else {
            let seconds = second.whole.chunks_mut(second.piece);
            let pairs = first.whole.chunks_mut(first.piece).zip(seconds);
            pairs.enumerate().for_each(|(index, (first, second))| work(index, first, second));
        }
    }
}

/// Pieces that are handed out together: few enough to keep all threads busy to the end, and enough
/// for the handing out to cost little next to small pieces.
fn together(pieces: usize) -> usize {
    (pieces / (SHARES * rayon::current_num_threads())).max(1)
}

// These two take the work by reference, so that the code of a parallel loop is compiled once, not
// for each caller.

fn share_pieces(whole: &mut [f32], piece: usize, work: &(dyn Fn(usize, &mut [f32]) + Sync)) {
    let pieces = whole.par_chunks_mut(piece).enumerate();
    let most = together(pieces.len());
    let pieces = pieces.with_max_len(most);
    pieces.for_each(|(index, piece)| work(index, piece));
}

type PairWork<'a> = dyn Fn(usize, &mut [f32], &mut [f32]) + Sync + 'a;

fn share_pairs(first: Pieces<'_>, second: Pieces<'_>, work: &PairWork<'_>) {
    let seconds = second.whole.par_chunks_mut(second.piece);
    let pairs = first.whole.par_chunks_mut(first.piece).zip(seconds);
    let pairs = pairs.enumerate();
    let most = together(pairs.len());
    let pairs = pairs.with_max_len(most);
    pairs.for_each(|(index, (first, second))| work(index, first, second));
}
