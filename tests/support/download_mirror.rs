//! Small HTTP servers on loopback that imitate working and broken mirrors.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::thread;

/// How a mirror behaves.
#[derive(Clone)]
pub(crate) enum MirrorBehaviour {
    /// Answers every request with 404.
    Empty,
    /// Answers every request with the same page, as the sign-in page of a hotel does.
    Page,
    /// Serves the files of a directory.
    Files(PathBuf),
    /// Sends half of each file and then nothing, and keeps the connection open.
    Stalls(PathBuf),
}

/// Starts a mirror and returns its address. It serves until the test process ends.
pub(crate) fn start_mirror(behaviour: MirrorBehaviour) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let behaviour = behaviour.clone();
            // Some tests kill the client, so errors are expected.
            thread::spawn(move || drop(answer(stream, behaviour)));
        }
    });
    address
}

fn answer(mut stream: TcpStream, behaviour: MirrorBehaviour) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
    let asked = request.split(' ').nth(1).unwrap_or_default().trim_start_matches('/');
    let body = match &behaviour {
        MirrorBehaviour::Empty => None,
        MirrorBehaviour::Page => Some(b"<!DOCTYPE html><title>Sign in</title>".to_vec()),
        MirrorBehaviour::Files(dir) | MirrorBehaviour::Stalls(dir) => {
            fs::read(dir.join(asked)).ok()
        }
    };
    let Some(body) = body else {
        let head = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        return stream.write_all(head.as_bytes());
    };
    let length = body.len();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    if let MirrorBehaviour::Stalls(_) = behaviour {
        stream.write_all(&body[..length / 2])?;
        // Waits until the client closes the connection.
        lines.next();
        return Ok(());
    }
    stream.write_all(&body)
}
