//! Somebody between workers and a server who can cut their connections: both ends live, and each
//! sees the other go.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Passes on what comes to its port, until it is told to cut.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    /// Passes connections on to this port of this machine.
    pub(crate) fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let open = Arc::new(Mutex::new(Vec::new()));
        let all = open.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // Nobody there: the caller sees its connection end at once, and calls again.
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                let pair = [&client, &server].map(|stream| stream.try_clone().unwrap());
                all.lock().unwrap().extend(pair);
                let back = [&server, &client].map(|stream| stream.try_clone().unwrap());
                thread::spawn(move || pass(client, server));
                let [server, client] = back;
                thread::spawn(move || pass(server, client));
            }
        });
        Self { port, open }
    }

    /// Cuts every connection that is open now, with what is on its way.
    pub(crate) fn cut(&self) {
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(len @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..len]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
