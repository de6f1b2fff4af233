//! Workers without servers over real sockets: models of many chunks, and workers that are lost.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::net::TcpListener;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use paceline_exchange::{CHUNK_FLOATS, Replica, ReplicaConfig};
use paceline_model::{Group, Layout, OptimizerState, Sgd};
use paceline_net::{ExchangePhase, LinkError, LinkObserver, LocalGradient, Mesh, MeshConfig};

/// A limit that no wait reaches.
const LONG: Duration = Duration::from_secs(60);
/// The time that a worker has to come back, in a test where it does not.
const SHORT: Duration = Duration::from_millis(300);

struct SilentObserver;

impl LinkObserver for SilentObserver {
    fn enter_phase(&mut self, _: ExchangePhase) {}
    fn note(&mut self, _: &str) {}
    fn should_give_up(&mut self) -> bool {
        false
    }
}

fn layout(floats: usize) -> Layout {
    let mut layout = Layout::new();
    layout.push("weight", &[floats], Group::Weights);
    layout
}

fn gradient(slot: usize, step: u64, floats: usize) -> Vec<f32> {
    (0..floats).map(|i| ((i * 7 + slot * 3) % 11) as f32 * 0.1 - step as f32 * 0.01).collect()
}

fn local(examples: u32, values: &[f32]) -> Option<LocalGradient<'_>> {
    Some(LocalGradient { examples, values })
}

/// A run of `count` workers on threads of this process.
#[derive(Clone, Copy)]
struct TestRun {
    count: usize,
    floats: usize,
    stop_steps: Option<u64>,
    recovers: bool,
    rejoin_timeout: Duration,
}

impl TestRun {
    fn new(count: usize, floats: usize) -> Self {
        Self { count, floats, stop_steps: None, recovers: false, rejoin_timeout: LONG }
    }

    /// Starts all workers on threads of their own, and returns what each returned.
    fn run<T: Send>(self, work: impl Fn(TestWorker) -> T + Sync) -> Vec<T> {
        let bind = |_| TcpListener::bind("127.0.0.1:0").unwrap();
        let listeners: Vec<_> = (0..self.count).map(bind).collect();
        let address = |listener: &TcpListener| listener.local_addr().unwrap().to_string();
        let addresses: Vec<_> = listeners.iter().map(address).collect();
        thread::scope(|scope| {
            let (work, addresses) = (&work, &addresses);
            let start = |(slot, listener)| {
                let worker = TestWorker { run: self, slot, listener, addresses };
                scope.spawn(move || work(worker))
            };
            let threads: Vec<_> = listeners.into_iter().enumerate().map(start).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }
}

/// One worker of a run.
struct TestWorker<'a> {
    run: TestRun,
    slot: usize,
    listener: TcpListener,
    addresses: &'a [String],
}

impl TestWorker<'_> {
    /// Connects to all other workers, as a new process.
    fn connect(&self) -> Mesh {
        static PROCESSES: AtomicU64 = AtomicU64::new(1);
        let TestRun { count, floats, stop_steps, recovers, rejoin_timeout } = self.run;
        let config = ReplicaConfig {
            incarnation: PROCESSES.fetch_add(1, Ordering::Relaxed),
            stop_steps,
            check_every: 2,
            recovers,
            ..ReplicaConfig::new(self.slot, count)
        };
        let spec = Sgd::new(0.5);
        let replica = Replica::new(config, vec![0.5; floats], spec, &layout(floats));
        let config = MeshConfig {
            start_timeout: LONG,
            stall_timeout: LONG,
            rejoin_timeout,
            ..MeshConfig::new(self.addresses.to_vec())
        };
        let listener = self.listener.try_clone().unwrap();
        Mesh::connect(replica, config, Some(listener), &mut SilentObserver).unwrap()
    }
}

