//! How certificates name tasks.

use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;

/// The domain of all tasks' names. It is no domain of the Internet: names state roles, not hosts.
const DOMAIN: &str = "paceline";

/// The name of a task such as `worker:3` in certificates: `worker-3.paceline`.
pub(crate) fn dns_name(task: &str) -> String {
    format!("{}.{DOMAIN}", task.replace(':', "-"))
}

/// The name of all tasks with the role of this one: `worker.paceline`.
pub(crate) fn role_name(task: &str) -> String {
    let role = task.split(':').next().unwrap_or(task);
    format!("{role}.{DOMAIN}")
}

/// Whether a certificate states this task, such as `worker:3`.
pub(super) fn states(certificate: &CertificateDer<'_>, task: &str) -> bool {
    match (ParsedCertificate::try_from(certificate), ServerName::try_from(dns_name(task))) {
        (Ok(certificate), Ok(name)) => verify_server_name(&certificate, &name).is_ok(),
        _ => false,
    }
}
