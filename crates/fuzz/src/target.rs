//! What is driven.

/// Something that reads bytes from elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct FuzzTarget {
    /// Its name on the command line.
    pub name: &'static str,
    /// Reads the bytes, whatever they are.
    pub run: fn(&[u8]),
    /// Valid inputs.
    pub seeds: fn() -> Vec<Vec<u8>>,
}
