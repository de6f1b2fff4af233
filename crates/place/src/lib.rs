//! Finds where the tasks of a distributed run are, and starts them on one machine.
//!
//! A [`Cluster`] is the list of tasks and addresses as one task sees it. Cluster managers describe
//! it in the environment variable `TF_CONFIG`:
//!
//! ```
//! use paceline_place::{Cluster, Role};
//!
//! let text = r#"{
//!     "cluster": {"worker": ["a.example:2222", "b.example:2222"], "ps": ["c.example:2222"]},
//!     "task": {"type": "worker", "index": 1}
//! }"#;
//! let cluster = Cluster::parse(text).unwrap().expect("more than a single process");
//! assert_eq!(cluster.slots(), 2);
//! assert_eq!(cluster.slot(), Some(1));
//! assert_eq!(cluster.count(Role::Ps), 1);
//! assert_eq!(cluster.servers().unwrap(), ["c.example:2222"]);
//! ```
//!
//! A *task* is one process of a run, and its *role* is worker, chief, server (`ps`) or evaluator.
//! A *slot* is a worker's place in the batch plan. The chief, or worker 0 if there is none, has
//! slot 0 and coordinates the run.
//!
//! Schedulers and launchers give each of the processes they start a *rank*. [`Placement::find`]
//! reads their variables, and [`MeetingSettings::meet`] lets the processes exchange their
//! addresses:
//!
//! ```
//! use paceline_place::{PlaceFlags, Placement, Variables};
//!
//! let variables: Variables =
//!     [("RANK", "1"), ("WORLD_SIZE", "3"), ("MASTER_ADDR", "a.example")].into_iter().collect();
//! let parent = 1;
//! let Placement::Ranked(place) = Placement::find(&PlaceFlags::default(), &variables, parent)?
//! else { unreachable!("three processes") };
//! assert_eq!((place.rank, place.size), (1, 3));
//! assert_eq!(place.describe(), "torchrun (RANK=1, WORLD_SIZE=3)");
//! # Ok::<(), paceline_place::PlaceError>(())
//! ```
//!
//! [`LaunchedRun`] starts all tasks of a run as processes on this machine, restarts lost ones, and
//! leaves none behind. Each task has a [`LauncherChannel`] to its launcher. [`EmulatedHosts`]
//! places the tasks in network namespaces with limited links, which emulates a cluster. This crate
//! knows nothing about training: [`LaunchHooks`] connects it to a program.

// The examples of the README are compiled with the tests.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod address;
mod bound_address;
mod cluster;
mod deploy;
mod emulate;
mod error;
mod launch_hooks;
mod launcher;
mod launcher_channel;
mod listen;
mod meeting;
mod placement;
mod task_end;
mod tf_config;
mod token;

pub use address::{split_address, with_port};
pub use cluster::{Cluster, Role, Task};
pub use deploy::{KubernetesJob, ManifestKind};
pub use emulate::{EmulateSettings, EmulatedHosts, may_create_networks};
pub use error::PlaceError;
pub use launch_hooks::{LaunchHooks, LaunchSettings};
pub use launcher::LaunchedRun;
pub use launcher_channel::{CHANNEL_VARIABLE, ChannelEnds, LauncherChannel};
pub use listen::{LISTENER_VARIABLE, bind_named, inherited_listener};
pub use meeting::{AgreedRun, ExpectedTask, Meeting, MeetingHooks, MeetingSettings, RoleSettings};
pub use placement::{
    MEET_VARIABLE, MeetingPart, PlaceFlags, Placement, PlacementRule, RankedPlace, RunId,
    SIZE_VARIABLE, Variables,
};
pub use tf_config::TF_CONFIG;
pub use token::{TOKEN_VARIABLE, read_only_token, read_token, run_token};
