//! Files that an option or another file names: their bytes, and the error of one: what failed, and who may read the
//! file.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::geteuid;

/// UTF-8 of U+FEFF, with which some editors, as those of Windows, begin a text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The bytes of the file at `path`, without a byte-order mark.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = fs::read(path)?;
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(bytes)
}

/// The text of the file at `path`, without a byte-order mark.
pub fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
}

/// The error of `path`, with what [`owner`] says.
pub fn unreadable(path: &Path, error: &io::Error) -> String {
    format!("{error}{}", owner(path, error))
}

/// Where permission is denied: who this process is, and the owner and the mode of `path`, or of the first folder above
/// that is seen.
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
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_text() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        for (text, expected) in [
            ("\u{feff}a\u{feff}\n", "a\u{feff}\n"),
            ("\u{feff}", ""),
            ("a", "a"),
            ("", ""),
        ] {
            fs::write(&file, text).unwrap();
            assert_eq!(read_text(&file).unwrap(), expected);
        }
        fs::write(&file, b"\xef\xbb").unwrap();
        assert_eq!(read(&file).unwrap(), b"\xef\xbb");
        assert!(read_text(&file).is_err());
    }

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
