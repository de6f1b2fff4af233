//! A task's access to the depot.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use paceline_checkpoint::{
    CheckpointError, DeliveredShard, Manifest, RemoteCheckpoints, ServerNumber,
};
use paceline_exchange::Generation;
use paceline_trust::Credentials;

use crate::channel::{Channel, MAX_MESSAGE, Received};
use crate::message::{DepotReply, DepotRequest};

/// How long one attempt to connect may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);
/// The pause before another attempt.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// How often a wait for the depot is reported.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Where the depot is, and what a task shows there.
#[derive(Clone, Debug)]
pub struct DepotAddress {
    /// `host:port`.
    pub address: String,
    /// The task that keeps the files, such as `worker:0`. Its certificate must state this name, if
    /// connections are encrypted.
    pub keeper: String,
    /// What the task shows and demands.
    pub credentials: Credentials,
}

/// A task's access to the depot. Clones share a connection.
#[derive(Clone)]
pub struct DepotClient {
    inner: Arc<ClientState>,
}

/// Receives what is waited for, and returns whether to give up.
type WaitReport = dyn Fn(Option<&str>) -> bool + Send + Sync;

struct ClientState {
    place: DepotAddress,
    limit: Duration,
    wait: Box<WaitReport>,
    channel: Mutex<Option<Channel>>,
}

impl fmt::Debug for DepotClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DepotClient").field("place", &self.inner.place).finish_non_exhaustive()
    }
}

impl DepotClient {
    /// The depot at this address. A request waits for it up to `limit`. `wait` receives what is
    /// waited for, about once a second, and `None` at the end; it returns whether to give up.
    pub fn new(
        place: DepotAddress,
        limit: Duration,
        wait: impl Fn(Option<&str>) -> bool + Send + Sync + 'static,
    ) -> Self {
        let (wait, channel) = (Box::new(wait), Mutex::new(None));
        Self { inner: Arc::new(ClientState { place, limit, wait, channel }) }
    }

    /// Another connection to the same depot, which waits this long.
    pub(crate) fn another(&self, limit: Duration) -> Self {
        Self::new(self.inner.place.clone(), limit, |_| false)
    }

    /// Sends a request and the length of its body; `talk` sends the body and reads the answer. If
    /// the connection breaks, the depot is asked again once it is there.
    pub(crate) fn ask<T>(
        &self,
        request: &DepotRequest,
        body: u64,
        mut talk: impl FnMut(&mut Channel) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut channel = self.inner.channel.lock().unwrap_or_else(PoisonError::into_inner);
        let deadline = Instant::now() + self.inner.limit;
        let (mut reported, mut has_waited) = (Instant::now(), false);
        let asked = loop {
            let error = match self.attempt(&mut channel, request, body, &mut talk) {
                Ok(found) => break Ok(found),
                Err(error) => error,
            };
            *channel = None;
            use ErrorKind::{InvalidData, NotFound, Other, PermissionDenied};
            let is_final =
                matches!(error.kind(), PermissionDenied | InvalidData | Other | NotFound);
            if is_final || Instant::now() >= deadline {
                break Err(error);
            }
            let mut gives_up = false;
            if reported.elapsed() >= REPORT_EVERY {
                (reported, has_waited) = (Instant::now(), true);
                let at = &self.inner.place.address;
                let text = format!("waiting for the run's coordinator at {at}: {error}");
                gives_up = (self.inner.wait)(Some(&text));
            }
            if gives_up {
                break Err(error);
            }
            thread::sleep(RETRY_PAUSE);
        };
        if has_waited {
            (self.inner.wait)(None);
        }
        let at = &self.inner.place.address;
        asked.map_err(|error| io::Error::new(error.kind(), format!("{at}: {error}")))
    }

    fn attempt<T>(
        &self,
        channel: &mut Option<Channel>,
        request: &DepotRequest,
        body: u64,
        talk: &mut impl FnMut(&mut Channel) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut open = match channel.take() {
            Some(open) => open,
            None => {
                let DepotAddress { address, keeper, credentials } = &self.inner.place;
                Channel::join(connect(address)?, credentials, keeper)?
            }
        };
        open.send(request, body)?;
        let found = talk(&mut open)?;
        *channel = Some(open);
        Ok(found)
    }

