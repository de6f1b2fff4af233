//! Chaos: tasks of a small run are killed, stopped and cut off at random moments, all from a seed,
//! and in the end the run is as if nothing had happened.
//!
//! `sync` and `mirrored` must end with the bits of an undisturbed run. In `async` and `bounded` the
//! accounts must add up: every server has made every update, each of them by one push of one slot,
//! and each push is in it once. Half of the seeds are runs of the local launcher, with `mirrored` all; the tasks of
//! the others are started one by one, and there connections are cut too.
//!
//! `cargo xtask chaos` plays 300 seeds; `PACELINE_CHAOS_SEED=n` plays one.

mod proxy;
mod tasks;

use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Launched, Room, Run};
use tasks::{Local, Ours, SERVERS, Tasks, WORKERS};

/// Steps of a run, and from one checkpoint to the next.
const STEPS: u64 = 2_500;
const CHECKPOINT_EVERY: u64 = 100;
/// No run takes longer, however much befalls it.
const PATIENCE: Duration = Duration::from_secs(240);

/// What chaos comes over: a mode, and whether it must end with the same bits whatever happens.
struct Case {
    mode: &'static str,
    has_exact_bits: bool,
}

/// The models of the runs: dense, and sparse.
const MODELS: [&[&str]; 2] = [
    &["train.optimizer.kind=momentum", "train.batch=20"],
    &["model.kind=logistic", "data.features=5000", "train.optimizer.kind=adagrad"],
];

/// A small generator (SplitMix64), so that a seed stands for one row of accidents.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let value = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (value ^ (value >> 31)) % bound
    }
}

/// Something that happens to a task.
#[derive(Clone, Copy, Debug)]
enum Accident {
    Kill,
    /// Stopped, and set going again after so long.
    Stop(Duration),
    /// Its connections are cut; of a worker, those of a server.
    Cut,
}

fn draw(random: &mut Random) -> (Duration, Accident, String) {
    let gap = Duration::from_millis(random.below(250));
    let accident = match random.below(10) {
        0..6 => Accident::Kill,
        6..8 => Accident::Stop(Duration::from_millis(20 + random.below(300))),
        _ => Accident::Cut,
    };
    let index = random.below((WORKERS + SERVERS) as u64) as usize;
    let task = match index.checked_sub(WORKERS) {
        Some(server) => format!("ps:{server}"),
        None => format!("worker:{index}"),
    };
    (gap, accident, task)
}

fn settings(mode: &str, model: &[&str]) -> Vec<String> {
    let servers = (mode != "mirrored").then(|| format!("cluster.servers={SERVERS}"));
    // Where nobody waits for anybody a step is soon made.
    let steps = if ["async", "bounded"].contains(&mode) { 4 * STEPS } else { STEPS };
    let own = [
        format!("cluster.mode={mode}"),
        format!("cluster.workers={WORKERS}"),
        format!("train.stop.steps={steps}"),
        format!("checkpoint.every_steps={CHECKPOINT_EVERY}"),
        "cluster.on_worker_loss=wait".into(),
        "cluster.restarts=1000".into(),
    ];
    let model = model.iter().map(|setting| (*setting).to_owned());
    own.into_iter().chain(servers).chain(model).collect()
}

/// The model of a run of `sync` that nothing happened to; of `mirrored` it is the same.
fn undisturbed(model: usize) -> &'static [u8] {
    static MODELS_OF: [OnceLock<Vec<u8>>; 2] = [const { OnceLock::new() }; 2];
    MODELS_OF[model].get_or_init(|| {
        let room = Room::new();
        let settings = settings("sync", MODELS[model]);
        let settings: Vec<_> = settings.iter().skip(1).map(String::as_str).collect();
        room.train_cluster("calm", "sync", &settings).model()
    })
}

/// Plays one seed; how many accidents there were.
fn play(case: &Case, seed: u64) -> usize {
    let mut random = Random(seed ^ (case.mode.len() as u64) << 32);
    // Without servers there are dense models only.
    let has_servers = case.mode != "mirrored";
    let model = if has_servers { random.below(2) as usize } else { 0 };
    let room = Room::new();
    let settings = settings(case.mode, MODELS[model]);
    let mut tasks: Box<dyn Tasks> = if seed.is_multiple_of(2) || !has_servers {
        let settings: Vec<_> = settings.iter().skip(1).map(String::as_str).collect();
        let mut command = room.cluster("run", case.mode, &settings);
        Box::new(Local(Launched::start(&mut command, room.path("run")), room.path("run")))
    } else {
        Box::new(Ours::start(&room, &settings))
    };
    let begun = Instant::now();
    let accidents = 2 + random.below(4);
    let mut told = Vec::new();
    let mut asleep: Vec<(Instant, u32)> = Vec::new();
    // Some befall a run that has not begun, and all one that is not over yet.
    let first = Duration::from_millis(random.below(400));
    let mut next = (begun + first, draw(&mut random));
    while !tasks.look() {
        assert!(begun.elapsed() < PATIENCE, "seed {seed} hangs after {told:?}");
        std::thread::sleep(Duration::from_millis(3));
        let now = Instant::now();
        asleep.retain(|&(until, pid)| {
            if now >= until {
                signal(pid, "CONT");
            }
            now < until
        });
        if (told.len() as u64) < accidents && now >= next.0 {
            let (_, accident, task) = &next.1;
            let befell = befall(&mut *tasks, *accident, task, &mut asleep);
            if befell {
                told.push((begun.elapsed(), *accident, task.clone()));
            }
            // In place of one that there was nobody for, the next comes at once.
            let drawn = draw(&mut random);
            next = (if befell { now + drawn.0 } else { now }, drawn);
        }
    }
    asleep.into_iter().for_each(|(_, pid)| signal(pid, "CONT"));
    let said = tasks.finish();
    check(case, model, &room.run_dir("run"), &format!("{told:?}\n{said}"));
    told.len()
}

