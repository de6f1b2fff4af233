//! The page of `paceline train --watch`: a separate process that reads the run's files.
//!
//! It is not a thread of the training process, because its cost would change the figures it shows,
//! and its failures must not affect the run. The process inherits a listening socket as its
//! standard input, so that an occupied port is reported before training starts, and a launcher
//! channel as its standard output, so that it ends when the training process does.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use paceline_http::{Guard, bind};

use paceline_place::{
    CHANNEL_VARIABLE, ChannelEnds, LISTENER_VARIABLE, read_only_token, read_token,
};

use crate::Failure;
use crate::cli::PageArgs;
use crate::progress::write_line;

/// The default address of the page.
const DEFAULT_ADDRESS: &str = "127.0.0.1:6160";

/// The page of a run, before or after its process starts.
#[derive(Debug)]
pub struct PageProcess {
    listener: TcpListener,
    token_file: Option<PathBuf>,
    /// What shows the page's address.
    line: String,
    process: Mutex<Option<StartedPage>>,
}

/// A page's process. Closing the channel ends it.
#[derive(Debug)]
struct StartedPage {
    child: Child,
    _channel: UnixStream,
}

impl PageProcess {
    /// Binds the page's address.
    pub fn prepare(page: &PageArgs) -> Result<Self, Failure> {
        let listener = open(page, &guard(page)?)?;
        let line = page_line(address(&listener)?, page)?;
        let token_file = page.token_file.clone();
        Ok(Self { listener, token_file, line, process: Mutex::new(None) })
    }

    /// Starts to show a run. If the page fails to start, training continues with a warning.
    pub fn begin(&self, run: &Path) {
        match self.start(run) {
            Ok(process) => {
                write_line(&self.line);
                *self.process.lock().unwrap_or_else(PoisonError::into_inner) = Some(process);
            }
            Err(error) => write_line(&format!("warning: the page cannot be shown: {error}")),
        }
    }

    fn start(&self, run: &Path) -> io::Result<StartedPage> {
        let ends = ChannelEnds::new()?;
        let socket = OwnedFd::from(self.listener.try_clone()?);
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("watch").arg(run);
        if let Some(file) = &self.token_file {
            command.arg("--token-file").arg(file);
        }
        command.env(CHANNEL_VARIABLE, "1").env(LISTENER_VARIABLE, "1");
        let child = command.stdin(Stdio::from(socket)).stdout(ends.task).spawn()?;
        Ok(StartedPage { child, _channel: ends.launcher })
    }

    /// Whether the page's process runs.
    pub fn is_shown(&self) -> bool {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        process.as_mut().is_some_and(|page| matches!(page.child.try_wait(), Ok(None)))
    }
}

impl Drop for PageProcess {
    fn drop(&mut self) {
        let process = self.process.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(page) = process {
            let _ = page.child.kill();
            let _ = page.child.wait();
        }
    }
}

/// The access control of the page.
pub(crate) fn guard(page: &PageArgs) -> Result<Guard, Failure> {
    let Some(file) = &page.token_file else { return Ok(Guard::for_own_user()) };
    Ok(Guard::with_token(&page_token(file)?))
}

/// The credential of the page, which follows from the secret in a file: it only reads, even if the
/// secret is that of a run.
fn page_token(file: &Path) -> Result<String, Failure> {
    Ok(read_only_token(&read_token("--token-file", file)?))
}

/// Binds the listening socket of the page.
pub(crate) fn open(page: &PageArgs, guard: &Guard) -> Result<TcpListener, Failure> {
    let wanted = page.listen.as_deref();
    let bound = match bind(wanted.unwrap_or(DEFAULT_ADDRESS), guard) {
        Err(error) if wanted.is_none() && error.kind() == io::ErrorKind::AddrInUse => {
            bind("127.0.0.1:0", guard)
        }
        bound => bound,
    };
    bound.map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::PermissionDenied if !guard.has_token() => "; use --token-file",
            io::ErrorKind::AddrInUse => {
                "; another program listens there: use another port, or 0 for any that is free"
            }
            io::ErrorKind::InvalidInput => "; use an address and a port, such as 127.0.0.1:8080",
            _ => "",
        };
        Failure::Usage(format!("--listen {}: {error}{hint}", wanted.unwrap_or(DEFAULT_ADDRESS)))
    })
}

pub(crate) fn address(listener: &TcpListener) -> Result<SocketAddr, Failure> {
    let what = || "cannot determine the address of the page".into();
    listener.local_addr().map_err(|source| Failure::Files { what: what(), source })
}

/// The line that shows the page's address, with the credential that opens it.
pub(crate) fn page_line(address: SocketAddr, page: &PageArgs) -> Result<String, Failure> {
    let token = page.token_file.as_deref().map(page_token).transpose()?;
    let query = token.map_or(String::new(), |token| format!("?token={token}"));
    Ok(format!("watch: http://{address}/{query}"))
}
