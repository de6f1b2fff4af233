//! Workers without servers over real sockets: models of many parts, and peers that go.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use paceline_exchange::{PART_FLOATS, Replica, ReplicaConfig, worker_names};
use paceline_model::{Group, Layout, Optimizer, OptimizerSpec};
use paceline_net::{Attendant, LinkError, Mesh, MeshConfig, Moved};

struct Silent;

impl Attendant for Silent {
    fn moved(&mut self, _: Moved) {}
    fn note(&mut self, _: &str) {}
    fn gives_up(&mut self) -> bool {
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
        let start = |(slot, door)| {
            let addresses = addresses.clone();
            scope.spawn(move || {
                let config = ReplicaConfig {
                    slot,
                    names: worker_names(count),
                    incarnation: 1,
                    token: Vec::new(),
                    job_digest: [0; 32],
                    layout_digest: [0; 32],
                    stop_steps,
                    check_every: 2,
                    part_floats: PART_FLOATS,
                };
                let spec = OptimizerSpec::sgd(0.5);
                let replica = Replica::new(config, vec![0.5; floats], spec, &layout(floats));
                let limit = Duration::from_secs(60);
                let config = MeshConfig { addresses, start_timeout: limit, stall_timeout: limit };
                work(slot, Mesh::start(replica, config, Some(door), &mut Silent).unwrap())
            })
        };
        let threads: Vec<_> = doors.into_iter().enumerate().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// So many steps of these workers must give the parameters of a plain loop, on every replica.
fn check(count: usize, floats: usize) {
    const STEPS: u64 = 5;
    let ends = workers(count, floats, Some(STEPS), |slot, mut mesh| {
        while !mesh.is_over() {
            let step = mesh.global_step();
            let gradient = gradient(slot, step, floats);
            mesh.reduce(Some((slot as u32 + 1, &gradient)), &mut Silent).unwrap();
        }
        let moved = mesh.moved_bytes();
        mesh.leave(format!("report {slot}").as_bytes(), &mut Silent).unwrap();
        let reports = if slot == 0 { mesh.collect(&mut Silent).unwrap() } else { Vec::new() };
        (mesh.params().to_vec(), reports, moved)
    });
    let mut params = vec![0.5; floats];
    let mut optimizer = Optimizer::new(OptimizerSpec::sgd(0.5), &layout(floats), 0..floats);
    let total = (count * (count + 1) / 2) as f64;
    for step in 0..STEPS {
        let mut mean = vec![0.0f32; floats];
        for slot in 0..count {
            let weight = ((slot + 1) as f64 / total) as f32;
            for (mean, value) in mean.iter_mut().zip(gradient(slot, step, floats)) {
                *mean = if slot == 0 { weight * value } else { *mean + weight * value };
            }
        }
        optimizer.apply(step, 0, &mut params, &mean);
    }
    for (slot, (found, _, (sent, received))) in ends.iter().enumerate() {
        assert!(*found == params, "{count} workers, {floats} floats: slot {slot} differs");
        // Each sends 2(n - 1)/n of the bytes, and little more.
        let ideal = STEPS as f64 * floats as f64 * 4.0 * 2.0 * (count - 1) as f64 / count as f64;
        for moved in [sent, received] {
            let over = *moved as f64 - ideal;
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
        (1, 2 * PART_FLOATS + 1),
        (2, 7_850),
        (2, 5 * PART_FLOATS + 77),
        (3, 7),
        (3, 4 * PART_FLOATS + 5),
        (6, 3 * PART_FLOATS + 1),
    ] {
        check(count, floats);
    }
}

#[test]
fn a_worker_that_goes_in_the_middle_is_named_by_all_others() {
    for (count, floats) in [(2, 100), (3, 100), (3, 20 * PART_FLOATS), (5, 20 * PART_FLOATS)] {
        let begun = Instant::now();
        let ends = workers(count, floats, None, |slot, mut mesh| {
            let gradient = gradient(slot, 0, floats);
            let steps = if slot == 1 { 3 } else { u64::MAX };
            while mesh.global_step() < steps {
                let made = mesh.reduce(Some((1, &gradient)), &mut Silent);
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
            assert!(said.starts_with("lost worker:1 ("), "slot {slot} of {count}: {said}");
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}
