//! One network namespace, and commands inside it.

use std::io::{self, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::error::PlaceError;

/// The packages of the required tools, for error messages.
const PACKAGES: &str = "cluster.emulate needs iproute2 (ip, tc) and util-linux (unshare, nsenter)";
/// Directories of the tools that may be missing from the search path.
const TOOLS: &str = "/usr/sbin:/sbin";

/// A network namespace. It exists as long as its holder process, a `cat` that ends when this
/// process does, because only this process has the other end of its standard input.
pub(super) struct EmulatedHost {
    holder: Child,
    input: Option<ChildStdin>,
    output: ChildStdout,
}

impl EmulatedHost {
    /// Creates `count` empty namespaces.
    pub(super) fn create_all(count: usize) -> Result<Vec<Self>, PlaceError> {
        let mut hosts = (0..count).map(|_| Self::create()).collect::<Result<Vec<_>, _>>()?;
        hosts.iter_mut().try_for_each(Self::await_start)?;
        Ok(hosts)
    }

    fn create() -> Result<Self, PlaceError> {
        let mut command = tool("unshare");
        command.args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = command.spawn().map_err(|error| missing("unshare", error))?;
        let (Some(input), Some(output)) = (holder.stdin.take(), holder.stdout.take()) else {
            unreachable!("both are pipes")
        };
        Ok(Self { holder, input: Some(input), output })
    }

    /// Waits until the holder repeats its input: the namespace then exists. If the holder has
    /// failed, its standard output ends instead.
    fn await_start(&mut self) -> Result<(), PlaceError> {
        let sent = self.input.as_mut().map_or(Ok(()), |input| input.write_all(b"\n"));
        let repeated = sent.and_then(|()| self.output.read_exact(&mut [0]));
        repeated.map_err(|source| PlaceError::Io {
            what: "cannot create a network namespace".into(),
            source,
        })
    }

    /// The id of the holder process.
    pub(super) fn pid(&self) -> u32 {
        self.holder.id()
    }

    /// The option that makes `nsenter` enter the namespace.
    pub(super) fn network(&self) -> String {
        format!("--net=/proc/{}/ns/net", self.pid())
    }

    /// Runs commands of `ip` in the namespace, one per line.
    pub(super) fn ip(&self, lines: &str) -> Result<(), PlaceError> {
        self.run("ip", lines)
    }

    /// Runs commands of `tc` in the namespace, one per line.
    pub(super) fn tc(&self, lines: &str) -> Result<(), PlaceError> {
        self.run("tc", lines)
    }

    fn run(&self, program: &str, lines: &str) -> Result<(), PlaceError> {
        let mut command = tool("nsenter");
        command.arg(self.network()).args(["--", program, "-batch", "-"]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| missing("nsenter", error))?;
        // The program may fail before it has read everything; its own error is reported then.
        let _ = child.stdin.take().map(|mut input| input.write_all(lines.as_bytes()));
        let ended = child.wait_with_output().map_err(|error| missing(program, error))?;
        match ended.status.code() {
            Some(0) => Ok(()),
            Some(127) => Err(missing(program, io::ErrorKind::NotFound.into())),
            _ => {
                let errors = String::from_utf8_lossy(&ended.stderr);
                let errors = errors.split_whitespace().collect::<Vec<_>>().join(" ");
                let text = format!("cannot create an emulated host: {program}: {errors}");
                Err(PlaceError::Usage(text))
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

/// A command that finds its program in the administrator's directories too.
fn tool(name: &str) -> Command {
    let mut command = Command::new(name);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:{TOOLS}"));
    command
}

fn missing(program: &str, error: io::Error) -> PlaceError {
    match error.kind() {
        io::ErrorKind::NotFound => PlaceError::Usage(format!(
            "{PACKAGES}, but there is no {program}; install it, on Debian or Ubuntu with \
             `apt-get install iproute2 util-linux`"
        )),
        _ => PlaceError::Io { what: format!("cannot run {program}"), source: error },
    }
}
