//! The process that holds a meeting: it gathers all processes and tells them about each other.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use paceline_exchange::{TaskKeys, first_difference};
use paceline_trust::{ConnectionRoom, Credentials};

use super::channel::MeetingChannel;
use super::message::{Agreed, AgreedRun, AgreedTask, HolderMessage, Introduction};
use super::roles::RoleSettings;
use crate::error::PlaceError;

/// How often the holder looks for connections.
const CHECK_EVERY: Duration = Duration::from_millis(5);
/// How often processes learn which tasks are missing.
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// How long a process may take to introduce itself.
const INTRODUCTION_LIMIT: Duration = Duration::from_secs(5);
/// The most connections that are accepted before the holder looks at the meeting again.
const ACCEPT_AT_ONCE: usize = 64;
/// Connections that have not introduced themselves yet. One is closed for a further one.
pub(super) const MAX_STRANGERS: usize = 512;
/// Refused processes that the others hear of; the newest.
const MAX_REFUSALS: usize = 4;
/// The longest reason for a refusal, in characters. It has what the process says of itself, and
/// all others hear it.
const MAX_REASON: usize = 500;

/// A meeting as its holder sees it.
pub(super) struct HeldMeeting<'a> {
    pub(super) credentials: Credentials,
    /// The holder itself, for people.
    pub(super) own: String,
    pub(super) size: usize,
    pub(super) roles: RoleSettings,
    /// The hosts of all ranks, if the scheduler says them.
    pub(super) hosts: Option<&'a [String]>,
    /// What all processes must agree on.
    pub(super) version: &'a str,
    pub(super) job: &'a [String],
    /// What the holder decided about the run.
    pub(super) run: Option<&'a AgreedRun>,
    pub(super) timeout: Duration,
    pub(super) guests: Mutex<Vec<Option<Guest>>>,
    pub(super) strangers: ConnectionRoom<Box<dyn FnOnce() + Send>>,
    /// The ranks whose processes were there and have left.
    pub(super) left: Mutex<BTreeSet<usize>>,
    /// Why processes were refused.
    pub(super) refusals: Mutex<Vec<String>>,
}

/// A process that has introduced itself.
pub(super) struct Guest {
    introduction: Introduction,
    channel: MeetingChannel,
    /// Where the process is, and the address at which it reached the holder.
    from: IpAddr,
    to: IpAddr,
}

