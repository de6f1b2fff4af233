//! The file in the run directory through which processes find a meeting: where it is, and its
//! secret. Only its owner can read it, and it is removed when the meeting is over.

use std::fs::{self, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use paceline_trust::{is_own, is_private, read_credential};
use serde::{Deserialize, Serialize};

use crate::error::PlaceError;

/// The file's name.
const NAME: &str = "meeting.json";
/// A longer file is not read.
const MAX_BYTES: u64 = 64 << 10;

/// The files that this process has written: each has a temporary name of its own.
static WRITTEN: AtomicU32 = AtomicU32::new(0);

/// Where a meeting is, and its secret.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct MeetingPoint {
    /// The start of the run that the meeting belongs to.
    pub(super) session: String,
    pub(super) secret: String,
    /// The holder's machine.
    pub(super) machine: String,
    /// The addresses for other machines, the most likely first.
    pub(super) addresses: Vec<String>,
    /// The addresses for the holder's own machine.
    pub(super) local_addresses: Vec<String>,
}

impl MeetingPoint {
    /// The meeting point in a run directory, if it is there, belongs to this session and is not
    /// [foreign](Self::is_foreign).
    pub(super) fn read(dir: &Path, session: &str) -> Option<Self> {
        let (content, about) = read_credential(&dir.join(NAME), MAX_BYTES).ok()?;
        let point: Self = serde_json::from_slice(&content).ok()?;
        (point.session == session && is_trusted(dir, &about)).then_some(point)
    }

    /// Whether a run directory has a meeting point that another user may have written, or may have
    /// read. Such a meeting would give the process to that user.
    pub(super) fn is_foreign(dir: &Path) -> bool {
        dir.join(NAME).metadata().is_ok_and(|about| !is_trusted(dir, &about))
    }
}

/// Whether a file in a run directory is the user's alone. On network disks the administrator's
/// files may belong to another user, as the directory does.
fn is_trusted(dir: &Path, about: &Metadata) -> bool {
    let is_of_directory = || dir.metadata().is_ok_and(|dir| dir.uid() == about.uid());
    is_private(about) && (is_own(about) || is_of_directory())
}

/// The file of a meeting that this process holds. It is removed when this is dropped.
pub(super) struct MeetingFile {
    dir: PathBuf,
    point: MeetingPoint,
}

impl MeetingFile {
    /// Writes a meeting point into a run directory. Returns `None` if one of the same session is
    /// there.
    pub(super) fn create(dir: &Path, point: &MeetingPoint) -> Result<Option<Self>, PlaceError> {
        Self::write(dir, point, |from, to| match fs::hard_link(from, to) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // One of another session is left over from an earlier start.
                let is_same = MeetingPoint::read(dir, &point.session).is_some();
                if is_same { Ok(false) } else { fs::rename(from, to).map(|()| true) }
            }
            // Not every file system has links.
            Err(_) => fs::rename(from, to).map(|()| true),
        })
    }

    /// Writes a meeting point into a run directory, in place of another.
    pub(super) fn replace(dir: &Path, point: &MeetingPoint) -> Result<Option<Self>, PlaceError> {
        Self::write(dir, point, |from, to| fs::rename(from, to).map(|()| true))
    }

    /// Writes a meeting point under a temporary name, and lets `publish` give it its own, unless
    /// it says that there is another.
    fn write(
        dir: &Path,
        point: &MeetingPoint,
        publish: impl Fn(&Path, &Path) -> io::Result<bool>,
    ) -> Result<Option<Self>, PlaceError> {
        let path = dir.join(NAME);
        let write = || -> io::Result<bool> {
            fs::create_dir_all(dir)?;
            let count = WRITTEN.fetch_add(1, Ordering::Relaxed);
            let temporary = dir.join(format!(".{NAME}.{}.{count}", std::process::id()));
            let _ = fs::remove_file(&temporary);
            let mut options = fs::File::options();
            let mut file = options.write(true).create_new(true).mode(0o600).open(&temporary)?;
            file.write_all(&serde_json::to_vec(point).map_err(io::Error::other)?)?;
            let published = publish(&temporary, &path);
            let _ = fs::remove_file(&temporary);
            published
        };
        let cannot = PlaceError::while_doing(format!("cannot write {}", path.display()));
        // Not `then_some`: a file that is dropped removes what the other process has published.
        let own = || Self { dir: dir.to_owned(), point: point.clone() };
        Ok(write().map_err(cannot)?.then(own))
    }
}

impl Drop for MeetingFile {
    fn drop(&mut self) {
        // Another process may have replaced it.
        if MeetingPoint::read(&self.dir, &self.point.session).as_ref() == Some(&self.point) {
            let _ = fs::remove_file(self.dir.join(NAME));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::process::Command;

    use super::*;

    #[test]
    fn a_pipe_or_an_endless_device_in_its_place_is_no_meeting() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert_eq!(MeetingPoint::read(dir.path(), "s"), None);
        fs::remove_file(&path).unwrap();
        symlink("/dev/zero", &path).unwrap();
        assert_eq!(MeetingPoint::read(dir.path(), "s"), None);
    }

    fn point(session: &str) -> MeetingPoint {
        MeetingPoint {
            session: session.into(),
            secret: "s".into(),
            machine: "m".into(),
            addresses: vec!["a:1".into()],
            local_addresses: Vec::new(),
        }
    }

    #[test]
    fn a_file_that_another_user_may_have_written_or_read_is_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, point) = (dir.path().join(NAME), point("s"));
        fs::write(&path, serde_json::to_vec(&point).unwrap()).unwrap();
        let set_mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        for mode in [0o644, 0o602, 0o660] {
            set_mode(mode);
            assert_eq!(MeetingPoint::read(dir.path(), "s"), None, "{mode:o}");
            assert!(MeetingPoint::is_foreign(dir.path()));
        }
        set_mode(0o600);
        assert_eq!(MeetingPoint::read(dir.path(), "s").as_ref(), Some(&point));
        assert!(!MeetingPoint::is_foreign(dir.path()));
        // Only the administrator can give a file away.
        if chown(&path, Some(65_534), None).is_ok() {
            assert_eq!(MeetingPoint::read(dir.path(), "s"), None);
            chown(dir.path(), Some(65_534), None).unwrap();
            assert!(MeetingPoint::read(dir.path(), "s").is_some(), "as on a network disk");
        }
        // The holder of the meeting puts its own in its place.
        set_mode(0o644);
        let file = MeetingFile::create(dir.path(), &point).unwrap().unwrap();
        assert!(MeetingPoint::read(dir.path(), "s").is_some());
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn only_the_owner_can_read_the_file_and_it_goes_with_the_meeting() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("run");
        let point = point("slurm 5.0 restart 0");
        let file = MeetingFile::create(&run, &point).unwrap().unwrap();
        let mode = fs::metadata(run.join(NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(MeetingPoint::read(&run, &point.session), Some(point.clone()));
        assert_eq!(MeetingPoint::read(&run, "slurm 5.0 restart 1"), None);
        // A second holder of the same start finds it; one of a later start does not.
        assert!(MeetingFile::create(&run, &point).unwrap().is_none());
        let later = MeetingPoint { session: "slurm 5.0 restart 1".into(), ..point };
        let replaced = MeetingFile::create(&run, &later).unwrap().unwrap();
        // The first process does not remove what another has put in its file's place.
        drop(file);
        assert_eq!(MeetingPoint::read(&run, &later.session), Some(later));
        drop(replaced);
        assert_eq!(fs::read_dir(&run).unwrap().count(), 0);
    }
}
