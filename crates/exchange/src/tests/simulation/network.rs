//! The connections of the simulated cluster.

use super::node::ServerNode;
use super::world::{SimEvent, SimWorld};
use crate::tests::harness::TestFrame;
use crate::{
    ConnId, ControlFrame, FrameKind, Header, Payload, ReadTarget, RoundedChunk, as_bytes_mut,
};

#[derive(Clone, Copy)]
pub(crate) enum ConnOwner {
    Stranger,
    Process(usize),
    RosterProcess(usize),
}

#[derive(Clone, Copy)]
pub(crate) struct SimConn {
    pub(crate) server: usize,
    pub(crate) owner: ConnOwner,
    pub(crate) cut: bool,
    /// When the last message arrives, each way.
    to_server_ms: u64,
    to_client_ms: u64,
}

impl SimWorld {
    pub(crate) fn connect(&mut self, process: usize, server: usize) {
        if !self.processes[process].is_alive() {
            return;
        }
        if self.nodes[server].ended {
            self.processes[process].server_ended(server);
            return self.disconnect_if_exited(process);
        }
        if self.nodes[server].is_down {
            let delay_ms = self.random.between(1, 100);
            return self.after(delay_ms, SimEvent::Connect { process, server });
        }
        if self.links[process][server].is_some() {
            return;
        }
        let conn = self.open(server, ConnOwner::Process(process));
        self.links[process][server] = Some(conn);
        let ControlFrame { header, body: bytes } = self.processes[process].client.hello(server);
        self.send_to_server(conn, header, bytes);
    }

    pub(crate) fn open(&mut self, server: usize, owner: ConnOwner) -> ConnId {
        let conn = ConnId(self.conns.len() as u64);
        let (to_server_ms, to_client_ms) = (self.now_ms, self.now_ms);
        self.conns.push(SimConn { server, owner, cut: false, to_server_ms, to_client_ms });
        let at_ms = self.arrival(conn, true);
        self.at(at_ms, SimEvent::Open(conn));
        conn
    }

    /// When the next message of a connection arrives: after the last one.
    pub(crate) fn arrival(&mut self, conn: ConnId, to_server: bool) -> u64 {
        let at_ms = self.now_ms + self.random.below(self.plan.delay_ms + 1);
        let conn = &mut self.conns[conn.0 as usize];
        let last = if to_server { &mut conn.to_server_ms } else { &mut conn.to_client_ms };
        *last = at_ms.max(*last);
        *last
    }

    pub(crate) fn send_to_server(&mut self, conn: ConnId, header: Header, bytes: Vec<u8>) {
        let at_ms = self.arrival(conn, true);
        self.at(at_ms, SimEvent::ToServer(conn, TestFrame { header, payload: bytes }));
    }

    /// The server has closed a connection, and the client learns of it after the last message.
    pub(crate) fn close_at_client(&mut self, conn: ConnId) {
        let at_ms = self.arrival(conn, false);
        self.at(at_ms, SimEvent::ClientSeesClose(conn));
    }

    pub(crate) fn server_sees_open(&mut self, conn: ConnId) {
        let SimConn { server, cut, .. } = self.conns[conn.0 as usize];
        let ServerNode { server, ended, is_down, .. } = &mut self.nodes[server];
        if !*ended && !*is_down && !cut {
            server.connection_opened(conn, self.now_ms);
        }
    }

    pub(crate) fn server_reads(&mut self, conn: ConnId, header: Header, bytes: Vec<u8>) {
        let SimConn { server, owner, cut, .. } = self.conns[conn.0 as usize];
        if cut {
            return;
        }
        if self.trace {
            let slot = match owner {
                ConnOwner::Process(process) => Some(self.processes[process].slot),
                _ => None,
            };
            println!("{:6} {conn:?} of {slot:?} -> {header:?}", self.now_ms);
        }
        let is_worker = matches!(owner, ConnOwner::Process(_));
        let is_hello = header.kind == FrameKind::Hello;
        let mut buffer = std::mem::take(&mut self.nodes[server].buffer);
        self.serve(server, |server, now_ms, host| {
            let payload = match header.kind {
                FrameKind::Push | FrameKind::PushKeys => {
                    buffer.resize(bytes.len().div_ceil(4), 0.0);
                    as_bytes_mut(&mut buffer)[..bytes.len()].copy_from_slice(&bytes);
                    Payload::Floats(&mut buffer)
                }
                _ => Payload::Bytes(&bytes),
            };
            let checked = server.payload_limits().check(&header);
            assert!(!is_worker || is_hello || checked.is_ok(), "an honest client: {checked:?}");
            server.frame_arrived(conn, &header, payload, now_ms, host);
        });
        self.nodes[server].buffer = buffer;
    }

