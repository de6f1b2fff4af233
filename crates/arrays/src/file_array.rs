//! Arrays in files: `.npy`, plain or gzip, and the members of a `.npz`.
//!
//! An array that is stored plain is mapped and never copied as a whole, so it may be larger than
//! memory. A packed one is unpacked into memory, within a limit.

use std::fs::File;
use std::io::{self, Read};
use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use paceline_data::{DataError, OpenMeter, OpenObserver, unpack};
use paceline_filemap::FileMap;

use crate::npy::{ElementKind, NpyFault, NpyHeader};
use crate::zip::{self, ZipMember};

/// How much of a gzip file is unpacked at a time, in bytes.
const STEP_BYTES: u64 = 1 << 20;

/// The largest packed array that is unpacked, in bytes.
const MAX_UNPACKED_BYTES: u64 = 8 << 30;

/// An array of numbers in a file.
#[derive(Clone, Debug)]
pub(crate) struct FileArray {
    /// Its name in messages: the file, or the archive and the member.
    pub(crate) name: PathBuf,
    pub(crate) kind: ElementKind,
    pub(crate) shape: Vec<usize>,
    bytes: ArrayBytes,
}

#[derive(Clone, Debug)]
enum ArrayBytes {
    Mapped { map: Arc<FileMap>, range: Range<usize> },
    Unpacked(Arc<Vec<u8>>),
}

impl FileArray {
    /// Opens a `.npy` file. `observer` follows how much of a packed one is unpacked.
    pub(crate) fn open(path: &Path, observer: &mut dyn OpenObserver) -> Result<Self, DataError> {
        let content = unpack::open(path)?;
        if !content.is_gzip() {
            let map = map(path)?;
            let len = map.len();
            return Self::in_map(path.into(), &map, 0..len);
        }
        let mut bytes = Vec::new();
        let mut content = content.take(NpyHeader::MAX_LEN as u64);
        let damaged = |error: io::Error| fault(path, format!("damaged gzip: {error}"));
        content.read_to_end(&mut bytes).map_err(damaged)?;
        let header = NpyHeader::from_bytes(&bytes).map_err(|what| fault(path, what))?;
        let wanted = unpacked_limit(path, &header)?;
        // One more byte shows whether the content is too long.
        let mut left = (wanted + 1).saturating_sub(bytes.len() as u64);
        let mut meter = OpenMeter::new(observer, "unpacking", path, left);
        while left > 0 {
            content.set_limit(left.min(STEP_BYTES));
            let read = content.read_to_end(&mut bytes).map_err(damaged)? as u64;
            if read == 0 {
                break;
            }
            left -= read;
            meter.add(read)?;
        }
        Self::in_memory(path.into(), header, bytes)
    }

    fn in_map(name: PathBuf, map: &Arc<FileMap>, range: Range<usize>) -> Result<Self, DataError> {
        let bytes = &map[range.clone()];
        let header = NpyHeader::from_bytes(bytes).map_err(|what| fault(&name, what))?;
        check_length(&name, &header, bytes.len())?;
        let range = range.start + header.len..range.end;
        let bytes = ArrayBytes::Mapped { map: Arc::clone(map), range };
        Ok(FileArray { name, kind: header.kind, shape: header.shape, bytes })
    }

    fn in_memory(name: PathBuf, header: NpyHeader, mut bytes: Vec<u8>) -> Result<Self, DataError> {
        check_length(&name, &header, bytes.len())?;
        bytes.drain(..header.len);
        let bytes = ArrayBytes::Unpacked(Arc::new(bytes));
        Ok(FileArray { name, kind: header.kind, shape: header.shape, bytes })
    }

    /// The elements, one after another.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.bytes {
            ArrayBytes::Mapped { map, range } => &map[range.clone()],
            ArrayBytes::Unpacked(bytes) => bytes,
        }
    }

    /// The number of rows: the first dimension.
    pub(crate) fn len(&self) -> usize {
        self.shape.first().copied().unwrap_or(0)
    }
}

/// The arrays of a `.npz` file.
pub(crate) struct NpzFile {
    path: PathBuf,
    map: Arc<FileMap>,
    members: Vec<ZipMember>,
}

impl NpzFile {
    pub(crate) fn open(path: &Path) -> Result<Self, DataError> {
        let map = map(path)?;
        let members = zip::members(&map).map_err(|what| fault(path, what))?;
        Ok(NpzFile { path: path.into(), map, members })
    }

    /// The names of the arrays.
    pub(crate) fn names(&self) -> Vec<String> {
        let names = self.members.iter().filter_map(|member| member.name.strip_suffix(".npy"));
        names.map(str::to_owned).collect()
    }

    /// An array by its name, if there is one. `observer` follows how much of a packed one is
    /// unpacked.
    pub(crate) fn array(
        &self,
        name: &str,
        observer: &mut dyn OpenObserver,
    ) -> Result<Option<FileArray>, DataError> {
        let is_wanted = |member: &&ZipMember| member.name.strip_suffix(".npy") == Some(name);
        let Some(member) = self.members.iter().find(is_wanted) else { return Ok(None) };
        let full_name = self.path.join(&member.name);
        let wrong = |what: String| fault(&full_name, what);
        if !member.is_packed {
            let range = member.range(&self.map).map_err(wrong)?;
            return FileArray::in_map(full_name, &self.map, range).map(Some);
        }
        let mut whole = |_| ControlFlow::Continue(());
        let head = member.unpack(&self.map, NpyHeader::MAX_LEN, &mut whole).map_err(wrong)?;
        let header = NpyHeader::from_bytes(&head).map_err(|what| fault(&full_name, what))?;
        let wanted = unpacked_limit(&full_name, &header)?;
        let mut meter = OpenMeter::new(observer, "unpacking", &full_name, member.packed_bytes());
        let mut stopped = Ok(());
        let mut advance = |bytes| {
            stopped = meter.add(bytes);
            if stopped.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let bytes = member.unpack(&self.map, wanted as usize + 1, &mut advance).map_err(wrong)?;
        stopped?;
        FileArray::in_memory(full_name, header, bytes).map(Some)
    }
}

/// The length of a packed array's file, if it is within the limit.
fn unpacked_limit(name: &Path, header: &NpyHeader) -> Result<u64, DataError> {
    if header.data_bytes <= MAX_UNPACKED_BYTES {
        return Ok(header.len as u64 + header.data_bytes);
    }
    let bytes = header.data_bytes;
    let what = format!(
        "a packed array of {bytes} bytes, above the limit of {MAX_UNPACKED_BYTES}; store it plain, \
         with np.save or np.savez, and it is mapped"
    );
    Err(fault(name, what))
}

fn check_length(name: &Path, header: &NpyHeader, bytes: usize) -> Result<(), DataError> {
    let (expected, found) = (header.data_bytes, (bytes - header.len) as u64);
    if expected == found {
        return Ok(());
    }
    Err(fault(name, NpyFault::Length { expected, found }))
}

pub(crate) fn fault(name: &Path, what: impl ToString) -> DataError {
    DataError::Sparse { path: name.into(), what: what.to_string() }
}

pub(crate) fn map(path: &Path) -> Result<Arc<FileMap>, DataError> {
    let file = File::open(path).map_err(DataError::io("open", path))?;
    FileMap::of(&file, path).map(Arc::new).map_err(DataError::io("map", path))
}
