//! What a task shows to the others and demands of them.

use std::fs;
use std::path::{Path, PathBuf};

use paceline_job::{Plan, TlsPlan};
use paceline_net::Credentials;
use paceline_trust::{Authority, CA_FILE, CertificateFiles, TlsError, TlsIdentity, file_name};

use crate::Failure;

/// The folder of a run with the certificates that its launcher made.
const KEYS: &str = "keys";

/// The certificate there of workers that join the run later.
const JOIN_NAME: &str = "join";
/// How many workers may join such a run, one after the other.
const LATER_WORKERS: usize = 256;

/// Seals frames over loopback too, so that what seals cost can be measured.
const SEALED_VARIABLE: &str = "PACELINE_TEST_SEALED";

/// Why a task that `TF_CONFIG` placed cannot start.
pub(crate) const NO_SECRET: &str = "tasks that TF_CONFIG lists need the run's secret, on one \
    machine too: without it, any user of the machine could take a task's place; make one with \
    `openssl rand -hex 16 > secret && chmod 600 secret`, name the file in cluster.token_file, the \
    same for all tasks, or set PACELINE_TOKEN";

/// The credentials of a task such as `worker:3`. A task that the launcher of the whole run has
/// started trusts loopback, and `launched` is that run's directory.
pub(crate) fn credentials(
    plan: &Plan,
    task: &str,
    launched: Option<&Path>,
    token: &[u8],
) -> Result<Credentials, Failure> {
    let credentials = Credentials::with_token(token);
    let seals_all = std::env::var_os(SEALED_VARIABLE).is_some();
    let trusts = launched.is_some() && !seals_all;
    let credentials = if trusts { credentials.trusting_loopback() } else { credentials };
    Ok(match tls_identity(plan, task, launched)? {
        None => credentials,
        Some(identity) => credentials.with_tls(identity),
    })
}

/// The certificate of a task, if the job's connections are encrypted. `launched` is the run's
/// directory if its launcher has started the task.
pub(crate) fn tls_identity(
    plan: &Plan,
    task: &str,
    launched: Option<&Path>,
) -> Result<Option<TlsIdentity>, Failure> {
    let name = file_name(task);
    let of_task = |path: &Path| PathBuf::from(path.to_string_lossy().replace("{task}", &name));
    let identity = match (&plan.cluster.tls, launched) {
        (None, _) => return Ok(None),
        (Some(TlsPlan::Run), Some(run)) => {
            let CertificateFiles { cert, key } = CertificateFiles::of(&run.join(KEYS), task);
            TlsIdentity::read(&run.join(KEYS).join(CA_FILE), &cert, &key)
        }
        (Some(TlsPlan::Run), None) => {
            return Err(Failure::Usage(
                "cluster.tls is \"run\", which is for tasks that the local launcher starts; make \
                 certificates with `paceline keys make` and name them in cluster.tls"
                    .into(),
            ));
        }
        (Some(TlsPlan::Files { ca, cert, key }), _) => {
            TlsIdentity::read(ca, &of_task(cert), &of_task(key))
        }
    };
    let wrong = |error| Failure::Usage(format!("cluster.tls: {error}"));
    identity.map(Some).map_err(wrong)
}

/// The certificates that a launcher has made for its tasks. They are removed with this.
pub(crate) struct RunKeys(PathBuf);

impl RunKeys {
    /// Makes them, if the job says so.
    pub(crate) fn make(plan: &Plan, run: &Path) -> Result<Option<Self>, Failure> {
        if plan.cluster.tls != Some(TlsPlan::Run) {
            return Ok(None);
        }
        let keys = Self(run.join(KEYS));
        // Left from a launcher that was killed.
        let _ = fs::remove_dir_all(&keys.0);
        let servers = (0..plan.cluster.servers).map(|index| format!("ps:{index}"));
        let workers = (0..plan.cluster.workers).map(|index| format!("worker:{index}"));
        let tasks: Vec<_> = servers.chain(workers).collect();
        let first = plan.cluster.workers;
        let later: Vec<_> =
            (first..first + LATER_WORKERS).map(|index| format!("worker:{index}")).collect();
        let made = Authority::of_run().and_then(|authority| {
            authority.write(&keys.0, &tasks)?;
            authority.write_one(&keys.0, JOIN_NAME, &later)
        });
        made.map_err(|error| Failure::Training(format!("cluster.tls: {error}")))?;
        Ok(Some(keys))
    }
}

/// Where the certificates of a run that a launcher started are, for workers that join it.
pub(crate) fn run_keys(run: &Path) -> PathBuf {
    run.join(KEYS)
}

/// The certificate for workers that join, in the folder that [`run_keys`] gives.
pub(crate) fn join_identity(keys: &Path) -> Result<TlsIdentity, TlsError> {
    let CertificateFiles { cert, key } = CertificateFiles::of(keys, JOIN_NAME);
    TlsIdentity::read(&keys.join(CA_FILE), &cert, &key)
}

impl Drop for RunKeys {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
