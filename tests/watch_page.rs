//! What the page shows and how, in a real browser: a killed run, axes, colours, tables and zoom.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::support::browser::Browser;
use crate::support::{ENDLESS, RunningProcess, Sandbox, signal_to};

/// Starts `paceline watch` on a directory. Returns the process and the page's address.
fn watch(sandbox: &Sandbox, dir: &str) -> (RunningProcess, String) {
    let mut command = sandbox.command(&["watch", dir, "--listen", "127.0.0.1:0"]);
    let mut launched = RunningProcess::start(&mut command, sandbox.path(dir));
    launched.wait_for("watch: http://");
    let printed = launched.stderr();
    let at = printed.split("watch: http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    (launched, at)
}

/// Makes all files of a run a minute old, as if its processes had ended then.
fn age(dir: &Path) {
    let then = SystemTime::now() - Duration::from_secs(60);
    for entry in fs::read_dir(dir).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            age(&entry.path());
        } else {
            File::options().append(true).open(entry.path()).unwrap().set_modified(then).unwrap();
        }
    }
}

#[test]
fn a_run_whose_processes_were_killed_has_ended_unexpectedly() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.launch("all/killed", "async", &[ENDLESS, "observe.sample_ms=100"]);
    run.wait_for_steps();
    // The launcher is stopped first, so that it restarts no task.
    run.signal("STOP");
    let tasks = ["ps:0", "worker:0", "worker:1"].map(|task| run.task(task));
    tasks.into_iter().for_each(|task| signal_to(task, "KILL"));
    run.signal("KILL");
    run.finish_task();
    age(&sandbox.path("all/killed"));
    let (_watching, at) = watch(&sandbox, "all");
    let mut browser = Browser::start(&sandbox);
    browser.set_screen(1400, 900, "light");
    browser.open(&format!("http://{at}/#run=killed"));
    browser.wait_for(
        "/^ended unexpectedly at \\d\\d\\d?\\d?[-:\\d ]+$/.test( \
         document.getElementById('state').textContent)",
    );
    browser.wait_for("document.querySelector('#list .dot.dead')");
    browser.wait_for("!document.querySelector('progress')");
    browser.assert_no_complaints();
}

/// Checks what every chart must have, on a screen of any size.
fn check_charts(browser: &mut Browser) {
    // Only charts near the screen are drawn.
    browser.eval("dispatchEvent(new Event('beforeprint'))");
    browser.wait_for(
        "[...document.querySelectorAll('.chart svg')].every(svg => \
         svg.querySelector('.axis-x')?.textContent && svg.querySelector('.axis-y')?.textContent)",
    );
    let negative = "[...document.querySelectorAll('.chart svg text')].map(t => t.textContent) \
                    .filter(text => /^[-−]/.test(text)).join()";
    assert_eq!(browser.eval(negative), "");
    // The charts of each row end where the row ends.
    let holes = "[...document.querySelectorAll('.grid')].flatMap(grid => { \
                   const end = grid.getBoundingClientRect().right, rows = new Map(); \
                   for (const chart of grid.children) { \
                     const box = chart.getBoundingClientRect(), row = Math.round(box.top); \
                     rows.set(row, Math.max(rows.get(row) ?? 0, box.right)); } \
                   return [...rows.values()].filter(right => Math.abs(right - end) > 2); }).length";
    assert_eq!(browser.eval(holes), 0);
    let page = "document.documentElement";
    assert_eq!(browser.eval(&format!("{page}.scrollWidth - {page}.clientWidth")), 0);
}

