//! Chaos: tasks of a small run are killed, stopped and cut off, and bits on their way between tasks
//! are flipped, at random times, all drawn from a seed, and the run must end as if undisturbed.
//!
//! `sync` and `mirrored` must end with the bits of an undisturbed run. In `async` and `bounded` the
//! counts must add up: every server has made every update, each update is one push of one slot, and
//! each push is applied once. The local launcher starts the runs of even seeds and of `mirrored`;
//! the test starts the tasks of the others one by one, and can then cut connections and flip bits
//! too. Half of the runs are encrypted, and all of them if `PACELINE_CHAOS_TLS` is set.
//!
//! `cargo xtask chaos` plays 300 seeds; `PACELINE_CHAOS_SEED=n` plays one, or begins with it if
//! `PACELINE_CHAOS_SEEDS` says how many.

mod tasks;

use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{RunFolder, Sandbox};
use crate::tls::make_keys;
use tasks::{LaunchedTasks, ManualTasks, SERVERS, TaskControl, WORKERS};

/// Steps of a run whose tasks are killed and stopped.
const STEPS: u64 = 2_500;
/// Steps of a run whose connections are disturbed all through it.
const SHORT_STEPS: u64 = 600;
/// Steps from one checkpoint to the next.
const CHECKPOINT_EVERY: u64 = 100;
/// After how long a run counts as hung.
const TIMEOUT: Duration = Duration::from_secs(240);

/// A mode, and whether its runs must end with the bits of an undisturbed run.
struct ChaosCase {
    mode: &'static str,
    has_exact_bits: bool,
    /// Steps of a run, or a quarter of them where workers do not wait for each other.
    steps: u64,
}

/// The modes with servers, for connections that are disturbed.
const CASES: [ChaosCase; 3] = [
    ChaosCase { mode: "sync", has_exact_bits: true, steps: SHORT_STEPS },
    ChaosCase { mode: "async", has_exact_bits: false, steps: SHORT_STEPS },
    ChaosCase { mode: "bounded", has_exact_bits: false, steps: SHORT_STEPS },
];

/// Settings of a dense model, of a sparse one, and of those with several numbers for each feature.
/// Batches are small: what a run costs beyond its messages is what a batch costs.
const MODELS: [&[&str]; 6] = [
    &["train.optimizer.kind=momentum"],
    &["model.kind=logistic", "data.features=5000", "train.optimizer.kind=adagrad"],
    &["model.kind=fm", "model.rank=3", "data.features=5000", "model.min_count=2"],
    &["model.kind=ffm", "model.rank=2", "data.features=5000", "model.evict_after=170"],
    &["model.kind=deepfm", "model.rank=2", "data.features=5000"],
    &["model.kind=wide-deep", "model.rank=2", "data.features=5000", "train.optimizer.kind=adam"],
];

/// A small random generator, so that a seed always gives the same disruptions.
struct SplitMix(u64);

impl SplitMix {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let value = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (value ^ (value >> 31)) % bound
    }
}

/// What happens to a task.
#[derive(Clone, Copy, Debug)]
enum Disruption {
    Kill,
    /// The task is stopped for this time.
    Stop(Duration),
    /// The connections to a server are cut.
    Cut,
    /// A bit on its way to or from a server is flipped.
    Flip,
}

/// A disruption, when it comes and which task it hits.
struct DrawnDisruption {
    /// The time since the disruption before.
    gap: Duration,
    disruption: Disruption,
    task: String,
}

impl DrawnDisruption {
    fn new(random: &mut SplitMix) -> Self {
        let gap = Duration::from_millis(random.below(250));
        let disruption = match random.below(10) {
            0..6 => Disruption::Kill,
            6..8 => Disruption::Stop(Duration::from_millis(20 + random.below(300))),
            8 => Disruption::Cut,
            _ => Disruption::Flip,
        };
        let index = random.below((WORKERS + SERVERS) as u64) as usize;
        let task = match index.checked_sub(WORKERS) {
            Some(server) => format!("ps:{server}"),
            None => format!("worker:{index}"),
        };
        Self { gap, disruption, task }
    }
}

