//! Patches that all processes of a machine share.
//!
//! Each process would otherwise hold the patches of all training images. The first process that
//! needs them writes them to a file in the cache, which appears by rename, and all map that file.
//! Without a cache, each process holds its own.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use paceline_filemap::{FileMap, make_private_dir};
use sha2::{Digest, Sha256};

use crate::cache_dir::{cache_dir, remove_oldest, unfinished};
use crate::image_bytes::FileIdentity;
use crate::images::Images;
use crate::lock::CacheLock;
use crate::patches::Patches;

/// How a file of patches of this version begins.
const MAGIC: &[u8; 8] = b"PCLPTCH1";
/// The magic bytes, the number of images, the number of words, and the checksum of the rest.
const HEADER_BYTES: usize = 32;
/// The cache holds at most this many files of patches; the oldest are removed.
const MAX_FILES: usize = 8;
/// How long a process waits for another that writes the file.
const BUILD_LIMIT: Duration = Duration::from_secs(60);

impl Patches {
    /// As [`Patches::of`], but shares the memory with all processes of this machine that ask for
    /// the patches of the same file. Images that are in no plain file have patches of their own.
    pub fn shared(images: &Images) -> Option<Self> {
        match (cache_dir(), images.file()) {
            (Ok(cache), Some(file)) => Self::shared_in(&cache.join("patches"), images, file),
            _ => Self::of(images),
        }
    }

    fn shared_in(dir: &Path, images: &Images, file: &FileIdentity) -> Option<Self> {
        let path = dir.join(name_of(file));
        if let Some(found) = open(&path, images) {
            return Some(found);
        }
        let own = || Self::of(images);
        if make_private_dir(dir).is_err() {
            return own();
        }
        let (lock, holder) = (dir.join(".lock"), format!("process {}", std::process::id()));
        let wait = &mut |_: &str| ControlFlow::Continue(());
        let Ok(_lock) = CacheLock::take(&lock, &holder, BUILD_LIMIT, wait) else { return own() };
        // Another process may have written it meanwhile.
        if let Some(found) = open(&path, images) {
            return Some(found);
        }
        let patches = own()?;
        remove_oldest(dir, MAX_FILES);
        let part = unfinished(dir, &format!("patches-{}", std::process::id()));
        let written = write(&part, &patches).and_then(|()| fs::rename(&part, &path));
        let _ = fs::remove_file(&part);
        // What cannot be written or read back is not shared.
        written.ok().and_then(|()| open(&path, images)).or(Some(patches))
    }
}

/// The file name of the patches of a file of images.
fn name_of(file: &FileIdentity) -> PathBuf {
    let mut hash = Sha256::new();
    hash.update(file.path.as_os_str().as_encoded_bytes());
    hash.update(file.bytes.to_le_bytes());
    hash.update(file.changed.as_nanos().to_le_bytes());
    let digest: [u8; 32] = hash.finalize().into();
    digest[..12].iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

fn write(path: &Path, patches: &Patches) -> io::Result<()> {
    let (starts, words) = (patches.starts(), (**patches.words()).as_ref());
    let starts = starts.as_slice();
    let padding = if starts.len().is_multiple_of(2) { &[][..] } else { &[0_u32] };
    let body: [&[u8]; 3] =
        [bytemuck::cast_slice(starts), bytemuck::cast_slice(padding), bytemuck::cast_slice(words)];
    let crc = body.iter().fold(0, |crc, part| crc32c::crc32c_append(crc, part));
    let mut file = BufWriter::new(File::create(path)?);
    file.write_all(MAGIC)?;
    for number in [starts.len() as u64 - 1, words.len() as u64, crc.into()] {
        file.write_all(&number.to_ne_bytes())?;
    }
    body.iter().try_for_each(|part| file.write_all(part))?;
    file.flush()
}

/// Maps a file of patches, if it is sound and of these images.
fn open(path: &Path, images: &Images) -> Option<Patches> {
    let map = FileMap::open(path).ok()?;
    let header = map.get(..HEADER_BYTES)?;
    let number =
        |at: usize| Some(u64::from_ne_bytes(header[8 * at..][..8].try_into().ok()?) as usize);
    let (count, words, crc) = (number(1)?, number(2)?, number(3)?);
    if &header[..8] != MAGIC || count != images.len() {
        return None;
    }
    let starts_end =
        HEADER_BYTES.checked_add((count + 1).next_multiple_of(2) * size_of::<u32>())?;
    let is_whole = words.checked_mul(size_of::<u64>())?.checked_add(starts_end)? == map.len();
    if !is_whole || crc32c::crc32c(&map[HEADER_BYTES..]) as usize != crc {
        return None;
    }
    let starts: &[u32] = bytemuck::try_cast_slice(&map[HEADER_BYTES..starts_end]).ok()?;
    let starts = starts[..=count].to_vec();
    Some(Patches::new(MappedWords { map, start: starts_end }, starts, images))
}

/// The words of a mapped file, from a byte on.
struct MappedWords {
    map: FileMap,
    start: usize,
}

impl AsRef<[u64]> for MappedWords {
    #[inline]
    fn as_ref(&self) -> &[u64] {
        bytemuck::cast_slice(&self.map[self.start..])
    }
}

#[cfg(test)]
mod tests;
