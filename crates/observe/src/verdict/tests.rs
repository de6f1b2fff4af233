//! Situations, and the verdict on each.

use super::*;
use crate::wall_clock::short_seconds;

/// A worker that spent these seconds on input, compute and exchange.
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

/// Checks that the verdict is of this kind, contains these words and divides all of the time.
#[track_caller]
fn check(facts: &Facts, kind: VerdictKind, words: &[&str]) -> Shares {
    let Verdict { kind: found, text, evidence, mut shares, advice } = verdict(facts);
    assert_eq!(found, kind, "{text}");
    assert_eq!(evidence_in(&text), evidence);
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
    assert!(text.starts_with(kind.name()) && !text.contains("NaN"), "{text}");
    assert!(advice.iter().all(|one| text.contains(one)), "{text}");
    assert_eq!(advice.is_empty(), !text.contains("; try "), "{text}");
    let sum: f64 = shares.all_mut().iter().map(|share| **share).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{shares:?}");
    assert!(shares.all_mut().iter().all(|share| **share >= 0.0), "{shares:?}");
    shares
}

#[test]
fn a_worker_that_computes_most_of_the_time_is_limited_by_compute() {
    let one = facts("async", vec![worker(1.0, 8.0, 1.0)], vec![server(0.05)]);
    check(&one, VerdictKind::Compute, &["the worker spends 80 % of the time", "try more workers"]);
    // On full machines, and for the shortest steps, more workers do not help.
    let full = Facts { cores_busy: Some(0.98), ..one };
    check(&full, VerdictKind::Compute, &["cores are 98 % busy"]);
    assert!(verdict(&full).advice.is_empty());
    let short = WorkerFacts { gradient_ms: 0.05, ..worker(1.0, 8.0, 1.0) };
    assert!(verdict(&facts("async", vec![short], vec![server(0.05)])).advice.is_empty());
}

#[test]
fn a_computation_below_half_of_the_time_is_named_if_nothing_else_is_worth_it() {
    let mixed = WorkerFacts { run_delay_s: 2.0, ..worker(1.5, 4.5, 4.0) };
    let contended = WorkerFacts { run_delay_s: 2.6, ..mixed.clone() };
    let mixed = facts("async", vec![mixed], vec![server(0.0)]);
    let words = ["spends 45 % of the time computing and 20 % "];
    check(&mixed, VerdictKind::Compute, &words);
    let contended = facts("async", vec![contended], vec![server(0.0)]);
    check(&contended, VerdictKind::Cores, &["26 % of the time"]);
    // All causes take less than a quarter of the time, and one takes longer.
    let even = WorkerFacts { held_s: 2.0, run_delay_s: 2.0, ..worker(2.2, 1.8, 6.0) };
    let even = facts("bounded", vec![even], vec![server(0.0)]);
    check(&even, VerdictKind::Input, &["22 % of the time getting examples"]);
}

#[test]
fn a_server_that_has_a_machine_to_itself_and_lacks_cores_is_busy() {
    let workers = vec![worker(0.0, 2.0, 8.0); 2];
    let slow = ServerFacts { run_delay: 0.4, own_load: 1.0, ..server(0.2) };
    let shares = check(
        &facts("async", workers.clone(), vec![slow.clone()]),
        VerdictKind::Server,
        &["ps:0 is busy for 75 % of that time"],
    );
    assert!((shares.server - 0.6).abs() < 1e-9 && shares.cores == 0.0, "{shares:?}");
    // Beside other programs, it lacks the cores that they use.
    let beside = ServerFacts { run_delay: 0.6, own_load: 0.1, ..server(0.05) };
    let words = ["without a core 54 % of the time; ps:0 most, 60 %"];
    check(&facts("async", workers, vec![beside]), VerdictKind::Cores, &words);
}

#[test]
fn a_single_process_that_applies_its_gradients_computes() {
    let shares = check(
        &facts("single", vec![worker(1.0, 1.0, 2.0)], vec![]),
        VerdictKind::Compute,
        &["75 %"],
    );
    assert_eq!((shares.compute, shares.network), (0.75, 0.0));
}