/// A stopped process, and when it is set going again.
struct StoppedProcess {
    pid: u32,
    until: Instant,
}

fn settings(case: &ChaosCase, model: &[&str]) -> Vec<String> {
    let ChaosCase { mode, steps, .. } = *case;
    let servers = (mode != "mirrored").then(|| format!("cluster.servers={SERVERS}"));
    // Steps are short where workers do not wait for each other.
    let steps = if ["async", "bounded"].contains(&mode) { 4 * steps } else { steps };
    let own = [
        format!("cluster.mode={mode}"),
        format!("cluster.workers={WORKERS}"),
        format!("train.stop.steps={steps}"),
        format!("checkpoint.every_steps={CHECKPOINT_EVERY}"),
        "cluster.on_worker_loss=wait".into(),
        "cluster.restarts=1000".into(),
        "train.batch=10".into(),
    ];
    let model = model.iter().map(|setting| (*setting).to_owned());
    own.into_iter().chain(servers).chain(model).collect()
}

/// The model of an undisturbed `sync` run of this many steps. `mirrored` gives the same.
fn undisturbed(steps: u64, model: usize) -> &'static [u8] {
    static LONG: [OnceLock<Vec<u8>>; MODELS.len()] = [const { OnceLock::new() }; MODELS.len()];
    static SHORT: [OnceLock<Vec<u8>>; MODELS.len()] = [const { OnceLock::new() }; MODELS.len()];
    let known = if steps == STEPS { &LONG } else { &SHORT };
    known[model].get_or_init(|| {
        let sandbox = Sandbox::new();
        let case = ChaosCase { mode: "sync", has_exact_bits: true, steps };
        let settings = settings(&case, MODELS[model]);
        let settings: Vec<_> = settings.iter().skip(1).map(String::as_str).collect();
        sandbox.train_cluster("undisturbed", "sync", &settings).model()
    })
}

/// Plays one seed. Returns the number of disruptions.
fn play(case: &ChaosCase, seed: u64) -> usize {
    let mut random = SplitMix(seed ^ (case.mode.len() as u64) << 32);
    let has_servers = case.mode != "mirrored";
    let model = random.below(MODELS.len() as u64) as usize;
    let sandbox = Sandbox::new();
    let mut settings = settings(case, MODELS[model]);
    // Half of the runs are encrypted.
    let is_encrypted = seed % 4 < 2 || std::env::var_os("PACELINE_CHAOS_TLS").is_some();
    let mut tasks: Box<dyn TaskControl> = if seed.is_multiple_of(2) || !has_servers {
        settings.extend(is_encrypted.then(|| "cluster.tls=run".to_owned()));
        let settings: Vec<_> = settings.iter().skip(1).map(String::as_str).collect();
        let launcher = sandbox.launch("run", case.mode, &settings);
        Box::new(LaunchedTasks { launcher, run: sandbox.path("run") })
    } else {
        settings.extend(is_encrypted.then(|| make_keys(&sandbox)).into_iter().flatten());
        Box::new(ManualTasks::start(&sandbox, &settings))
    };
    let start = Instant::now();
    let most_disruptions = 2 + random.below(4);
    let mut disruptions = Vec::new();
    let mut stopped: Vec<StoppedProcess> = Vec::new();
    // The first disruption may come before the first step.
    let mut due = start + Duration::from_millis(random.below(400));
    let mut draw = DrawnDisruption::new(&mut random);
    while !tasks.supervise() {
        assert!(
            start.elapsed() < TIMEOUT,
            "seed {seed} hangs after {disruptions:?}\n{}",
            last_lines(&sandbox.run_folder("run"))
        );
        std::thread::sleep(Duration::from_millis(3));
        let now = Instant::now();
        stopped.extract_if(.., |process| now >= process.until).for_each(|p| signal(p.pid, "CONT"));
        if (disruptions.len() as u64) < most_disruptions && now >= due {
            let happened = disrupt(&mut *tasks, &draw, &mut stopped);
            if happened {
                disruptions.push((start.elapsed(), draw.disruption, draw.task));
            }
            draw = DrawnDisruption::new(&mut random);
            // If the task had no process, the next disruption comes at once.
            due = if happened { now + draw.gap } else { now };
        }
    }
    stopped.into_iter().for_each(|process| signal(process.pid, "CONT"));
    let printed = tasks.finish();
    check(case, model, &sandbox.run_folder("run"), &format!("{disruptions:?}\n{printed}"));
    disruptions.len()
}

