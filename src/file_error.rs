//! The error of a file that an option or another file names: what failed, and who may read the file.

use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::geteuid;

/// The error of `path`, with what [`owner`] says.
pub fn unreadable(path: &Path, error: &io::Error) -> String {
    format!("{error}{}", owner(path, error))
}

/// Where permission is denied: who this process is, and the owner and the mode of `path`, or of the first folder above that is seen.
pub fn owner(path: &Path, error: &io::Error) -> String {
    let seen = path
        .ancestors()
        .find_map(|there| Some((there, there.metadata().ok()?)));
    let Some((there, metadata)) = seen.filter(|_| error.kind() == ErrorKind::PermissionDenied)
    else {
        return String::new();
    };
    format!(
        "; this process has the uid {}, and {} has the owner {} and the mode {:04o}",
        geteuid().as_raw(),
        there.display(),
        metadata.uid(),
        metadata.mode() & 0o7777
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_a_denied_permission_names_the_owner_and_the_mode() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let denied = owner(&file, &ErrorKind::PermissionDenied.into());
        let uid = file.metadata().unwrap().uid();
        let seen = format!("{} has the owner {uid} and the mode 0640", file.display());
        assert!(denied.contains(&seen), "{denied}");
        let beneath = owner(&file.join("none"), &ErrorKind::PermissionDenied.into());
        assert!(beneath.contains(&seen), "{beneath}");
        assert_eq!(owner(&file, &ErrorKind::NotFound.into()), "");
    }
}
