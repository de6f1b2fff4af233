//! A small fake data set, and small HTTP servers that deliver it correctly or badly.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use paceline_fetch::{DatasetDirs, DatasetSpec, FetchOptions, FileSpec, NpmPackage};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// The names of the four files.
pub(crate) const NAMES: [&str; 4] = ["train-images", "train-labels", "test-images", "test-labels"];

/// The content of each: six training and four test images of 4 x 4.
pub(crate) fn content(name: &str) -> Vec<u8> {
    let count: u8 = if name.starts_with("train") { 6 } else { 4 };
    if name.ends_with("labels") {
        return [&[0, 0, 8, 1, 0, 0, 0, count][..], &(0..count).collect::<Vec<_>>()].concat();
    }
    let pixels: Vec<u8> = (0..count * 16).collect();
    [&[0, 0, 8, 3, 0, 0, 0, count, 0, 0, 0, 4, 0, 0, 0, 4][..], &pixels].concat()
}

/// The fake data set, as the catalog would describe it.
pub(crate) fn spec() -> DatasetSpec {
    let files = NAMES.map(|name| FileSpec {
        name,
        bytes: content(name).len() as u64,
        sha256: Sha256::digest(content(name)).into(),
    });
    let npm = Some(NpmPackage { package: "tiny@1.0.0", prefix: "package/data/" });
    DatasetSpec {
        name: "tiny",
        classes: 10,
        files,
        mirrors: &[],
        npm,
        debian: Some("dataset-tiny"),
    }
}

/// Directories inside a temporary directory.
pub(crate) fn dirs(dir: &TempDir) -> DatasetDirs {
    DatasetDirs { cache: dir.path().join("cache"), debian: dir.path().join("debian") }
}

/// These mirrors, no npm, and timeouts long enough for a busy machine.
pub(crate) fn options(mirrors: &[&FakeMirror]) -> FetchOptions {
    FetchOptions {
        mirrors: mirrors.iter().map(|mirror| mirror.address.clone()).collect(),
        npm: None,
        connect_timeout: Duration::from_secs(5),
        read_timeout: Duration::from_secs(5),
        file_timeout: Duration::from_secs(10),
        npm_timeout: Duration::from_secs(10),
        lock_timeout: Duration::from_secs(20),
    }
}

/// Everything below a directory, as sorted relative paths.
pub(crate) fn tree(root: PathBuf) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![root.clone()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            found.push(path.strip_prefix(&root).expect("below").display().to_string());
            if path.is_dir() {
                open.push(path);
            }
        }
    }
    found.sort();
    found
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// How a mirror delivers its files: the first three ways are good.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum MirrorFault {
    /// Sends the packed files.
    Packed,
    /// Sends the plain content under the packed names.
    Unpacked,
    /// Has only files with the plain names.
    PlainNames,
    /// Sends well-formed files with one wrong byte.
    Corrupt,
    /// Sends far too many bytes.
    Endless,
    /// Closes the connection halfway.
    CutOff,
    /// Has no file.
    Empty,
    /// Sends half of a file, then nothing more.
    Silent,
    /// Sends one byte every 200 ms, so it is never silent for long.
    Trickle,
}

/// A mirror on a free port. It runs until the test process ends.
pub(crate) struct FakeMirror {
    pub(crate) address: String,
    hits: Arc<Mutex<HashMap<String, usize>>>,
}

impl FakeMirror {
    pub(crate) fn start(fault: MirrorFault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = format!("http://{}/", listener.local_addr().expect("bound"));
        let hits = Arc::new(Mutex::new(HashMap::new()));
        let counted = Arc::clone(&hits);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counted = Arc::clone(&counted);
                // Some tests end the connection early, so errors are ignored.
                thread::spawn(move || serve(stream, fault, &counted));
            }
        });
        FakeMirror { address, hits }
    }

    /// How often each file was requested, by its full name.
    pub(crate) fn hits(&self) -> HashMap<String, usize> {
        self.hits.lock().expect("no panic").clone()
    }
}

fn serve(mut stream: TcpStream, fault: MirrorFault, hits: &Mutex<HashMap<String, usize>>) {
    let mut lines = BufReader::new(stream.try_clone().expect("a socket")).lines();
    let Some(Ok(request)) = lines.next() else { return };
    while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
    let asked = request.split(' ').nth(1).unwrap_or("/").trim_start_matches('/').to_owned();
    *hits.lock().expect("no panic").entry(asked.clone()).or_default() += 1;
    let _ = answer(&mut stream, fault, &asked);
}

fn answer(stream: &mut TcpStream, fault: MirrorFault, asked: &str) -> std::io::Result<()> {
    let name = asked.trim_end_matches(".gz");
    let packed = asked.ends_with(".gz");
    if fault == MirrorFault::Empty || fault == MirrorFault::PlainNames && packed {
        let head = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        return stream.write_all(head.as_bytes());
    }
    let mut body = content(name);
    match fault {
        MirrorFault::Corrupt => *body.last_mut().expect("not empty") ^= 1,
        MirrorFault::Endless => body.resize(10 << 20, 0),
        _ => {}
    }
    let body = if packed && fault != MirrorFault::Unpacked { gzip(&body) } else { body };
    let length = body.len();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    let half = match fault {
        MirrorFault::CutOff | MirrorFault::Silent | MirrorFault::Trickle => length / 2,
        _ => length,
    };
    stream.write_all(&body[..half])?;
    match fault {
        MirrorFault::Silent => thread::sleep(Duration::from_secs(30)),
        MirrorFault::Trickle => {
            for byte in &body[half..length - 1] {
                thread::sleep(Duration::from_millis(200));
                stream.write_all(&[*byte])?;
            }
        }
        _ => {}
    }
    Ok(())
}