/// The last lines that each task has written to its log.
fn last_lines(run: &RunFolder) -> String {
    let servers = (0..SERVERS).map(|index| format!("ps:{index}"));
    let tasks = servers.chain((0..WORKERS).map(|index| format!("worker:{index}")));
    let last = |task: String| {
        let log = run.log(&task);
        let lines: Vec<_> = log.lines().rev().take(5).collect();
        lines.into_iter().rev().map(|line| format!("{task}: {line}\n")).collect::<String>()
    };
    tasks.map(last).collect()
}

/// Sends a signal to a process, which may have ended just now.
fn signal(pid: u32, name: &str) {
    let kill = format!("kill -{name} {pid} 2>/dev/null");
    let _ = Command::new("sh").args(["-c", &kill]).status();
}

/// Carries out a disruption. Returns whether the task had a process or connection to disrupt.
fn disrupt(
    tasks: &mut dyn TaskControl,
    draw: &DrawnDisruption,
    stopped: &mut Vec<StoppedProcess>,
) -> bool {
    let number = draw.task.bytes().last().map_or(0, |digit| usize::from(digit - b'0'));
    match draw.disruption {
        Disruption::Cut => return tasks.cut(number % SERVERS),
        Disruption::Flip => return tasks.flip(number % SERVERS),
        Disruption::Kill | Disruption::Stop(_) => {}
    }
    let Some(pid) = tasks.find(&draw.task) else { return false };
    match draw.disruption {
        Disruption::Kill => signal(pid, "KILL"),
        Disruption::Stop(time) => {
            signal(pid, "STOP");
            stopped.push(StoppedProcess { pid, until: Instant::now() + time });
        }
        Disruption::Cut | Disruption::Flip => {}
    }
    true
}

fn check(case: &ChaosCase, model: usize, run: &RunFolder, context: &str) {
    let summary = run.summary();
    let steps = summary["global_steps"].as_u64().unwrap();
    if case.has_exact_bits {
        assert_eq!(steps, case.steps, "{context}");
        assert!(run.model() == undisturbed(steps, model), "other bits after {context}");
        return;
    }
    assert!(steps >= case.steps, "{context}");
    for server in 0..SERVERS {
        let applied = &run.task(&format!("ps:{server}"))["steps"];
        assert_eq!(applied.as_u64(), Some(steps), "ps:{server} after {context}");
    }
    // The last checkpoint is missing if a server was killed while it wrote it.
    let Some(pushes) = last_pushes(run, steps) else { return };
    for chunk in &pushes {
        assert_eq!(*chunk, pushes[0], "all chunks have the same pushes, after {context}");
    }
    assert_eq!(pushes[0].iter().sum::<u64>(), steps, "each push once, after {context}");
}

/// For every chunk of every server, the sequence number of each slot's last push, from the
/// checkpoint of the run's end. None if there is no such checkpoint.
fn last_pushes(run: &RunFolder, steps: u64) -> Option<Vec<Vec<u64>>> {
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

/// Plays the seeds of a mode and prints the first that fails.
fn seeds(case: &ChaosCase) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("PACELINE_CHAOS_SEED");
    let count = number("PACELINE_CHAOS_SEEDS").map(|all| all.div_ceil(3));
    let count = count.unwrap_or(if first.is_some() { 1 } else { 2 });
    let first = first.unwrap_or(0);
    let mut disruptions = 0;
    for seed in first..first + count {
        let played = std::panic::catch_unwind(|| play(case, seed));
        disruptions += played.unwrap_or_else(|panic| {
            println!("{}: play it again with PACELINE_CHAOS_SEED={seed}", case.mode);
            std::panic::resume_unwind(panic)
        });
    }
    assert!(disruptions as u64 >= count, "{disruptions} disruptions are too few");
    println!("{}: {count} runs from seed {first} on, {disruptions} disruptions", case.mode);
}

