//! A thread that keeps near the worker it serves.
//!
//! With a small model a worker and the thread that serves it never work at the same time: one
//! computes while the other has nothing to do. On one core they take turns, and each finds in the
//! cache what the other has just written. The system cannot see that. Who looks again before going
//! to sleep seems busy, and so it happens that both workers of a run share a core while their
//! threads look about on another, at two thirds of the pace. So a thread asks now and then where
//! its bytes come from, which on one machine is the core that the worker runs on, and moves there.
//!
//! It moves, and is not bound: the system may move it elsewhere, and does if the core is wanted.

use mio::net::TcpStream;
use paceline_exchange::{CHUNK_BYTES, FrameKind, Header};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use socket2::SockRef;

/// The cores that a connection's thread may run on; none if it stays where it is.
pub(super) struct Near(Option<CpuSet>);

impl Near {
    /// For the thread that calls this. Workers on other machines are not followed: what comes from
    /// there comes from wherever the system takes it off the wire.
    pub(super) fn new(stream: &TcpStream) -> Self {
        let is_here = match (stream.peer_addr(), stream.local_addr()) {
            (Ok(there), Ok(here)) => there.ip() == here.ip(),
            _ => false,
        };
        Self(sched_getaffinity(None).ok().filter(|cores| is_here && cores.count() > 1))
    }

    /// A gradient has come, and has not been answered: the thread goes to the core that it came
    /// from. To be said now and then.
    pub(super) fn follow(&self, stream: &TcpStream, header: &Header) {
        let Some(cores) = &self.0 else { return };
        if let Some(core) = other_core(stream, header, cores) {
            go_to(core, cores);
        }
    }
}

/// The core that a gradient came from, if the thread may and should go there.
fn other_core(stream: &TcpStream, header: &Header, cores: &CpuSet) -> Option<usize> {
    // The parts of a large model are sent and applied at the same time.
    let is_only = header.chunk == 0 && (header.len as usize) < CHUNK_BYTES;
    let is_small = header.kind == FrameKind::Push && is_only;
    let core = is_small.then(|| SockRef::from(stream).cpu_affinity().ok()).flatten()?;
    let is_allowed = core < CpuSet::MAX_CPU && cores.is_set(core);
    (is_allowed && core != sched_getcpu()).then_some(core)
}

/// Moves the thread to a core, and lets it run on all again. If the system does not let it go there,
/// it stays.
fn go_to(core: usize, cores: &CpuSet) {
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
    fn a_thread_goes_to_the_core_that_its_gradients_come_from_if_they_are_small() {
        let cores = sched_getaffinity(None).unwrap();
        let allowed: Vec<_> = (0..CpuSet::MAX_CPU).filter(|&core| cores.is_set(core)).collect();
        let [first, .., last] = allowed[..] else {
            eprintln!("not tested: there is one core only");
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
        assert!(Near::new(&stream).0.is_some());
        bind(first);
        assert_eq!(other_core(&stream, &small, &cores), Some(last));
        assert_eq!(other_core(&stream, &large, &cores), None);
        bind(last);
        assert_eq!(other_core(&stream, &small, &cores), None);
        go_to(first, &cores);
        assert_eq!(sched_getaffinity(None).unwrap(), cores, "it is bound");
        drop(stream);
        worker.join().unwrap();
    }
}
