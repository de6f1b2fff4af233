//! Situations, and what is to be said of them.

use super::*;

/// A worker that took so many seconds for input, compute and exchange.
fn worker(input_s: f64, compute_s: f64, exchange_s: f64) -> WorkerFacts {
    WorkerFacts {
        task: "worker:0".into(),
        input_s,
        compute_s,
        exchange_s,
        gradient_ms: input_s + compute_s,
        ..WorkerFacts::default()
    }
}

fn server(busy: f64) -> ServerFacts {
    let sent_bytes_per_s = 117.5e6;
    ServerFacts { task: "ps:0".into(), busy, sent_bytes_per_s, ..ServerFacts::default() }
}

fn facts(mode: &str, workers: Vec<WorkerFacts>, servers: Vec<ServerFacts>) -> Facts {
    Facts { mode: mode.into(), workers, servers, ..Facts::default() }
}

/// The verdict must be of this kind, hold these words, and share out all of the time.
#[track_caller]
fn check(facts: &Facts, kind: VerdictKind, words: &[&str]) -> Shares {
    let Verdict { kind: found, text, mut shares, advice } = verdict(facts);
    assert_eq!(found, kind, "{text}");
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
    assert!(text.starts_with(kind.name()) && !text.contains("NaN"), "{text}");
    assert!(advice.iter().all(|one| text.contains(one)) && !advice.is_empty(), "{text}");
    let sum: f64 = shares.all_mut().iter().map(|share| **share).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{shares:?}");
    assert!(shares.all_mut().iter().all(|share| **share >= 0.0), "{shares:?}");
    shares
}

#[test]
fn a_worker_that_computes_is_as_it_should_be() {
    let one = facts("async", vec![worker(1.0, 8.0, 1.0)], vec![server(0.05)]);
    check(&one, VerdictKind::Compute, &["the worker spends 80 % of the time", "more workers"]);
    let full = Facts { cores_busy: Some(0.98), ..one };
    check(&full, VerdictKind::Compute, &["cores are 98 % busy; try more machines"]);
}

#[test]
fn applying_ones_own_gradients_is_computing() {
    let shares = check(
        &facts("single", vec![worker(1.0, 1.0, 2.0)], vec![]),
        VerdictKind::Compute,
        &["75 %"],
    );
    assert_eq!((shares.compute, shares.network), (0.75, 0.0));
}

#[test]
fn slow_examples_are_input_and_a_disk_is_named_if_it_is_waited_for() {
    let one = facts("single", vec![worker(7.0, 3.0, 0.0)], vec![]);
    check(&one, VerdictKind::Input, &["70 % of the time getting examples", "more cores"]);
    let disk = Facts { disk_wait: 0.4, ..one };
    check(&disk, VerdictKind::Input, &["wait for disks 40 %", "a faster disk"]);
}

#[test]
fn an_exchange_is_the_servers_while_it_works_and_else_the_networks() {
    let workers = vec![worker(1.0, 3.0, 6.0), worker(1.0, 3.0, 6.0)];
    let words = ["workers spend 60 %", "ps:0 is at work for 17 % of that and sends 940 Mbit/s"];
    let network = facts("async", workers.clone(), vec![server(0.1)]);
    let shares = check(&network, VerdictKind::Network, &words);
    assert!((shares.server - 0.1).abs() < 1e-9 && (shares.network - 0.5).abs() < 1e-9);
    check(&network, VerdictKind::Network, &["larger train.batch, cluster.servers = 2 or"]);
    let full = Facts { cores_busy: Some(0.95), ..network };
    check(&full, VerdictKind::Network, &["cores are 95 % busy", "fewer tasks"]);
    let busy = facts("async", workers, vec![server(0.2), server(0.5)]);
    check(&busy, VerdictKind::Server, &["at work for 83 % of that", "cluster.servers = 3"]);
}

#[test]
fn who_waits_for_a_full_server_that_works_for_others_waits_for_the_server() {
    let workers = vec![worker(1.0, 1.0, 8.0); 6];
    let full = ServerFacts { cores_busy: Some(0.98), ..server(0.12) };
    let words =
        ["at work for 66 % of that", "try a larger train.batch or servers on more machines"];
    let shares = check(&facts("async", workers.clone(), vec![full]), VerdictKind::Server, &words);
    assert!((shares.server - (0.12 + 0.6 * 0.68)).abs() < 1e-9, "{shares:?}");
    // With cores to spare it works for all at once.
    let roomy = ServerFacts { cores_busy: Some(0.5), ..server(0.12) };
    check(
        &facts("async", workers, vec![roomy]),
        VerdictKind::Network,
        &["at work for 15 % of that"],
    );
}