/// A process that a test has started may have ended just now.
fn signal(pid: u32, name: &str) {
    let kill = format!("kill -{name} {pid} 2>/dev/null");
    let _ = Command::new("sh").args(["-c", &kill]).status();
}

/// Lets something happen to a task; says whether it did.
fn befall(
    tasks: &mut dyn Tasks,
    accident: Accident,
    task: &str,
    asleep: &mut Vec<(Instant, u32)>,
) -> bool {
    if let Accident::Cut = accident {
        let server = task.bytes().last().map_or(0, |digit| usize::from(digit - b'0'));
        return tasks.cut(server % SERVERS);
    }
    let Some(pid) = tasks.find(task) else { return false };
    match accident {
        Accident::Kill => signal(pid, "KILL"),
        Accident::Stop(time) => {
            signal(pid, "STOP");
            asleep.push((Instant::now() + time, pid));
        }
        Accident::Cut => {}
    }
    true
}

fn check(case: &Case, model: usize, run: &Run, told: &str) {
    let summary = run.summary();
    let steps = summary["global_steps"].as_u64().unwrap();
    if case.has_exact_bits {
        assert_eq!(steps, STEPS, "{told}");
        assert!(run.model() == undisturbed(model), "other bits after {told}");
        return;
    }
    assert!(steps >= STEPS, "{told}");
    for server in 0..SERVERS {
        let applied = &run.task(&format!("ps:{server}"))["steps"];
        assert_eq!(applied.as_u64(), Some(steps), "ps:{server} after {told}");
    }
    // The last checkpoint is not there if a server was killed while it wrote it.
    let Some(pushes) = last_pushes(run, steps) else { return };
    for part in &pushes {
        assert_eq!(*part, pushes[0], "all parts have the same pushes, after {told}");
    }
    assert_eq!(pushes[0].iter().sum::<u64>(), steps, "each push once, after {told}");
}

/// For every part of every server, the number of the last push of each slot, as the checkpoint of
/// the run's end has them.
fn last_pushes(run: &Run, steps: u64) -> Option<Vec<Vec<u64>>> {
    let entries = std::fs::read_dir(run.file("checkpoints")).unwrap().flatten();
    let manifests = entries.map(|entry| entry.path().join("manifest.json"));
    let newest = manifests.filter(|path| path.exists()).max().expect("there is a checkpoint");
    let manifest: Value = serde_json::from_slice(&std::fs::read(newest).unwrap()).unwrap();
    let shards = manifest["shards"].as_array().unwrap().iter();
    let parts = shards.flat_map(|shard| shard["parts"].as_array().unwrap());
    let pushes = |part: &Value| {
        let slots = part["slots"].as_array().unwrap().iter();
        slots.map(|slot| slot[0].as_u64().unwrap()).collect()
    };
    (manifest["step"] == steps).then(|| parts.map(pushes).collect())
}

/// Plays the seeds of a mode and names the first that fails.
fn seeds(case: &Case) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (from, count) = match number("PACELINE_CHAOS_SEED") {
        Some(seed) => (seed, 1),
        None => (0, number("PACELINE_CHAOS_SEEDS").map_or(10, |all| all.div_ceil(3))),
    };
    let mut accidents = 0;
    for seed in from..from + count {
        let played = std::panic::catch_unwind(|| play(case, seed));
        accidents += played.unwrap_or_else(|panic| {
            println!("{}: play it again with PACELINE_CHAOS_SEED={seed}", case.mode);
            std::panic::resume_unwind(panic)
        });
    }
    assert!(accidents as u64 >= count, "{accidents} accidents are not chaos");
}

#[test]
fn sync_ends_with_the_same_bits_whatever_happens() {
    seeds(&Case { mode: "sync", has_exact_bits: true });
}

#[test]
fn mirrored_ends_with_the_same_bits_whatever_happens() {
    seeds(&Case { mode: "mirrored", has_exact_bits: true });
}

#[test]
fn async_has_every_push_once_whatever_happens() {
    seeds(&Case { mode: "async", has_exact_bits: false });
}

#[test]
fn bounded_has_every_push_once_whatever_happens() {
    seeds(&Case { mode: "bounded", has_exact_bits: false });
}

#[test]
fn cut_connections_are_healed_in_every_mode() {
    for (mode, has_exact_bits) in [("sync", true), ("async", false), ("bounded", false)] {
        let room = Room::new();
        let mut tasks = Box::new(Ours::start(&room, &settings(mode, MODELS[0])));
        let begun = Instant::now();
        let mut cuts = 0;
        while !tasks.look() {
            assert!(begun.elapsed() < PATIENCE, "{mode} hangs");
            std::thread::sleep(Duration::from_millis(20));
            cuts += 1;
            tasks.cut(cuts % SERVERS);
        }
        assert_eq!(tasks.restarts, 0, "{mode}: nobody ends because of it");
        let said = tasks.finish();
        check(&Case { mode, has_exact_bits }, 0, &room.run_dir("run"), &said);
        assert_eq!(room.run_dir("run").summary()["lost_pushes"], 0, "{mode}");
        assert!(cuts > 5, "{mode}: {cuts} cuts");
    }
}
