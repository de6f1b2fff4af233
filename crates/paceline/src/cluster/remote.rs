//! Parameters that live on servers, seen from a worker.

use paceline_exchange::PullPurpose;
use paceline_net::{ConnectConfig, LinkError, LinkObserver, LinkOutcome};
use paceline_observe::PhaseClock;

use super::attendants::{Peers, Say, Timed, Waiter};
use super::part::SharedLink;
use crate::Failure;
use crate::account::one_of_each;
use crate::job::Mode;
use crate::link::{DenseLink, Link, Pushed, RowLink, RowPush, Show};
use paceline_record::TaskSummary;

/// Parameters of a sparse model that are shown at a time when all are shown.
const PIECE: usize = 1 << 20;

/// A worker's parameters, on servers.
pub struct Remote<'a> {
    link: paceline_net::ServerConnections,
    mode: Mode,
    /// In modes without a common step: the next step of this slot's own.
    own_step: u64,
    say: Say<'a>,
    peers: Peers,
    gives_up: &'a dyn Fn() -> bool,
    rows: Option<Rows>,
    /// Whether the slot is to be given back.
    called_back: Option<&'a dyn Fn() -> bool>,
    /// Whether it is to be dropped as it is.
    halted: Option<&'a dyn Fn() -> bool>,
    /// Whether the run has ended without it, so that no goodbye is heard any more.
    is_over: Option<&'a dyn Fn() -> bool>,
}

/// What a link of a sparse model holds.
struct Rows {
    /// How many parameters there are.
    total: usize,
    /// Whether values come while others are in use.
    overlaps: bool,
    /// The values of the batch to compute now and, if it overlaps, of the next one.
    current: Vec<f32>,
    next: Vec<f32>,
    /// Values that somebody looks at.
    looked: Vec<f32>,
    /// A push has not been answered yet.
    in_flight: bool,
}

impl<'a> Remote<'a> {
    /// Connects to all servers, waits for the start and, if the model is dense, pulls.
    pub(crate) fn start(
        config: ConnectConfig,
        mode: Mode,
        say: Say<'a>,
        gives_up: &'a dyn Fn() -> bool,
    ) -> Result<Self, Failure> {
        let attendant = &mut Waiter { say, gives_up: Some(gives_up) };
        let peers = Peers { all: config.servers.len(), own: None };
        let (is_sparse, total) = (config.client.is_sparse, config.client.total_params);
        let link = paceline_net::ServerConnections::connect(config, attendant)?;
        let rows = is_sparse.then(|| Rows {
            total,
            overlaps: overlaps(mode),
            current: Vec::new(),
            next: Vec::new(),
            looked: Vec::new(),
            in_flight: false,
        });
        let own_step = link.resume_step();
        Ok(Self {
            link,
            mode,
            own_step,
            say,
            peers,
            gives_up,
            rows,
            called_back: None,
            halted: None,
            is_over: None,
        })
    }

    /// Asked between two steps, and after leaving: whether the slot is to be given back. Asked
    /// during waits: whether to give up. Asked when it says goodbye: whether the run is over.
    pub(crate) fn obey(
        &mut self,
        called_back: &'a dyn Fn() -> bool,
        halted: &'a dyn Fn() -> bool,
        is_over: &'a dyn Fn() -> bool,
    ) {
        (self.called_back, self.halted) = (Some(called_back), Some(halted));
        self.is_over = Some(is_over);
    }

    /// Gives the slot back in good order, with a report for the chief.
    pub(crate) fn release(&mut self, report: &[u8]) -> Result<(), Failure> {
        let attendant = &mut self.waiter();
        done(self.link.release(report, attendant)?)
    }

    /// Attends to what no clock measures.
    fn waiter(&self) -> Waiter<'a> {
        Waiter { say: self.say, gives_up: self.is_over }
    }

    /// Attends to an exchange.
    fn timed<'c>(&self, clock: &'c mut PhaseClock) -> Timed<'c>
    where
        'a: 'c,
    {
        Timed { clock, say: self.say, peers: self.peers, halted: self.halted }
    }
}