    pub(crate) fn client_reads(&mut self, conn: ConnId, header: Header, bytes: Vec<u8>) {
        let SimConn { server, owner, cut, .. } = self.conns[conn.0 as usize];
        if cut {
            return;
        }
        let process = match owner {
            ConnOwner::Stranger => return,
            ConnOwner::RosterProcess(index) => {
                return self.roster_reads(index, conn, &header, &bytes);
            }
            ConnOwner::Process(process) => process,
        };
        if self.links[process][server] != Some(conn) || !self.processes[process].is_alive() {
            return;
        }
        let receiver = &mut self.processes[process];
        if self.trace {
            println!("{:6} ps:{server} -> {conn:?} of {}: {header:?}", self.now_ms, receiver.slot);
        }
        let target = receiver.client.read_target(server, &header).expect("an honest server");
        let actions = match target {
            ReadTarget::Floats(range) => {
                as_bytes_mut(&mut receiver.params[range.clone()]).copy_from_slice(&bytes);
                if self.plan.is_sparse {
                    self.nodes[server].check_values(header.version, receiver, range);
                    receiver.batches.versions.resize(self.plan.servers, 0);
                    receiver.batches.versions[server] = header.version;
                }
                receiver.frame_arrived(&self.plan, server, &header, &[])
            }
            ReadTarget::Rounded(range) => {
                let mut rounded = RoundedChunk::default();
                rounded.bytes_mut(range.len()).copy_from_slice(&bytes);
                rounded.widen_into(0, &mut receiver.params[range]);
                receiver.frame_arrived(&self.plan, server, &header, &[])
            }
            ReadTarget::KnownGradient(range) => {
                as_bytes_mut(receiver.changes.known_mut(range)).copy_from_slice(&bytes);
                receiver.frame_arrived(&self.plan, server, &header, &[])
            }
            ReadTarget::Bytes(len) => {
                assert_eq!(len, bytes.len());
                receiver.frame_arrived(&self.plan, server, &header, &bytes)
            }
        };
        self.perform(process, actions);
    }

    pub(crate) fn client_sees_close(&mut self, conn: ConnId) {
        let SimConn { server, owner, .. } = self.conns[conn.0 as usize];
        self.conns[conn.0 as usize].cut = true;
        let process = match owner {
            ConnOwner::Stranger => return,
            ConnOwner::RosterProcess(index) => return self.roster_sees_close(index, conn),
            ConnOwner::Process(process) => process,
        };
        if self.links[process][server] != Some(conn) || !self.processes[process].is_alive() {
            return;
        }
        self.links[process][server] = None;
        self.processes[process].client.connection_lost(server);
        if self.processes[process].is_done_with(server) {
            return;
        }
        let delay_ms = self.random.between(1, 100);
        self.after(delay_ms, SimEvent::Connect { process, server });
    }

    pub(crate) fn reconnect(&mut self, process: usize, server: usize) {
        if let Some(conn) = self.links[process][server].take() {
            self.conns[conn.0 as usize].cut = true;
            let delay_ms = self.random.below(500);
            self.after(delay_ms, SimEvent::ServerSeesClose(conn));
        }
        self.processes[process].client.connection_lost(server);
        let delay_ms = self.random.between(1, 100);
        self.after(delay_ms, SimEvent::Connect { process, server });
    }

    pub(crate) fn disconnect_if_exited(&mut self, process: usize) {
        if self.processes[process].is_alive() {
            return;
        }
        for conn in std::mem::take(&mut self.links[process]).into_iter().flatten() {
            let at_ms = self.arrival(conn, true);
            self.at(at_ms, SimEvent::ServerSeesClose(conn));
        }
        self.links[process] = vec![None; self.plan.servers];
    }
}
