//! The meeting in which processes that were started together exchange their addresses.
//!
//! Rank 0 holds it. The others find it at the address that the environment states, if they have the
//! run's secret, or by a file in the run directory, which has the address and the secret. Every
//! process offers free ports; when all are there, each learns the tasks and addresses of all.

mod channel;
mod file;
mod guest;
mod holder;
mod hooks;
mod message;
mod roles;
mod sockets;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, TcpListener};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use paceline_trust::{ConnectionRoom, TlsIdentity};

use self::channel::meeting_credentials;
use self::file::{MeetingFile, MeetingPoint};
use self::guest::{Joined, MeetingSearch};
use self::holder::{HeldMeeting, MAX_STRANGERS};
use self::message::Introduction;
use self::sockets::{bind, host_name, loopback_of, machine, outer_addresses, own_addresses};
use crate::cluster::{Cluster, Role, Task};
use crate::error::PlaceError;
use crate::placement::{MeetingPart, RankedPlace};
use crate::token::make_token;

pub use self::hooks::MeetingHooks;
pub use self::message::AgreedRun;
pub use self::roles::{ExpectedTask, RoleSettings};

/// What a process brings to a meeting.
#[derive(Clone, Copy, Debug)]
pub struct MeetingSettings<'a> {
    /// The process's place.
    pub place: &'a RankedPlace,
    /// How roles are divided.
    pub roles: RoleSettings,
    /// The run's secret, if the user gave one. Otherwise the holder makes one.
    pub secret: Option<&'a str>,
    /// This task's certificate, if connections are encrypted. A process that holds the meeting has
    /// that of worker 0.
    pub tls: Option<&'a TlsIdentity>,
    /// The directory with the meeting's file, if the processes may share one.
    pub dir: Option<&'a Path>,
    /// What the holder decided about the run; of no meaning to the others.
    pub run: Option<&'a AgreedRun>,
    /// The version of the program.
    pub version: &'a str,
    /// The keys of the job that all tasks must agree on, with their values.
    pub job: &'a [String],
    /// How long processes wait for each other.
    pub timeout: Duration,
}

/// What a process knows after a meeting.
#[derive(Debug)]
pub struct Meeting {
    /// The tasks of the run, and this process's own.
    pub cluster: Cluster,
    /// The processes' ranks, by task.
    pub ranks: BTreeMap<Task, usize>,
    /// The listening socket of this process's task, if it listens.
    pub listener: Option<TcpListener>,
    /// The servers that this process runs as its children, with their listening sockets.
    pub servers: Vec<(Task, TcpListener)>,
    /// The run's secret.
    pub token: String,
    /// What the holder decided about the run.
    pub run: Option<AgreedRun>,
}

