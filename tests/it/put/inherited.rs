//! Proves what a new value takes from the folder that it comes into, and from the value that it replaces: the group of
//! a setgid folder, a default ACL, and never a wider mode, by every way in which a value is stored.

use std::os::unix::fs::chown;

use rustix::fs::XattrFlags;

use crate::support::prelude::*;

/// A group that no user of this machine is in.
const GROUP: u32 = 54_321;

/// How a server secures what it writes.
const WAYS: [&[&str]; 3] = [
    &[],
    &["--durability", "disk"],
    &["--durability", "disk", "--journal", "off"],
];

/// Stores a value under `key` in every way, one after the other; `check` looks at each.
fn store_all(server: &TestServer, key: &str, check: impl Fn(&str)) {
    store_over(server, key, None, check);
}

/// The same over a value that has this mode each time.
fn store_over(server: &TestServer, key: &str, mode: Option<u32>, check: impl Fn(&str)) {
    let before = || {
        if let Some(mode) = mode {
            chmod(server.dir.file(key), mode);
        }
    };
    for size in [10, 100_000, 3_000_000] {
        before();
        server.store(key, pattern(size as u64, size));
        check(&format!("{size} bytes"));
    }
    before();
    let mut raw = server.connect();
    let upload = Resumable::create(&mut raw, key, "", b"in ");
    let ended = upload.append(&mut raw, 3, true, b"parts");
    assert_eq!(ended.status, 200, "{ended:?}");
    check("an upload that can be resumed");
}

/// Asserts that a value of each key gets this group, in whatever way it is stored.
fn assert_groups(server: &TestServer, groups: &[(&str, u32)]) {
    for (key, group) in groups {
        store_all(server, key, |way| {
            assert_eq!(metadata(server.dir.file(key)).gid(), *group, "{key}, {way}");
        });
    }
}

/// Gives the folder a group, and has what is made in it take that on; says what is left out where only root could.
fn shared(folder: &Path, mode: u32) -> Option<()> {
    let is_given = chown(folder, None, Some(GROUP)).is_ok();
    only_where!(is_given, "setgid folders", "not root", None);
    chmod(folder, mode);
    Some(())
}

fn metadata(path: impl AsRef<Path>) -> fs::Metadata {
    fs::metadata(path).expect("a file")
}

/// The rights of a file: its mode, and its ACL if it has one.
fn rights(path: &Path) -> (u32, Vec<u8>) {
    let mut acl = [0; 256];
    let len = rustix::fs::getxattr(path, "system.posix_acl_access", &mut acl);
    (metadata(path).mode(), acl[..len.unwrap_or(0)].to_vec())
}

/// A default ACL: all rights for the owner, those of a user and a group, nothing for others.
fn default_acl(folder: &Path) -> bool {
    const NOBODY: u32 = u32::MAX;
    let entries = [
        (0x01_u16, 7_u16, NOBODY),
        (0x02, 6, 4_711),
        (0x04, 5, NOBODY),
        (0x08, 7, GROUP),
        (0x10, 7, NOBODY),
        (0x20, 0, NOBODY),
    ];
    let mut acl = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        acl.extend(tag.to_le_bytes());
        acl.extend(rights.to_le_bytes());
        acl.extend(id.to_le_bytes());
    }
    let name = "system.posix_acl_default";
    rustix::fs::setxattr(folder, name, &acl, XattrFlags::empty()).is_ok()
}

/// A file has the rights of its value only when it is whole: until then nobody else finds it, in a directory of an
/// older version too.
#[test]
fn what_is_not_published_yet_is_the_servers_alone() {
    directory_only!("files have modes");
    let dir = DataDir::temporary();
    fs::create_dir_all(dir.staging()).expect("a directory");
    chmod(dir.staging(), 0o2775);
    let server = Launch::new(&[]).on(&dir).start();
    for name in ["staging", "uploads"] {
        assert_eq!(metadata(dir.own(name)).mode() & 0o7777, 0o700, "{name}");
    }
    server.store("k", "value");
    server.store("k", "replaced");
    assert_eq!(metadata(dir.file("k")).mode() & 0o7777, 0o644);
}

#[test]
fn a_value_gets_the_group_of_a_setgid_folder() {
    directory_only!("files have groups");
    for args in WAYS {
        let server = TestServer::start(args);
        let folder = server.dir.file("shared");
        fs::create_dir(&folder).expect("a folder");
        needed!(shared(&folder, 0o2775));
        let own = metadata(server.dir.path()).gid();
        assert_groups(&server, &[("shared/k", GROUP), ("shared/below/k", GROUP)]);
        assert_groups(&server, &[("plain/k", own), ("k", own)]);
        let made = metadata(server.dir.file("shared/below"));
        assert_eq!((made.gid(), made.mode() & 0o2000), (GROUP, 0o2000));

        // The directory itself, from now on; what is made in it takes that on.
        needed!(shared(server.dir.path(), 0o2775));
        chmod(server.dir.file("plain"), 0o755);
        assert_groups(&server, &["top", "k", "new/k"].map(|key| (key, GROUP)));
        assert_groups(&server, &[("plain/k", own)]);
    }
}

