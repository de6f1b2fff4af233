//! Models whose keys have several numbers: the same bits in every exact mode and after a resume.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

use paceline_data::{SparseRows, TrainTest};
use paceline_engine::{CheckpointSettings, Session, SessionReport, Sharing, StartModel, Stop};
use paceline_factor::{FactorMachine, SparseSoftmax};
use paceline_model::{AdaGrad, Adam, EntryPolicy, Ftrl, Logistic, OptimizerSpec, Sgd};

const FEATURES: usize = 40;

/// Rows of two keys whose class depends on the pair, which a linear model cannot learn.
fn pairs() -> TrainTest<SparseRows> {
    let rows = (0..2_000u32).map(|i| {
        let (left, right) = (i * 7 % 10, 10 + i * 13 / 10 % 10);
        ([left, right], [], (left + right) % 2)
    });
    SparseRows::from_rows(FEATURES, rows).unwrap().hold_out(200, 1).unwrap()
}

fn machine(optimizer: OptimizerSpec) -> Session {
    Session::sparse(FactorMachine::new(FEATURES, 4), pairs()).optimizer(optimizer).batch(20)
}

fn bits(report: &SessionReport) -> Vec<u32> {
    report.params.iter().map(|param| param.to_bits()).collect()
}

#[test]
fn a_factorization_machine_learns_pairs_that_a_linear_model_cannot() {
    let linear = Session::sparse(Logistic::new(FEATURES), pairs()).optimizer(AdaGrad::new(0.2));
    let linear = linear.batch(20).stop(Stop::epochs(20)).run().unwrap();
    let pairs = machine(AdaGrad::new(0.2)).stop(Stop::epochs(20)).run().unwrap();
    assert!(linear.test_loss > 0.6, "{}", linear.test_loss);
    assert!(pairs.test_loss < 0.2, "{}", pairs.test_loss);
}

#[test]
fn one_worker_gives_the_bits_of_a_single_process_with_every_optimizer() {
    let ftrl = OptimizerSpec::new(Ftrl { beta: 1.0, l1: 0.001, l2: 0.01 }, 0.1);
    for optimizer in [Sgd::new(0.3).decay(0.001), AdaGrad::new(0.1), Adam::new(0.01), ftrl] {
        let run = |sharing| {
            let session = machine(optimizer.clone()).share(sharing).stop(Stop::epochs(2));
            bits(&session.run().unwrap())
        };
        let single = run(Sharing::none());
        let name = optimizer.optimizer().name();
        assert_eq!(run(Sharing::servers(1).workers(1)), single, "{name}");
        assert_eq!(run(Sharing::servers(3).workers(1)), single, "{name}, three servers");
    }
}

#[test]
fn a_run_that_stops_early_keeps_the_numbers_of_all_entries_of_its_best_test() {
    for sharing in [Sharing::none(), Sharing::servers(3).workers(2), Sharing::mesh(2)] {
        let early = || machine(AdaGrad::new(0.1)).share(sharing).test_every(10).min_gain(0.5);
        let patient = Stop::epochs(2).or(Stop::patience(3));
        let report = early().stop(patient).keep_best().run().unwrap();
        assert_eq!(report.summary.stop_reason, "patience", "{sharing}");
        let best = report.summary.best.clone().unwrap();
        let only = early().stop(Stop::steps(best.step)).run().unwrap();
        assert_eq!(only.test_loss, best.value, "{sharing}");
        let kept = report.best_params.unwrap();
        let kept: Vec<u32> = kept.iter().map(|param| param.to_bits()).collect();
        assert_eq!(kept, bits(&only), "{sharing}");
    }
}

