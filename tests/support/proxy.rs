//! A proxy that can cut the connections between two tasks while both live, lose what one sends, or
//! change it.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// Forwards every connection to its port, in both directions.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    open: Arc<Mutex<Vec<TcpStream>>>,
    /// Bytes from clients that are still forwarded; what follows on their connections is lost.
    left: Arc<Mutex<usize>>,
    bytes: Arc<ForwardedBytes>,
}

/// Bits to flip, how many have been flipped, and how many bytes have been forwarded.
#[derive(Default)]
struct ForwardedBytes {
    due: AtomicUsize,
    done: AtomicUsize,
    forwarded: AtomicUsize,
}

impl ForwardedBytes {
    /// Flips a bit in the middle of these bytes, if that is due. Few bytes may be of a handshake,
    /// which is tried again for another reason.
    fn apply(&self, bytes: &mut [u8]) {
        self.forwarded.fetch_add(bytes.len(), Ordering::Relaxed);
        let take = |due: usize| due.checked_sub(1);
        let is_due = bytes.len() > 100
            && self.due.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        if is_due {
            let done = self.done.fetch_add(1, Ordering::Relaxed);
            let at = bytes.len() / 2 + done % (bytes.len() / 2);
            bytes[at] ^= 1 << (done % 8);
        }
    }
}

impl Proxy {
    /// Starts a proxy that forwards to this address.
    pub(crate) fn to(target: String) -> Self {
        Self::losing_after(usize::MAX, target)
    }

    /// Starts a proxy that forwards this many bytes of clients, and loses the rest. Connections
    /// that are made afterwards lose nothing.
    pub(crate) fn losing_after(bytes: usize, target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let open = Arc::new(Mutex::new(Vec::new()));
        let streams = open.clone();
        let left = Arc::new(Mutex::new(bytes));
        let budget = left.clone();
        let forwarded = Arc::new(ForwardedBytes::default());
        let counts = forwarded.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // Without a listener at the target the client's connection ends at once, and the
                // client tries again.
                let Ok(server) = TcpStream::connect(&target) else { continue };
                // A write that waits for the acknowledgement of the last costs 40 ms.
                for stream in [&client, &server] {
                    stream.set_nodelay(true).unwrap();
                }
                let is_limited = *budget.lock().unwrap() > 0;
                let budgets = [is_limited.then(|| budget.clone()), None];
                let ways = [(&client, &server), (&server, &client)];
                for ((from, to), budget) in ways.into_iter().zip(budgets) {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let counts = counts.clone();
                    thread::spawn(move || forward(from, to, budget.as_deref(), &counts));
                }
                streams.lock().unwrap().extend([client, server]);
            }
        });
        Self { port, open, left, bytes: forwarded }
    }

    /// Whether everything that clients send is lost.
    pub(crate) fn has_lost(&self) -> bool {
        *self.left.lock().unwrap() == 0
    }

    /// Flips a bit of what is forwarded next, in whichever direction that is.
    pub(crate) fn flip(&self) {
        self.bytes.due.fetch_add(1, Ordering::Relaxed);
    }

    /// How many bytes have been forwarded, in both directions.
    pub(crate) fn forwarded(&self) -> usize {
        self.bytes.forwarded.load(Ordering::Relaxed)
    }

    /// How many bits have been flipped.
    pub(crate) fn flipped(&self) -> usize {
        self.bytes.done.load(Ordering::Relaxed)
    }

    /// Cuts every open connection and drops what is in transit. New connections are forwarded.
    pub(crate) fn cut(&self) {
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn forward(
    mut from: TcpStream,
    mut to: TcpStream,
    budget: Option<&Mutex<usize>>,
    counts: &ForwardedBytes,
) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(mut len @ 1..) = from.read(&mut buffer) {
        if let Some(budget) = budget {
            let mut left = budget.lock().unwrap();
            len = len.min(*left);
            *left -= len;
        }
        counts.apply(&mut buffer[..len]);
        if to.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