#[test]
fn sync_ends_with_the_same_bits_whatever_happens() {
    seeds(&ChaosCase { mode: "sync", has_exact_bits: true, steps: STEPS });
}

#[test]
fn mirrored_ends_with_the_same_bits_whatever_happens() {
    seeds(&ChaosCase { mode: "mirrored", has_exact_bits: true, steps: STEPS });
}

#[test]
fn async_has_every_push_once_whatever_happens() {
    seeds(&ChaosCase { mode: "async", has_exact_bits: false, steps: STEPS });
}

#[test]
fn bounded_has_every_push_once_whatever_happens() {
    seeds(&ChaosCase { mode: "bounded", has_exact_bits: false, steps: STEPS });
}

#[test]
fn cut_connections_are_healed_in_every_mode() {
    for case in &CASES {
        let (mode, sandbox) = (case.mode, Sandbox::new());
        let mut tasks = Box::new(ManualTasks::start(&sandbox, &settings(case, MODELS[0])));
        let start = Instant::now();
        let (mut cuts, mut before) = (0, [0; SERVERS]);
        while !tasks.supervise() {
            assert!(start.elapsed() < TIMEOUT, "{mode} hangs");
            std::thread::sleep(Duration::from_millis(5));
            if tasks.has_progressed(cuts % SERVERS, &mut before) {
                tasks.cut(cuts % SERVERS);
                cuts += 1;
            }
        }
        assert_eq!(tasks.restarts, 0, "{mode}: a cut ends no task");
        let printed = tasks.finish();
        check(case, 0, &sandbox.run_folder("run"), &printed);
        assert_eq!(sandbox.run_folder("run").summary()["lost_pushes"], 0, "{mode}");
        assert!(cuts > 5, "{mode}: {cuts} cuts");
    }
}

/// Flips bits all through a run of each mode, with or without TLS.
fn flip_bits(is_encrypted: bool) {
    for case in &CASES {
        let (mode, sandbox) = (case.mode, Sandbox::new());
        let mut settings = settings(case, MODELS[0]);
        settings.extend(is_encrypted.then(|| make_keys(&sandbox)).into_iter().flatten());
        let mut tasks = Box::new(ManualTasks::start(&sandbox, &settings));
        let start = Instant::now();
        let (mut turns, mut before) = (0, [0; SERVERS]);
        while !tasks.supervise() {
            assert!(start.elapsed() < TIMEOUT, "{mode} hangs");
            std::thread::sleep(Duration::from_millis(5));
            if tasks.has_progressed(turns % SERVERS, &mut before) {
                tasks.flip(turns % SERVERS);
                turns += 1;
            }
        }
        assert_eq!(tasks.restarts, 0, "{mode}: a flipped bit ends no task");
        let flipped = tasks.flipped();
        let printed = tasks.finish();
        let run = sandbox.run_folder("run");
        check(case, 0, &run, &printed);
        assert_eq!(run.summary()["lost_pushes"], 0, "{mode}");
        assert!(flipped > 5, "{mode}: {flipped} bits");
        let logs = ["ps:0", "ps:1", "worker:0", "worker:1", "worker:2"].map(|task| run.log(task));
        let noticed = logs.iter().map(|log| log.matches("was changed on the way").count());
        assert!(noticed.sum::<usize>() > 0, "{mode}: {printed}");
    }
}

#[test]
fn flipped_bits_are_noticed_and_healed_in_every_mode() {
    flip_bits(false);
}

#[test]
fn flipped_bits_over_tls_are_noticed_and_healed() {
    flip_bits(true);
}
