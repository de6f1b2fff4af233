//! The report in a real Chromium without a window.
//!
//! The report itself has no script. An outer page holds it in a frame of the tested width and
//! measures its layout.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::support::browser::chromium;
use crate::support::{Sandbox, finish, start};

/// Measures the widths of the page and of its viewport, the size of every chart, and all chart text
/// that reaches beyond its chart or is too small to read.
const MEASURE: &str = r#"
const frame = document.querySelector('iframe'), page = frame.contentDocument;
const charts = [...page.querySelectorAll('svg')].map(svg => svg.getBoundingClientRect());
const outside = [], small = [];
for (const svg of page.querySelectorAll('svg')) {
  const box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width;
  for (const text of svg.querySelectorAll('text')) {
    const own = text.getBoundingClientRect();
    if (own.left < box.left - 2 || own.right > box.right + 2 || own.top < box.top - 2 ||
        own.bottom > box.bottom + 2) outside.push(text.textContent);
    if (parseFloat(page.defaultView.getComputedStyle(text).fontSize) * scale < 8)
      small.push(text.textContent);
  }
}
const answer = {
  wide: page.documentElement.scrollWidth, viewport: page.documentElement.clientWidth,
  charts: charts.length, empty: charts.filter(box => box.width < 100 || box.height < 30).length,
  first: page.querySelector('.first h2')?.textContent,
  firstCharts: page.querySelectorAll('.first svg').length,
  firstEnd: page.querySelector('.first').getBoundingClientRect().bottom,
  scrolls: [...page.querySelectorAll('.wide')].slice(0, 1)
    .filter(wide => wide.scrollWidth > wide.clientWidth).length,
  compute: page.defaultView.getComputedStyle(page.querySelector('rect.phase-compute')).fill,
  text: page.body.innerText,
  outside, small, rows: page.querySelectorAll('tbody tr').length,
  background: page.defaultView.getComputedStyle(page.body).backgroundColor,
  requests: page.defaultView.performance.getEntriesByType('resource').map(entry => entry.name),
};
document.body.innerHTML = '<pre id="answer"></pre>';
document.getElementById('answer').textContent = JSON.stringify(answer);
"#;

/// Chromium's measurements of a page in a frame of this width.
fn measure(sandbox: &Sandbox, page: &str, width: u32, dark: bool) -> Value {
    let held = page.replace('&', "&amp;").replace('"', "&quot;");
    let around = format!(
        "<!doctype html><meta charset=utf-8><body style=\"margin:0\">\
         <iframe style=\"border:0;width:{width}px;height:900px\" srcdoc=\"{held}\"></iframe>\
         <script>addEventListener('load', () => {{ {MEASURE} }});</script>"
    );
    let path = sandbox.write("around.html", around);
    let mut command = Command::new(chromium());
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", sandbox.path("profile").display()));
    command.arg("--window-size=1600,1000");
    command.arg(format!("--blink-settings=preferredColorScheme={}", if dark { 0 } else { 1 }));
    command.arg(format!("file://{}", path.display()));
    let output = finish(start(&mut command));
    let answer =
        output.stdout.split("<pre id=\"answer\">").nth(1).unwrap_or_else(|| panic!("{output:?}"));
    let answer = answer.split("</pre>").next().unwrap();
    let plain = answer.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&plain).unwrap()
}

#[test]
fn a_report_is_readable_on_a_phone_and_a_desktop_in_light_and_dark() {
    let sandbox = Sandbox::new();
    let job = "[data]\ntrain_examples = 600\ntest_examples = 100\n\
               [train]\nstop = { test_loss = 1.5 }\nevaluate = { every = 2 }\n\
               [sweep]\nrepeats = 2\n\"train.batch\" = [10, 60]\n\
               [[sweep.case]]\n\"cluster.mode\" = \"single\"\n\
               [[sweep.case]]\n\"cluster.mode\" = \"async\"\n\"cluster.workers\" = 2\n\
               [[sweep.case]]\n\"cluster.mode\" = \"async\"\n\"cluster.workers\" = 3\n\
               [[reference]]\nseconds = 9\nfrom = \"R9\"\n";
    sandbox.write("job.toml", job);
    sandbox.ok(&["sweep", "--quiet", "job.toml", "--sweep-dir", "s"]);
    let page = fs::read_to_string(sandbox.path("s/report.html")).unwrap();
    let mut backgrounds = Vec::new();
    for (width, dark) in [(360, false), (1400, true)] {
        let seen = measure(&sandbox, &page, width, dark);
        let at = format!("{width} wide: {seen}");
        // A page wider than its viewport would scroll sideways.
        assert_eq!(seen["wide"], seen["viewport"], "{at}");
        assert!(seen["viewport"].as_u64() > Some(u64::from(width) - 30), "{at}");
        assert!(seen["charts"].as_u64() >= Some(10) && seen["empty"] == 0, "{at}");
        // Three tables of six cells, and the verdict of each cell.
        assert_eq!(seen["rows"], 24, "{at}");
        // The first screen has the conclusions and two charts; the results need no scrolling.
        assert_eq!(seen["first"], "Conclusions", "{at}");
        assert_eq!((&seen["firstCharts"], &seen["scrolls"]), (&2.into(), &0.into()), "{at}");
        assert!(width < 1000 || seen["firstEnd"].as_f64() < Some(900.0), "{at}");
        assert_eq!(seen["compute"], "rgb(67, 135, 253)", "{at}");
        for nothing in ["outside", "small", "requests"] {
            assert_eq!(seen[nothing].as_array().map(Vec::len), Some(0), "{nothing} {at}");
        }
        backgrounds.push(seen["background"].clone());
    }
    assert_ne!(backgrounds[0], backgrounds[1]);
}