#[test]
fn a_page_says_what_is_trained_and_its_charts_are_complete() {
    let sandbox = Sandbox::new();
    let settings = ["train.stop={seconds=2}", "observe.sample_ms=100", "train.evaluate.every=50"];
    sandbox.train_cluster("all/first", "async", &settings);
    let (_watching, at) = watch(&sandbox, "all");
    let mut browser = Browser::start(&sandbox);
    browser.set_screen(1400, 900, "light");
    browser.open(&format!("http://{at}/#run=first"));
    browser.wait_for("document.getElementById('state').textContent.startsWith('finished')");
    browser.wait_for(
        "/Model softmax.*Data digits.*Mode async, 2 workers, 1 server/s.test( \
                      document.getElementById('what').textContent)",
    );
    browser.wait_for("document.getElementById('what').getBoundingClientRect().bottom < 200");
    check_charts(&mut browser);
    // All tasks share a machine, whose disks are drawn once.
    browser.wait_for("document.querySelectorAll('[data-chart=disk] .legend button').length === 2");
    // The last point is not lower than half of the one before.
    let rates = "(async () => { const { store } = await import('./store.js'); \
                 const { curves } = store.runs.get('first'); \
                 return curves.get('worker_0|work_pace/steps_per_second').v })()";
    let rates = browser.eval(rates);
    let rates: Vec<f64> =
        rates.as_array().unwrap().iter().map(|rate| rate.as_f64().unwrap()).collect();
    assert!(rates.len() > 4 && rates[rates.len() - 1] > 0.0, "{rates:?}");
    check_colors_and_keys(&mut browser);
    check_numbers_and_parts(&mut browser);
    check_tests_in_phases(&mut browser);
    check_zoom(&mut browser);
    check_ranges(&mut browser);
    browser.set_screen(390, 844, "dark");
    check_charts(&mut browser);
    let table = "document.querySelector('[data-part=tasks] .wide')";
    browser.wait_for(&format!("{table}.scrollWidth > {table}.clientWidth"));
    browser.wait_for(&format!("getComputedStyle({table}).backgroundImage.includes('gradient')"));
    assert_eq!(browser.eval(&format!("{table}.tabIndex")), 0);
    browser.assert_no_complaints();
}

/// Checks that task bars have a legend with the colours of the charts, and that the link to the
/// charts keeps the address.
fn check_colors_and_keys(browser: &mut Browser) {
    browser.wait_for("document.querySelectorAll('[data-part=tasks] .key.phases span').length >= 5");
    let same = "(async () => { const { names } = await import('./names.js'); \
                const style = getComputedStyle(document.documentElement); \
                return names.phases.every(phase => style.getPropertyValue(`--phase-${phase}`) === \
                names.palette.light.phases[phase]) && \
                new Set(names.palette.dark.series).size === 10 })()";
    assert_eq!(browser.eval(same), true);
    browser.eval("document.getElementById('skip').click()");
    browser.wait_for("document.activeElement.id === 'charts'");
    assert_eq!(browser.eval("location.hash.includes('run=first')"), true);
}

/// Checks that the chart of phases does not show tests as waiting.
fn check_tests_in_phases(browser: &mut Browser) {
    let drawn = "(async () => { const { sections } = await import('./panels.js'); \
                 const { names } = await import('./names.js'); \
                 const part = (t, v) => ({ s: t, t, v }), phase = name => \
                   'worker_0|' + names.phaseTags[name]; \
                 const curves = new Map([ \
                   [phase('compute'), part([1, 2, 3], [60, 60, 60])], \
                   [phase('wait'), part([1, 2, 3], [40, 40, 40])], \
                   ['worker_0|' + names.tags.evaluationPercent, part([2.001, 3.001], [10, 30])]]); \
                 const run = { id: 'x', curves, about: { tasks: ['worker_0'], machines: {} } }; \
                 const charts = sections([run], 'light').flatMap(section => section[1]); \
                 const { series } = charts.find(chart => chart.id === 'phases-worker_0'); \
                 return series.map(({ label, curve }) => `${label} ${curve.v}`).join('; ') })()";
    assert_eq!(browser.eval(drawn), "compute 60,60,60; wait 40,30,10; evaluation 0,10,30");
}

/// Checks that no zoom leaves the data.
fn check_zoom(browser: &mut Browser) {
    browser.eval("document.querySelector('[data-chart=loss] .plot').focus()");
    for key in ["ArrowLeft", "+", "+", "-"] {
        browser.press(key);
    }
    browser.wait_for("!document.getElementById('whole').hidden");
    // The button takes the place of the hint.
    let hint = "getComputedStyle(document.querySelector('.hint')).display";
    assert_eq!(browser.eval(hint), "none");
    browser.press("-");
    browser.press("-");
    browser.wait_for("document.getElementById('whole').hidden");
    assert_ne!(browser.eval(hint), "none");
    // Another choice of runs ends the zoom.
    browser.press("+");
    browser.wait_for("!document.getElementById('whole').hidden");
    browser.eval("document.querySelector('#list button').click()");
    browser.wait_for("document.getElementById('whole').hidden");
}

