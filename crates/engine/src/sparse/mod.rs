//! Training on sparse rows: a batch touches a few of many parameters, and only those change.

mod evaluator;
mod hogwild;
mod in_place;
mod loop_config;
mod new_table;
mod row_by_row;
mod table_link;
mod table_loop;
mod worker;

pub(crate) use evaluator::SparseEvaluator;
pub(crate) use hogwild::{HogwildTrainer, TableTrainer};
pub(crate) use in_place::InPlaceWorker;
pub(crate) use loop_config::SparseLoopConfig;
pub(crate) use new_table::{all_keys, check_room, empty_table, for_each_piece, table_use};
pub(crate) use row_by_row::{RowByRowWorker, is_row_by_row};
pub(crate) use table_link::{SharedTable, TableLink};
pub(crate) use worker::SparseWorker;
