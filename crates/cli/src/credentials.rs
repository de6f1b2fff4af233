//! What a task shows to the others and demands of them.

use std::fs;
use std::path::{Path, PathBuf};

use paceline_job::{Plan, TlsPlan};
use paceline_net::Credentials;
use paceline_trust::{Authority, CA_FILE, CertificateFiles, TlsIdentity, file_name};

use crate::Failure;

/// The folder of a run with the certificates that its launcher made.
const KEYS: &str = "keys";

/// Seals frames over loopback too, so that what seals cost can be measured.
const SEALED_VARIABLE: &str = "PACELINE_TEST_SEALED";

/// Why a task that was placed by hand cannot start.
pub(crate) const NO_SECRET: &str = "tasks that TF_CONFIG lists need the run's secret, on one \
    machine too: without it, any user of the machine could take a task's place; make one with \
    `openssl rand -hex 16 > secret && chmod 600 secret`, name the file in cluster.token_file, the \
    same for all tasks, or set PACELINE_TOKEN";

/// The credentials of a task such as `worker:3`. `run` is the run's directory. A task that the
/// launcher of the whole run has started trusts loopback.
pub(crate) fn credentials(
    plan: &Plan,
    task: &str,
    run: &Path,
    token: &[u8],
    is_launched: bool,
) -> Result<Credentials, Failure> {
    let credentials = Credentials::with_token(token);
    let seals_all = std::env::var_os(SEALED_VARIABLE).is_some();
    let trusts = is_launched && !seals_all;
    let credentials = if trusts { credentials.trusting_loopback() } else { credentials };
    let name = file_name(task);
    let of_task = |path: &Path| PathBuf::from(path.to_string_lossy().replace("{task}", &name));
    let identity = match &plan.cluster.tls {
        None => return Ok(credentials),
        Some(TlsPlan::Run) if is_launched => {
            let CertificateFiles { cert, key } = CertificateFiles::of(&run.join(KEYS), task);
            TlsIdentity::read(&run.join(KEYS).join(CA_FILE), &cert, &key)
        }
        Some(TlsPlan::Run) => {
            return Err(Failure::Usage(
                "cluster.tls is \"run\", which is for tasks that the local launcher starts; make \
                 certificates with `paceline keys make` and name them in cluster.tls"
                    .into(),
            ));
        }
        Some(TlsPlan::Files { ca, cert, key }) => {
            TlsIdentity::read(ca, &of_task(cert), &of_task(key))
        }
    };
    let identity = identity.map_err(|error| Failure::Usage(format!("cluster.tls: {error}")))?;
    Ok(credentials.with_tls(identity))
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
        let made = Authority::of_run().and_then(|authority| authority.write(&keys.0, &tasks));
        made.map_err(|error| Failure::Training(format!("cluster.tls: {error}")))?;
        Ok(Some(keys))
    }
}

impl Drop for RunKeys {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
