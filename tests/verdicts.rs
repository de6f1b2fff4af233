//! What limited a run and which worker was slow. Each situation is real: a heavy model, slow
//! examples, long tests, a slow worker, server or network, and a machine whose cores are busy.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{
    ENDLESS, RunFolder, RunningProcess, SECRET, SMALL_DATA, Sandbox, assert_says, cluster_of,
    free_ports, points, tf_config, wait_until,
};

/// Long enough to be judged.
const LONG: &str = "train.stop={seconds=1.2}";

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

/// The verdict of a run, whose shares add up to the whole time.
#[track_caller]
fn verdict(run: &RunFolder) -> Value {
    let verdict = run.summary()["verdict"].clone();
    let shares = verdict["shares"].as_object().unwrap();
    assert!((shares.values().map(number).sum::<f64>() - 1.0).abs() < 1e-6, "{verdict}");
    verdict
}

/// Checks that the verdict of a run is of this kind, and returns its shares. Other tests run beside
/// this one: `None` if the run lacked cores more than anything else. With `PACELINE_TEST_QUIET=1`,
/// for a machine with nothing else to do, that is a failure.
#[track_caller]
fn check_verdict(run: &RunFolder, kind: &str, says: &[&str]) -> Option<Value> {
    let verdict = verdict(run);
    if verdict["kind"] == "cores" && std::env::var_os("PACELINE_TEST_QUIET").is_none() {
        eprintln!("skipped: the machine is busy with something else: {verdict}");
        return None;
    }
    assert_eq!(verdict["kind"], kind, "{verdict}");
    assert_says(verdict["text"].as_str().unwrap(), says);
    Some(verdict["shares"].clone())
}

/// Processes that keep every core of the machine busy until they are dropped.
struct BusyCores(Vec<Child>);

impl BusyCores {
    fn start() -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let busy = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        Self((0..3 * cores).map(|_| busy()).collect())
    }
}