/// The parameters after the same steps in a plain loop.
fn plain_loop(count: usize, floats: usize, steps: u64) -> Vec<f32> {
    let mut params = vec![0.5; floats];
    let mut optimizer = OptimizerState::new(Sgd::new(0.5), &layout(floats), 0..floats);
    let total = (count * (count + 1) / 2) as f64;
    for step in 0..steps {
        let mut mean = vec![0.0f32; floats];
        for slot in 0..count {
            let weight = ((slot + 1) as f64 / total) as f32;
            for (mean, value) in mean.iter_mut().zip(gradient(slot, step, floats)) {
                *mean = if slot == 0 { weight * value } else { *mean + weight * value };
            }
        }
        optimizer.apply(step, 0, &mut params, &mean);
    }
    params
}

/// Checks that every replica ends with the parameters of a plain loop.
fn check(count: usize, floats: usize) {
    const STEPS: u64 = 5;
    let run = TestRun { stop_steps: Some(STEPS), ..TestRun::new(count, floats) };
    let ends = run.run(|worker| {
        let (slot, mut mesh) = (worker.slot, worker.connect());
        while !mesh.is_over() {
            let step = mesh.global_step();
            let gradient = gradient(slot, step, floats);
            mesh.reduce(local(slot as u32 + 1, &gradient), &mut SilentObserver).unwrap();
        }
        let moved = mesh.traffic();
        mesh.leave(format!("report {slot}").as_bytes(), &mut SilentObserver).unwrap();
        let reports =
            if slot == 0 { mesh.collect_reports(&mut SilentObserver).unwrap() } else { Vec::new() };
        (mesh.params().to_vec(), reports, moved)
    });
    let params = plain_loop(count, floats, STEPS);
    for (slot, (found, _, traffic)) in ends.iter().enumerate() {
        assert!(*found == params, "{count} workers, {floats} floats: slot {slot} differs");
        // Each worker sends 2(n - 1)/n of the bytes, and little more.
        let ideal = STEPS as f64 * floats as f64 * 4.0 * 2.0 * (count - 1) as f64 / count as f64;
        for moved in [traffic.sent, traffic.received] {
            let over = moved as f64 - ideal;
            assert!((-500.0..0.001 * ideal + 10_000.0).contains(&over), "{moved} of {ideal}");
        }
    }
    let reports: Vec<_> = ends[0].1.iter().map(|report| report.bytes.clone()).collect();
    let expected = (1..count).map(|slot| format!("report {slot}").into_bytes());
    assert!(reports.into_iter().eq(expected));
}

#[test]
fn every_replica_has_the_bits_of_a_plain_loop() {
    for (count, floats) in [
        (1, 10),
        (1, 2 * CHUNK_FLOATS + 1),
        (2, 7_850),
        (2, 5 * CHUNK_FLOATS + 77),
        (3, 7),
        (3, 4 * CHUNK_FLOATS + 5),
        (6, 3 * CHUNK_FLOATS + 1),
    ] {
        check(count, floats);
    }
}

