//! The words of a verdict: the evidence for it, and what would help.

use super::facts::{Facts, ServerFacts, WorkerFacts};
use super::shares::{Shares, VerdictKind};
use crate::pace::{BEHIND, Rank, median_without};
use crate::wall_clock::short_seconds;

/// What separates the evidence from the advice in a verdict's sentence.
const ADVICE: &str = "; try ";

/// The verdict in a sentence: its kind, the evidence and what would help.
pub(super) fn sentence(kind: VerdictKind, evidence: &str, advice: &[String]) -> String {
    let name = match kind {
        VerdictKind::TooShort => "too short to judge",
        kind => kind.name(),
    };
    let advice = match advice {
        [] => String::new(),
        advice => format!("{ADVICE}{}", either(advice)),
    };
    format!("{name}: {evidence}{advice}")
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
    let is_one = facts.workers.len() == 1;
    let who = if is_one { "the worker spends" } else { "workers spend" };
    match kind {
        VerdictKind::Compute => {
            let (share, next) = (percent(shares.compute), runner_up(shares));
            format!("{who} {share} of the time computing{next}{}", cores(facts))
        }
        VerdictKind::Input => {
            let disk = match facts.disk_wait {
                wait if wait >= 0.05 => format!("; cores wait for disks {} of it", percent(wait)),
                _ => String::new(),
            };
            format!("{who} {} of the time getting examples{disk}", percent(shares.input))
        }
        VerdictKind::Network | VerdictKind::Server => {
            let share = percent(shares.network + shares.server);
            let (traffic, stale) = (traffic(shares, facts), staleness(facts));
            let busy = if facts.is_full() { cores(facts) } else { String::new() };
            format!(
                "{who} {share} of the time exchanging gradients and \
                 parameters{traffic}{busy}{stale}"
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
            let last = match facts.final_test_s {
                seconds if is_mostly_final(facts) => {
                    format!("; the final test takes {seconds:.1} s, ")
                        + &format!("the steps {:.1} s", facts.training_s())
                }
                _ => String::new(),
            };
            format!("tests take {} of the time{last}", percent(shares.evaluation))
        }
        VerdictKind::Cores => {
            let is_alone = facts.is_single();
            let who = if is_alone { "the worker is" } else { "tasks are" };
            let (share, most) = (percent(shares.cores), most_delayed(facts));
            let others = match facts.others_load {
                load if facts.serves_others() => {
                    format!(", {} of it with other programs", percent(load))
                }
                _ => String::new(),
            };
            let busy = cores(facts);
            format!("{who} ready to run but without a core {share} of the time{most}{busy}{others}")
        }
        VerdictKind::TooShort => {
            let seconds = short_seconds(facts.training_s());
            format!("training takes {seconds} s, and a verdict needs at least 1 s")
        }
    }
}

/// The least share that is mentioned beside the greatest.
const WORTH_MENTIONING: f64 = 0.15;

/// What takes most of the time beside computation, if it is much.
fn runner_up(shares: &Shares) -> String {
    let loss = shares.greatest_lost_time();
    let doing = match loss.kind {
        VerdictKind::Input => "getting examples",
        VerdictKind::Network | VerdictKind::Server => "exchanging gradients and parameters",
        VerdictKind::Stragglers => "waiting for slower workers",
        VerdictKind::Evaluation => "testing",
        VerdictKind::Cores => "without a core",
        VerdictKind::Compute | VerdictKind::TooShort => "",
    };
    match loss.share {
        much if much >= WORTH_MENTIONING => format!(" and {} {doing}", percent(much)),
        _ => String::new(),
    }
}

/// What the busiest server does or, without servers, what a worker sends.
fn traffic(shares: &Shares, facts: &Facts) -> String {
    if let Some(server) = facts.busiest_server() {
        let busy_share = percent(shares.server / (shares.network + shares.server));
        let (name, rate) = (&server.task, megabits(server.sent_bytes_per_s));
        let most = server.link_mbit_per_s;
        let of = most.map_or(String::new(), |most| format!(" of {most:.0}"));
        return format!(
            "; {name} is busy for {busy_share} of that time and sends {rate}{of} Mbit/s"
        );
    }
    let rates = facts.workers.iter().map(|worker| worker.sent_bytes_per_s);
    match rates.fold(0.0, f64::max) {
        rate if rate > 0.0 => format!("; each sends up to {} Mbit/s", megabits(rate)),
        _ => String::new(),
    }
}

/// Bytes a second as millions of bits, never rounded to nothing.
fn megabits(bytes_per_s: f64) -> String {
    match bytes_per_s * 8.0 / 1e6 {
        rate if rate >= 9.95 => format!("{rate:.0}"),
        rate if rate >= 0.095 || rate == 0.0 => format!("{rate:.1}"),
        rate => format!("{rate:.1e}"),
    }
}

/// The worker that is without a core far longer than the others or, if there is none, the server
/// that is so far longer than every worker.
fn most_delayed(facts: &Facts) -> String {
    let delay =
        |worker: &WorkerFacts| worker.all_delay_s() / worker.seconds().max(f64::MIN_POSITIVE);
    let delays: Vec<_> = facts.workers.iter().map(delay).collect();
    let is_far = |delay: f64, usual: f64| delay > 2.0 * usual && delay > 0.1;
    let most = (0..delays.len()).max_by(|&a, &b| delays[a].total_cmp(&delays[b]));
    let worker = most
        .filter(|&most| delays.len() > 1 && is_far(delays[most], median_without(&delays, most)))
        .map(|most| (&facts.workers[most].task, delays[most]));
    let usual = delays.iter().copied().fold(0.0, f64::max);
    let server = facts.most_delayed_server().filter(|server| is_far(server.run_delay, usual));
    let most = worker.or(server.map(|server| (&server.task, server.run_delay)));
    most.map_or(String::new(), |(task, delay)| format!("; {task} most, {}", percent(delay)))
}

/// Whether the final test takes longer than all tests before it.
fn is_mostly_final(facts: &Facts) -> bool {
    let before = facts.workers.iter().map(|worker| worker.evaluation_s).fold(0.0, f64::max);
    facts.final_test_s > before
}

/// The shortest gradient that is worth a round trip to others, in milliseconds.
const WORTH_SHARING_MS: f64 = 1.0;

/// What would help, the most promising first. Nothing is said where nothing is known to help.
pub(super) fn advice(kind: VerdictKind, facts: &Facts, slowest: Option<&Rank>) -> Vec<String> {
    let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let servers = facts.servers.len();
    let is_server_full = facts.busiest_server().is_some_and(ServerFacts::is_full);
    let more_servers = format!("cluster.servers = {}", servers + 1);
    match kind {
        // More workers on the same cores, or for steps shorter than a round trip, do not help.
        VerdictKind::Compute => {
            let shortest =
                facts.workers.iter().map(|worker| worker.gradient_ms).fold(f64::INFINITY, f64::min);
            let helps = !facts.is_full() && shortest >= WORTH_SHARING_MS;
            own(if helps { &["more workers"] } else { &[] })
        }
        VerdictKind::Input if facts.disk_wait >= 0.05 => {
            own(&["a faster disk", "data that fits into memory"])
        }
        VerdictKind::Input if facts.is_full() => {
            own(&["more cores to read with", "data that is cheaper to decode"])
        }
        VerdictKind::Input => own(&["data that is cheaper to decode"]),
        VerdictKind::Network if facts.is_full() && servers > 0 => {
            own(&["a larger train.batch", "fewer tasks on each machine"])
        }
        // Further servers divide what one link carries for many workers.
        VerdictKind::Network if servers > 0 && facts.workers.len() > servers => {
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
                look.map(|rank| format!("checking {}'s machine", rank.task)).into_iter().collect();
            advice.extend(match facts.mode.as_str() {
                "sync" => own(&["cluster.quorum below the number of workers", "mode async"]),
                "bounded" => own(&["a larger cluster.staleness", "mode async"]),
                _ => Vec::new(),
            });
            advice
        }
        VerdictKind::Evaluation if is_mostly_final(facts) => {
            own(&["fewer train.evaluate.examples"])
        }
        VerdictKind::Evaluation => {
            own(&["a larger train.evaluate.every", "fewer train.evaluate.examples"])
        }
        VerdictKind::Cores if facts.is_single() || facts.serves_others() => {
            own(&["fewer other programs on the machine", "more cores"])
        }
        VerdictKind::Cores => own(&["fewer tasks on each machine", "more cores"]),
        VerdictKind::TooShort => Vec::new(),
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
