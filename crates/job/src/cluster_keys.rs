//! The keys of the section `cluster`, for the table of all keys.

use super::condition::KeyCondition;
use super::key_spec::{KeySpec, ValueKind, key, optional};
use super::model_keys::SPARSE;

/// The key that most keys of the section depend on.
const MODE: &str = "cluster.mode";
/// The modes of several tasks.
const SHARED: &[&str] = &["async", "sync", "bounded", "mirrored"];
/// The modes with servers.
const WITH_SERVERS: &[&str] = &["async", "sync", "bounded"];
/// The section of certificates, which may also be a word.
pub(super) const TLS: &str = "cluster.tls";
/// The models that have dense layers.
const NETWORKS: &[&str] = &["lenet", "alexnet", "network"];

/// Every key of the section.
pub(super) fn cluster_keys() -> Vec<KeySpec> {
    [sharing(), mirrored(), tls(), emulate()].into_iter().flatten().collect()
}

fn sharing() -> Vec<KeySpec> {
    let modes = ValueKind::Word(&["single", "async", "sync", "bounded", "mirrored"]);
    let tasks = ValueKind::Whole { min: 1, max: 1024 };
    let slots = "number of slots into which every step is divided; each worker fills one or \
                 more; defaults to the number of workers";
    let quorum = "gradients per step; the remaining workers are backups; defaults to all workers";
    let lost = "cluster.on_worker_loss";
    let loss = "what a lost worker means: the run ends, continues without it, or waits for a \
                 replacement";
    let server_loss = "whether the run ends, or waits for the server to return with the newest \
                 checkpoint; defaults to \"wait\" if the run waits for workers or writes \
                 checkpoints";
    let restarts = "total number of times the local launcher restarts lost tasks";
    let how = "how workers share parameters; with `TF_CONFIG` defaults to async if it lists a \
                 ps, and to mirrored if it lists several workers and no ps; with several processes \
                 of a scheduler defaults to mirrored, or to async if cluster.servers is set";
    let memory = "limit on the memory for the parameters and their optimizer state in each task, \
                  such as \"8gb\"; by default nine tenths of the machine's memory";
    let mut keys = vec![
        key(MODE, modes, "\"single\"", how),
        key("cluster.workers", tasks, "2", "number of workers").with(MODE, SHARED),
        optional("cluster.slots", tasks, slots).with(MODE, WITH_SERVERS),
        key("cluster.servers", tasks, "1", "number of parameter servers").with(MODE, WITH_SERVERS),
        layout(),
        optional("cluster.memory", ValueKind::Memory, memory).with("model.kind", SPARSE),
        optional("cluster.quorum", tasks, quorum).with(MODE, &["sync"]),
        key(
            "cluster.staleness",
            ValueKind::Whole { min: 0, max: i64::MAX as u64 },
            "4",
            "steps by which a worker may lead the slowest one",
        )
        .with(MODE, &["bounded"]),
        wire().with(MODE, SHARED),
        key(lost, ValueKind::Word(&["fail", "continue", "wait"]), "\"fail\"", loss)
            .with(MODE, SHARED),
        optional("cluster.on_server_loss", ValueKind::Word(&["fail", "wait"]), server_loss)
            .with(MODE, WITH_SERVERS),
        key("cluster.restarts", ValueKind::Whole { min: 0, max: 1000 }, "3", restarts)
            .with(MODE, SHARED)
            .when(KeyCondition::WaitsForTasks),
    ];
    keys.extend(cluster_timeouts());
    keys.push(files_port());
    keys.push(
        optional(
            "cluster.token_file",
            ValueKind::Path,
            "file with the secret that all tasks share",
        )
        .when(KeyCondition::Any(vec![
            KeyCondition::Has { key: MODE.to_owned(), values: SHARED },
            KeyCondition::AnySet(&["observe.http"]),
        ])),
    );
    keys
}

fn layout() -> KeySpec {
    let help = "where servers run if a scheduler starts the processes: \"beside\" as children of \
                 the first worker on each host, \"dedicated\" as the last of the processes";
    key("cluster.layout", ValueKind::Word(&["beside", "dedicated"]), "\"beside\"", help)
        .with(MODE, WITH_SERVERS)
}