#[test]
fn network_and_server_count_as_one_until_they_have_won() {
    let shares = check(
        &facts("async", vec![worker(0.0, 4.0, 6.0)], vec![server(0.27)]),
        VerdictKind::Network,
        &["60 %"],
    );
    assert!(shares.compute > shares.network, "{shares:?}");
}

#[test]
fn workers_without_servers_share_a_network() {
    let workers = vec![worker(0.0, 2.0, 8.0), worker(0.0, 2.0, 8.0)];
    check(&facts("mirrored", workers, vec![]), VerdictKind::Network, &["80 %", "faster network"]);
}

#[test]
fn who_waits_at_the_gate_waits_for_stragglers() {
    let mut fast = worker(0.5, 2.0, 7.5);
    fast.held_s = 7.0;
    let mut slow = worker(0.5, 9.0, 0.5);
    slow.task = "worker:1".into();
    let both = facts("sync", vec![fast.clone(), slow], vec![server(0.01)]);
    let words = ["worker:1 takes 3.8 times as long", "a look at worker:1's machine", "quorum"];
    check(&both, VerdictKind::Stragglers, &words);
    // Both wait, now one and now the other, though neither is slow.
    let words = ["each in its turn", "cluster.staleness"];
    check(
        &facts("bounded", vec![fast.clone(), fast], vec![server(0.01)]),
        VerdictKind::Stragglers,
        &words,
    );
}

#[test]
fn a_slow_worker_counts_even_where_nobody_waits_for_it() {
    let slow = WorkerFacts { gradient_ms: 90.0, ..worker(0.0, 9.0, 1.0) };
    let workers = vec![worker(0.0, 9.0, 1.0), worker(0.0, 9.0, 1.0), slow];
    let shares = check(&facts("async", workers, vec![server(0.02)]), VerdictKind::Compute, &[]);
    assert!((shares.stragglers - 0.27).abs() < 1e-3, "{shares:?}");
}

#[test]
fn tests_are_evaluation_and_so_is_waiting_for_them() {
    let alone = WorkerFacts { evaluation_s: 7.0, ..worker(0.5, 2.0, 7.5) };
    let words = ["tests take 70 % of the time", "train.evaluate.every"];
    check(&facts("single", vec![alone.clone()], vec![]), VerdictKind::Evaluation, &words);
    let waits = WorkerFacts { held_s: 7.2, ..worker(0.5, 2.0, 7.5) };
    let shares = check(
        &facts("sync", vec![alone, waits], vec![server(0.01)]),
        VerdictKind::Evaluation,
        &words,
    );
    assert!((shares.stragglers - 0.01).abs() < 1e-9, "{shares:?}");
}

#[test]
fn a_run_without_time_has_a_verdict_too() {
    let text = verdict(&facts("single", vec![worker(0.0, 0.0, 0.0)], vec![])).text;
    assert!(text.starts_with("compute: ") && !text.contains("NaN"), "{text}");
}

#[test]
fn a_verdict_is_read_back_as_it_was_written() {
    let written = verdict(&facts("async", vec![worker(1.0, 2.0, 3.0)], vec![server(0.1)]));
    let json = serde_json::to_value(&written).unwrap();
    assert_eq!(json["kind"], "network");
    assert_eq!(serde_json::from_value::<Verdict>(json).unwrap(), written);
}

#[test]
fn how_late_gradients_come_is_told_where_several_push_them() {
    let workers = vec![worker(0.0, 2.0, 8.0), worker(0.0, 2.0, 8.0)];
    let late = Facts { staleness: Some(1.04), ..facts("async", workers, vec![server(0.1)]) };
    check(&late, VerdictKind::Network, &["gradients are 1.0 updates late on average; try"]);
    let alone = Facts { workers: vec![worker(0.0, 2.0, 8.0)], ..late };
    assert!(!verdict(&alone).text.contains("late"));
}

#[test]
fn what_a_server_sends_is_held_against_its_link_where_that_is_known() {
    let linked = ServerFacts { link_mbit_per_s: Some(1000.0), ..server(0.1) };
    let words = ["network: ", "ps:0 is at work for", "sends 940 of 1000 Mbit/s"];
    check(&facts("async", vec![worker(0.0, 2.0, 8.0)], vec![linked]), VerdictKind::Network, &words);
}