impl Drop for BusyCores {
    fn drop(&mut self) {
        for process in &mut self.0 {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Whether the system counts how long a thread has no core.
fn counts_run_delay() -> bool {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let counts = text.split_whitespace().any(|figure| figure != "0");
    if !counts {
        eprintln!("skipped: the system does not count how long threads have no core");
    }
    counts
}

#[test]
fn a_short_run_is_too_short_to_judge() {
    let sandbox = Sandbox::new();
    let settings = ["train.stop={steps=20}", "cluster.mode=single"];
    let settings = SMALL_DATA.iter().chain(&settings).flat_map(|setting| ["--set", setting]);
    let args = ["train", "--run-dir", "run"].into_iter().chain(settings);
    let output = sandbox.ok(&args.collect::<Vec<_>>());
    assert_says(&output.stdout, &["verdict      too short to judge: training takes 0."]);
    assert!(!output.stdout.contains("; try "), "{}", output.stdout);
    let verdict = verdict(&sandbox.run_folder("run"));
    assert_eq!(
        (&verdict["kind"], &verdict["advice"]),
        (&"too short".into(), &Value::from(Vec::<Value>::new()))
    );
}

#[test]
fn the_verdict_on_a_heavy_model_is_compute() {
    let sandbox = Sandbox::new();
    let run = sandbox.train("run", &["model.kind=lenet", LONG]);
    check_verdict(&run, "compute", &["the worker spends", "% of the time computing"]);
}

#[test]
fn table_and_verdict_agree_on_one_process_of_several_threads() {
    let sandbox = Sandbox::new();
    let data = "data={kind=\"clicks\", train_examples=20000, test_examples=100}";
    let settings = ["model.kind=logistic", "train.threads=2", LONG].map(|set| ["--set", set]);
    let job = ["train", "--run-dir", "run", "--set", "cluster.mode=single", "--set", data];
    let job = [&job[..], &["--set", "observe.sample_ms=100"]].concat();
    let output = sandbox.ok(&[&job[..], &settings.concat()].concat());
    let run = sandbox.run_folder("run");
    let (task, verdict) = (run.task("worker:0"), verdict(&run));
    let part = |phase: &str| number(&task["phases"][phase]) / number(&task["seconds"]);
    let share = |kind: &str| number(&verdict["shares"][kind]);
    // A thread without a core is inside one of its phases.
    let computes = share("compute") + share("input") + share("cores");
    assert!((part("compute") + part("input") - computes).abs() < 1e-6, "{task} {verdict}");
    assert!((part("evaluation") - share("evaluation")).abs() < 1e-6, "{task} {verdict}");
    assert_eq!(part("push") + part("pull") + part("wait"), 0.0, "{task}");
    // So do the curves.
    let pushed = points(&run.worker_events(), "work_phases/push_percent");
    assert!(!pushed.is_empty() && pushed.iter().all(|(_, share)| *share == 0.0), "{pushed:?}");
    let row = output.stdout.lines().find(|line| line.starts_with("worker:0")).unwrap();
    assert_says(row, &[&format!(" {:.1} % ", 100.0 * part("compute"))]);
}

#[test]
fn the_verdict_on_slow_examples_is_input() {
    let sandbox = Sandbox::new();
    let settings = [
        "train",
        "--quiet",
        "--run-dir",
        "run",
        "--set",
        "model.kind=softmax",
        "--set",
        "data={kind=\"fake-images\", size=160, classes=2, train_examples=200, test_examples=4}",
        "--set",
        "cluster.mode=single",
        "--set",
        "train={batch=20, stop={seconds=1.5}}",
    ];
    sandbox.ok(&settings);
    check_verdict(&sandbox.run_folder("run"), "input", &["getting examples"]);
}

#[test]
fn the_verdict_on_tests_after_every_step_is_evaluation() {
    let sandbox = Sandbox::new();
    let settings = ["train.evaluate.every=1", LONG, "data.test_examples=4000"];
    let run = sandbox.train("single", &settings);
    check_verdict(&run, "evaluation", &["tests take", "train.evaluate.every"]);
    // Tests run beside the next step, so they must take far longer than a step.
    let heavy = ["model.kind=lenet", "train.batch=2", "data.test_examples=1000"];
    let run = sandbox.train_cluster(
        "sync",
        "sync",
        &[&heavy[..], &["train.evaluate.every=1", LONG]].concat(),
    );
    check_verdict(&run, "evaluation", &["tests take"]);
}

#[test]
fn the_verdict_on_a_long_final_test_is_evaluation() {
    let sandbox = Sandbox::new();
    // Long enough to be judged in a release build too.
    let test = ["train.threads=1", "data.test_examples=90000"];
    let settings = [&["model.kind=lenet", "train.stop={steps=3}"], &test[..]].concat();
    let run = sandbox.train("single", &settings);
    let says = ["; the final test takes ", "; try fewer train.evaluate.examples"];
    check_verdict(&run, "evaluation", &says);
    let run = sandbox.train_cluster("async", "async", &settings);
    check_verdict(&run, "evaluation", &says);
    let (summary, task) = (run.summary(), run.task("worker:0"));
    let tested = number(&task["final_test_seconds"]);
    let phases: f64 = task["phases"].as_object().unwrap().values().map(number).sum();
    assert!((phases - number(&task["seconds"])).abs() < 1e-6, "{task}");
    assert!(number(&task["phases"]["evaluation"]) >= tested, "{task}");
    let training = number(&task["seconds"]) - tested;
    assert!(
        training <= number(&summary["seconds"]) + 1e-6,
        "steps per second are without the test"
    );
}

#[test]
fn a_slow_worker_is_named_while_it_runs_in_the_verdict_and_in_the_ranking() {
    let sandbox = Sandbox::new();
    let settings = ["data.train_examples=1200", "train.batch=600", ENDLESS];
    let mut command = sandbox.cluster("run", "sync", &settings);
    command.env("PACELINE_TEST_SLOW", "1:8");
    let mut launched = RunningProcess::start(&mut command, sandbox.path("run"));
    launched.wait_for("ps:0: worker:1 is slow: ");
    launched.signal("INT");
    let output = launched.finish();
    let run = sandbox.run_folder("run");
    check_verdict(&run, "stragglers", &["worker:1 takes", "checking worker:1's machine"]);
    let summary = run.summary();
    let ranking = &summary["ranking"];
    assert_eq!(
        (&ranking[0]["task"], &ranking[1]["task"]),
        (&"worker:1".into(), &"worker:0".into())
    );
    assert!(number(&ranking[0]["behind"]) > 1.5, "{ranking}");
    assert!(number(&run.task("worker:0")["held_seconds"]) > 0.0);
    assert_says(&output.stdout, &["verdict      ", "slowest      worker:1 "]);
    assert_says(&run.log("ps:0"), &["worker:1 is slow: "]);
}

#[test]
fn the_verdict_on_a_light_worker_and_a_heavy_optimizer_is_server() {
    let sandbox = Sandbox::new();
    let settings = [
        // The server has a core of its own, as on a machine of its own.
        "cluster.workers=1",
        "model.kind=softmax",
        "data={kind=\"fake-images\", size=64, classes=1000, train_examples=64, test_examples=1}",
        "train.batch=1",
        "train.optimizer={kind=\"adam\", rate=0.0001}",
        LONG,
        "train.evaluate.every=1000",
    ];
    let run = sandbox.train_cluster("run", "async", &settings);
    let says = ["exchanging gradients and parameters; ps:0 is busy for", "a larger train.batch"];
    check_verdict(&run, "server", &says);
}

#[test]
fn the_verdict_on_a_busy_server_behind_an_overlapped_exchange_is_server() {
    let sandbox = Sandbox::new();
    let layers = "model.layers=[{kind=\"flatten\"}, {kind=\"dense\", size=2048}, {kind=\"relu\"}, \
                  {kind=\"dense\", size=2048}, {kind=\"dense\", size=10}]";
    let settings = [
        "cluster.workers=1",
        "model.kind=network",
        layers,
        "train.batch=1",
        "train.optimizer={kind=\"adam\", rate=0.0001}",
        LONG,
        "train.evaluate.every=1000",
    ];
    let run = sandbox.train_cluster("run", "async", &settings);
    let phases = &run.task("worker:0")["phases"];
    assert_eq!((&phases["push"], &phases["pull"]), (&0.0.into(), &0.0.into()), "it overlaps");
    let says = ["exchanging gradients and parameters; ps:0 is busy for"];
    check_verdict(&run, "server", &says);
}

#[test]
fn the_verdict_on_a_machine_with_busy_cores_is_cores() {
    if !counts_run_delay() {
        return;
    }
    let sandbox = Sandbox::new();
    let busy = BusyCores::start();
    let alone = &["the worker is ready to run but without a core", "other programs"][..];
    let shared = &["tasks are ready", "of it with other programs; try fewer"][..];
    let lenet = ["model.kind=lenet", "train.threads=1", LONG];
    // All at once, because cores are to be busy. In the last two, other threads than the loop's own
    // lack cores.
    let runs = [
        ("single", "single", lenet, alone),
        ("cluster", "async", lenet, shared),
        ("pool", "single", ["model.kind=lenet", "train.threads=2", LONG], alone),
        ("helper", "single", ["train.batch=512", "train.threads=2", LONG], alone),
    ]
    .map(|(name, mode, settings, says)| (name, sandbox.launch(name, mode, &settings), says));
    for (name, run, says) in runs {
        let output = run.finish();
        assert_eq!(output.code, Some(0), "{name}: {output:?}");
        let run = sandbox.run_folder(name);
        let (verdict, task) = (verdict(&run), run.task("worker:0"));
        assert_eq!(verdict["kind"], "cores", "{verdict}");
        assert_says(verdict["text"].as_str().unwrap(), says);
        let delay = |field: &str| task[field].as_f64().unwrap_or_default();
        let all = delay("run_delay_seconds") + delay("compute_delay_seconds");
        assert!(all > 0.3, "{verdict}");
    }
    drop(busy);
}

#[test]
fn the_built_in_job_on_two_cores_lacks_cores() {
    if !counts_run_delay() || thread::available_parallelism().map_or(1, usize::from) > 2 {
        return;
    }
    let sandbox = Sandbox::new();
    let demo = ["cluster.mode=async", "cluster.servers=1", "cluster.workers=2", LONG];
    let settings = demo.iter().flat_map(|setting| ["--set", setting]);
    sandbox.ok(&["train", "--quiet", "--run-dir", "run"]
        .into_iter()
        .chain(settings)
        .collect::<Vec<_>>());
    let verdict = verdict(&sandbox.run_folder("run"));
    let share = |kind: &str| number(&verdict["shares"][kind]);
    assert!(share("cores") > 0.15 && share("cores") > share("network"), "{verdict}");
    assert_eq!(verdict["kind"], "cores", "{verdict}");
}

/// Bytes per second that the slow network carries, each way.
const SLOW_BYTES_PER_S: f64 = 4e6;

/// Forwards bytes, no faster than a slow network.
fn forward_slowly(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 8192];
    let mut due = Instant::now();
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        due = due.max(Instant::now()) + Duration::from_secs_f64(len as f64 / SLOW_BYTES_PER_S);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Write);
}

/// Starts a proxy of limited speed in front of a server. Returns its port.
fn slow_network(server: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for worker in listener.incoming().flatten() {
            let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
            let ends = (worker.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || forward_slowly(worker, server));
            thread::spawn(move || forward_slowly(ends.1, ends.0));
        }
    });
    port
}