#[test]
fn slow_examples_are_input_and_a_slow_disk_is_named() {
    let one = facts("single", vec![worker(7.0, 3.0, 0.0)], vec![]);
    check(&one, VerdictKind::Input, &["70 % of the time getting examples; try data that is"]);
    let full = Facts { cores_busy: Some(1.0), ..one.clone() };
    check(&full, VerdictKind::Input, &["try more cores to read with"]);
    let disk = Facts { disk_wait: 0.4, ..one };
    check(&disk, VerdictKind::Input, &["wait for disks 40 %", "a faster disk"]);
}

#[test]
fn an_exchange_is_attributed_to_the_server_while_it_works_and_else_to_the_network() {
    let workers = vec![worker(1.0, 3.0, 6.0), worker(1.0, 3.0, 6.0)];
    let words = ["workers spend 60 %", "ps:0 is busy for 17 % of that time and sends 940 Mbit/s"];
    let network = facts("async", workers.clone(), vec![server(0.1)]);
    let shares = check(&network, VerdictKind::Network, &words);
    assert!((shares.server - 0.1).abs() < 1e-9 && (shares.network - 0.5).abs() < 1e-9);
    check(&network, VerdictKind::Network, &["larger train.batch, cluster.servers = 2 or"]);
    let full = Facts { cores_busy: Some(0.95), ..network };
    check(&full, VerdictKind::Network, &["cores are 95 % busy", "fewer tasks"]);
    let busy = facts("async", workers, vec![server(0.2), server(0.5)]);
    check(&busy, VerdictKind::Server, &["busy for 83 % of that", "cluster.servers = 3"]);
}

#[test]
fn waiting_for_a_full_server_that_works_for_others_is_attributed_to_the_server() {
    let workers = vec![worker(1.0, 1.0, 8.0); 6];
    let full = ServerFacts { cores_busy: Some(0.98), ..server(0.12) };
    let words = ["busy for 66 % of that", "try a larger train.batch or servers on more machines"];
    let shares = check(&facts("async", workers.clone(), vec![full]), VerdictKind::Server, &words);
    assert!((shares.server - (0.12 + 0.6 * 0.68)).abs() < 1e-9, "{shares:?}");
    // A server with spare cores works for all workers at once.
    let roomy = ServerFacts { cores_busy: Some(0.5), ..server(0.12) };
    check(&facts("async", workers, vec![roomy]), VerdictKind::Network, &["busy for 15 % of that"]);
}

