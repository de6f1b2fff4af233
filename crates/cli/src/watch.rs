//! The page beside a training: a process of its own that reads the run's files.
//!
//! Not a thread of the training: what the page costs would show in the figures it shows, and what
//! goes wrong in it must not be the run's concern. The process gets a socket that listens already
//! as its standard input, so that a port that is taken is an error before anything has begun, and
//! a leash as its standard output, so that it ends when the training's process does.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use paceline_http::{Guard, bind};

use paceline_place::{CHANNEL_VARIABLE, LISTENER_VARIABLE, channel_pair};

use crate::Failure;
use crate::cli::Page;
use crate::progress::write_line;

/// Where the page is unless somebody wants it elsewhere.
const USUAL: &str = "127.0.0.1:6160";

/// A page that is about to be shown, or is.
#[derive(Debug)]
pub struct PageProcess {
    listener: TcpListener,
    address: SocketAddr,
    token_file: Option<PathBuf>,
    process: Mutex<Option<(Child, UnixStream)>>,
}

impl PageProcess {
    /// Takes the page's address.
    pub fn prepare(page: &Page) -> Result<Self, Failure> {
        let listener = open(page, &guard(page)?)?;
        let address = address(&listener)?;
        let token_file = page.token_file.clone();
        Ok(Self { listener, address, token_file, process: Mutex::new(None) })
    }

    /// Shows a run from now on. A page that cannot be shown is no reason not to train.
    pub fn begin(&self, run: &Path) {
        match self.start(run) {
            Ok(process) => {
                write_line(&told(self.address, self.token_file.is_some()));
                *self.process.lock().unwrap_or_else(PoisonError::into_inner) = Some(process);
            }
            Err(error) => write_line(&format!("warning: the page cannot be shown: {error}")),
        }
    }

    fn start(&self, run: &Path) -> io::Result<(Child, UnixStream)> {
        let (leash, stdout) = channel_pair()?;
        let socket = OwnedFd::from(self.listener.try_clone()?);
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("watch").arg(run);
        if let Some(file) = &self.token_file {
            command.arg("--token-file").arg(file);
        }
        command.env(CHANNEL_VARIABLE, "1").env(LISTENER_VARIABLE, "1");
        let child = command.stdin(Stdio::from(socket)).stdout(stdout).spawn()?;
        Ok((child, leash))
    }

    /// Whether there still is a page to look at.
    pub fn is_shown(&self) -> bool {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        process.as_mut().is_some_and(|(child, _)| matches!(child.try_wait(), Ok(None)))
    }
}

impl Drop for PageProcess {
    fn drop(&mut self) {
        let process = self.process.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some((child, _)) = process {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Who may see the page.
pub(crate) fn guard(page: &Page) -> Result<Guard, Failure> {
    let Some(file) = &page.token_file else { return Ok(Guard::without_token()) };
    let text = std::fs::read_to_string(file).map_err(Failure::at("read the token in", file))?;
    match text.trim() {
        "" => Err(Failure::Usage(format!("{}: there is no token in it", file.display()))),
        token => Ok(Guard::with_token(token)),
    }
}

/// The socket that the page is served on.
pub(crate) fn open(page: &Page, guard: &Guard) -> Result<TcpListener, Failure> {
    let wanted = page.listen.as_deref();
    let bound = match bind(wanted.unwrap_or(USUAL), guard) {
        Err(error) if wanted.is_none() && error.kind() == io::ErrorKind::AddrInUse => {
            bind("127.0.0.1:0", guard)
        }
        bound => bound,
    };
    bound.map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::PermissionDenied if !guard.has_token() => "; give a --token-file",
            io::ErrorKind::InvalidInput => "; it is an address and a port, as in 127.0.0.1:8080",
            _ => "",
        };
        Failure::Usage(format!("--listen {}: {error}{hint}", wanted.unwrap_or(USUAL)))
    })
}

pub(crate) fn address(listener: &TcpListener) -> Result<SocketAddr, Failure> {
    let what = || "cannot tell where the page is".into();
    listener.local_addr().map_err(|source| Failure::Files { what: what(), source })
}

/// Where the page is, in a line.
pub(crate) fn told(address: SocketAddr, has_token: bool) -> String {
    match has_token {
        true => format!("watch: http://{address}/?token=..., with the token of the file"),
        false => format!("watch: http://{address}/"),
    }
}
