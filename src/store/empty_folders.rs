//! The removal of a tree of folders that has no value, whoever made them.
//!
//! `rmdir` alone removes, which refuses a folder that is not empty: nothing that is no folder is ever lost. Takes memory for some names of
//! each level, and one descriptor at a time.

use rustix::io::Errno;
use serde::Serialize;

use super::directory_fd::{ValuesDir, remove_folder};
use super::list::walk::{self, Met, walk};
use crate::value::Error;

/// Folders of one folder that are remembered at once; for more, it is read again.
const FOLDERS: usize = 1024;

/// The most that are told of what stays.
pub const TOLD: usize = 100;

/// Why a folder stays whose values have gone.
pub const NOT_EMPTY: &str = "it holds what is no value, or one that was stored meanwhile";

/// A value or a folder that stays, and the reason.
#[derive(Debug, Serialize)]
pub struct Stayed {
    pub name: String,
    pub reason: String,
}

/// Removes the folders below `path` that are empty, or have empty folders alone; adds the lowest that stay, but not too many. Blocks.
pub fn remove_below(dir: &ValuesDir, path: &str, stayed: &mut Vec<Stayed>) -> Result<(), Error> {
    loop {
        let Some(folder) = walk::open(dir, path)? else {
            return Ok(());
        };
        let mut folders = Vec::new();
        walk(dir, &folder, path, |met| {
            if let Met::Folder(path) = met
                && folders.len() < FOLDERS
            {
                folders.push(path);
            }
            Ok::<_, Error>(())
        })?;
        // Folders lie in each other as deep as a key is long: descriptors are fewer.
        drop(folder);
        let (mut has_removed, may_have_more) = (false, folders.len() == FOLDERS);
        for folder in folders {
            let before = stayed.len();
            remove_below(dir, &folder, stayed)?;
            match remove(dir, path, &folder) {
                Ok(()) => has_removed = true,
                Err(Errno::NOENT) => {}
                Err(errno) if stayed.len() == before && before < TOLD => {
                    let reason = match errno {
                        Errno::NOTEMPTY | Errno::EXIST => NOT_EMPTY.to_owned(),
                        errno => Error::new("remove the folder", errno).to_string(),
                    };
                    let name = folder + "/";
                    stayed.push(Stayed { name, reason });
                }
                Err(_) => {}
            }
        }
        if !may_have_more || !has_removed {
            return Ok(());
        }
    }
}

/// Removes the folder `path`, which lies in `above`, if it is empty.
fn remove(dir: &ValuesDir, above: &str, path: &str) -> Result<(), Errno> {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    dir.folder(above)
        .and_then(|above| remove_folder(&above, name))
}
