//! Which folders' names a change has changed, so that these are put on the disk where that is promised.

use super::super::key::{Key, folder_and_above};

/// The folders of a key, from the highest to the lowest of which names were changed, by the lengths of their paths.
pub(super) struct Levels {
    highest: usize,
    lowest: usize,
}

impl Levels {
    /// Of a change that makes and removes no folder.
    pub(super) fn of(key: &Key<'_>) -> Self {
        let folder = key.folder().len();
        Self {
            highest: folder,
            lowest: folder,
        }
    }

    /// Folders were made, the first of them in the folder `above`.
    pub(super) fn made_below(&mut self, above: &str) {
        self.highest = self.highest.min(above.len());
    }

    /// Folders were removed, the last of them from the folder `above`.
    pub(super) fn removed_below(&mut self, above: &str) {
        self.highest = above.len();
        self.lowest = above.len();
    }

    /// The paths of these folders of `key`.
    pub(super) fn folders(&self, key: &Key<'_>) -> Vec<Box<str>> {
        let folders = folder_and_above(&key.folder()[..self.lowest]);
        let changed = folders.take_while(|folder| folder.len() >= self.highest);
        changed.map(Box::from).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_is_synced_up_to_the_first_that_was_there() {
        let key = Key::new("a/b/c/k").unwrap();
        let folders = |change: fn(&mut Levels)| {
            let mut levels = Levels::of(&key);
            change(&mut levels);
            levels.folders(&key).join(" ")
        };
        assert_eq!(folders(|_| {}), "a/b/c");
        assert_eq!(folders(|levels| levels.made_below("a")), "a/b/c a/b a");
        assert_eq!(folders(|levels| levels.made_below("")), "a/b/c a/b a ");
        assert_eq!(folders(|levels| levels.removed_below("a")), "a");
        let flat = Key::new("k").unwrap();
        assert_eq!(Levels::of(&flat).folders(&flat), ["".into()]);
    }
}
