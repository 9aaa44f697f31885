//! The values below a folder, some at a time.

use super::folder::Entries;
use super::walk::{Go, Met, Order, Walk};
use crate::store::directory_fd::ValuesDir;
use crate::value::{Error, Key, ListedValue, Meta, Prefixes};

/// Steps of a walk between which others have their turn.
pub const SLICE: usize = 1000;

/// Some of the values below a folder.
#[derive(Debug, Default)]
pub struct FoundValues {
    /// In the order of their keys, among these.
    pub values: Vec<(Key<'static>, ListedValue)>,
    /// Values that have ended, as they were found.
    pub ended: Vec<(Key<'static>, Meta)>,
    /// The folders before and between them, also without a value.
    pub folders: Vec<String>,
    /// What cannot be read, and why; a folder ends with `/`.
    pub unreadable: Vec<(String, Error)>,
}

/// A walk of the values below a folder.
#[derive(Debug, Default)]
pub struct ValueWalk {
    walk: Walk,
    within: Prefixes,
}

impl ValueWalk {
    /// Those below the folder `path` whose keys are `within` these. The names that the walk remembers may take `spare`
    /// bytes beside some of each folder.
    pub fn below(path: &str, within: Prefixes, order: Order, spare: usize) -> Self {
        let mut walk = Walk::below(path, order);
        walk.spare = spare;
        Self { walk, within }
    }

    /// The next values, some more than [`SLICE`] at most; `None` at the end. Blocks.
    pub fn next(&mut self, dir: &ValuesDir) -> Result<Option<FoundValues>, Error> {
        if self.walk.is_over() {
            return Ok(None);
        }
        let Self { walk, within } = self;
        let (mut found, mut entries) = (FoundValues::default(), Entries::new(dir));
        dir.ends.look_again(&dir.root);
        for _ in 0..SLICE {
            let many = found.values.len() + found.ended.len() + found.unreadable.len();
            if many >= SLICE || walk.is_over() {
                break;
            }
            walk.go_on(dir, 1, |met| {
                match met {
                    Met::Folder(path) if !within.may_have_below(&format!("{path}/")) => {
                        return Ok(Go::Past);
                    }
                    Met::Value(key) if within.has(key.as_str()) => match entries.meta(&key)? {
                        Ok(Some(meta)) if meta.has_ended() => {
                            found.ended.push((key.into_owned(), meta));
                        }
                        Ok(Some(meta)) => {
                            found.values.push((key.into_owned(), ListedValue::of(meta)));
                        }
                        Ok(None) => {}
                        Err(why) => found.unreadable.push((key.as_str().to_owned(), why)),
                    },
                    Met::Opened(_, path) => found.folders.push(path.to_owned()),
                    Met::Unreadable(path, why) => {
                        found.unreadable.push((path.to_owned() + "/", why));
                    }
                    _ => {}
                }
                Ok::<_, Error>(Go::On)
            })?;
        }
        found
            .values
            .sort_by(|(a, _), (b, _)| a.as_str().cmp(b.as_str()));
        Ok(Some(found))
    }
}
