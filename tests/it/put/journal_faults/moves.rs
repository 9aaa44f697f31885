//! A MOVE is one record: whatever of it the disk had at a cut of power, the replay leaves the value under its new name
//! alone.

use std::fs::Permissions;
use std::os::unix::fs::chown;

use rustix::fs::XattrFlags;

use super::{Kept, check, cut, date, start};
use crate::support::prelude::*;

/// Below the length of values in the journal, and above it.
const LENGTHS: [usize; 2] = [5, 200_000];

fn relocate(server: &TestServer, from: &str, to: &str) -> String {
    let line = format!("Destination: /{to}\r\n");
    let moved = server.request("MOVE", &format!("/{from}"), &line, b"");
    assert!([201, 204].contains(&moved.status), "{moved:?}");
    moved.must("etag").to_owned()
}

/// What the disk has of the move of `a/k` to `b/k`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Had {
    All,
    /// The old names and versions.
    Nothing,
    /// The new version alone.
    Version,
    /// The new name, and the old version.
    Name,
    /// Neither name: both files were in the journal.
    NoName,
    /// The new name, without bytes.
    Torn,
}

#[test]
fn what_the_disk_lacks_of_a_move_is_made_by_the_replay() {
    journal_only!();
    for length in LENGTHS {
        for replaces in [false, true] {
            for had in [
                Had::All,
                Had::Nothing,
                Had::Version,
                Had::Name,
                Had::NoName,
                Had::Torn,
            ] {
                // The bytes of a large value were on the disk before, under a name; and its version is before the
                // answer.
                if length > 100_000 && matches!(had, Had::NoName | Had::Torn | Had::Name) {
                    continue;
                }
                let (dir, value) = (DataDir::temporary(), pattern(1, length));
                let mut server = start(&dir);
                server.store("a/k", &value);
                let before = Kept::of(&dir, "a/k");
                let replaced = replaces.then(|| {
                    server.store("b/k", "old");
                    Kept::of(&dir, "b/k")
                });
                let tag = relocate(&server, "a/k", "b/k");
                cut(&mut server);
                let (new, time) = (dir.file("b/k"), dir.modified("b/k"));
                match had {
                    Had::All => {}
                    Had::Name => date(&new, before.time),
                    Had::Torn => {
                        fs::write(&new, "").expect("written");
                        date(&new, time);
                    }
                    Had::NoName => dir.remove("b/k"),
                    Had::Nothing | Had::Version => {
                        dir.remove("b/k");
                        fs::create_dir_all(dir.file("a")).expect("a folder");
                        before.put_back();
                        if had == Had::Version {
                            date(&before.path, time);
                        }
                        if let Some(replaced) = &replaced {
                            replaced.put_back();
                        }
                    }
                }
                let case = format!("{length} {replaces} {had:?}");
                let checked = check(&dir);
                assert_eq!(checked.code, Some(0), "{case}");
                let counted = checked.stdout.contains(", 1 of them moves\n");
                assert!(counted, "{case}: {}", checked.stdout);
                let server = start(&dir);
                let found = server.get("b/k");
                assert!(found.body == value, "{case}: {} bytes", found.body.len());
                assert_eq!(found.must("etag"), tag, "{case}");
                assert_eq!(server.get("a/k").status, 404, "{case}");
                // A folder that was made by hand stays.
                let is_by_hand = matches!(had, Had::Nothing | Had::Version);
                assert_eq!(dir.file("a").exists(), is_by_hand, "{case}");
                let _ = fs::remove_dir(dir.file("a"));
                dir.assert_holds(&["b/k"]);
            }
        }
    }
}

