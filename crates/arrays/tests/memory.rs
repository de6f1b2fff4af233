//! What a packed array costs. Alone in its program, because it measures the program's memory.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

use std::fs;
use std::io::Write;

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};
use paceline_arrays::{NumpySpec, open_numpy};
use tempfile::TempDir;

/// A `.npz` file with one packed member.
fn archive(name: &str, content: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    let packed = encoder.finish().unwrap();
    let mut crc = Crc::new();
    crc.update(content);
    let word = |number: usize| (number as u32).to_le_bytes();
    let sizes = [crc.sum().to_le_bytes(), word(packed.len()), word(content.len())].concat();
    let name_bytes = [(name.len() as u8), 0, 0, 0];
    let common = [&[20, 0, 0, 0, 8, 0, 0, 0, 0, 0][..], &sizes, &name_bytes].concat();
    let local = [b"PK\x03\x04", &common[..], name.as_bytes(), &packed].concat();
    let entry = [b"PK\x01\x02\x14\0", &common[..], &[0; 14], name.as_bytes()].concat();
    let end = [b"PK\x05\x06\0\0\0\0\x01\0\x01\0", &word(entry.len())[..], &word(local.len())];
    [local, entry, end.concat(), vec![0; 2]].concat()
}

/// A line of the system's account of this process, in bytes.
fn memory(line: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let text = status.lines().find_map(|text| text.strip_prefix(line)).unwrap();
    text.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn a_packed_array_takes_memory_for_its_own_bytes_only() {
    // A little more than a power of two, where a buffer that doubles is half empty.
    const ROWS: usize = (65 << 20) / 4;
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("x.npz");
    let head = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({ROWS}, 1), }}\n");
    let mut content = [b"\x93NUMPY\x01\0", &(head.len() as u16).to_le_bytes()[..]].concat();
    content.extend(head.as_bytes());
    content.resize(content.len() + 4 * ROWS, 0);
    fs::write(&path, archive("x.npy", &content)).unwrap();
    drop(content);
    // Counts the peak anew.
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = memory("VmRSS");
    let error = open_numpy(&NumpySpec::at(&path)).err().unwrap().to_string();
    assert!(error.contains("there is no array y"), "{error}");
    let taken = memory("VmHWM") - before;
    assert!(4 * ROWS as u64 <= taken && taken < 100 << 20, "{taken} bytes");
}