#[test]
fn sync_runs_agree_however_the_keys_are_divided_and_keys_that_no_row_has_stay_zero() {
    let run = |servers| {
        let session = machine(AdaGrad::new(0.1)).share(Sharing::servers(servers).workers(2));
        session.stop(Stop::steps(60)).run().unwrap()
    };
    let [one, three] = [run(1), run(3)];
    assert_eq!(bits(&one), bits(&three));
    assert_eq!(one.params.len(), FEATURES * 5 + 1);
    assert!(one.params[..20 * 5].iter().all(|&param| param != 0.0));
    assert!(one.params[20 * 5..FEATURES * 5].iter().all(|&param| param == 0.0));
}

#[test]
fn a_resumed_run_ends_with_the_same_bits_whatever_its_servers() {
    let ftrl = OptimizerSpec::new(Ftrl { beta: 1.0, l1: 0.001, l2: 0.01 }, 0.1);
    for optimizer in [AdaGrad::new(0.1), Adam::new(0.01), ftrl] {
        let name = optimizer.optimizer().name().to_owned();
        let session = |sharing| machine(optimizer.clone()).share(sharing);
        for (before, after) in [(1, 1), (3, 3), (3, 1), (1, 3)] {
            let [before, after] =
                [before, after].map(|servers| Sharing::servers(servers).workers(2));
            let whole = session(before).stop(Stop::steps(40)).run().unwrap();
            let dir = tempfile::tempdir().unwrap();
            let kept =
                |sharing| session(sharing).checkpoints(dir.path(), CheckpointSettings::steps(10));
            kept(before).stop(Stop::steps(20)).run().unwrap();
            let resumed = kept(after).stop(Stop::steps(40)).resume().run().unwrap();
            assert_eq!(bits(&resumed), bits(&whole), "{name}, {before} to {after}");
        }
        let whole = session(Sharing::none()).stop(Stop::steps(40)).run().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let kept =
            || session(Sharing::none()).checkpoints(dir.path(), CheckpointSettings::steps(10));
        kept().stop(Stop::steps(20)).run().unwrap();
        let resumed = kept().stop(Stop::steps(40)).resume().run().unwrap();
        assert_eq!(bits(&resumed), bits(&whole), "{name}, single");
    }
}

/// Keys are counted, and entries are evicted and created again: a step has few of the keys.
fn rare_keys(optimizer: OptimizerSpec) -> Session {
    let policy = EntryPolicy { min_count: 2, evict_after: Some(3), max_entries: None };
    machine(optimizer).batch(2).entries(policy)
}

#[test]
fn a_mesh_ends_with_the_bits_of_servers() {
    let ftrl = OptimizerSpec::new(Ftrl { beta: 1.0, l1: 0.001, l2: 0.01 }, 0.1);
    let share = |session: Session, sharing| {
        bits(&session.share(sharing).stop(Stop::steps(60)).run().unwrap())
    };
    let (mesh, servers) = (Sharing::mesh(3), Sharing::servers(2).workers(3));
    for optimizer in [Sgd::new(0.3).decay(0.01), AdaGrad::new(0.1), Adam::new(0.01), ftrl] {
        let name = optimizer.optimizer().name();
        let linear = || {
            Session::sparse(Logistic::new(FEATURES), pairs()).optimizer(Sgd::new(0.3).decay(0.1))
        };
        assert_eq!(share(linear(), mesh), share(linear(), servers), "logistic");
        for session in [machine, rare_keys] {
            let of_servers = share(session(optimizer.clone()), servers);
            assert_eq!(share(session(optimizer.clone()), mesh), of_servers, "{name}");
        }
    }
}

#[test]
fn a_resumed_run_counts_and_evicts_as_one_that_was_not_interrupted() {
    let servers = |count| Sharing::servers(count).workers(2);
    for (before, after) in [
        (Sharing::none(), Sharing::none()),
        (servers(3), servers(1)),
        (servers(1), servers(2)),
        (Sharing::mesh(2), Sharing::mesh(2)),
        (Sharing::mesh(2), servers(2)),
    ] {
        let session = |sharing| rare_keys(AdaGrad::new(0.1)).share(sharing);
        let whole = session(before).stop(Stop::steps(40)).run().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let kept =
            |sharing| session(sharing).checkpoints(dir.path(), CheckpointSettings::steps(10));
        kept(before).stop(Stop::steps(20)).run().unwrap();
        let resumed = kept(after).stop(Stop::steps(40)).resume().run().unwrap();
        assert_eq!(bits(&resumed), bits(&whole), "{before} to {after}");
        assert!(whole.params.contains(&0.0), "entries are evicted");
    }
}

