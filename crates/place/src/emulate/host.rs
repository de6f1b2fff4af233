//! One network namespace, and what is done inside it.

use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::error::PlaceError;

/// What an administrator's tools come in, for whoever lacks one.
const PACKAGES: &str = "cluster.emulate needs iproute2 (ip, tc) and util-linux (unshare, nsenter)";
/// Where such tools are, though not everybody's search path says so.
const TOOLS: &str = "/usr/sbin:/sbin";

/// A network namespace. It is there for as long as its holder lives, a `cat` which ends when
/// this process does, as nobody else has the other end of its standard input.
pub(super) struct EmulatedHost {
    holder: Child,
    input: Option<ChildStdin>,
    output: ChildStdout,
}

impl EmulatedHost {
    /// So many namespaces, each empty.
    pub(super) fn hold_all(count: usize) -> Result<Vec<Self>, PlaceError> {
        let mut hosts = (0..count).map(|_| Self::hold()).collect::<Result<Vec<_>, _>>()?;
        hosts.iter_mut().try_for_each(Self::await_start)?;
        Ok(hosts)
    }

    fn hold() -> Result<Self, PlaceError> {
        let mut command = tool("unshare");
        command.args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = command.spawn().map_err(|error| missing("unshare", error))?;
        let (Some(input), Some(output)) = (holder.stdin.take(), holder.stdout.take()) else {
            unreachable!("both are pipes")
        };
        Ok(Self { holder, input: Some(input), output })
    }

    /// Once the holder repeats what it is told the namespace is there. Should it have failed
    /// instead, its standard output ends.
    fn await_start(&mut self) -> Result<(), PlaceError> {
        let said = self.input.as_mut().map_or(Ok(()), |input| input.write_all(b"\n"));
        let heard = said.and_then(|()| self.output.read_exact(&mut [0]));
        heard.map_err(|source| PlaceError::Io { what: "cannot make a network".into(), source })
    }

    /// The process that holds it.
    pub(super) fn pid(&self) -> u32 {
        self.holder.id()
    }

    /// What tells `nsenter` to go there.
    pub(super) fn network(&self) -> String {
        format!("--net=/proc/{}/ns/net", self.pid())
    }

    /// Runs lines of `ip` there.
    pub(super) fn ip(&self, lines: &str) -> Result<(), PlaceError> {
        self.run("ip", lines)
    }

    /// Runs lines of `tc` there.
    pub(super) fn tc(&self, lines: &str) -> Result<(), PlaceError> {
        self.run("tc", lines)
    }

    fn run(&self, program: &str, lines: &str) -> Result<(), PlaceError> {
        let mut command = tool("nsenter");
        command.arg(self.network()).args(["--", program, "-batch", "-"]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| missing("nsenter", error))?;
        // It may have failed before it has read everything; what it says then counts.
        let _ = child.stdin.take().map(|mut input| input.write_all(lines.as_bytes()));
        let ended = child.wait_with_output().map_err(|error| missing(program, error))?;
        match (ended.status.success(), ended.status.code()) {
            (true, _) => Ok(()),
            (false, Some(127)) => Err(missing(program, io::ErrorKind::NotFound.into())),
            (false, _) => {
                let said = String::from_utf8_lossy(&ended.stderr);
                let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
                Err(PlaceError::Usage(format!("cannot make an emulated host: {program}: {said}")))
            }
        }
    }
}

impl Drop for EmulatedHost {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.holder.wait();
    }
}

/// A command of an administrator's tool.
fn tool(name: &str) -> Command {
    let mut command = Command::new(name);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:{TOOLS}"));
    command
}

fn missing(program: &str, error: io::Error) -> PlaceError {
    match error.kind() {
        io::ErrorKind::NotFound => PlaceError::Usage(format!(
            "{PACKAGES}, but there is no {program}; install it, on Debian or Ubuntu by \
             `apt-get install iproute2 util-linux`"
        )),
        _ => PlaceError::Io { what: format!("cannot run {program}"), source: error },
    }
}
