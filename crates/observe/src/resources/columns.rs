//! The columns of a sample.

/// The names of the columns of a task without peers.
pub mod column {
    /// Time in user mode, in percent of the cores that the task may use.
    pub const CPU_USR_PERCENT: &str = "cpu_usr_percent";
    /// Time in the kernel, in percent of the cores that the task may use.
    pub const CPU_SYS_PERCENT: &str = "cpu_sys_percent";
    /// Idle time, in percent of the cores that the task may use.
    pub const CPU_IDLE_PERCENT: &str = "cpu_idle_percent";
    /// Idle time waiting for a disk, in percent of the cores that the task may use.
    pub const CPU_WAIT_PERCENT: &str = "cpu_wait_percent";
    /// Bytes the machine read from disks.
    pub const DISK_READ_BYTES_PER_S: &str = "disk_read_bytes_per_s";
    /// Bytes the machine wrote to disks.
    pub const DISK_WRITTEN_BYTES_PER_S: &str = "disk_written_bytes_per_s";
    /// Bytes the machine received over networks.
    pub const NET_RECEIVED_BYTES_PER_S: &str = "net_received_bytes_per_s";
    /// Bytes the machine sent over networks.
    pub const NET_SENT_BYTES_PER_S: &str = "net_sent_bytes_per_s";
    /// Memory held by programs and the kernel.
    pub const MEMORY_USED_BYTES: &str = "memory_used_bytes";
    /// Unused memory.
    pub const MEMORY_FREE_BYTES: &str = "memory_free_bytes";
    /// Cached metadata of files.
    pub const MEMORY_BUFFERS_BYTES: &str = "memory_buffers_bytes";
    /// Cached files.
    pub const MEMORY_CACHE_BYTES: &str = "memory_cache_bytes";
    /// Context switches of the machine.
    pub const CONTEXT_SWITCHES_PER_S: &str = "context_switches_per_s";
    /// Processor time of the task, in percent of one core.
    pub const TASK_CPU_PERCENT: &str = "task_cpu_percent";
    /// The task's resident set.
    pub const TASK_MEMORY_BYTES: &str = "task_memory_bytes";
    /// Bytes the task received from other tasks.
    pub const TASK_RECEIVED_BYTES_PER_S: &str = "task_received_bytes_per_s";
    /// Bytes the task sent to other tasks.
    pub const TASK_SENT_BYTES_PER_S: &str = "task_sent_bytes_per_s";
}

/// The number of columns of a task without peers.
pub(super) const WIDTH: usize = 17;

/// The columns of a task without peers, in their order.
pub const COLUMNS: [&str; WIDTH] = [
    column::CPU_USR_PERCENT,
    column::CPU_SYS_PERCENT,
    column::CPU_IDLE_PERCENT,
    column::CPU_WAIT_PERCENT,
    column::DISK_READ_BYTES_PER_S,
    column::DISK_WRITTEN_BYTES_PER_S,
    column::NET_RECEIVED_BYTES_PER_S,
    column::NET_SENT_BYTES_PER_S,
    column::MEMORY_USED_BYTES,
    column::MEMORY_FREE_BYTES,
    column::MEMORY_BUFFERS_BYTES,
    column::MEMORY_CACHE_BYTES,
    column::CONTEXT_SWITCHES_PER_S,
    column::TASK_CPU_PERCENT,
    column::TASK_MEMORY_BYTES,
    column::TASK_RECEIVED_BYTES_PER_S,
    column::TASK_SENT_BYTES_PER_S,
];

/// The columns of each peer, which follow [`COLUMNS`].
const PEER_COLUMNS: [&str; 2] = ["received_bytes_per_s", "sent_bytes_per_s"];
/// The most peers that have columns of their own; the others count only in the sum.
pub(super) const MOST_PEERS: usize = 64;

/// The columns of a task with these peers: [`COLUMNS`] and, for each peer, the bytes received from
/// it and sent to it, such as `ps:0_received_bytes_per_s`.
pub fn columns(peers: &[String]) -> Vec<String> {
    let own = |peer: &String| PEER_COLUMNS.map(|column| format!("{peer}_{column}"));
    let peers = peers.iter().take(MOST_PEERS).flat_map(own);
    COLUMNS.iter().map(|&column| column.to_owned()).chain(peers).collect()
}
