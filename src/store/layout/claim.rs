//! The default directory, which no option names: it is taken only if it is this user's own.
//!
//! Its parent is `/tmp`, where any user can make that name first, as a directory that stays theirs or as a link to
//! anywhere. In a directory with the sticky bit, only the owner of an entry can replace it, so one look is enough.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::error::OpenError;

/// Makes the default directory `dir` if it `may_make` and nothing is there; refuses a link, and what another user owns.
pub fn claim(dir: &Path, may_make: bool) -> Result<(), OpenError> {
    let failed = |doing| {
        move |source| OpenError::Failed {
            doing,
            path: dir.to_owned(),
            source,
        }
    };
    if may_make {
        match std::fs::create_dir(dir) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(failed("create")(error));
            }
            _ => {}
        }
    }
    let found = dir.symlink_metadata().map_err(failed("open"))?;
    let ours = rustix::process::geteuid().as_raw();
    let what = if found.is_symlink() {
        "a link".to_owned()
    } else if found.uid() == ours {
        return Ok(());
    } else {
        format!("of another user (uid {}, and not {ours})", found.uid())
    };
    Err(OpenError::NotOurs {
        dir: dir.to_owned(),
        what,
    })
}
