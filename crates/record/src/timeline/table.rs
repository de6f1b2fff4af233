//! A timeline as a table: how long each operation took.

use std::collections::BTreeMap;

use serde::Deserialize;

/// How long one operation took, over all tasks of a role.
#[derive(Clone, Debug, PartialEq)]
pub struct TableRow {
    /// The role of the tasks: `worker` or `ps`.
    pub role: String,
    /// The name of the operation.
    pub name: String,
    /// The shape of its output; empty if it has none.
    pub size: String,
    /// How often it was performed.
    pub calls: u64,
    /// How long all calls took, in microseconds.
    pub total_us: f64,
}

impl TableRow {
    /// How long a call took on average, in microseconds.
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

/// Sums up the operations of a timeline file, those with the greatest total first.
pub fn operation_table(file: &[u8]) -> Result<Vec<TableRow>, serde_json::Error> {
    let ChromeFile { events } = serde_json::from_slice(file)?;
    let is_name = |event: &&ChromeEvent| event.ph == "M" && event.name == "process_name";
    let role =
        |event: &ChromeEvent| event.args.name.split(':').next().unwrap_or_default().to_owned();
    let roles: BTreeMap<_, _> =
        events.iter().filter(is_name).map(|event| (event.pid, role(event))).collect();
    let mut rows: BTreeMap<(&str, &str, &str), TableRow> = BTreeMap::new();
    for event in events.iter().filter(|event| event.ph == "X") {
        let role = roles.get(&event.pid).map_or("", String::as_str);
        let (name, size) = (event.name.as_str(), event.args.size.as_str());
        let row = rows.entry((role, name, size)).or_insert_with(|| TableRow {
            role: role.to_owned(),
            name: name.to_owned(),
            size: size.to_owned(),
            calls: 0,
            total_us: 0.0,
        });
        row.calls += 1;
        row.total_us += event.dur;
    }
    let mut rows: Vec<_> = rows.into_values().collect();
    rows.sort_by(|a, b| b.total_us.total_cmp(&a.total_us));
    Ok(rows)
}