impl MeetingSettings<'_> {
    /// Meets the other processes. Returns `None` for a process that only holds the meeting.
    pub fn meet(&self, hooks: &dyn MeetingHooks) -> Result<Option<Meeting>, PlaceError> {
        self.check()?;
        let loopback = self.place.meeting.as_deref().and_then(loopback_of);
        if !self.place.part.holds() {
            return self.join(None, loopback, hooks).map(Some);
        }
        let cannot = || PlaceError::while_doing("cannot hold the meeting of the run's tasks");
        let listeners = self.listeners(loopback).map_err(cannot())?;
        let point = self.point(&listeners[0]).map_err(cannot())?;
        let file = self.dir.map(|dir| self.publish(dir, &point, hooks));
        let _file = file.transpose()?;
        let is_over = AtomicBool::new(false);
        let is_stopped = || hooks.stop_signal().is_some() || is_over.load(Ordering::Relaxed);
        let held = self.held(&point.secret);
        if self.place.part == MeetingPart::Holds {
            let waiting = |missing: &[String]| {
                hooks.waiting(Some(&format!("waiting for {}", missing.join("; "))));
            };
            return held.hold(&listeners, &is_stopped, &waiting).map(|()| None);
        }
        thread::scope(|scope| {
            let holder = scope.spawn(|| held.hold(&listeners, &is_stopped, &|_| ()));
            let joined = self.join(Some(&point), loopback, hooks);
            is_over.store(true, Ordering::Relaxed);
            let _ = holder.join();
            joined.map(Some)
        })
    }

    /// Fails if another process holds the meeting already: it has the same rank as this one.
    pub fn check_alone(&self, hooks: &dyn MeetingHooks) -> Result<(), PlaceError> {
        let session = &self.place.session;
        let is_held = self.dir.is_some_and(|dir| MeetingPoint::read(dir, session).is_some());
        if !is_held || self.place.part != MeetingPart::HoldsAndJoins {
            return Ok(());
        }
        let search = MeetingSearch { stated: None, ..self.search(None, hooks) };
        search.ask(&Introduction { wants_to_hold: true, ..self.introduction(Vec::new()) })
    }

    /// Writes the meeting's file, unless another process holds the meeting already.
    fn publish(
        &self,
        dir: &Path,
        point: &MeetingPoint,
        hooks: &dyn MeetingHooks,
    ) -> Result<Option<MeetingFile>, PlaceError> {
        match MeetingFile::create(dir, point)? {
            None => {
                self.check_alone(hooks)?;
                MeetingFile::replace(dir, point)
            }
            file => Ok(file),
        }
    }

    /// Checks that the processes can find each other.
    fn check(&self) -> Result<(), PlaceError> {
        let has_address = self.place.meeting.is_some() && self.secret.is_some();
        if self.dir.is_some() || has_address {
            return Ok(());
        }
        let remedy = "name a run directory that all of them share with --run-dir, or give all of \
                      them the same secret (cluster.token_file or PACELINE_TOKEN) and the address \
                      of rank 0 (--meet or PACELINE_MEET)";
        let text = self.place.describe();
        Err(PlaceError::Usage(format!(
            "{text} starts {} processes that cannot find each other; {remedy}",
            self.place.size
        )))
    }

    /// The holder's listening sockets: one at a free port for the file, and one at the address that
    /// the environment states, which the others use only with a secret of their own.
    fn listeners(&self, loopback: Option<IpAddr>) -> io::Result<Vec<TcpListener>> {
        let mut listeners = Vec::new();
        if self.dir.is_some() {
            listeners.push(bind(loopback, 0)?);
        }
        if let (Some(address), Some(_)) = (&self.place.meeting, self.secret) {
            let port = address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
            let no_port = || io::Error::other(format!("{address} has no port"));
            match bind(loopback, port.ok_or_else(no_port)?) {
                Ok(listener) => listeners.push(listener),
                // The file is enough where processes share a directory.
                Err(_) if !listeners.is_empty() => {}
                Err(error) => {
                    return Err(io::Error::new(error.kind(), format!("{address}: {error}")));
                }
            }
        }
        Ok(listeners)
    }

    /// Where the meeting is, and its secret.
    fn point(&self, listener: &TcpListener) -> io::Result<MeetingPoint> {
        let port = listener.local_addr()?.port();
        let mut addresses = outer_addresses(port);
        let stated = self.place.meeting.as_deref().and_then(|at| at.rsplit_once(':'));
        if let Some((host, _)) = stated {
            addresses.insert(0, format!("{host}:{port}"));
        }
        let secret = match self.secret {
            Some(secret) => secret.to_owned(),
            None => make_token()?,
        };
        Ok(MeetingPoint {
            session: self.place.session.clone(),
            secret,
            machine: machine(),
            addresses,
            local_addresses: own_addresses(listener)?,
        })
    }

    fn held<'a>(&'a self, secret: &'a str) -> HeldMeeting<'a> {
        HeldMeeting {
            credentials: meeting_credentials(secret, self.tls),
            own: self.introduction(Vec::new()).named(),
            size: self.place.size,
            roles: self.roles,
            hosts: self.place.hosts.as_deref(),
            version: self.version,
            job: self.job,
            run: self.run,
            timeout: self.timeout,
            guests: Mutex::new((0..self.place.size).map(|_| None).collect()),
            strangers: ConnectionRoom::new(MAX_STRANGERS),
            left: Mutex::default(),
            refusals: Mutex::default(),
        }
    }

    /// Joins the meeting, with free ports for this process's tasks.
    fn join(
        &self,
        own: Option<&MeetingPoint>,
        loopback: Option<IpAddr>,
        hooks: &dyn MeetingHooks,
    ) -> Result<Meeting, PlaceError> {
        let RankedPlace { rank, size, .. } = *self.place;
        let cannot = || PlaceError::while_doing("cannot listen for the run's other tasks");
        let sockets = self.roles.sockets(rank, size)?;
        let sockets: Vec<TcpListener> =
            (0..sockets).map(|_| bind(loopback, 0)).collect::<io::Result<_>>().map_err(cannot())?;
        let port = |socket: &TcpListener| socket.local_addr().map(|address| address.port());
        let ports = sockets.iter().map(port).collect::<io::Result<_>>().map_err(cannot())?;
        let joined = self.search(own, hooks).join(&self.introduction(ports))?;
        Meeting::new(joined, rank, sockets)
    }

    /// How this process introduces itself.
    fn introduction(&self, ports: Vec<u16>) -> Introduction {
        Introduction {
            rank: self.place.rank,
            size: self.place.size,
            host: self.place.host.clone().unwrap_or_else(host_name),
            machine: self.place.host.clone().unwrap_or_else(machine),
            process: std::process::id(),
            version: self.version.to_owned(),
            job: self.job.to_vec(),
            ports,
            wants_to_hold: false,
        }
    }

    /// Where this process looks for the meeting.
    fn search<'a>(
        &'a self,
        own: Option<&'a MeetingPoint>,
        hooks: &'a dyn MeetingHooks,
    ) -> MeetingSearch<'a> {
        MeetingSearch {
            stated: self.place.meeting.as_deref().zip(self.secret),
            dir: self.dir,
            session: &self.place.session,
            tls: self.tls,
            own,
            timeout: self.timeout,
            hooks,
            credentials: RefCell::default(),
        }
    }
}