impl SharedLink for Remote<'_> {
    fn leave(&mut self, report: &[u8]) -> Result<(), Failure> {
        let attendant = &mut self.waiter();
        done(self.link.leave(report, attendant)?)
    }

    /// The workers' reports as server 0 has them, the chief's among them, and each server's own.
    fn collect(&mut self, _mine: TaskSummary) -> Result<Vec<TaskSummary>, Failure> {
        let attendant = &mut self.waiter();
        let reports = done(self.link.collect_reports(attendant)?)?;
        let from_all = reports.into_iter().enumerate().flat_map(|(server, reports)| {
            reports.into_iter().filter(move |report| server == 0 || report.slot.is_none())
        });
        let reports = from_all.filter_map(|report| serde_json::from_slice(&report.bytes).ok());
        Ok(one_of_each(reports.collect()))
    }

    fn refresh(&mut self) -> Result<(), Failure> {
        let attendant = &mut self.waiter();
        match self.rows {
            Some(_) => self.look(Some(&[])).map(drop), // What is looked at is fetched then.
            None => done(self.link.pull(attendant)?),
        }
    }

    fn finish(&mut self) -> Result<(), Failure> {
        let attendant = &mut self.waiter();
        Ok(self.link.finish(attendant)?)
    }

    /// A slot that is to be given back has been left already, and needs nobody to stay.
    fn linger(&mut self) -> Result<(), Failure> {
        let (called_back, is_over) = (self.called_back, self.is_over);
        let gives_up = || [called_back, is_over].into_iter().flatten().any(|asked| asked());
        let attendant = &mut Waiter { say: self.say, gives_up: Some(&gives_up) };
        match self.link.wait_for_end(attendant) {
            Err(LinkError::Interrupted) => Ok(()),
            ended => done(ended?),
        }
    }

    fn begin_again(&mut self) -> Result<(), Failure> {
        let attendant = &mut Waiter { say: self.say, gives_up: Some(self.gives_up) };
        self.link.resume_after_rewind(attendant)?;
        if let Some(rows) = &mut self.rows {
            rows.in_flight = false;
        }
        self.own_step = self.link.resume_step();
        Ok(())
    }

    fn lost_pushes(&self) -> u64 {
        self.link.lost_pushes()
    }

    fn base_step(&self) -> u64 {
        self.link.base_step()
    }

    fn already_left(&self) -> bool {
        self.link.already_left()
    }
}

/// The result of an operation, or the failure that says that the run went back.
fn done<T>(outcome: LinkOutcome<T>) -> Result<T, Failure> {
    match outcome {
        LinkOutcome::Done(result) => Ok(result),
        LinkOutcome::Rewound => Err(Failure::Rewound),
    }
}

/// Whether a worker of a sparse model pulls the values of its next batch while it computes the
/// present one. That makes it one step staler, so `sync` and lock-step do not allow it.
pub(crate) fn overlaps(mode: Mode) -> bool {
    match mode {
        Mode::Async => true,
        Mode::Bounded { staleness } => staleness > 0,
        Mode::Single | Mode::Sync { .. } | Mode::Mirrored => false,
    }
}

impl Link for Remote<'_> {
    fn next_step(&self) -> u64 {
        match self.mode {
            // Before the first pull of a sparse model only the own one is known.
            Mode::Sync { .. } => self.link.global_step().max(self.own_step),
            _ => self.own_step,
        }
    }

    fn is_stopping(&self) -> bool {
        self.link.is_stopping()
    }

    fn is_called_back(&self) -> bool {
        self.called_back.is_some_and(|called_back| called_back())
            && !self.link.has_unfinished_push()
    }

    fn global_step(&self) -> u64 {
        self.link.global_step()
    }

    fn moved_by_peer(&self, mut tell: impl FnMut(usize, u64, u64)) {
        for (server, bytes) in self.link.traffic().enumerate() {
            tell(server, bytes.sent, bytes.received);
        }
    }

    fn ask_to_stop(&mut self, reason: &str) -> Result<(), Failure> {
        Ok(self.link.request_stop(reason)?)
    }

    fn checkpoint_step(&self) -> u64 {
        // In `sync` the step that is made next: no server can make it before it has been asked.
        self.link.global_step() + u64::from(matches!(self.mode, Mode::Sync { .. }))
    }

    fn checkpoint(&mut self, step: u64, _is_last: bool) -> Result<(), Failure> {
        Ok(self.link.request_checkpoint(step)?)
    }

    fn look(&mut self, keys: Option<&[u32]>) -> Result<&[f32], Failure> {
        let attendant = &mut Waiter { say: self.say, gives_up: None };
        let Some(rows) = &mut self.rows else { return Ok(self.link.params()) };
        rows.complete(&mut self.link, attendant)?;
        let keys = keys.unwrap_or_default();
        done(self.link.pull_keys(keys, PullPurpose::ReadOnly, &mut rows.looked, attendant)?)?;
        Ok(&rows.looked)
    }

    fn show_all(&mut self, show: &mut Show<'_>) -> Result<(), Failure> {
        let Some(total) = self.rows.as_ref().map(|rows| rows.total) else {
            return show(self.link.params());
        };
        let mut keys = Vec::new();
        for from in (0..total).step_by(PIECE) {
            keys.clear();
            keys.extend(from as u32..(from + PIECE).min(total) as u32);
            show(self.look(Some(&keys))?)?;
        }
        Ok(())
    }
}

