//! What all tests of the protocol share: a host that records, servers with hand-driven clients,
//! copies of servers, random numbers and seeds.

mod entry_model;
mod host;
mod random;
mod seeds;
mod server;
mod server_copy;

pub(crate) use entry_model::EntryModel;
pub(crate) use host::RecordingHost;
pub(crate) use random::{SeededRandom, mix};
pub(crate) use seeds::{for_each_seed, seed_count};
pub(crate) use server::{JOB, LAYOUT, TestServer, flat_layout, worker_config};
pub(crate) use server_copy::{ServerCopy, read_params, read_table};

use crate::{ControlFrame, Header};

/// A frame of any kind on its way.
#[derive(Debug)]
pub(crate) struct TestFrame {
    pub(crate) header: Header,
    pub(crate) payload: Vec<u8>,
}

impl From<ControlFrame> for TestFrame {
    fn from(frame: ControlFrame) -> Self {
        Self { header: frame.header, payload: frame.body }
    }
}

impl From<Header> for TestFrame {
    fn from(header: Header) -> Self {
        Self { header, payload: Vec::new() }
    }
}
