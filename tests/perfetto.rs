//! Perfetto reads a timeline: its own page with its own trace processor, in a browser.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::browser::Browser;
use crate::support::{RunFolder, Sandbox, python_command};

/// Perfetto's page with one timeline open.
struct PerfettoPage {
    browser: Browser,
    server: Child,
}

impl PerfettoPage {
    fn open(sandbox: &Sandbox, run: &RunFolder) -> Self {
        let mut command: Command = python_command("python/serve_perfetto.py");
        command.arg(run.file("trace.json")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = command.spawn().unwrap();
        let mut page = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut page).unwrap();
        let page = page.trim();
        assert!(!page.is_empty(), "serve_perfetto.py printed no address");
        let mut browser = Browser::start(sandbox);
        browser.open(&format!("{page}#!/?url={page}trace.json"));
        browser.wait_for("window.app?.trace");
        Self { browser, server }
    }

    /// The trace processor's answer to a query of one column.
    #[track_caller]
    fn query(&mut self, sql: &str) -> Vec<Value> {
        let ask = format!(
            "(async () => {{
               const result = await app.trace.engine.query({});
               const [column] = result.columns();
               const rows = [];
               for (const row = result.iter({{}}); row.valid(); row.next()) {{
                 const value = row.get(column);
                 rows.push(typeof value === 'bigint' ? Number(value) : value);
               }}
               return rows;
             }})()",
            Value::from(sql)
        );
        let answer = self.browser.eval(&ask);
        answer.as_array().unwrap_or_else(|| panic!("{sql}: {answer}")).clone()
    }

    /// The answer to a query that gives one number.
    #[track_caller]
    fn number(&mut self, sql: &str) -> f64 {
        let rows = self.query(sql);
        assert_eq!(rows.len(), 1, "{sql}: {rows:?}");
        rows[0].as_f64().unwrap_or_else(|| panic!("{sql}: {rows:?}"))
    }
}

impl Drop for PerfettoPage {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn perfetto_reads_ten_steps_of_alexnet_without_an_error_and_finds_every_worker_busy() {
    let sandbox = Sandbox::new();
    let settings = [
        "model.kind=alexnet",
        "data={kind=\"fake-images\", size=64, train_examples=64, test_examples=1}",
        "train.batch=1",
        "train.optimizer={kind=\"sgd\", rate=0.01}",
        "train.stop={steps=12}",
        "train.evaluate.every=1000",
        "observe.trace={from=1, steps=10}",
    ];
    let run = sandbox.train_cluster("run", "sync", &settings);
    let mut perfetto = PerfettoPage::open(&sandbox, &run);
    let wrong = "select name from stats where severity != 'info' and value > 0";
    assert_eq!(perfetto.query(wrong), Vec::<Value>::new());

    let tasks = perfetto.query("select name from process where name glob '*:*' order by name");
    let tasks: Vec<_> =
        tasks.iter().map(|task| task.as_str().unwrap().split('@').next().unwrap().trim()).collect();
    assert_eq!(tasks, ["ps:0", "worker:0", "worker:1"]);

    for worker in ["worker:0", "worker:1"] {
        let of = format!(
            "slice join thread_track on slice.track_id = thread_track.id join thread using (utid) \
             join process using (upid) where process.name glob '{worker}*' \
             and thread.name = 'steps'"
        );
        let steps =
            format!("select count(distinct extract_arg(slice.arg_set_id, 'args.step')) from {of}");
        assert_eq!(perfetto.number(&steps), 10.0, "{worker}");
        // Outermost slices follow each other.
        let covered = format!(
            "select sum(iif(slice.depth = 0, slice.dur, 0)) * 1.0 / \
             (max(slice.ts + slice.dur) - min(slice.ts)) from {of}"
        );
        let covered = perfetto.number(&covered);
        assert!((0.95..=1.0).contains(&covered), "{worker}: {covered}");
    }
    // Perfetto counts each arrow twice: from the push to the apply, and from there to the pull.
    let arrows = perfetto.query(
        "select a.name || ' to ' || b.name || ': ' || count(*) from flow \
         join slice a on flow.slice_out = a.id join slice b on flow.slice_in = b.id \
         group by a.name, b.name order by 1",
    );
    assert_eq!(arrows, ["apply to pull: 20", "push to apply: 20"]);
    let counters = perfetto.number("select count(distinct name) from process_counter_track");
    assert_eq!(counters, 3.0);
}
