//! `paceline keys`: certificates for the tasks of a cluster.

use paceline_trust::Authority;

use super::output::print;
use crate::Failure;
use crate::cli::KeysCommand;

/// Makes certificates.
pub(super) fn keys(command: KeysCommand) -> Result<(), Failure> {
    let KeysCommand::Make { dir, hosts, first, days } = command;
    let failed =
        |error: paceline_trust::CertificateError| Failure::Usage(format!("keys make: {error}"));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if let Some(host) = hosts
        .iter()
        .find(|host| host.is_empty() || host.starts_with('.') || !host.chars().all(is_plain))
    {
        let text = format!("--hosts: {host:?} is not the name of a host");
        return Err(Failure::Usage(text));
    }
    let authority = Authority::open(&dir, days).map_err(failed)?;
    for (host, index) in hosts.iter().zip(first..) {
        let mut tasks: Vec<_> =
            ["worker", "ps", "evaluator"].map(|role| format!("{role}:{index}")).to_vec();
        tasks.extend((index == 0).then(|| "chief:0".to_owned()));
        authority.write(&dir.join(host), &tasks).map_err(failed)?;
    }
    let at = dir.display();
    print(&format!(
        "made {at}/ca.pem, and a folder with the keys of its tasks for each of {}\n\
         copy each folder to its host, for example to /etc/paceline, and set in the job:\n\
         cluster.tls = {{ ca = \"/etc/paceline/ca.pem\", cert = \"/etc/paceline/{{task}}.pem\", \
         key = \"/etc/paceline/{{task}}.key\" }}\n\
         keep {at}/ca.key: with it, further hosts get keys; without it, no more can be made\n",
        hosts.join(", "),
    ))
}
