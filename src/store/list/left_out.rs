//! The folders that listings leave out, as the server may not read them: for those who must not take a part for the whole.
//!
//! Each call walks a bounded number of folders, so that a caller can give others their turn. Blocks.

use crate::store::directory_fd::{ValuesDir, is_no_folder, look_up};
use crate::store::list::walk::{Met, walk};
use crate::value::{Error, Page};

/// Calls `tell` for each folder of `page`, and below, that walks leave out, with the error: it cannot be read, or its values cannot be
/// looked up. Takes the next steps alone, this many at most; `folders` are those that are left.
pub fn left_out(
    dir: &ValuesDir,
    page: &Page,
    folders: &mut Vec<String>,
    steps: usize,
    mut tell: impl FnMut(String, Error),
) -> Result<(), Error> {
    for _ in 0..steps {
        let Some(path) = folders.pop() else {
            break;
        };
        let opened = dir.folder(&path);
        let searched = opened.and_then(|folder| look_up(&folder, ".").map(|_| folder));
        let folder = match searched {
            Ok(folder) => folder,
            Err(errno) if is_no_folder(errno) => continue,
            Err(errno) if dir.unserved.leaves_out(&path, errno) => {
                tell(path + "/", Error::new("read the folder", errno));
                continue;
            }
            Err(errno) => return Err(Error::new("open the folder", errno)),
        };
        walk(dir, &folder, &path, |met| {
            if let Met::Folder(below) = met
                && let name = format!("{below}/")
                && page.may_have_below(&name)
                && page.within.may_have_below(&name)
            {
                folders.push(below);
            }
            Ok::<_, Error>(())
        })?;
    }
    Ok(())
}