#[test]
fn the_verdict_on_a_slow_network_is_network() {
    let sandbox = Sandbox::new();
    let [server] = free_ports();
    let run = sandbox.run_folder("run");
    let start = |role: &str, index: usize, port: u16| {
        let mut command = sandbox.command(&["train", "--run-dir", run.str()]);
        command
            .env("TF_CONFIG", tf_config(&cluster_of(2, &[port]), role, index))
            .env("PACELINE_TOKEN", SECRET);
        let settings = [&SMALL_DATA[..], &["cluster.mode=async", LONG]].concat();
        command.args(settings.iter().flat_map(|setting| ["--set", setting]));
        RunningProcess::start(&mut command, run.path.clone())
    };
    let first = start("ps", 0, server);
    let up = wait_until(|| TcpStream::connect(("127.0.0.1", server)).is_ok());
    assert!(up, "{}", first.stderr());
    let slow = slow_network(server);
    let workers = [0, 1].map(|index| start("worker", index, slow));
    for task in workers.into_iter().chain([first]) {
        let output = task.finish_task();
        assert_eq!(output.code, Some(0), "{output:?}");
    }
    if let Some(shares) = check_verdict(&run, "network", &["network: workers spend"]) {
        assert!(number(&shares["network"]) > 2.0 * number(&shares["server"]), "{shares}");
        assert!(number(&shares["network"]) > number(&shares["cores"]), "{shares}");
    }
}
