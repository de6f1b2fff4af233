//! The curves of test results. If tests come so fast that their budget is spent, only those with
//! the least and the greatest loss since the last point are written, each as it was measured.

use std::io;
use std::time::Instant;

use paceline_model::Score;
use paceline_observe::TestRecord;

use crate::byte_budget::{ByteBudget, TESTS};
use crate::events::{EventWriter, Tag};
use crate::names::tags;

/// More than the bytes of two tests.
const POINT_BYTES: u64 = 800;

/// Writes test results.
#[derive(Debug)]
pub(crate) struct TestCurves {
    accuracy: Tag,
    loss: Tag,
    auc: Tag,
    precision: Tag,
    steps_per_second: Tag,
    budget: ByteBudget,
    begun: Instant,
    pending: Option<PendingTests>,
}

/// A test's figures.
#[derive(Clone, Copy, Debug)]
struct TestPoint {
    step: u64,
    score: Score,
    steps_per_second: f64,
}

/// Tests since the last point.
#[derive(Clone, Copy, Debug)]
struct PendingTests {
    least: TestPoint,
    greatest: TestPoint,
    last: TestPoint,
}

impl TestCurves {
    /// The curves in this event file.
    pub(crate) fn new(events: &mut EventWriter, begun: Instant) -> Self {
        Self {
            accuracy: events.tag(tags::TEST_ACCURACY),
            loss: events.tag(tags::TEST_LOSS),
            auc: events.tag(tags::TEST_AUC),
            precision: events.tag(tags::TEST_PRECISION),
            steps_per_second: events.tag(tags::STEPS_PER_SECOND),
            budget: ByteBudget::new(TESTS),
            begun,
            pending: None,
        }
    }

    /// Adds a test that ended at this time.
    pub(crate) fn add(
        &mut self,
        events: &mut EventWriter,
        record: &TestRecord<'_>,
        now: Instant,
    ) -> io::Result<()> {
        let TestRecord { step, score, steps_per_second } = *record;
        let last = TestPoint { step, score: *score, steps_per_second };
        let pending =
            self.pending.get_or_insert(PendingTests { least: last, greatest: last, last });
        pending.last = last;
        if last.score.loss < pending.least.score.loss {
            pending.least = last;
        }
        if last.score.loss > pending.greatest.score.loss {
            pending.greatest = last;
        }
        let seconds = now.saturating_duration_since(self.begun).as_secs_f64();
        if !self.budget.allows(seconds, POINT_BYTES) {
            return Ok(());
        }
        let Some(PendingTests { least, greatest, .. }) = self.pending.take() else { return Ok(()) };
        let mut points = [least, greatest];
        points.sort_by_key(|point| point.step);
        let before = events.written_bytes();
        self.write(events, &points[0])?;
        if points[1].step != points[0].step {
            self.write(events, &points[1])?;
        }
        self.budget.spend(events.written_bytes() - before);
        // A reader of a live run sees the test at once, and a full disk is noticed now.
        events.flush()
    }

    /// Writes the last test, if it is not written yet.
    pub(crate) fn write_pending(&mut self, events: &mut EventWriter) -> io::Result<()> {
        match self.pending.take() {
            Some(pending) => self.write(events, &pending.last),
            None => Ok(()),
        }
    }

    /// Forgets the tests since the last point, which a rewind voids.
    pub(crate) fn discard_pending(&mut self) {
        self.pending = None;
    }

    fn write(&self, events: &mut EventWriter, point: &TestPoint) -> io::Result<()> {
        let TestPoint { step, score, steps_per_second } = *point;
        let figures = [
            (&self.accuracy, Some(score.accuracy)),
            (&self.loss, Some(score.loss)),
            (&self.auc, score.auc),
            (&self.precision, score.precision),
            (&self.steps_per_second, Some(steps_per_second)),
        ];
        for (tag, figure) in figures {
            if let Some(figure) = figure {
                events.scalar(tag, step, figure as f32)?;
            }
        }
        Ok(())
    }
}
