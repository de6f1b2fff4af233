//! The words of a verdict: the evidence for it, and what would help.

use super::facts::{Facts, ServerFacts};
use super::shares::{Shares, VerdictKind};
use crate::pace::{BEHIND, Rank};

/// What separates the evidence from the advice in a verdict's sentence.
const ADVICE: &str = "; try ";

/// The verdict in a sentence: its kind, the evidence and what would help.
pub(super) fn sentence(kind: VerdictKind, evidence: &str, advice: &[String]) -> String {
    format!("{}: {evidence}{ADVICE}{}", kind.name(), either(advice))
}

/// The evidence in a verdict's sentence, for files that do not have it apart.
///
/// ```
/// use paceline_observe::verdict::evidence_in;
///
/// assert_eq!(evidence_in("input: disks are slow; try a faster disk"), "disks are slow");
/// ```
pub fn evidence_in(sentence: &str) -> &str {
    let rest = sentence.split_once(": ").map_or(sentence, |(_, rest)| rest);
    rest.split(ADVICE).next().unwrap_or(rest)
}

/// Why the verdict is of this kind, in figures that the user can check.
pub(super) fn evidence(
    kind: VerdictKind,
    shares: &Shares,
    facts: &Facts,
    slowest: Option<&Rank>,
) -> String {
    let who = if facts.workers.len() == 1 { "the worker spends" } else { "workers spend" };
    let exchange = shares.network + shares.server;
    match kind {
        VerdictKind::Compute => {
            format!("{who} {} of the time computing{}", percent(shares.compute), cores(facts))
        }
        VerdictKind::Input => {
            let disk = match facts.disk_wait {
                wait if wait >= 0.05 => format!("; cores wait for disks {} of it", percent(wait)),
                _ => String::new(),
            };
            format!("{who} {} of the time getting examples{disk}", percent(shares.input))
        }
        VerdictKind::Network | VerdictKind::Server => {
            let busy_share = percent(shares.server / exchange);
            let server = facts.busiest_server().map_or(String::new(), |server| {
                let megabits = server.sent_bytes_per_s * 8.0 / 1e6;
                let name = &server.task;
                let most = server.link_mbit_per_s;
                let of = most.map_or(String::new(), |most| format!(" of {most:.0}"));
                let busy = format!("{name} is busy for {busy_share} of that time");
                format!("; {busy} and sends {megabits:.0}{of} Mbit/s")
            });
            let share = percent(exchange);
            let busy = if facts.is_full() { cores(facts) } else { String::new() };
            let stale = staleness(facts);
            format!(
                "{who} {share} of the time exchanging gradients and parameters{server}{busy}{stale}"
            )
        }
        VerdictKind::Stragglers => {
            let slow = match slowest {
                Some(rank) if rank.behind > BEHIND => format!(
                    "; {} takes {:.1} times as long as the others for a gradient ({:.2} ms)",
                    rank.task, rank.behind, rank.gradient_ms
                ),
                _ => "; no single worker is always the slow one".into(),
            };
            let (share, stale) = (percent(shares.stragglers), staleness(facts));
            format!("workers spend {share} of their time waiting for slower workers{slow}{stale}")
        }
        VerdictKind::Evaluation => {
            format!("tests take {} of the time", percent(shares.evaluation))
        }
    }
}

/// What would help, the most promising first.
pub(super) fn advice(kind: VerdictKind, facts: &Facts, slowest: Option<&Rank>) -> Vec<String> {
    let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let servers = facts.servers.len();
    let is_server_full = facts.busiest_server().is_some_and(ServerFacts::is_full);
    let more_servers = format!("cluster.servers = {}", servers + 1);
    match kind {
        VerdictKind::Compute if facts.is_full() => own(&["more machines or cores"]),
        VerdictKind::Compute => own(&["more workers", "more train.threads if the model has them"]),
        VerdictKind::Input if facts.disk_wait >= 0.05 => {
            own(&["a faster disk", "data that fits into memory"])
        }
        VerdictKind::Input => own(&["more cores to read with", "data that is cheaper to decode"]),
        VerdictKind::Network if facts.is_full() && servers > 0 => {
            own(&["a larger train.batch", "fewer tasks on each machine"])
        }
        VerdictKind::Network if servers > 0 => {
            vec!["a larger train.batch".into(), more_servers, "a faster network".into()]
        }
        VerdictKind::Network => own(&["a larger train.batch", "a faster network"]),
        // Another server on the same cores does not help.
        VerdictKind::Server if is_server_full => {
            own(&["a larger train.batch", "servers on more machines"])
        }
        VerdictKind::Server => vec![more_servers, "a larger train.batch".into()],
        VerdictKind::Stragglers => {
            let look = slowest.filter(|rank| rank.behind > BEHIND);
            let mut advice: Vec<_> =
                look.map(|rank| format!("a look at {}'s machine", rank.task)).into_iter().collect();
            advice.extend(match facts.mode.as_str() {
                "sync" => own(&["cluster.quorum below the number of workers", "mode async"]),
                "bounded" => own(&["a larger cluster.staleness", "mode async"]),
                _ => own(&["equal machines"]),
            });
            advice
        }
        VerdictKind::Evaluation => {
            own(&["a larger train.evaluate.every", "fewer train.evaluate.examples"])
        }
    }
}

/// `a, b or c`.
fn either(all: &[String]) -> String {
    match all {
        [most @ .., last] if !most.is_empty() => format!("{} or {last}", most.join(", ")),
        _ => all.concat(),
    }
}

fn cores(facts: &Facts) -> String {
    facts.cores_busy.map_or(String::new(), |busy| format!("; cores are {} busy", percent(busy)))
}

/// The mean staleness, in modes where several workers push without waiting for each other.
fn staleness(facts: &Facts) -> String {
    let is_free = matches!(facts.mode.as_str(), "async" | "bounded") && facts.workers.len() > 1;
    let staleness = facts.staleness.filter(|_| is_free);
    staleness.map_or(String::new(), |updates| format!("; mean staleness {updates:.1} updates"))
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}