impl HeldMeeting<'_> {
    fn guests(&self) -> MutexGuard<'_, Vec<Option<Guest>>> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds the meeting until all processes know each other. Every process learns of a failure.
    pub(super) fn hold(
        &self,
        listeners: &[TcpListener],
        is_stopped: &(dyn Fn() -> bool + Sync),
        waiting: &dyn Fn(&[String]),
    ) -> Result<(), PlaceError> {
        let is_over = AtomicBool::new(false);
        let result = thread::scope(|scope| {
            let result = self.gather(listeners, is_stopped, waiting, &|stream| {
                // Without a thread for it, the connection is closed.
                let meet = || self.meet_stranger(stream, &is_over);
                let _ = thread::Builder::new().spawn_scoped(scope, meet);
            });
            is_over.store(true, Ordering::Relaxed);
            // The scope ends when the threads of strangers do.
            self.strangers.close();
            result
        });
        let message = match &result {
            Ok(agreed) => HolderMessage::Agreed(agreed.clone()),
            Err(error) => HolderMessage::Refused {
                why: error.to_string(),
                is_permanent: matches!(error, PlaceError::Usage(_)),
            },
        };
        for guest in self.guests().iter_mut().flatten() {
            let _ = guest.channel.send(&message);
        }
        result.map(drop)
    }

    fn gather(
        &self,
        listeners: &[TcpListener],
        is_stopped: &(dyn Fn() -> bool + Sync),
        waiting: &dyn Fn(&[String]),
        meet: &dyn Fn(TcpStream),
    ) -> Result<Agreed, PlaceError> {
        let cannot = || PlaceError::while_doing("cannot hold the meeting of the run's tasks");
        for listener in listeners {
            listener.set_nonblocking(true).map_err(cannot())?;
        }
        let started = Instant::now();
        let mut next_report = started + REPORT_EVERY;
        loop {
            for listener in listeners {
                // A connection that failed before it was accepted is not the holder's failure.
                let accepted = std::iter::from_fn(|| listener.accept().ok());
                accepted.take(ACCEPT_AT_ONCE).for_each(|(stream, _)| meet(stream));
            }
            if self.guests().iter().all(Option::is_some) && self.all_are_here() {
                return self.agree();
            }
            if started.elapsed() >= self.timeout {
                return Err(PlaceError::Lost(format!(
                    "the run did not start within {} s: waiting for {}",
                    self.timeout.as_secs_f32(),
                    self.missing().join(", ")
                )));
            }
            if is_stopped() {
                return Err(PlaceError::Lost("the process that held the meeting ended".into()));
            }
            if Instant::now() >= next_report {
                next_report += REPORT_EVERY;
                self.all_are_here();
                self.report(waiting);
            }
            thread::sleep(CHECK_EVERY);
        }
    }

    /// Forgets the processes that have left, which may come back. Returns whether none is missing.
    fn all_are_here(&self) -> bool {
        let mut guests = self.guests();
        for (rank, place) in guests.iter_mut().enumerate() {
            if place.take_if(|guest| guest.channel.is_closed()).is_some() {
                self.left.lock().unwrap_or_else(PoisonError::into_inner).insert(rank);
            }
        }
        guests.iter().all(Option::is_some)
    }

    fn report(&self, waiting: &dyn Fn(&[String])) {
        let missing = self.missing();
        waiting(&missing);
        let message = HolderMessage::Waiting(missing);
        for guest in self.guests().iter_mut().flatten() {
            // A process that has left is noticed by its closed connection.
            let _ = guest.channel.send(&message);
        }
    }

    /// The tasks whose processes are missing, and the processes that were refused.
    fn missing(&self) -> Vec<String> {
        let guests = self.guests();
        let ranks = (0..self.size).filter(|&rank| guests[rank].is_none());
        let missing = ranks.map(|rank| self.describe(rank));
        let refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        missing.chain(refusals.iter().map(|why| format!("refused: {why}"))).collect()
    }

    /// Notes why a process was refused, for the others.
    fn note_refusal(&self, why: String) {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        if !refusals.contains(&why) {
            refusals.push(why);
        }
        let surplus = refusals.len().saturating_sub(MAX_REFUSALS);
        refusals.drain(..surplus);
    }

    fn describe(&self, rank: usize) -> String {
        let task = self.roles.task_of(rank, self.size);
        let name = task.map_or_else(|_| format!("rank {rank}"), |task| task.to_string());
        let has_left = self.left.lock().unwrap_or_else(PoisonError::into_inner).contains(&rank);
        let state = if has_left { "connected and left" } else { "never connected" };
        match self.hosts.and_then(|hosts| hosts.get(rank)) {
            Some(host) => format!("{name} on host {host}, {state}"),
            None => format!("{name} (rank {rank}), {state}"),
        }
    }

    /// Lets one connection introduce itself.
    fn meet_stranger(&self, stream: TcpStream, is_over: &AtomicBool) {
        let (Ok(other), Ok(address)) = (stream.try_clone(), stream.peer_addr()) else { return };
        let close = Box::new(move || {
            let _ = other.shutdown(Shutdown::Both);
        });
        let place = self.strangers.enter(address.ip().to_canonical(), close);
        let guest = self.introduce(stream, is_over);
        self.strangers.leave(place);
        guest.into_iter().for_each(|guest| self.seat(guest));
    }

    fn introduce(&self, stream: TcpStream, is_over: &AtomicBool) -> Option<Guest> {
        let ip = |address: SocketAddr| address.ip().to_canonical();
        let from = stream.peer_addr().map(ip).ok()?;
        let to = stream.local_addr().map(ip).ok()?;
        let accepted = MeetingChannel::accept(stream, &self.credentials);
        if accepted.as_ref().is_err_and(|error| error.kind() == ErrorKind::PermissionDenied) {
            self.note_refusal(format!("a process at {from}, which has another secret"));
        }
        let mut channel = accepted.ok()?;
        let deadline = Instant::now() + INTRODUCTION_LIMIT;
        let introduction = channel.receive(deadline, &|| is_over.load(Ordering::Relaxed));
        Some(Guest { introduction: introduction.ok()??, channel, from, to })
    }

    /// Gives a process its place, or says why it has none.
    fn seat(&self, mut guest: Guest) {
        let mut guests = self.guests();
        let disagreement =
            self.disagreement(&guest.introduction).or_else(|| self.foreign_certificate(&guest));
        let refusal = disagreement.or_else(|| {
            let seated = guests[guest.introduction.rank].as_ref();
            let seated = seated.filter(|seated| !seated.channel.is_closed())?;
            Some(format!(
                "two processes have the same rank: {} at {}, and {} at {}",
                seated.introduction.named(),
                seated.from,
                guest.introduction.named(),
                guest.from
            ))
        });
        match refusal {
            None => {
                let rank = guest.introduction.rank;
                guests[rank] = Some(guest);
            }
            Some(why) => {
                let why = shortened(why);
                self.note_refusal(format!("{why} (at {})", guest.from));
                let _ = guest.channel.send(&HolderMessage::Refused { why, is_permanent: true });
            }
        }
    }

    /// Refuses a process whose certificate is not that of its rank's task.
    fn foreign_certificate(&self, guest: &Guest) -> Option<String> {
        let task = self.roles.task_of(guest.introduction.rank, self.size).ok()?.to_string();
        let name = guest.introduction.named();
        (!guest.channel.may_be(&task)).then(|| format!("the certificate of {name} is not {task}'s"))
    }

    /// Why a process does not belong to the run, if it does not.
    fn disagreement(&self, guest: &Introduction) -> Option<String> {
        let name = guest.named();
        if guest.wants_to_hold {
            return Some(format!("two processes have the same rank: {}, and {name}", self.own));
        }
        if guest.size != self.size || guest.rank >= self.size {
            return Some(format!(
                "{name} is one of {} processes, but the holder of the meeting is one of {}",
                guest.size, self.size
            ));
        }
        if guest.version != self.version {
            return Some(format!(
                "{name} has version {}, but the holder of the meeting has {}",
                guest.version, self.version
            ));
        }
        if guest.job != self.job {
            let rank = format!("rank {}", guest.rank);
            let task = "the holder of the meeting";
            let here = TaskKeys { task, lines: self.job.iter().map(String::as_str) };
            let there = TaskKeys { task: &rank, lines: guest.job.iter().map(String::as_str) };
            let key = first_difference(here, there).map(|key| format!(": {key}"));
            return Some(format!("{name} has another job{}", key.unwrap_or_default()));
        }
        let sockets = self.roles.sockets(guest.rank, self.size).unwrap_or(0);
        (guest.ports.len() != sockets)
            .then(|| format!("{name} offers {} sockets, not {sockets}", guest.ports.len()))
    }

    /// The addresses of all tasks.
    fn agree(&self) -> Result<Agreed, PlaceError> {
        let guests = self.guests();
        let guests: Vec<_> = guests.iter().flatten().collect();
        let machines: Vec<_> =
            guests.iter().map(|guest| guest.introduction.machine.as_str()).collect();
        // A process on the holder's machine may have come over loopback. To the others, it is
        // where they reached the holder.
        let outer = guests.iter().find(|guest| !guest.from.is_loopback()).map(|guest| guest.to);
        let ip = |guest: &Guest| match outer {
            Some(outer) if guest.from.is_loopback() => outer,
            _ => guest.from,
        };
        let tasks = self.roles.assign(&machines)?.into_iter().map(|at| {
            let guest = guests[at.rank];
            let port = at.socket.map_or(0, |socket| guest.introduction.ports[socket]);
            AgreedTask {
                role: at.task.role.name().to_owned(),
                index: at.task.index,
                rank: at.rank,
                address: SocketAddr::new(ip(guest), port).to_string(),
                socket: at.socket,
            }
        });
        Ok(Agreed { tasks: tasks.collect(), run: self.run.cloned() })
    }
}

/// A reason that is not too long.
fn shortened(why: String) -> String {
    match why.char_indices().nth(MAX_REASON) {
        Some((end, _)) => format!("{}…", &why[..end]),
        None => why,
    }
}
