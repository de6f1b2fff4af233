//! The job file: what to train, on what, how, and when to stop.
//!
//! A job goes through three forms. The *raw* form ([`RawJob`]) is every `key = value` of the
//! file and of `--set`, flattened, each with the place it came from. The *schema* is one table
//! of every key there is. Checking the raw form against the schema gives, once and before
//! anything starts, either the *plan* ([`Plan`]), which the rest of the program trusts, or a
//! list of [`Problem`]s that each name a place, a key and a way out.

mod cells;
mod check;
mod check_data;
mod check_emulate;
mod finding;
mod plan;
mod problem;
mod raw;
mod resolve;
mod schema;
mod sweep;
#[cfg(test)]
mod sweep_tests;
#[cfg(test)]
mod tests;
mod value;

pub use cells::CellJob;
pub use plan::{ClusterPlan, DataKind, DataPlan, ModelKind, Plan};
pub use problem::{Origin, Problem, Problems};
pub use raw::RawJob;
pub use schema::reference_markdown;
