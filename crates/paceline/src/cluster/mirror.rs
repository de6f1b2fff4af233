//! Parameters that every worker holds for itself: mode `mirrored`.

use std::net::TcpListener;

use paceline_exchange::{PART_FLOATS, Replica, ReplicaConfig};
use paceline_model::{Layout, Model};
use paceline_net::{Mesh, MeshConfig};
use paceline_observe::PhaseClock;

use super::Cluster;
use super::listen::listen;
use super::remote::{Say, Timed, Waiter, incarnation, layout_digest, token};
use super::task::SharedLink;
use crate::Failure;
use crate::job::{Plan, RawJob};
use crate::link::{DenseLink, Link, Pushed, Show};
use crate::summary::TaskSummary;

/// A worker's replica of the parameters, and its connections to all other workers.
pub(super) struct Mirror<'a> {
    mesh: Mesh,
    say: Say<'a>,
}

impl<'a> Mirror<'a> {
    /// Finds all other workers, with a replica at the model's start.
    pub(super) fn start(
        job: &RawJob,
        plan: &Plan,
        cluster: &Cluster,
        model: &dyn Model,
        say: Say<'a>,
        gives_up: &dyn Fn() -> bool,
    ) -> Result<Self, Failure> {
        let config = MeshConfig {
            addresses: cluster.workers()?,
            start_timeout: plan.cluster.start_timeout,
            stall_timeout: plan.cluster.stall_timeout,
        };
        let replica_config = replica_config(job, plan, cluster, model.layout())?;
        let listener = door(cluster, !replica_config.token.is_empty())?;
        let mut params = vec![0.0; model.layout().len()];
        model.initialise(plan.seed, &mut params);
        let replica = Replica::new(replica_config, params, plan.optimizer, model.layout());
        let attendant = &mut Waiter { say, gives_up: Some(gives_up) };
        Ok(Self { mesh: Mesh::start(replica, config, listener, attendant)?, say })
    }
}

/// Where this worker lets others in, if there are any.
fn door(cluster: &Cluster, has_token: bool) -> Result<Option<TcpListener>, Failure> {
    let address = &cluster.addresses[&cluster.task];
    (cluster.slots() > 1).then(|| listen(address, has_token)).transpose()
}

fn replica_config(
    job: &RawJob,
    plan: &Plan,
    cluster: &Cluster,
    layout: &Layout,
) -> Result<ReplicaConfig, Failure> {
    Ok(ReplicaConfig {
        slot: cluster.slot().unwrap_or(0),
        names: (0..cluster.slots()).map(|slot| cluster.slot_name(slot)).collect(),
        incarnation: incarnation(),
        token: token(plan)?,
        job_digest: job.digest(),
        layout_digest: layout_digest(layout),
        stop_steps: plan.stop.steps,
        check_every: plan.evaluate.every,
        part_floats: PART_FLOATS,
    })
}

impl Link for Mirror<'_> {
    fn next_step(&self) -> u64 {
        self.mesh.global_step()
    }

    fn is_stopping(&self) -> bool {
        self.mesh.is_over()
    }

    fn global_step(&self) -> u64 {
        self.mesh.global_step()
    }

    fn moved_bytes(&self) -> (u64, u64) {
        self.mesh.moved_bytes()
    }

    fn checkpoint(&mut self, _step: u64, _is_last: bool) -> Result<(), Failure> {
        Ok(()) // A job that asks for checkpoints in this mode is refused.
    }

    fn ask_to_stop(&mut self, _reason: &str) -> Result<(), Failure> {
        self.mesh.ask_to_stop();
        Ok(())
    }

    fn look(&mut self, _keys: Option<&[u32]>) -> Result<&[f32], Failure> {
        Ok(self.mesh.params())
    }

    fn show_all(&mut self, show: &mut Show<'_>) -> Result<(), Failure> {
        show(self.mesh.params())
    }
}

impl DenseLink for Mirror<'_> {
    fn params(&self) -> &[f32] {
        self.mesh.params()
    }

    fn push(
        &mut self,
        examples: usize,
        grad: &[f32],
        clock: &mut PhaseClock,
    ) -> Result<Pushed, Failure> {
        let attendant = &mut Timed { clock, say: self.say, halted: None };
        self.mesh.reduce(Some((examples as u32, grad)), attendant)?;
        Ok(Pushed::Applied)
    }
}

impl SharedLink for Mirror<'_> {
    fn leave(&mut self, report: &[u8]) -> Result<(), Failure> {
        Ok(self.mesh.leave(report, &mut Waiter { say: self.say, gives_up: None })?)
    }

    fn collect(&mut self, mine: TaskSummary) -> Result<Vec<TaskSummary>, Failure> {
        let reports = self.mesh.collect(&mut Waiter { say: self.say, gives_up: None })?;
        let others = reports.iter().filter_map(|report| serde_json::from_slice(&report.bytes).ok());
        Ok([mine].into_iter().chain(others).collect())
    }

    fn refresh(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}