#[test]
fn all_others_name_a_worker_that_is_lost() {
    for (count, floats) in [(2, 100), (3, 100), (3, 20 * CHUNK_FLOATS), (5, 20 * CHUNK_FLOATS)] {
        let begun = Instant::now();
        let ends = TestRun::new(count, floats).run(|worker| {
            let (slot, mut mesh) = (worker.slot, worker.connect());
            let gradient = gradient(slot, 0, floats);
            let steps = if slot == 1 { 3 } else { u64::MAX };
            while mesh.global_step() < steps {
                let made = mesh.reduce(local(1, &gradient), &mut SilentObserver);
                if let Err(error) = made {
                    return Some(error);
                }
            }
            None
        });
        for (slot, end) in ends.iter().enumerate().filter(|(slot, _)| *slot != 1) {
            let Some(error) = end else { panic!("slot {slot} did not notice") };
            assert!(matches!(error, LinkError::Lost { .. } | LinkError::Aborted(_)), "{error:?}");
            let said = error.to_string();
            // A worker that notices late may name another that is gone for the same reason.
            let names_it = said.starts_with("lost worker:") && said.contains("worker:1");
            assert!(names_it, "slot {slot} of {count}: {said}");
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}

#[test]
fn workers_that_are_lost_and_come_back_do_not_change_the_bits() {
    const STEPS: u64 = 12;
    for (count, floats, deaths) in [
        (2, 100, &[(1, 3)][..]),
        (2, 100, &[(0, 3), (0, 7)]),
        (3, 100, &[(1, 4), (2, 4)]),
        (3, 3 * CHUNK_FLOATS + 5, &[(2, 0), (0, 5), (1, 6), (2, 11)]),
        // All workers at once: the run starts from its beginning.
        (3, 100, &[(0, 5), (1, 5), (2, 5)]),
    ] {
        let run =
            TestRun { stop_steps: Some(STEPS), recovers: true, ..TestRun::new(count, floats) };
        let ends = run.run(|worker| {
            let slot = worker.slot;
            let mut left = deaths.iter().filter(|(who, _)| *who == slot).peekable();
            let mut mesh = worker.connect();
            while !mesh.is_over() {
                let step = mesh.global_step();
                if left.next_if(|(_, when)| *when == step).is_some() {
                    drop(mesh);
                    mesh = worker.connect();
                    continue;
                }
                let gradient = gradient(slot, step, floats);
                mesh.reduce(local(slot as u32 + 1, &gradient), &mut SilentObserver).unwrap();
            }
            mesh.leave(format!("report {slot}").as_bytes(), &mut SilentObserver).unwrap();
            if slot == 0 {
                let reports = mesh.collect_reports(&mut SilentObserver).unwrap();
                assert_eq!(reports.len(), count - 1);
                mesh.finish(&mut SilentObserver);
            }
            assert!(left.next().is_none(), "slot {slot} was lost less often than planned");
            mesh.params().to_vec()
        });
        let params = plain_loop(count, floats, STEPS);
        for (slot, found) in ends.iter().enumerate() {
            assert!(*found == params, "{count} workers, {floats} floats: slot {slot} differs");
        }
    }
}

#[test]
fn a_worker_that_does_not_come_back_in_time_ends_the_run_and_is_named() {
    let run = TestRun { recovers: true, rejoin_timeout: SHORT, ..TestRun::new(3, 100) };
    let ends = run.run(|worker| {
        let (slot, mut mesh) = (worker.slot, worker.connect());
        // A listener that stays open would answer the others for the lost worker.
        drop(worker);
        while slot != 1 || mesh.global_step() < 3 {
            if let Err(error) = mesh.reduce(local(1, &[0.1; 100]), &mut SilentObserver) {
                return Some(error.to_string());
            }
        }
        None
    });
    for slot in [0, 2] {
        let said = ends[slot].as_ref().unwrap();
        assert!(said.starts_with("lost worker:1 ("), "slot {slot}: {said}");
    }
}

#[test]
fn a_run_is_cut_short_between_two_steps_while_others_have_sent_their_gradients() {
    let floats = 3 * CHUNK_FLOATS;
    for recovers in [false, true] {
        let run = TestRun { recovers, ..TestRun::new(3, floats) };
        let has_made_first = Barrier::new(3);
        let ends = run.run(|worker| {
            let mut mesh = worker.connect();
            let slot = worker.slot;
            let observer = &mut SilentObserver;
            let first = gradient(slot, 0, floats);
            mesh.reduce(local(slot as u32 + 1, &first), observer).unwrap();
            has_made_first.wait();
            match slot {
                // Worker 2 has given its gradient up as well.
                0 => mesh.cut_short(),
                1 => {
                    let second = gradient(slot, 1, floats);
                    let cut = mesh.reduce(local(1, &second), observer);
                    assert!(matches!(cut, Err(LinkError::CutShort)), "{cut:?}");
                }
                _ => mesh.wait_for_cut(observer).unwrap(),
            }
            assert!(mesh.is_over() && mesh.is_cut_short() && !mesh.is_mixed());
            mesh.leave(format!("report {slot}").as_bytes(), observer).unwrap();
            let reports = if slot == 0 { mesh.collect_reports(observer).unwrap() } else { vec![] };
            (mesh.params().to_vec(), mesh.global_step(), reports)
        });
        let whole = plain_loop(3, floats, 1);
        for (params, step, _) in &ends {
            assert!(*params == whole && *step == 1, "recovers: {recovers}");
        }
        let reports: Vec<_> = ends[0].2.iter().map(|report| report.bytes.clone()).collect();
        assert_eq!(reports, [b"report 1", b"report 2"], "recovers: {recovers}");
    }
}