/// Checks that a zoomed chart has room for a line that enters it from above, and says so if nothing
/// is in its range.
fn check_ranges(browser: &mut Browser) {
    let drawn = |steps: &str, values: &str| {
        format!(
            "(async () => {{ const {{ draw }} = await import('./draw.js'); \
             const curve = {{ s: {steps}, t: {steps}, v: {values} }}; \
             const spec = {{ id: 'x', unit: '%', axis: '%', series: [{{ label: 'x', curve }}] }}; \
             const drawn = draw(spec, {{ theme: 'light', width: 400, height: 200, axis: 'steps', \
               range: [10, 20], hidden: new Set(), isOver: true }}); \
             return drawn.svg.includes('no data in this range') || drawn.toY(15) - drawn.plot.top \
             }})()"
        )
    };
    assert_eq!(browser.eval(&drawn("[0, 5]", "[90, 91]")), true);
    // Half-way between 20 and 10, the line enters at 15.
    let above = browser.eval(&drawn("[5, 15, 18]", "[20, 10, 9]"));
    assert!(above.as_f64().unwrap() >= 0.0, "{above}");
}

/// Checks that rates and times have three digits, and no parts of the verdict look alike.
fn check_numbers_and_parts(browser: &mut Browser) {
    let rounded = "(async () => { const { rounded, figure } = await import('./format.js'); \
                   return [8.5996, 0.14332, 7.9, 99.96, 492345, 0, 1234.5].map(rounded) \
                     .concat([1, 0, 0.25, 12.3456].map(figure)).join(' ') })()";
    assert_eq!(browser.eval(rounded), "8.6 0.143 7.9 100 492k 0 1,235 1 0 0.2500 12.35");
    let colors = "(async () => { const { names } = await import('./names.js'); \
                  const { showVerdict } = await import('./overview.js'); \
                  const kinds = names.verdictKinds, into = document.createElement('p'); \
                  const shares = Object.fromEntries(kinds.map(kind => [kind, 1 / 7])); \
                  const verdict = { kind: 'cores', evidence: 'x', shares }; \
                  showVerdict(into, { about: { verdict } }, 'light'); \
                  const parts = [...into.querySelectorAll('.shares i')]; \
                  return new Set(parts.map(part => part.style.background)).size })()";
    assert_eq!(browser.eval(colors), 7);
}

#[test]
fn a_short_run_alone_says_why_charts_are_empty_and_has_no_slow_workers() {
    let sandbox = Sandbox::new();
    sandbox.train("all/short", &["train.evaluate.every=5"]);
    let (_watching, at) = watch(&sandbox, "all");
    let mut browser = Browser::start(&sandbox);
    browser.set_screen(1400, 900, "light");
    browser.open(&format!("http://{at}/#run=short"));
    browser.eval("dispatchEvent(new Event('beforeprint'))");
    browser.wait_for(
        "document.querySelector('[data-chart=steps] svg')?.textContent \
         .includes('the run was too short for samples')",
    );
    browser.wait_for("document.querySelector('[data-part=tasks]')");
    assert_eq!(browser.eval("document.querySelectorAll('[data-part=slow]').length"), 0);
    // A process alone exchanges nothing.
    let phases = "(async () => { const { sections } = await import('./panels.js'); \
                  const { store } = await import('./store.js'); \
                  const charts = sections([store.runs.get('short')], 'light').flatMap(s => s[1]); \
                  const phases = charts.find(chart => chart.id.startsWith('phases')).series; \
                  return phases.map(series => series.label).join() })()";
    let phases = browser.eval(phases);
    let phases = phases.as_str().unwrap().trim_end_matches(",evaluation");
    assert!(["", "compute", "input,compute"].contains(&phases), "{phases}");
    // The one sample of the machine's processor is visible.
    browser.eval("document.querySelector('[data-chart=machine]').scrollIntoView()");
    browser.wait_for("document.querySelectorAll('[data-chart=machine] svg g rect').length > 0");
    browser.assert_no_complaints();
}

