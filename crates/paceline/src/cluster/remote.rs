//! Parameters that live on servers, seen from a worker.

use std::time::{SystemTime, UNIX_EPOCH};

use paceline_exchange::{ClientConfig, Role};
use paceline_model::Layout;
use paceline_net::{Attendant, LinkConfig, Moved};
use paceline_observe::{Phase, PhaseClock};
use sha2::{Digest, Sha256};

use super::Cluster;
use crate::Failure;
use crate::job::{Mode, Plan, RawJob};
use crate::link::{Link, Pushed};

/// The environment variable by which the launcher gives its tasks the run's secret.
pub(crate) const TOKEN_VARIABLE: &str = "PACELINE_TOKEN";
/// A worker gives up a little after the servers do, so that it hears the reason from them.
const LATER: std::time::Duration = std::time::Duration::from_secs(10);

/// What a task tells of its waits, and to whom.
pub(crate) type Say<'a> = &'a dyn Fn(&str);

/// A worker's parameters, on servers.
pub struct Remote<'a> {
    link: paceline_net::Link,
    mode: Mode,
    /// In modes without a common step: the next step of this slot's own.
    own_step: u64,
    say: Say<'a>,
}

impl<'a> Remote<'a> {
    /// Connects to all servers, waits for the start and pulls.
    pub(crate) fn start(
        config: LinkConfig,
        mode: Mode,
        say: Say<'a>,
        gives_up: &dyn Fn() -> bool,
    ) -> Result<Self, Failure> {
        let attendant = &mut Waiter { say, gives_up: Some(gives_up) };
        let mut link = paceline_net::Link::start(config, attendant)?;
        link.pull(attendant)?;
        let own_step = link.resume_step();
        Ok(Self { link, mode, own_step, say })
    }

    /// The connections themselves, for what only some workers do.
    pub(crate) fn link(&mut self) -> (&mut paceline_net::Link, impl Attendant) {
        (&mut self.link, Waiter { say: self.say, gives_up: None })
    }
}

impl Link for Remote<'_> {
    fn params(&self) -> &[f32] {
        self.link.params()
    }

    fn next_step(&self) -> u64 {
        match self.mode {
            Mode::Sync { .. } => self.link.global_step(),
            _ => self.own_step,
        }
    }

    fn push(
        &mut self,
        examples: usize,
        grad: &[f32],
        clock: &mut PhaseClock,
    ) -> Result<Pushed, Failure> {
        let step = self.next_step();
        let attendant = &mut Timed { clock, say: self.say };
        self.link.exchange(step, examples as u32, grad, attendant)?;
        self.own_step += 1;
        Ok(if self.link.dropped() { Pushed::Dropped } else { Pushed::Applied })
    }

    fn is_stopping(&self) -> bool {
        self.link.stopping()
    }

    fn global_step(&self) -> u64 {
        self.link.global_step()
    }

    fn ask_to_stop(&mut self, reason: &str) -> Result<(), Failure> {
        Ok(self.link.stop(reason)?)
    }
}

/// Attends to an exchange: the clock is told where the time goes.
struct Timed<'a> {
    clock: &'a mut PhaseClock,
    say: Say<'a>,
}

impl Attendant for Timed<'_> {
    #[inline]
    fn moved(&mut self, to: Moved) {
        self.clock.enter(match to {
            Moved::Push => Phase::Push,
            Moved::Wait => Phase::Wait,
            Moved::Pull => Phase::Pull,
        });
    }

    fn note(&mut self, text: &str) {
        (self.say)(text);
    }

    fn gives_up(&mut self) -> bool {
        false
    }
}

/// Attends to the beginning and the end of a run, which no clock measures.
struct Waiter<'a> {
    say: Say<'a>,
    gives_up: Option<&'a dyn Fn() -> bool>,
}

impl Attendant for Waiter<'_> {
    fn moved(&mut self, _: Moved) {}

    fn note(&mut self, text: &str) {
        (self.say)(text);
    }

    fn gives_up(&mut self) -> bool {
        self.gives_up.is_some_and(|gives_up| gives_up())
    }
}

/// How a task of this cluster reaches the servers.
pub(crate) fn link_config(
    job: &RawJob,
    plan: &Plan,
    cluster: &Cluster,
    role: Role,
    layout: &Layout,
) -> Result<LinkConfig, Failure> {
    let servers = cluster.servers()?;
    if servers.is_empty() {
        return Err(Failure::Usage(format!(
            "cluster.mode = \"{}\" needs a server, but TF_CONFIG lists no ps",
            plan.cluster.mode.name()
        )));
    }
    Ok(LinkConfig {
        client: ClientConfig {
            role,
            slot: cluster.slot().unwrap_or(cluster.task.index) as u32,
            incarnation: incarnation(),
            job_digest: job.digest(),
            layout_digest: layout_digest(layout),
            token: token(plan)?,
            servers: servers.len(),
            total_params: layout.len(),
            is_sparse: false,
        },
        servers,
        start_timeout: plan.cluster.start_timeout,
        stall_timeout: plan.cluster.stall_timeout + LATER,
    })
}

/// A number that is higher for every later process: the time of its start.
fn incarnation() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

/// What identifies a layout.
pub(crate) fn layout_digest(layout: &Layout) -> [u8; 32] {
    let mut hash = Sha256::new();
    for tensor in layout.tensors() {
        hash.update(format!("{} {:?} {:?}\n", tensor.name, tensor.shape, tensor.group));
    }
    hash.finalize().into()
}

/// The secret that all tasks of the run share; empty if there is none.
pub(crate) fn token(plan: &Plan) -> Result<Vec<u8>, Failure> {
    if let Some(token) = std::env::var_os(TOKEN_VARIABLE) {
        return Ok(token.into_encoded_bytes());
    }
    let Some(path) = &plan.cluster.token_file else { return Ok(Vec::new()) };
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::Usage(format!("cluster.token_file {}: {error}", path.display()))
    })?;
    let token = text.trim();
    if !(1..=paceline_exchange::MAX_TOKEN_BYTES).contains(&token.len()) {
        return Err(Failure::Usage(format!(
            "cluster.token_file {} must hold 1 to {} characters",
            path.display(),
            paceline_exchange::MAX_TOKEN_BYTES
        )));
    }
    Ok(token.as_bytes().to_vec())
}