/// The record has the bytes and the attributes alone: a file that is written from it can be read by all.
#[test]
fn a_value_that_moved_keeps_its_owner_its_rights_and_what_a_hand_gave_it() {
    journal_only!();
    for length in LENGTHS {
        for replaces in [false, true] {
            let (dir, value) = (DataDir::temporary(), pattern(1, length));
            let mut server = start(&dir);
            server.store("a/k", &value);
            let (old, new) = (dir.file("a/k"), dir.file("b/k"));
            fs::set_permissions(&old, Permissions::from_mode(0o600)).expect("a mode");
            let _ = run("setfacl", &["-m", "u:1234:r", text(&old)]);
            let _ = rustix::fs::setxattr(&old, "user.mine", b"x", XattrFlags::empty());
            let _ = chown(&old, Some(1234), Some(1234));
            let replaced = replaces.then(|| {
                server.store("b/k", "old");
                Kept::of(&dir, "b/k")
            });
            let before = Kept::of(&dir, "a/k");
            let tag = relocate(&server, "a/k", "b/k");
            cut(&mut server);
            let expected = traits(&new);
            fs::create_dir_all(dir.file("a")).expect("a folder");
            fs::rename(&new, &old).expect("it has its old name");
            date(&old, before.time);
            replaced.iter().for_each(Kept::put_back);
            let server = start(&dir);
            let found = server.get("b/k");
            assert!(found.body == value, "{length} {replaces}");
            assert_eq!(found.must("etag"), tag, "{length} {replaces}");
            assert!(!old.exists());
            assert_eq!(traits(&new), expected, "{length} {replaces}");
        }
    }
}

/// The mode and the owner of a file, its ACL and an attribute.
fn traits(file: &Path) -> (u32, u32, u32, Vec<Vec<u8>>) {
    let meta = fs::metadata(file).expect("a file");
    let attribute = |name| {
        let mut value = [0; 256];
        let len = rustix::fs::getxattr(file, name, &mut value);
        value[..len.unwrap_or(0)].to_vec()
    };
    let attributes = ["system.posix_acl_access", "user.mine"].map(attribute);
    (meta.mode(), meta.uid(), meta.gid(), attributes.to_vec())
}

/// What comes after the move counts, also of the key that it left.
#[test]
fn changes_after_a_move_are_replayed_over_it() {
    journal_only!();
    for length in LENGTHS {
        let (dir, value) = (DataDir::temporary(), pattern(1, length));
        let mut server = start(&dir);
        server.store_each("a c e", &value);
        let before = ["a", "c", "e"].map(|key| Kept::of(&dir, key));
        relocate(&server, "a", "b");
        server.store("a", "later");
        relocate(&server, "c", "d");
        assert_eq!(server.ask("DELETE", "d").status, 200);
        relocate(&server, "e", "f");
        relocate(&server, "f", "g");
        let tag = server.get("g").must("etag").to_owned();
        cut(&mut server);
        // The disk has nothing of it all.
        for key in ["a", "b", "g"] {
            dir.remove(key);
        }
        before.iter().for_each(Kept::put_back);
        let server = start(&dir);
        assert!(server.get("b").body == value);
        assert_eq!(server.get("a").body, b"later");
        assert_eq!(server.get("g").must("etag"), tag);
        assert!(server.get("g").body == value);
        dir.assert_holds(&["a", "b", "g"]);
    }
}

/// The old name is all that the value has: the new one, or the place of its folder, is a hand's.
#[test]
fn a_value_stays_where_it_was_if_a_hand_has_taken_its_new_name() {
    journal_only!();
    for length in LENGTHS {
        for taken in ["b/k", "b"] {
            let (dir, value) = (DataDir::temporary(), pattern(1, length));
            let mut server = start(&dir);
            server.store("a", &value);
            let before = Kept::of(&dir, "a");
            relocate(&server, "a", "b/k");
            cut(&mut server);
            before.put_back();
            fs::remove_dir_all(dir.file("b")).expect("removed");
            dir.place(taken, "by hand");
            let server = start(&dir);
            assert_eq!(server.get(taken).body, b"by hand", "{length} {taken}");
            assert!(server.get("a").body == value, "{length} {taken}");
        }
    }
}
