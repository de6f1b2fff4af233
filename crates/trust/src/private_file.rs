//! Who may read a file with a secret.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// Whether only the owner of a file may read it. As for other programs' secrets, a file of the
/// system's administrator may also be readable by a group: Kubernetes mounts secrets so.
pub fn is_private(about: &Metadata) -> bool {
    is_private_mode(about.mode(), about.uid())
}

fn is_private_mode(mode: u32, owner: u32) -> bool {
    let allowed = if owner == 0 { 0o740 } else { 0o700 };
    mode & 0o777 & !allowed == 0
}

#[cfg(test)]
mod tests {
    use super::is_private_mode;

    #[test]
    fn only_an_administrators_file_may_be_shared_with_a_group() {
        for mode in [0o100_440, 0o100_640] {
            assert!(is_private_mode(mode, 0) && !is_private_mode(mode, 1_000), "{mode:o}");
        }
        assert!(is_private_mode(0o100_600, 1_000) && !is_private_mode(0o100_644, 0));
    }
}