/// The group was that of staging.
#[test]
fn a_value_gets_the_group_of_any_folder_on_a_mount_with_grpid() {
    directory_only!("files have groups");
    for args in WAYS {
        let mount = needed!(Mount::ext4_of(256 << 20, "groups on a mount with grpid"));
        mount.remount("grpid");
        let server = Launch::new(args).on(&mount.dir()).start();
        let folder = server.dir.file("shared");
        fs::create_dir(&folder).expect("a folder");
        chown(&folder, None, Some(GROUP)).expect("who mounts is root");
        let own = metadata(server.dir.path()).gid();
        let groups = [("shared/k", GROUP), ("shared/below/k", GROUP), ("k", own)];
        assert_groups(&server, &groups);
    }
}

#[test]
fn a_directory_that_was_setgid_at_the_start_gives_its_group_to_what_is_in_it_alone() {
    directory_only!("files have groups");
    let dir = DataDir::temporary();
    fs::create_dir(dir.file("plain")).expect("a folder");
    needed!(shared(dir.path(), 0o2775));
    let own = metadata(dir.file("plain")).gid();
    let has_acl = default_acl(dir.path());
    let server = Launch::new(&[]).on(&dir).start();
    for (key, group) in [("k", GROUP), ("plain/k", own)] {
        store_all(&server, key, |way| {
            assert_eq!(metadata(dir.file(key)).gid(), group, "{key}, {way}");
            let (_, acl) = rights(&dir.file(key));
            assert_eq!(!acl.is_empty(), has_acl && key == "k", "{key}, {way}");
        });
    }
}

#[test]
fn a_group_that_the_user_of_the_server_is_not_in_is_told_once() {
    directory_only!("files have groups");
    let dir = DataDir::temporary();
    let folder = dir.file("shared");
    fs::create_dir(&folder).expect("a folder");
    needed!(shared(&folder, 0o2777));
    let server = needed!(served_by_nobody(&dir, "setgid folders"));
    store_all(&server, "shared/k", |way| {
        assert_eq!(metadata(folder.join("k")).gid(), 65_534, "{way}");
    });
    let told = "values do not get the group of their folder: the server's user is not in it";
    server.event(told);
    assert_eq!(server.events(told).len(), 1);
}

#[test]
fn a_value_gets_the_default_acl_of_its_folder() {
    directory_only!("files have ACLs");
    for args in WAYS {
        let server = TestServer::start(args);
        let folder = server.dir.file("shared");
        fs::create_dir(&folder).expect("a folder");
        if !default_acl(&folder) {
            return data_server_testing::left_out("default ACLs", "the file system has none");
        }
        let by_hand = folder.join("by-hand");
        fs::write(&by_hand, "by hand").expect("a file");
        let expected = rights(&by_hand);
        assert!(!expected.1.is_empty());
        for key in ["shared/k", "shared/below/k"] {
            store_all(&server, key, |way| {
                let found = rights(&server.dir.file(key));
                assert_eq!(found, expected, "{key}, {way}, {args:?}");
            });
        }
        // One that is replaced keeps a narrower mode.
        let narrow = server.dir.file("shared/k");
        store_over(&server, "shared/k", Some(0o600), |way| {
            assert_eq!(metadata(&narrow).mode() & 0o777, 0o600, "{way}, {args:?}");
        });
    }
}

#[test]
fn a_value_that_is_replaced_never_gets_a_wider_mode() {
    directory_only!("files have modes");
    let umask = "umask 027; exec \"$0\" \"$@\"";
    for args in WAYS {
        let server = Launch::new(args).through(&["sh", "-c", umask]).start();
        for (before, after) in [
            (0o600, 0o600),
            (0o640, 0o640),
            (0o644, 0o640),
            (0o755, 0o640),
            (0o604, 0o600),
            // Its owner can read what it has written.
            (0o000, 0o600),
        ] {
            for key in ["k", "folder/k"] {
                let file = server.dir.file(key);
                server.store(key, "first");
                store_over(&server, key, Some(before), |way| {
                    let found = metadata(&file).mode() & 0o7777;
                    let what = format!("{found:o} of {before:o}: {key}, {way}, {args:?}");
                    assert_eq!(found, after, "{what}");
                });
            }
        }
    }
}