fn files_port() -> KeySpec {
    let help = "for tasks that share no directory: they send checkpoints, events and logs to \
                 worker 0, which keeps them in its run directory and listens on this port";
    optional("cluster.files_port", ValueKind::Whole { min: 1, max: 65_535 }, help)
        .with(MODE, SHARED)
}

fn cluster_timeouts() -> Vec<KeySpec> {
    let rejoin = "how long the run waits for a lost task to return";
    let seconds = ValueKind::Above(0.0);
    vec![
        key("cluster.rejoin_timeout_s", seconds, "60.0", rejoin)
            .with(MODE, SHARED)
            .when(KeyCondition::WaitsForTasks),
        key(
            "cluster.start_timeout_s",
            seconds,
            "60.0",
            "how long tasks wait for each other at the start",
        )
        .with(MODE, SHARED),
        key(
            "cluster.stall_timeout_s",
            seconds,
            "600.0",
            "how long a step may wait for another task",
        )
        .with(MODE, SHARED),
    ]
}

fn tls() -> Vec<KeySpec> {
    let how = "which certificates encrypt the connections between tasks, if `tls.ca` names none: \
                 \"run\" those that the local launcher makes for the run, \"off\" none, so that \
                 changes are noticed but bytes can be read. `tls = \"run\"` is short for it";
    let ca =
        "certificate of the authority that signed the tasks' certificates (`paceline keys make`)";
    let cert = "this task's certificate; `{task}` stands for its name, such as worker-3";
    let key = "the key of this task's certificate; `{task}` stands for its name";
    let at = |name: &str, help: &'static str| {
        optional(&format!("{TLS}.{name}"), ValueKind::Path, help).with(MODE, SHARED)
    };
    vec![
        optional(&format!("{TLS}.from"), ValueKind::Word(&["off", "run"]), how)
            .with(MODE, SHARED)
            .when(KeyCondition::NotSet("cluster.tls.ca")),
        at("ca", ca),
        at("cert", cert),
        at("key", key),
    ]
}

fn mirrored() -> Vec<KeySpec> {
    let factors = "which gradients of dense layers travel as their two factors: those for which \
                 that is estimated to be faster, all, or none; the bits are the same";
    let words = ValueKind::Word(&["auto", "always", "never"]);
    let key = key("cluster.factors", words, "\"auto\"", factors);
    vec![key.with(MODE, &["mirrored"]).with("model.kind", NETWORKS)]
}

fn wire() -> KeySpec {
    let help = "how gradients and, with servers, parameters of a dense model travel; bf16 halves \
                 the bytes, at a precision of 8 bits";
    key("cluster.wire", ValueKind::Word(&["f32", "bf16"]), "\"f32\"", help)
}

fn emulate() -> Vec<KeySpec> {
    let hosts = "run the tasks on this number of emulated hosts, each with its own network; \
                 needs root (docs/emulation.md)";
    let server = "\"beside\" places servers on the workers' hosts, the first on worker 0's; \
                 \"own\" reserves the last hosts for them";
    let at = |name: &str| format!("cluster.emulate.{name}");
    let has_hosts = || KeyCondition::AnySet(&["cluster.emulate.hosts"]);
    vec![
        optional(&at("hosts"), ValueKind::Whole { min: 1, max: 250 }, hosts).with(MODE, SHARED),
        optional(
            &at("link"),
            ValueKind::Rate,
            "bandwidth of each host's link in each direction; unlimited by default",
        )
        .when(has_hosts()),
        optional(
            &at("delay_ms"),
            ValueKind::From(0.0),
            "delay of packets that leave a host, in milliseconds, where the kernel supports it",
        )
        .when(has_hosts()),
        key(&at("server"), ValueKind::Word(&["beside", "own"]), "\"beside\"", server)
            .with(MODE, WITH_SERVERS)
            .when(has_hosts()),
        optional(
            &at("cpus"),
            ValueKind::Above(0.0),
            "processor time that each host may use, in cores; unlimited by default",
        )
        .when(has_hosts()),
    ]
}
