//! Parses and encodes blocks on several threads, and hands the segments on in the order of the
//! blocks.
//!
//! The calling thread reads blocks, submits them and writes the segments. The number of blocks that
//! are under way is bounded, so memory is too, however large the input is.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use super::segment::SegmentHeader;
use super::stream::ReadStop;
use crate::error::DataError;

/// How many blocks are under way for each thread.
const BLOCKS_PER_THREAD: usize = 2;
/// How long an interrupted conversion waits for the segments under way.
const KEEP_WITHIN: Duration = Duration::from_secs(1);

/// How often a waiting pipeline calls [`SegmentSink::wait`].
const POLL: Duration = Duration::from_millis(100);

/// Turns blocks into segments, on any thread.
pub(super) trait SegmentMaker<B>: Sync {
    /// What a thread works with.
    type Scratch;

    /// Called once by each thread.
    fn scratch(&self) -> Self::Scratch;

    /// Encodes the rows of a block into `segment`.
    fn make(
        &self,
        block: &B,
        scratch: &mut Self::Scratch,
        segment: &mut Vec<u8>,
    ) -> Result<SegmentHeader, ReadStop>;
}

/// Takes the segments, on the calling thread.
pub(super) trait SegmentSink {
    /// Called with each segment, in the order of the blocks.
    fn take(&mut self, header: &SegmentHeader, bytes: &[u8]) -> Result<(), DataError>;

    /// Called while the pipeline waits for its threads; an error ends the wait.
    fn wait(&mut self) -> Result<(), DataError>;
}

/// A block on its way through the pipeline, and its segment on the way back.
#[derive(Default)]
struct PipelineJob<B> {
    sequence: u64,
    block: B,
    segment: Vec<u8>,
    made: Option<Result<SegmentHeader, ReadStop>>,
}

/// The calling thread's end of a pipeline.
pub(super) struct Pipeline<'a, 's, B> {
    to_threads: SyncSender<PipelineJob<B>>,
    done: Receiver<PipelineJob<B>>,
    threads: Vec<ScopedJoinHandle<'s, ()>>,
    sink: &'a mut dyn SegmentSink,
    /// Finished blocks that wait for an earlier one.
    pending: BTreeMap<u64, PipelineJob<B>>,
    free: Vec<PipelineJob<B>>,
    submitted: u64,
    taken: u64,
}

/// Starts threads, calls `body` with a pipeline to them, and waits for the rest of the segments.
pub(super) fn with_pipeline<B: Send + Default, M: SegmentMaker<B>>(
    threads: usize,
    maker: &M,
    sink: &mut dyn SegmentSink,
    body: impl FnOnce(&mut Pipeline<'_, '_, B>) -> Result<(), ReadStop>,
) -> Result<(), ReadStop> {
    let stop = AtomicBool::new(false);
    let (to_threads, work) = sync_channel(threads * BLOCKS_PER_THREAD);
    let work = Mutex::new(work);
    let (to_caller, done) = channel();
    thread::scope(|scope| {
        let start = |_| start_thread(scope, maker, &work, &stop, to_caller.clone());
        let threads: Vec<_> = (0..threads).map(start).collect();
        drop(to_caller);
        let mut pipeline = Pipeline {
            to_threads,
            done,
            threads,
            sink,
            pending: BTreeMap::new(),
            free: Vec::new(),
            submitted: 0,
            taken: 0,
        };
        let ended = body(&mut pipeline).and_then(|()| pipeline.drain(0));
        if let Err(ReadStop::Error(DataError::Interrupted)) = ended {
            pipeline.keep_under_way();
        }
        stop.store(true, Ordering::Relaxed);
        ended
    })
}

fn start_thread<'s, B: Send + 's, M: SegmentMaker<B>>(
    scope: &'s Scope<'s, '_>,
    maker: &'s M,
    work: &'s Mutex<Receiver<PipelineJob<B>>>,
    stop: &'s AtomicBool,
    to_caller: Sender<PipelineJob<B>>,
) -> ScopedJoinHandle<'s, ()> {
    scope.spawn(move || {
        let mut scratch = maker.scratch();
        // Ends when the pipeline is dropped, at the latest after the blocks under way.
        loop {
            let next = work.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(mut job) = next else { return };
            if stop.load(Ordering::Relaxed) {
                return;
            }
            job.made = Some(maker.make(&job.block, &mut scratch, &mut job.segment));
            if to_caller.send(job).is_err() {
                return;
            }
        }
    })
}

impl<B: Default> Pipeline<'_, '_, B> {
    /// Submits the block that `fill` makes; false if it made none. Waits if too many blocks are
    /// under way.
    pub(super) fn submit(
        &mut self,
        fill: impl FnOnce(&mut B) -> Result<bool, ReadStop>,
    ) -> Result<bool, ReadStop> {
        let mut job = self.free.pop().unwrap_or_default();
        if !fill(&mut job.block)? {
            return Ok(false);
        }
        self.drain(self.threads.len() * BLOCKS_PER_THREAD - 1)?;
        job.sequence = self.submitted;
        self.submitted += 1;
        // The queue has a place for every block that may be under way.
        let _ = self.to_threads.send(job);
        Ok(true)
    }

    /// Takes finished segments until at most `most` blocks are under way.
    fn drain(&mut self, most: usize) -> Result<(), ReadStop> {
        while self.submitted - self.taken > most as u64 {
            match self.done.recv_timeout(POLL) {
                Ok(job) => {
                    self.pending.insert(job.sequence, job);
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.sink.wait()?;
                    // A thread ends early only by a panic, which the end of the scope passes on.
                    if self.threads.iter().any(ScopedJoinHandle::is_finished) {
                        return Err(DataError::Interrupted.into());
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Err(DataError::Interrupted.into()),
            }
            self.take_ready()?;
        }
        Ok(())
    }

    /// Takes the finished segments that are next.
    fn take_ready(&mut self) -> Result<(), ReadStop> {
        while let Some(mut job) = self.pending.remove(&self.taken) {
            if let Some(made) = job.made.take() {
                self.sink.take(&made?, &job.segment)?;
            }
            self.taken += 1;
            self.free.push(job);
        }
        Ok(())
    }

    /// After an interruption: takes the segments under way, so that they need not be made again.
    fn keep_under_way(&mut self) {
        let until = Instant::now() + KEEP_WITHIN;
        while self.submitted > self.taken {
            let Ok(job) = self.done.recv_timeout(until.saturating_duration_since(Instant::now()))
            else {
                return;
            };
            self.pending.insert(job.sequence, job);
            if self.take_ready().is_err() {
                return;
            }
        }
    }
}