impl Meeting {
    /// What the process of this rank, with these listening sockets, knows.
    fn new(joined: Joined, rank: usize, sockets: Vec<TcpListener>) -> Result<Self, PlaceError> {
        let wrong = || PlaceError::Usage("the meeting's table of tasks is damaged".into());
        let mut sockets: Vec<_> = sockets.into_iter().map(Some).collect();
        let (mut addresses, mut ranks) = (BTreeMap::new(), BTreeMap::new());
        let (mut own, mut servers) = (None, Vec::new());
        for at in &joined.agreed.tasks {
            let role = Role::parse(&at.role).ok_or_else(wrong)?;
            let task = Task { role, index: at.index };
            addresses.insert(task, at.address.clone());
            ranks.insert(task, at.rank);
            if at.rank != rank {
                continue;
            }
            let socket = match at.socket {
                Some(socket) => {
                    Some(sockets.get_mut(socket).and_then(Option::take).ok_or_else(wrong)?)
                }
                None => None,
            };
            match (&own, socket) {
                // A process's own task comes before its children.
                (None, socket) => own = Some((task, socket)),
                (Some(_), Some(socket)) => servers.push((task, socket)),
                (Some(_), None) => return Err(wrong()),
            }
        }
        let (task, listener) = own.ok_or_else(wrong)?;
        Ok(Self {
            cluster: Cluster { task, addresses, remarks: Vec::new() },
            ranks,
            listener,
            servers,
            token: joined.secret,
            run: joined.agreed.run,
        })
    }
}