#[test]
fn a_comparison_has_a_column_for_every_run_although_no_update_follows() {
    let sandbox = Sandbox::new();
    let all = ["a", "b", "c", "d", "e"];
    all.iter().for_each(|run| drop(sandbox.train(&format!("all/{run}"), &[])));
    let (_watching, at) = watch(&sandbox, "all");
    let mut browser = Browser::start(&sandbox);
    browser.set_screen(1400, 900, "light");
    let runs = all.map(|run| format!("run={run}")).join("&");
    browser.open(&format!("http://{at}/#{runs}"));
    // A title for the names of figures, one for what is best, and one for each run.
    browser.wait_for("document.querySelector('.compare tr')?.children.length === 7");
    browser.assert_no_complaints();
}

#[test]
fn a_comparison_states_what_best_means_and_compares_equal_work() {
    let sandbox = Sandbox::new();
    sandbox.train("all/a", &["train.evaluate.every=5"]);
    sandbox.train("all/b", &["train.evaluate.every=5", "train.batch=30", "train.stop={epochs=1}"]);
    let (_watching, at) = watch(&sandbox, "all");
    let mut browser = Browser::start(&sandbox);
    browser.set_screen(1400, 900, "light");
    browser.open(&format!("http://{at}/#run=a&run=b"));
    browser.wait_for("document.querySelector('.compare td.best')");
    // Every colour of the bars has a name.
    browser.wait_for("document.querySelector('#tables .key.phases .phase-evaluation')");
    browser.wait_for("/at equal work/.test(document.querySelector('.criterion').textContent)");
    let row = |title: &str| {
        format!(
            "[...document.querySelectorAll('.compare tr')] \
             .find(row => row.firstChild.textContent.startsWith('{title}'))"
        )
    };
    let equal = row("Test loss after");
    browser.wait_for(&format!("{equal}.children[1].textContent === 'lowest'"));
    assert_eq!(browser.eval(&format!("{equal}.querySelectorAll('.best').length > 0")), true);
    // What depends on how long a run trained has no best value.
    for title in ["Last test loss", "Time", "Steps"] {
        let last = row(title);
        let last = if title == "Time" {
            last.replace("startsWith('Time')", "match(/^Time$/)")
        } else {
            last
        };
        assert_eq!(browser.eval(&format!("{last}.querySelectorAll('.best').length")), 0, "{title}");
    }
    // A phone has no column for what is best, but both runs without scrolling.
    browser.set_screen(390, 844, "dark");
    browser.wait_for(&format!("{equal}.children[1].offsetWidth === 0"));
    browser.wait_for(&format!("{equal}.querySelector('.below').textContent === 'lowest is best'"));
    let wide = "document.querySelector('#tables .wide')";
    browser.wait_for(&format!("{wide}.scrollWidth === {wide}.clientWidth"));
    browser.assert_no_complaints();
}

#[test]
fn a_comparison_of_click_models_has_their_auc_keys_and_entries() {
    let sandbox = Sandbox::new();
    let clicks = ["model.kind=fm", "data.features=2000", "data.train_examples=2000"];
    let settings = [&clicks[..], &["data.test_examples=200", "train.stop={epochs=1}"]].concat();
    for rank in [2, 4] {
        let rank = format!("model.rank={rank}");
        sandbox.train(&format!("all/{rank}"), &[&settings[..], &[&rank]].concat());
    }
    let (_watching, at) = watch(&sandbox, "all");
    let mut browser = Browser::start(&sandbox);
    browser.set_screen(1400, 900, "light");
    let runs = "run=model.rank%3D2&run=model.rank%3D4";
    browser.open(&format!("http://{at}/#{runs}"));
    for title in ["Last AUC", "Keys per step", "Entries", "Memory of entries"] {
        browser.wait_for(&format!(
            "[...document.querySelectorAll('.compare tr')].some(row => \
             row.firstChild.textContent === '{title}' && /\\d/.test(row.children[3].textContent))"
        ));
    }
    browser.open(&format!("http://{at}/#run=model.rank%3D2&x=step"));
    browser.wait_for("/0\\.\\d+/.test(document.querySelector('[data-figure=AUC]')?.textContent)");
    browser.assert_no_complaints();
}
