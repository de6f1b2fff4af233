//! A proxy that can cut the connections between two tasks while both live.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Forwards every connection to its port, in both directions.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    /// Starts a proxy that forwards to this address.
    pub(crate) fn to(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let open = Arc::new(Mutex::new(Vec::new()));
        let streams = open.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // Without a listener at the target the client's connection ends at once, and the
                // client tries again.
                let Ok(server) = TcpStream::connect(&target) else { continue };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    thread::spawn(move || forward(from, to));
                }
                streams.lock().unwrap().extend([client, server]);
            }
        });
        Self { port, open }
    }

    /// Cuts every open connection and drops what is in transit. New connections are forwarded.
    pub(crate) fn cut(&self) {
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
