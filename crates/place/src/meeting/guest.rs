//! A process that joins a meeting.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use paceline_trust::{Credentials, TlsIdentity};

use super::channel::{MeetingChannel, meeting_credentials};
use super::file::MeetingPoint;
use super::hooks::MeetingHooks;
use super::message::{Agreed, HolderMessage, Introduction};
use super::sockets::machine;
use crate::error::PlaceError;

/// How long a connection may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// How long a process waits before it looks for the meeting again.
const RETRY_AFTER: Duration = Duration::from_millis(20);
/// How long a process waits silently.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a process that the holder denies looks for another meeting: the run's own may be about
/// to begin, and take the place of an earlier one.
const DENIAL_LIMIT: Duration = Duration::from_millis(500);
/// How long another holder of the meeting may take to object.
const OBJECTION_LIMIT: Duration = Duration::from_secs(2);
/// How much longer than the holder a process waits, so that the holder can say what is missing.
const GRACE: Duration = Duration::from_secs(3);

/// Where a process looks for the meeting.
pub(super) struct MeetingSearch<'a> {
    /// The address that the environment states, with the secret it needs.
    pub(super) stated: Option<(&'a str, &'a str)>,
    /// The run directory that may have the meeting's file.
    pub(super) dir: Option<&'a Path>,
    pub(super) session: &'a str,
    /// This task's certificate, if connections are encrypted.
    pub(super) tls: Option<&'a TlsIdentity>,
    /// The holder's own process knows the meeting.
    pub(super) own: Option<&'a MeetingPoint>,
    pub(super) timeout: Duration,
    pub(super) hooks: &'a dyn MeetingHooks,
    /// What this process shows, by the secret.
    pub(super) credentials: RefCell<BTreeMap<String, Credentials>>,
}

/// What a process has after a meeting.
pub(super) struct Joined {
    pub(super) agreed: Agreed,
    pub(super) secret: String,
}

/// Why one attempt to join did not succeed.
enum Setback {
    /// Another attempt may succeed.
    Retry(String),
    /// The holder has another secret or version of the meeting. The reason names both sides.
    Denied(String),
    /// No attempt can.
    Final(PlaceError),
}

