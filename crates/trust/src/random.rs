//! Numbers that no other process can guess.

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// Random bytes from the operating system. Needs no file, so it works when no more may be opened.
pub fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(more) => filled += more,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}
