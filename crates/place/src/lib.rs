//! Where the tasks of a run are, and how they are started.

mod cluster;
mod emulate;
mod error;
mod launcher;
mod launcher_channel;
mod listen;
mod task_end;
mod tf_config;
mod token;

pub use cluster::{Cluster, Role, Task};
pub use emulate::{EmulateSettings, EmulatedHosts, may_make_networks};
pub use error::PlaceError;
pub use launcher::{LaunchHooks, LaunchSettings, LaunchedRun};
pub use launcher_channel::{CHANNEL_VARIABLE, LauncherChannel, channel_pair};
pub use listen::{LISTENER_VARIABLE, inherited_listener, listen};
pub use tf_config::TF_CONFIG;
pub use token::{TOKEN_VARIABLE, read_token, run_token};
