//! The names that the scripts of the page look for, as a script of its own: `names.js`.
//!
//! Tags, phases, roles and the kinds of verdicts are defined in Rust, where training records them.
//! The page's other scripts import them from here and contain no such names themselves.

use paceline_observe::pace::BEHIND;
use paceline_observe::phases::EVALUATION;
use paceline_observe::{Phase, VerdictKind};
use paceline_record::names::{FIRST_SERVER_FOLDER, columns, roles, tags};
use serde_json::{Map, Value, json};

use crate::palette;

use super::page_limits::{MAX_COMPARED_RUNS, QUIET_SECONDS};

/// Stands for a worker's folder in a tag.
const TASK_PLACEHOLDER: &str = "{task}";

/// The text of `names.js`.
pub(crate) fn names_script() -> String {
    format!(
        "// Names and limits that the server defines.\nexport const names = {};\n",
        json!({
            "tags": tag_names(),
            "phases": Phase::ALL.map(Phase::name),
            "evaluation": EVALUATION,
            "wait": Phase::Wait.name(),
            "phaseTags": phase_tags(),
            "resourceTags": resource_tags(),
            "roles": { "chief": roles::CHIEF, "worker": roles::WORKER, "server": roles::PS },
            "firstServer": FIRST_SERVER_FOLDER,
            "verdictKinds": VerdictKind::ALL.map(VerdictKind::name),
            "palette": palette::json(),
            "tooShort": VerdictKind::TooShort.name(),
            "behind": BEHIND,
            "taskPlaceholder": TASK_PLACEHOLDER,
            "maxComparedRuns": MAX_COMPARED_RUNS,
            "quietSeconds": QUIET_SECONDS,
        })
    )
}

fn tag_names() -> Value {
    json!({
        "trainLoss": tags::TRAIN_LOSS,
        "testLoss": tags::TEST_LOSS,
        "testAccuracy": tags::TEST_ACCURACY,
        "testAuc": tags::TEST_AUC,
        "testPrecision": tags::TEST_PRECISION,
        "stepRate": tags::STEP_RATE,
        "evaluationPercent": tags::EVALUATION_PERCENT,
        "gradientMs": tags::GRADIENT_MS,
        "workerGradientMs": tags::worker(TASK_PLACEHOLDER, tags::WORKER_GRADIENT_MS),
        "staleness": tags::STALENESS,
        "keysPerStep": tags::KEYS_PER_STEP,
        "keyBytesPerStep": tags::KEY_BYTES_PER_STEP,
        "valueBytesPerStep": tags::VALUE_BYTES_PER_STEP,
        "entries": tags::ENTRIES,
        "entryBytes": tags::ENTRY_BYTES,
    })
}

fn phase_tags() -> Map<String, Value> {
    let tag = |phase: Phase| (phase.name().to_owned(), tags::phase_percent(phase.name()).into());
    Phase::ALL.into_iter().map(tag).collect()
}

fn resource_tags() -> Map<String, Value> {
    let columns = [
        ("cpuUser", columns::CPU_USR_PERCENT),
        ("cpuKernel", columns::CPU_SYS_PERCENT),
        ("cpuDiskWait", columns::CPU_WAIT_PERCENT),
        ("diskRead", columns::DISK_READ_BYTES_PER_S),
        ("diskWritten", columns::DISK_WRITTEN_BYTES_PER_S),
        ("taskCpu", columns::TASK_CPU_PERCENT),
        ("taskMemory", columns::TASK_MEMORY_BYTES),
        ("taskReceived", columns::TASK_RECEIVED_BYTES_PER_S),
        ("taskSent", columns::TASK_SENT_BYTES_PER_S),
    ];
    columns
        .map(|(name, column)| (name.to_owned(), tags::resource(column).into()))
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_has_the_tags_that_training_records() {
        let script = names_script();
        for name in [
            "\"trainLoss\":\"train/loss\"",
            "\"compute\":\"work_phases/compute_percent\"",
            "\"workerGradientMs\":\"work_pace/{task}/gradient_ms\"",
            "\"taskCpu\":\"usage/task_cpu_percent\"",
            "\"server\":\"ps\"",
            "\"verdictKinds\":[\"compute\",\"input\",\"network\",\"server\",",
            "\"behind\":1.5",
        ] {
            assert!(script.contains(name), "{name}: {script}");
        }
    }
}