#[test]
fn network_and_server_compete_together() {
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
fn waiting_at_the_gate_is_attributed_to_stragglers() {
    let mut fast = worker(0.5, 2.0, 7.5);
    fast.held_s = 7.0;
    let mut slow = worker(0.5, 9.0, 0.5);
    slow.task = "worker:1".into();
    let both = facts("sync", vec![fast.clone(), slow], vec![server(0.01)]);
    let words = [
        "of their time waiting for slower workers; worker:1 takes 3.8 times as long",
        "checking worker:1's machine",
        "quorum",
    ];
    check(&both, VerdictKind::Stragglers, &words);
    // The workers wait in turns although neither is slow.
    let words = ["no single worker is always the slow one", "cluster.staleness"];
    check(
        &facts("bounded", vec![fast.clone(), fast], vec![server(0.01)]),
        VerdictKind::Stragglers,
        &words,
    );
}

#[test]
fn a_slow_worker_counts_even_if_no_other_waits_for_it() {
    let slow = WorkerFacts { gradient_ms: 90.0, ..worker(0.0, 9.0, 1.0) };
    let workers = vec![worker(0.0, 9.0, 1.0), worker(0.0, 9.0, 1.0), slow];
    let shares = check(&facts("async", workers, vec![server(0.02)]), VerdictKind::Compute, &[]);
    assert!((shares.stragglers - 0.27).abs() < 1e-3, "{shares:?}");
}

#[test]
fn tests_and_waiting_for_them_are_evaluation() {
    let alone = WorkerFacts { evaluation_s: 7.0, ..worker(0.5, 2.0, 0.5) };
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
fn training_of_less_than_a_second_is_too_short_to_judge() {
    for short in [worker(0.0, 0.0, 0.0), worker(0.1, 0.7, 0.1)] {
        let seconds = short_seconds(short.input_s + short.compute_s + short.exchange_s);
        let short = verdict(&facts("single", vec![short], vec![]));
        let text = format!(
            "too short to judge: training takes {seconds} s, and a verdict needs at least 1 s"
        );
        assert_eq!((short.kind, &short.text), (VerdictKind::TooShort, &text));
        assert!(short.advice.is_empty());
        assert_eq!(evidence_in(&text), short.evidence);
        let json = serde_json::to_value(&short).unwrap();
        assert_eq!(json["kind"], "too short");
        assert_eq!(serde_json::from_value::<Verdict>(json).unwrap(), short);
    }
    let shares = verdict(&facts("single", vec![worker(0.1, 0.7, 0.1)], vec![])).shares;
    assert!(shares.compute > 0.8, "the shares are known all the same: {shares:?}");
    let long = verdict(&facts("single", vec![worker(0.1, 0.9, 0.1)], vec![]));
    assert_eq!(long.kind, VerdictKind::Compute);
    // A long final test can be judged however short the training was.
    let tested =
        Facts { final_test_s: 30.0, ..facts("single", vec![worker(0.0, 0.5, 0.0)], vec![]) };
    check(&tested, VerdictKind::Evaluation, &["tests take 98 % of the time; the final test takes"]);
}

#[test]
fn time_without_a_core_is_not_blamed_on_network_server_or_stragglers() {
    let delayed = |worker| WorkerFacts { run_delay_s: 5.0, ..worker };
    let delayed_server = ServerFacts { run_delay: 0.1, ..server(0.1) };
    let workers = vec![delayed(worker(1.0, 2.0, 7.0)); 2];
    let contended =
        Facts { cores_busy: Some(0.97), ..facts("async", workers, vec![delayed_server]) };
    let words = ["without a core 60 % of the time; cores are 97 % busy; try fewer tasks on each"];
    let shares = check(&contended, VerdictKind::Cores, &words);
    assert!((shares.network - 0.0).abs() < 1e-9 && (shares.server - 0.1).abs() < 1e-9);
    // A worker that waits for one without a core waits for cores too.
    let waits = WorkerFacts { held_s: 6.0, ..worker(0.0, 3.0, 7.0) };
    let slow = WorkerFacts { task: "worker:1".into(), run_delay_s: 6.0, ..worker(0.0, 9.0, 1.0) };
    let words = ["without a core 60 % of the time; worker:1 most, 60 %; try fewer"];
    check(&facts("sync", vec![waits, slow], vec![server(0.0)]), VerdictKind::Cores, &words);
    // In one process the time is taken from the computation.
    let alone =
        facts("single", vec![WorkerFacts { run_delay_s: 6.0, ..worker(0.0, 10.0, 0.0) }], vec![]);
    let words = ["the worker is ready to run but without a core 60 %", "other programs"];
    let shares = check(&alone, VerdictKind::Cores, &words);
    assert!((shares.compute - 0.4).abs() < 1e-9, "{shares:?}");
    // What a test lacks of cores is part of the test.
    let tests = WorkerFacts { run_delay_s: 8.0, evaluation_s: 5.0, ..worker(0.0, 5.0, 0.0) };
    let shares = check(&facts("single", vec![tests], vec![]), VerdictKind::Evaluation, &[]);
    assert!((shares.cores - 0.4).abs() < 1e-9, "{shares:?}");
}

#[test]
fn a_lack_of_cores_is_named_before_a_computation_that_takes_longer() {
    let delayed = |run_delay_s| {
        let workers = vec![WorkerFacts { run_delay_s, ..worker(0.3, 5.5, 4.2) }; 2];
        Facts { cores_busy: Some(1.0), ..facts("async", workers, vec![server(0.2)]) }
    };
    let words = ["without a core 27 % of the time; cores are 100 % busy; try fewer tasks"];
    let shares = check(&delayed(2.7), VerdictKind::Cores, &words);
    assert!(shares.compute > 0.5, "{shares:?}");
    // A little of it is no reason to look for other machines.
    check(&delayed(1.0), VerdictKind::Compute, &["55 % of the time computing"]);
}

#[test]
fn a_loop_that_computes_without_a_core_does_not_hide_a_busy_server() {
    // The exchange travels while the loop computes, and the loop sleeps for the rest of it.
    let overlapped =
        WorkerFacts { run_delay_s: 1.5, loop_cpu_s: Some(2.0), ..worker(0.0, 3.5, 6.5) };
    let shares = check(
        &facts("async", vec![overlapped.clone(); 2], vec![server(0.7)]),
        VerdictKind::Server,
        &["ps:0 is busy for 100 % of that time"],
    );
    assert!((shares.cores - 0.15).abs() < 1e-9 && (shares.compute - 0.2).abs() < 1e-9);
    // Without the loop's time on a core, the exchange is where cores are most likely to lack.
    let unknown = WorkerFacts { loop_cpu_s: None, ..overlapped };
    let shares = verdict(&facts("async", vec![unknown; 2], vec![server(0.7)])).shares;
    assert!((shares.compute - 0.35).abs() < 1e-9 && (shares.cores - 0.15).abs() < 1e-9);
}

#[test]
fn a_rate_is_never_rounded_to_nothing() {
    let rates = [(117.5e6, "940"), (1e6, "8.0"), (20e3, "0.2"), (125.0, "1.0e-3"), (0.0, "0.0")];
    for (sent_bytes_per_s, text) in rates {
        let slow = ServerFacts { sent_bytes_per_s, ..server(0.1) };
        let words = [&*format!("sends {text} Mbit/s")];
        check(
            &facts("async", vec![worker(0.0, 2.0, 8.0)], vec![slow]),
            VerdictKind::Network,
            &words,
        );
    }
    let sends = WorkerFacts { sent_bytes_per_s: 1e6, ..worker(0.0, 2.0, 8.0) };
    let words = ["exchanging gradients and parameters; each sends up to 8.0 Mbit/s"];
    check(&facts("mirrored", vec![sends.clone(), sends], vec![]), VerdictKind::Network, &words);
}

#[test]
fn a_verdict_reads_as_it_was_written() {
    let written = verdict(&facts("async", vec![worker(1.0, 2.0, 3.0)], vec![server(0.1)]));
    let json = serde_json::to_value(&written).unwrap();
    assert_eq!(json["kind"], "network");
    assert_eq!(serde_json::from_value::<Verdict>(json).unwrap(), written);
}

#[test]
fn staleness_is_named_if_several_workers_push_independently() {
    let workers = vec![worker(0.0, 2.0, 8.0), worker(0.0, 2.0, 8.0)];
    let late = Facts { staleness: Some(1.04), ..facts("async", workers, vec![server(0.1)]) };
    check(&late, VerdictKind::Network, &["mean staleness 1.0 updates; try"]);
    let alone = Facts { workers: vec![worker(0.0, 2.0, 8.0)], ..late };
    assert!(!verdict(&alone).text.contains("staleness"));
}

#[test]
fn what_a_server_sends_is_compared_with_its_link_if_known() {
    let linked = ServerFacts { link_mbit_per_s: Some(1000.0), ..server(0.1) };
    let words = ["network: ", "ps:0 is busy for", "sends 940 of 1000 Mbit/s"];
    check(&facts("async", vec![worker(0.0, 2.0, 8.0)], vec![linked]), VerdictKind::Network, &words);
}

#[test]
fn the_shares_in_a_file_have_the_names_of_the_kinds() {
    let json = serde_json::to_value(Shares::default()).unwrap();
    let names: Vec<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, VerdictKind::ALL.map(VerdictKind::name));
}
