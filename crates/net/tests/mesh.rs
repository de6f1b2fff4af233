//! Workers without servers over real sockets: models of many parts, and peers that go.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use paceline_exchange::{CHUNK_FLOATS, Replica, ReplicaConfig};
use paceline_model::{Group, Layout, OptimizerState, Sgd};
use paceline_net::{ExchangePhase, LinkError, LinkObserver, LocalGradient, Mesh, MeshConfig};

/// How long anything may take that is to come to an end.
const LONG: Duration = Duration::from_secs(60);
/// How long nobody comes back.
const SHORT: Duration = Duration::from_millis(300);

struct Silent;

impl LinkObserver for Silent {
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

/// One worker, connected to all others.
fn start(
    (slot, count): (usize, usize),
    floats: usize,
    stop_steps: Option<u64>,
    recovers: bool,
    (addresses, door): (&[String], TcpListener),
    rejoin_timeout: Duration,
) -> Mesh {
    static PROCESSES: AtomicU64 = AtomicU64::new(1);
    let config = ReplicaConfig {
        incarnation: PROCESSES.fetch_add(1, Ordering::Relaxed),
        stop_steps,
        check_every: 2,
        recovers,
        ..ReplicaConfig::new(slot, count)
    };
    let spec = Sgd::new(0.5);
    let replica = Replica::new(config, vec![0.5; floats], spec, &layout(floats));
    let config = MeshConfig {
        addresses: addresses.to_vec(),
        start_timeout: LONG,
        stall_timeout: LONG,
        rejoin_timeout,
    };
    Mesh::connect(replica, config, Some(door), &mut Silent).unwrap()
}

/// Starts so many workers on threads and has each do this with its mesh.
fn workers<T: Send>(
    count: usize,
    floats: usize,
    stop_steps: Option<u64>,
    work: impl Fn(usize, Mesh) -> T + Sync,
) -> Vec<T> {
    let doors: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let addresses: Vec<_> =
        doors.iter().map(|door| door.local_addr().unwrap().to_string()).collect();
    thread::scope(|scope| {
        let work = &work;
        let begin = |(slot, door)| {
            let addresses = addresses.clone();
            scope.spawn(move || {
                let at = (&addresses[..], door);
                work(slot, start((slot, count), floats, stop_steps, false, at, LONG))
            })
        };
        let threads: Vec<_> = doors.into_iter().enumerate().map(begin).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// The same steps in a plain loop.
fn plain(count: usize, floats: usize, steps: u64) -> Vec<f32> {
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

/// So many steps of these workers must give the parameters of a plain loop, on every replica.
fn check(count: usize, floats: usize) {
    const STEPS: u64 = 5;
    let ends = workers(count, floats, Some(STEPS), |slot, mut mesh| {
        while !mesh.is_over() {
            let step = mesh.global_step();
            let gradient = gradient(slot, step, floats);
            mesh.reduce(local(slot as u32 + 1, &gradient), &mut Silent).unwrap();
        }
        let moved = mesh.traffic();
        mesh.leave(format!("report {slot}").as_bytes(), &mut Silent).unwrap();
        let reports =
            if slot == 0 { mesh.collect_reports(&mut Silent).unwrap() } else { Vec::new() };
        (mesh.params().to_vec(), reports, moved)
    });
    let params = plain(count, floats, STEPS);
    for (slot, (found, _, traffic)) in ends.iter().enumerate() {
        assert!(*found == params, "{count} workers, {floats} floats: slot {slot} differs");
        // Each sends 2(n - 1)/n of the bytes, and little more.
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
fn a_worker_that_goes_in_the_middle_is_named_by_all_others() {
    for (count, floats) in [(2, 100), (3, 100), (3, 20 * CHUNK_FLOATS), (5, 20 * CHUNK_FLOATS)] {
        let begun = Instant::now();
        let ends = workers(count, floats, None, |slot, mut mesh| {
            let gradient = gradient(slot, 0, floats);
            let steps = if slot == 1 { 3 } else { u64::MAX };
            while mesh.global_step() < steps {
                let made = mesh.reduce(local(1, &gradient), &mut Silent);
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
            // Whoever hears of it late may find that another has gone for the same reason.
            let names_it = said.starts_with("lost worker:") && said.contains("worker:1");
            assert!(names_it, "slot {slot} of {count}: {said}");
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}

#[test]
fn workers_that_go_and_come_back_leave_the_bits_as_they_were() {
    const STEPS: u64 = 12;
    for (count, floats, deaths) in [
        (2, 100, &[(1, 3)][..]),
        (2, 100, &[(0, 3), (0, 7)]),
        (3, 100, &[(1, 4), (2, 4)]),
        (3, 3 * CHUNK_FLOATS + 5, &[(2, 0), (0, 5), (1, 6), (2, 11)]),
        // Everybody: then all begin again.
        (3, 100, &[(0, 5), (1, 5), (2, 5)]),
    ] {
        let doors: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let addresses: Vec<_> =
            doors.iter().map(|door| door.local_addr().unwrap().to_string()).collect();
        let work = |slot: usize, door: TcpListener| {
            let mut left = deaths.iter().filter(|(who, _)| *who == slot).peekable();
            let begin = || {
                let at = (&addresses[..], door.try_clone().unwrap());
                start((slot, count), floats, Some(STEPS), true, at, LONG)
            };
            let mut mesh = begin();
            while !mesh.is_over() {
                let step = mesh.global_step();
                if left.next_if(|(_, when)| *when == step).is_some() {
                    drop(mesh);
                    mesh = begin();
                    continue;
                }
                let gradient = gradient(slot, step, floats);
                mesh.reduce(local(slot as u32 + 1, &gradient), &mut Silent).unwrap();
            }
            mesh.leave(format!("report {slot}").as_bytes(), &mut Silent).unwrap();
            if slot == 0 {
                assert_eq!(mesh.collect_reports(&mut Silent).unwrap().len(), count - 1);
                mesh.finish(&mut Silent);
            }
            assert!(left.next().is_none(), "slot {slot} lived longer than it should");
            mesh.params().to_vec()
        };
        let ends = thread::scope(|scope| {
            let threads: Vec<_> = doors
                .into_iter()
                .enumerate()
                .map(|(slot, door)| scope.spawn(move || work(slot, door)))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        let params = plain(count, floats, STEPS);
        for (slot, found) in ends.iter().enumerate() {
            assert!(*found == params, "{count} workers, {floats} floats: slot {slot} differs");
        }
    }
}

#[test]
fn a_worker_that_does_not_come_back_in_time_ends_the_run_which_names_it() {
    let doors: Vec<_> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let addresses: Vec<_> = doors.iter().map(|d| d.local_addr().unwrap().to_string()).collect();
    let work = |slot: usize, door: TcpListener| {
        let mut mesh = start((slot, 3), 100, None, true, (&addresses, door), SHORT);
        while slot != 1 || mesh.global_step() < 3 {
            if let Err(error) = mesh.reduce(local(1, &[0.1; 100]), &mut Silent) {
                return Some(error.to_string());
            }
        }
        None
    };
    let ends = thread::scope(|scope| {
        let threads: Vec<_> = doors
            .into_iter()
            .enumerate()
            .map(|(slot, door)| scope.spawn(move || work(slot, door)))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    for slot in [0, 2] {
        let said = ends[slot].as_ref().unwrap();
        assert!(said.starts_with("lost worker:1 ("), "slot {slot}: {said}");
    }
}