#[test]
fn a_checkpoint_of_another_rank_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let checkpoints = CheckpointSettings::steps(5);
    let first = machine(AdaGrad::new(0.1)).checkpoints(dir.path(), checkpoints);
    first.stop(Stop::steps(5)).run().unwrap();
    let other = Session::sparse(FactorMachine::new(FEATURES, 5), pairs());
    let other = other.optimizer(AdaGrad::new(0.1)).batch(20).checkpoints(dir.path(), checkpoints);
    let error = other.stop(Stop::steps(10)).resume().run().unwrap_err().to_string();
    assert!(error.contains("[40, 5]") && error.contains("[40, 6]"), "{error}");
}

#[test]
fn threads_that_share_the_entries_learn_as_well() {
    let report = machine(AdaGrad::new(0.2)).threads(2).stop(Stop::epochs(20)).run().unwrap();
    assert!(report.test_loss < 0.3, "{}", report.test_loss);
}

#[test]
fn training_starts_from_a_trained_machine() {
    let first = machine(AdaGrad::new(0.2)).stop(Stop::epochs(10)).run().unwrap();
    for sharing in [Sharing::none(), Sharing::servers(2).workers(1)] {
        let start = StartModel::of_params(&first.layout, first.params.clone());
        let session = machine(Sgd::new(1e-9)).start(start).share(sharing);
        let second = session.stop(Stop::steps(1)).run().unwrap();
        assert!((second.test_loss - first.test_loss).abs() < 1e-4, "{sharing}");
    }
}

#[test]
fn sparse_softmax_has_a_number_for_each_class() {
    let rows = (0..600u32).map(|i| ([i % 6, 6 + i % 2], [], u32::from(i % 6 > 2)));
    let rows = SparseRows::from_rows(8, rows).unwrap().hold_out(60, 1).unwrap();
    let run = |sharing| {
        let session = Session::sparse(SparseSoftmax::new(8, 2), rows.clone()).batch(20);
        session.optimizer(AdaGrad::new(0.5)).share(sharing).stop(Stop::epochs(5)).run().unwrap()
    };
    let (one, shared) = (run(Sharing::none()), run(Sharing::servers(2).workers(1)));
    assert_eq!(one.accuracy, 1.0);
    assert_eq!(bits(&one), bits(&shared));
}

#[test]
fn a_resumed_run_with_longer_periods_evicts_what_none_of_the_next_has() {
    // Each row has a feature that no other has, so an epoch of 90 steps names it once.
    let rows = (0..2_000u32).map(|row| ([row, 2_000 + row % 2], [], row % 2));
    let rows = SparseRows::from_rows(2_002, rows).unwrap().hold_out(200, 1).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let run = |evict_after, steps| {
        let session = Session::sparse(FactorMachine::new(2_002, 2), rows.clone())
            .optimizer(AdaGrad::new(0.1))
            .batch(20)
            .entries(EntryPolicy { evict_after: Some(evict_after), ..EntryPolicy::default() })
            .checkpoints(dir.path(), CheckpointSettings::steps(100));
        session.stop(Stop::steps(steps)).resume().run().unwrap()
    };
    run(1, 100);
    let report = run(50, 160);
    let known = report.params[..6_000].chunks(3).filter(|key| key.iter().any(|v| *v != 0.0));
    assert_eq!(known.count(), 60 * 20, "those of the steps from 100 on");
}