    /// Asks for something that has no body, in either direction.
    pub(crate) fn ask_plain(&self, request: &DepotRequest) -> io::Result<DepotReply> {
        self.ask(request, 0, receive_reply)
    }
}

/// The answer to a request, without a body.
pub(crate) fn receive_reply(channel: &mut Channel) -> io::Result<DepotReply> {
    let Received { message, body } = channel.receive::<DepotReply>(MAX_MESSAGE)?;
    if body > 0 {
        return Err(io::Error::new(ErrorKind::InvalidData, "an answer with a body"));
    }
    accepted(message)
}

/// The answer to a request, up to its body: the body's length, or `None` if there is no such thing.
fn receive_body_length(channel: &mut Channel) -> io::Result<Option<u64>> {
    let Received { message, body } = channel.receive::<DepotReply>(MAX_MESSAGE)?;
    match accepted(message)? {
        DepotReply::Body => Ok(Some(body)),
        DepotReply::Absent => Ok(None),
        _ => Err(unexpected()),
    }
}

fn accepted(reply: DepotReply) -> io::Result<DepotReply> {
    match reply {
        DepotReply::Refused(why) => Err(io::Error::other(why)),
        reply => Ok(reply),
    }
}

fn unexpected() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "an answer to another question")
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::AddrNotAvailable, "the host name has no address");
    // A name may become known only later.
    let unknown = |error: io::Error| io::Error::new(ErrorKind::AddrNotAvailable, error);
    for address in address.to_socket_addrs().map_err(unknown)? {
        match TcpStream::connect_timeout(&address, CONNECT_LIMIT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn refused(error: io::Error) -> CheckpointError {
    CheckpointError::Io { what: "cannot ask the run's coordinator".into(), source: error }
}

impl RemoteCheckpoints for DepotClient {
    fn claim(&self, server: ServerNumber) -> Result<Generation, CheckpointError> {
        match self.ask_plain(&DepotRequest::Claim { server }).map_err(refused)? {
            DepotReply::Generation { number, base } => Ok(Generation { number, base }),
            _ => Err(refused(unexpected())),
        }
    }

    fn follow(&self, server: ServerNumber, to: Generation) -> Result<(), CheckpointError> {
        let Generation { number: generation, base } = to;
        self.ask_plain(&DepotRequest::Follow { server, generation, base }).map_err(refused)?;
        Ok(())
    }

    fn manifest(&self, step: Option<u64>) -> Result<Option<Vec<u8>>, CheckpointError> {
        let asked = self.ask(&DepotRequest::Manifest { step }, 0, |channel| {
            let Some(bytes) = receive_body_length(channel)? else { return Ok(None) };
            if bytes > Manifest::MAX_BYTES {
                return Err(io::Error::new(ErrorKind::InvalidData, "a manifest that is too long"));
            }
            let mut text = Vec::new();
            channel.receive_body(&mut text, bytes)?;
            Ok(Some(text))
        });
        asked.map_err(refused)
    }

    fn fetch(&self, step: u64, file: &str, to: &Path) -> io::Result<()> {
        let request = DepotRequest::Shard { step, file: file.to_owned() };
        self.ask(&request, 0, |channel| {
            let absent = || io::Error::new(ErrorKind::NotFound, format!("{file} is gone"));
            let bytes = receive_body_length(channel)?.ok_or_else(absent)?;
            channel.receive_body(&mut File::create(to)?, bytes)
        })
    }

    fn deliver(&self, shard: &DeliveredShard, file: &Path) -> io::Result<()> {
        let request = DepotRequest::Deliver { shard: Box::new(shard.clone()) };
        self.ask(&request, shard.bytes(), |channel| {
            channel.send_body(&mut File::open(file)?, shard.bytes())?;
            receive_reply(channel).map(|_| ())
        })
    }
}
