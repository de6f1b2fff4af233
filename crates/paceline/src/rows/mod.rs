//! Training on sparse rows: a batch touches few of many parameters, and only those move.

mod in_place;
mod local;
mod tester;
mod worker;

pub use in_place::InPlaceWorker;
pub use local::{LocalRows, SharedTable};
pub use tester::RowTester;
pub use worker::RowWorker;
