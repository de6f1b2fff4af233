//! The job file: the model, the data, the training method, and when to stop.
//!
//! The *raw* form of a job ([`RawJob`]) is every `key = value` of the file and of `--set`,
//! flattened, each with its origin. The *schema* is one table of all keys. Checking the raw form
//! against the schema, once and before anything starts, gives either the *plan* ([`Plan`]), which
//! the rest of the program trusts, or a list of [`Problem`]s that each name an origin, a key and a
//! remedy.
//!
//! ```
//! use paceline_job::RawJob;
//!
//! let mut job = RawJob::built_in();
//! job.set("cluster.mode=single");
//! job.set("train.batch=100");
//! assert_eq!(job.check().unwrap().batch, 100);
//!
//! job.set("train.bach=100");
//! let problems = job.check().unwrap_err().to_string();
//! assert!(problems.ends_with("train.bach is not a key; did you mean train.batch?"));
//! ```

#![cfg_attr(doctest, doc = include_str!("../README.md"))]

mod applies;
mod cells;
mod check;
mod check_data;
mod check_emulate;
mod check_model;
mod check_optimizer;
mod checkpoint_keys;
mod cluster_keys;
mod column_keys;
mod column_path;
mod columns;
mod condition;
mod data_hint;
mod data_shape;
mod describe_model;
mod earlier_run;
mod factor_plan;
mod finding;
mod job_text;
mod key_spec;
mod layer_keys;
mod layer_path;
mod layers;
mod link_rate;
mod mean_gradients;
mod memory_size;
mod model_keys;
mod network_plan;
mod network_problem;
mod plan;
mod problem;
mod raw;
mod reference;
mod resolve;
mod run_features;
mod schedule_keys;
mod schema;
mod shared_file;
mod similar_path;
mod suggestion;
mod sweep_sections;
mod take_value;
mod value;

pub use cells::CellJob;
pub use data_shape::{DataShape, shape_of};
pub use earlier_run::EarlierRun;
pub use factor_plan::FactorPlan;
pub use network_plan::NetworkPlan;
pub use plan::{ClusterPlan, DataKind, DataPlan, ModelKind, Plan, TlsPlan, ValidationPlan};
pub use problem::{Problem, Problems, SettingOrigin};
pub use raw::RawJob;
pub use reference::reference_markdown;
pub use resolve::FileKey;
pub use run_features::{check_same_features, keep_features, not_a_run};
pub use shared_file::shared_file;
pub use similar_path::did_you_mean;
pub use suggestion::key_for_word;
