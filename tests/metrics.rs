//! The metrics that tasks serve over HTTP.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::support::{ENDLESS, RunFolder, SMALL, Sandbox, assert_says, wait_until};

/// Sends a GET request to a task. Returns the status and the body.
fn get(address: &str, path: &str, headers: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// Parses metrics as Prometheus does, by name and labels. Each name must be described once, before
/// its values.
#[track_caller]
fn parse_metrics(text: &str) -> BTreeMap<String, f64> {
    let mut read = BTreeMap::new();
    let mut described = Vec::new();
    for line in text.lines() {
        if let Some(description) = line.strip_prefix("# TYPE ") {
            let (name, kind) = description.split_once(' ').unwrap();
            assert!(["counter", "gauge"].contains(&kind), "{line}");
            assert!(!described.contains(&name.to_owned()), "{name} twice");
            described.push(name.to_owned());
        } else if !line.starts_with("# HELP ") {
            let (key, value) = line.rsplit_once(' ').unwrap();
            let name = key.split('{').next().unwrap();
            assert_eq!(described.last().map(String::as_str), Some(name), "{line}");
            assert!(read.insert(key.to_owned(), value.parse().unwrap()).is_none(), "{line}");
        }
    }
    read
}

/// The address at which a task serves its metrics.
#[track_caller]
fn metrics_address(run: &RunFolder, task: &str) -> String {
    let path = run.file(task).join("http.txt");
    let is_there = || fs::read_to_string(&path).is_ok_and(|text| text.ends_with('\n'));
    assert!(wait_until(is_there), "{task} has no http.txt");
    let text = fs::read_to_string(&path).unwrap();
    text.trim().strip_prefix("http://").unwrap().strip_suffix("/metrics").unwrap().to_owned()
}

#[test]
fn every_task_serves_its_metrics_while_it_runs() {
    let sandbox = Sandbox::new();
    let settings = [ENDLESS, "observe.http=127.0.0.1:0", "train.evaluate.every=10"];
    let mut launched = sandbox.launch("run", "async", &settings);
    launched.wait_for_steps();
    let run = sandbox.run_folder("run");
    for task in ["worker_0", "worker_1", "ps_0"] {
        let address = metrics_address(&run, task);
        assert_eq!(get(&address, "/healthz", ""), (200, "ok\n".into()));
        assert_eq!(get(&address, "/", "").0, 404);
        let read = || parse_metrics(&get(&address, "/metrics", "").1);
        let (steps, other) = match task {
            "ps_0" => ("paceline_applied_gradients_total", "worker:1"),
            _ => ("paceline_steps_total", "ps:0"),
        };
        let first = read();
        let grows = || read().get(steps) > first.get(steps).or(Some(&0.0));
        assert!(wait_until(grows), "{task}: {first:?}");
        let now = read();
        let sent = format!("paceline_sent_bytes_total{{peer=\"{other}\"}}");
        for name in [&sent, "process_resident_memory_bytes"] {
            assert!(now[name] > 0.0, "{task}: {name} of {now:?}");
        }
        // In hundredths of a second, so it may still be 0.
        assert!(now.contains_key("process_cpu_seconds_total"), "{task}: {now:?}");
        let model = format!("task=\"{}\",mode=\"async\",model=\"softmax\"", task.replace('_', ":"));
        assert!(now.keys().any(|key| key.starts_with("paceline_info{") && key.contains(&model)));
        let phase = if task == "ps_0" { "apply" } else { "compute" };
        let phase = format!("paceline_phase_seconds_total{{phase=\"{phase}\"}}");
        let has_phase = || read().get(&phase).is_some_and(|seconds| *seconds > 0.0);
        assert!(wait_until(has_phase), "{task}: no {phase}");
        if task == "worker_0" {
            let is_tested = || read().contains_key("paceline_test_accuracy_ratio");
            assert!(wait_until(is_tested), "no test accuracy");
        }
    }
    let addresses = ["worker_0", "ps_0"].map(|task| metrics_address(&run, task));
    launched.signal("INT");
    launched.finish();
    assert!(
        addresses.iter().all(|address| TcpStream::connect(address).is_err()),
        "a port is still open"
    );
}

#[test]
fn beyond_loopback_metrics_need_a_token_that_only_reads() {
    let sandbox = Sandbox::new();
    let job = ["train", "--quiet", "--run-dir", "open", "--set", "observe.http=0.0.0.0:0"];
    let printed = sandbox.fails(2, &[&job[..], &SMALL[..]].concat());
    assert_says(
        &printed,
        &["observe.http = \"0.0.0.0:0\"", "needs a token; set cluster.token_file"],
    );
    let printed = sandbox.fails(2, &["explain", "--set", "observe.http=9400"]);
    assert_says(&printed, &["observe.http", "HOST:PORT"]);
    let token = sandbox.write_secret("token", "a secret of this run\n");
    let token = format!("cluster.token_file={}", token.display());
    let settings = [ENDLESS, "observe.http=0.0.0.0:0", &token];
    let mut launched = sandbox.launch("run", "sync", &settings);
    launched.wait_for_steps();
    let address =
        metrics_address(&sandbox.run_folder("run"), "ps_0").replace("0.0.0.0", "127.0.0.1");
    assert_eq!(get(&address, "/metrics", "").0, 401);
    let status =
        |token: &str| get(&address, "/metrics", &format!("Authorization: Bearer {token}\r\n")).0;
    assert_eq!(status("another secret of a run"), 401);
    // The run's own secret can do more than read, so no request carries it.
    assert_eq!(status("a secret of this run"), 401);
    let reading = fs::read_to_string(sandbox.path("run/ps_0/http_token.txt")).unwrap();
    assert_eq!(status(&reading), 200);
    // A probe has no token, and learns nothing but that the task runs.
    assert_eq!(get(&address, "/healthz", "").0, 200);
    launched.signal("INT");
    launched.finish();
}
