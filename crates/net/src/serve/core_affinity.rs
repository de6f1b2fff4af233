//! Keeps a connection's thread on the core of the worker that it serves.
//!
//! With a small model a worker and the thread that serves it never work at the same time: one
//! computes while the other is idle. On one core they take turns, and each finds in the cache what
//! the other has just written. The scheduler does not know that. A thread that spins before it
//! sleeps looks busy, so the scheduler may leave both workers of a run on one core and both threads
//! on another, at two thirds of the speed. Every 64 gradients a thread therefore asks which core
//! its bytes came from, which on one machine is the worker's, and moves there.
//!
//! The thread is moved, not bound: the scheduler may move it elsewhere, and does if another task
//! needs the core.

use mio::net::TcpStream;
use paceline_exchange::{CHUNK_BYTES, FrameKind, Header};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use socket2::SockRef;

/// The cores that a connection's thread may run on; `None` if it follows no worker.
pub(super) struct CoreAffinity(Option<CpuSet>);

impl CoreAffinity {
    /// For the calling thread. It does not follow a worker on another machine: the core that bytes
    /// from there come from is the one that handles the network card.
    pub(super) fn new(stream: &TcpStream) -> Self {
        let is_here = match (stream.peer_addr(), stream.local_addr()) {
            (Ok(there), Ok(here)) => there.ip() == here.ip(),
            _ => false,
        };
        Self(sched_getaffinity(None).ok().filter(|cores| is_here && cores.count() > 1))
    }

    /// Moves the calling thread to the core that a gradient came from. The gradient must not have
    /// been answered yet.
    pub(super) fn follow(&self, stream: &TcpStream, header: &Header) {
        let Some(cores) = &self.0 else { return };
        if let Some(core) = other_core(stream, header, cores) {
            move_to(core, cores);
        }
    }
}

/// The core that a gradient came from, if the thread may and should move there.
fn other_core(stream: &TcpStream, header: &Header, cores: &CpuSet) -> Option<usize> {
    // The chunks of a large model are sent and applied at the same time, on two cores.
    let is_only = header.chunk == 0 && (header.len as usize) < CHUNK_BYTES;
    let is_small = header.kind == FrameKind::Push && is_only;
    let core = is_small.then(|| SockRef::from(stream).cpu_affinity().ok()).flatten()?;
    let is_allowed = core < CpuSet::MAX_CPU && cores.is_set(core);
    (is_allowed && core != sched_getcpu()).then_some(core)
}

/// Moves the calling thread to a core, then allows it all cores again. If the system refuses, the
/// thread stays.
fn move_to(core: usize, cores: &CpuSet) {
    let mut only = CpuSet::new();
    only.set(core);
    let _ = sched_setaffinity(None, &only);
    let _ = sched_setaffinity(None, cores);
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use super::*;

    /// Runs the calling thread on one core only.
    fn bind(core: usize) {
        let mut only = CpuSet::new();
        only.set(core);
        sched_setaffinity(None, &only).unwrap();
    }

    #[test]
    fn a_thread_moves_to_the_core_that_small_gradients_come_from() {
        let cores = sched_getaffinity(None).unwrap();
        let allowed: Vec<_> = (0..CpuSet::MAX_CPU).filter(|&core| cores.is_set(core)).collect();
        let [first, .., last] = allowed[..] else {
            eprintln!("not tested: there is only one core");
            return;
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let worker = thread::spawn(move || {
            bind(last);
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(&[1; 100]).unwrap();
            // Until the other end hangs up.
            let _ = stream.read(&mut [0]);
        });
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; 100]).unwrap();
        stream.set_nonblocking(true).unwrap();
        let stream = mio::net::TcpStream::from_std(stream);
        let small = Header::new(FrameKind::Push, 100);
        let large = Header::new(FrameKind::Push, CHUNK_BYTES);
        assert!(CoreAffinity::new(&stream).0.is_some());
        bind(first);
        assert_eq!(other_core(&stream, &small, &cores), Some(last));
        assert_eq!(other_core(&stream, &large, &cores), None);
        bind(last);
        assert_eq!(other_core(&stream, &small, &cores), None);
        move_to(first, &cores);
        assert_eq!(sched_getaffinity(None).unwrap(), cores, "it is bound");
        drop(stream);
        worker.join().unwrap();
    }
}
