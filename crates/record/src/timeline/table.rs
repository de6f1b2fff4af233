//! A timeline as a table: what took how long.

use std::collections::BTreeMap;

use serde::Deserialize;

/// What one operation took, over all tasks of a kind.
#[derive(Clone, Debug, PartialEq)]
pub struct TableRow {
    /// The kind of task: `worker` or `ps`.
    pub role: String,
    /// The operation.
    pub name: String,
    /// The size of what comes out of it; empty if that says nothing.
    pub size: String,
    /// How often.
    pub calls: u64,
    /// How long in all.
    pub total_us: f64,
}

impl TableRow {
    /// How long on average.
    pub fn mean_us(&self) -> f64 {
        self.total_us / self.calls.max(1) as f64
    }
}

#[derive(Deserialize)]
struct ChromeFile {
    #[serde(rename = "traceEvents")]
    events: Vec<ChromeEvent>,
}

#[derive(Deserialize)]
struct ChromeEvent {
    ph: String,
    name: String,
    pid: u64,
    #[serde(default)]
    dur: f64,
    #[serde(default)]
    args: EventArgs,
}

#[derive(Default, Deserialize)]
struct EventArgs {
    #[serde(default)]
    name: String,
    #[serde(default)]
    size: String,
}

/// The rows of a timeline file, those that took longest first.
pub fn operation_table(file: &[u8]) -> Result<Vec<TableRow>, serde_json::Error> {
    let ChromeFile { events } = serde_json::from_slice(file)?;
    let is_name = |event: &&ChromeEvent| event.ph == "M" && event.name == "process_name";
    let role =
        |event: &ChromeEvent| event.args.name.split(':').next().unwrap_or_default().to_owned();
    let roles: BTreeMap<_, _> =
        events.iter().filter(is_name).map(|event| (event.pid, role(event))).collect();
    let mut sums: BTreeMap<(&str, &str, &str), (u64, f64)> = BTreeMap::new();
    for event in events.iter().filter(|event| event.ph == "X") {
        let role = roles.get(&event.pid).map_or("", String::as_str);
        let sum = sums.entry((role, &event.name, &event.args.size)).or_default();
        *sum = (sum.0 + 1, sum.1 + event.dur);
    }
    let row =
        |((role, name, size), (calls, total_us)): ((&str, &str, &str), (u64, f64))| TableRow {
            role: role.to_owned(),
            name: name.to_owned(),
            size: size.to_owned(),
            calls,
            total_us,
        };
    let mut rows: Vec<_> = sums.into_iter().map(row).collect();
    rows.sort_by(|a, b| b.total_us.total_cmp(&a.total_us));
    Ok(rows)
}