impl MeetingSearch<'_> {
    /// Joins the meeting, as soon as it is held, and waits until all processes have.
    pub(super) fn join(&self, introduction: &Introduction) -> Result<Joined, PlaceError> {
        let started = Instant::now();
        let deadline = started + self.timeout + GRACE;
        let mut last = String::new();
        let mut denied_since = None;
        loop {
            for (address, secret) in self.points() {
                match self.join_at(&address, &secret, introduction, deadline) {
                    Ok(agreed) => {
                        self.hooks.waiting(None);
                        return Ok(Joined { agreed, secret });
                    }
                    Err(Setback::Final(error)) => {
                        // A signal to this process also ends the meeting that it holds.
                        self.check_stop()?;
                        return Err(error);
                    }
                    Err(Setback::Retry(why)) => last = format!(": {address}: {why}"),
                    Err(Setback::Denied(why)) => {
                        let since = *denied_since.get_or_insert_with(Instant::now);
                        if since.elapsed() >= DENIAL_LIMIT {
                            return Err(PlaceError::Usage(why));
                        }
                        last = format!(": {address}: {why}");
                    }
                }
                self.check_stop()?;
            }
            let text = format!("waiting for rank 0{}{last}", self.places());
            if Instant::now() >= deadline {
                let limit = self.timeout.as_secs_f32();
                return Err(PlaceError::Lost(format!(
                    "the run did not start within {limit} s: {text}"
                )));
            }
            if started.elapsed() >= PATIENCE {
                self.hooks.waiting(Some(&text));
            }
            self.check_stop()?;
            thread::sleep(RETRY_AFTER);
        }
    }

    /// Asks at the meeting, if it is held, whether this process may hold it.
    pub(super) fn ask(&self, introduction: &Introduction) -> Result<(), PlaceError> {
        let deadline = Instant::now() + OBJECTION_LIMIT;
        for (address, secret) in self.points() {
            match self.join_at(&address, &secret, introduction, deadline) {
                Err(Setback::Final(error @ PlaceError::Usage(_))) => return Err(error),
                // It is over, or was held by a process that has ended.
                _ => self.check_stop()?,
            }
        }
        Ok(())
    }

    fn check_stop(&self) -> Result<(), PlaceError> {
        match self.hooks.stop_signal() {
            None => Ok(()),
            Some(signal) => {
                let text = Some("the run's tasks had not met yet".into());
                Err(PlaceError::Interrupted { signal, text })
            }
        }
    }

    /// Where the process looks, for people.
    fn places(&self) -> String {
        let stated = self.stated.map(|(address, _)| format!("at {address}"));
        let file = self.dir.map(|dir| {
            let is_foreign = MeetingPoint::is_foreign(dir);
            let doubt = if is_foreign { ", which others may read or change" } else { "" };
            format!("by the file meeting.json in {}{doubt}", dir.display())
        });
        let places: Vec<_> = stated.into_iter().chain(file).collect();
        if places.is_empty() { String::new() } else { format!(" {}", places.join(" or ")) }
    }

    /// The addresses at which the meeting may be, each with its secret.
    fn points(&self) -> Vec<(String, String)> {
        let with = |secret: &str, addresses: &[String]| -> Vec<(String, String)> {
            addresses.iter().map(|address| (address.clone(), secret.to_owned())).collect()
        };
        if let Some(own) = self.own {
            return with(&own.secret, &own.local_addresses);
        }
        let found = self.dir.and_then(|dir| MeetingPoint::read(dir, self.session));
        let mut points = match &found {
            Some(point) if point.machine == machine() => {
                with(&point.secret, &point.local_addresses)
            }
            Some(point) => with(&point.secret, &point.addresses),
            None => Vec::new(),
        };
        points.extend(self.stated.map(|(address, secret)| (address.into(), secret.into())));
        points
    }

    /// What this process shows where this secret is needed: the same at each attempt, since it
    /// counts the wrong proofs.
    fn credentials_with(&self, secret: &str) -> Credentials {
        let mut known = self.credentials.borrow_mut();
        let new = || meeting_credentials(secret, self.tls);
        known.entry(secret.to_owned()).or_insert_with(new).clone()
    }

    fn join_at(
        &self,
        address: &str,
        secret: &str,
        introduction: &Introduction,
        deadline: Instant,
    ) -> Result<Agreed, Setback> {
        let retry = |error: io::Error| Setback::Retry(describe(&error));
        let stream = connect(address).map_err(retry)?;
        let joined = MeetingChannel::join(stream, &self.credentials_with(secret));
        let mut channel = joined.map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => Setback::Denied(format!(
                "{} and rank 0 at {address} have different secrets; give all processes the same \
                 PACELINE_TOKEN or cluster.token_file",
                introduction.named()
            )),
            ErrorKind::Unsupported => Setback::Denied(format!(
                "{} and rank 0 at {address} are of different versions of Paceline: {error}",
                introduction.named()
            )),
            _ => retry(error),
        })?;
        channel.send(introduction).map_err(retry)?;
        let is_stopped = || self.hooks.stop_signal().is_some();
        loop {
            match channel.receive(deadline, &is_stopped).map_err(retry)? {
                Some(HolderMessage::Agreed(agreed)) => return Ok(agreed),
                Some(HolderMessage::Waiting(missing)) => {
                    self.hooks.waiting(Some(&format!("waiting for {}", missing.join("; "))));
                }
                Some(HolderMessage::Refused { why, is_permanent: true }) => {
                    let text = format!("{why} (says rank 0 at {address})");
                    return Err(Setback::Final(PlaceError::Usage(text)));
                }
                Some(HolderMessage::Refused { why, is_permanent: false }) => {
                    return Err(Setback::Final(PlaceError::Lost(why)));
                }
                None => return Err(Setback::Retry("it did not answer in time".into())),
            }
        }
    }
}

/// Connects to the first address of a name that answers.
fn connect(address: &str) -> io::Result<TcpStream> {
    let last = RefCell::new(io::Error::new(ErrorKind::NotFound, "the name has no address"));
    let streams = address.to_socket_addrs()?.filter_map(|at| {
        let stream = TcpStream::connect_timeout(&at, CONNECT_LIMIT);
        stream.map_err(|error| *last.borrow_mut() = error).ok()
    });
    let found = { streams }.next();
    found.ok_or_else(|| last.into_inner())
}

fn describe(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => "refused".into(),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => "it left".into(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "it does not answer".into(),
        _ => error.to_string(),
    }
}