impl DenseLink for Remote<'_> {
    fn params(&self) -> &[f32] {
        self.link.params()
    }

    fn push(
        &mut self,
        examples: usize,
        grad: &[f32],
        clock: &mut PhaseClock,
    ) -> Result<Pushed, Failure> {
        let step = self.next_step();
        let attendant = &mut self.timed(clock);
        done(self.link.exchange(step, examples as u32, grad, attendant)?)?;
        self.own_step += 1;
        Ok(if self.link.was_dropped() { Pushed::Dropped } else { Pushed::Applied })
    }
}

impl Rows {
    /// Waits for the values that the last push asked for, if it did.
    fn complete(
        &mut self,
        link: &mut paceline_net::ServerConnections,
        attendant: &mut impl LinkObserver,
    ) -> Result<(), Failure> {
        if self.in_flight {
            let place = if self.overlaps { &mut self.next } else { &mut self.current };
            done(link.wait_for_values(place, attendant)?)?;
            self.in_flight = false;
        }
        Ok(())
    }
}

impl Remote<'_> {
    /// What only a link of a sparse model has.
    fn rows(&mut self) -> (&mut paceline_net::ServerConnections, &mut Rows) {
        let Some(rows) = &mut self.rows else { unreachable!("the model is sparse") };
        (&mut self.link, rows)
    }
}

impl RowLink for Remote<'_> {
    fn overlaps(&self) -> bool {
        self.rows.as_ref().is_some_and(|rows| rows.overlaps)
    }

    fn begin(&mut self, step: u64, keys: &[u32], clock: &mut PhaseClock) -> Result<(), Failure> {
        let attendant = &mut self.timed(clock);
        let (link, rows) = self.rows();
        rows.complete(link, attendant)?;
        link.resume_at(step);
        done(link.pull_keys(keys, PullPurpose::Begin, &mut rows.current, attendant)?)
    }

    fn ahead(&mut self, keys: &[u32], clock: &mut PhaseClock) -> Result<(), Failure> {
        let attendant = &mut self.timed(clock);
        let (link, rows) = self.rows();
        done(link.pull_keys(keys, PullPurpose::Ahead, &mut rows.next, attendant)?)
    }

    fn values(&self) -> &[f32] {
        self.rows.as_ref().map_or(&[], |rows| &rows.current)
    }

    fn push(&mut self, push: RowPush<'_>, clock: &mut PhaseClock) -> Result<(), Failure> {
        let attendant = &mut self.timed(clock);
        let RowPush { step, examples, grad, next, .. } = push;
        let (link, rows) = self.rows();
        done(link.push_keys(step, examples as u32, grad, next, attendant)?)?;
        rows.in_flight = true;
        if rows.overlaps {
            std::mem::swap(&mut rows.current, &mut rows.next);
        }
        self.own_step += 1;
        Ok(())
    }

    fn arrive(&mut self, clock: &mut PhaseClock) -> Result<Pushed, Failure> {
        let attendant = &mut self.timed(clock);
        let (link, rows) = self.rows();
        rows.complete(link, attendant)?;
        Ok(if link.was_dropped() { Pushed::Dropped } else { Pushed::Applied })
    }
}
