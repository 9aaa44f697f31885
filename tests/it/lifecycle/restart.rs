//! Proves that a start keeps the values of an earlier server, and removes what it left in staging. The torture suite
//! kills servers.

use crate::support::prelude::*;

#[test]
fn a_missing_directory_is_created_and_a_full_one_kept() {
    directory_only!("hands in the directory");
    let parent = DataDir::temporary();
    let dir = DataDir::at(parent.file("made"));
    let mut server = Launch::new(&[]).on(&dir).start();
    server.store("k", "value");
    server.stop();
    dir.place("by hand", "too");
    let server = Launch::new(&[]).on(&dir).start();
    assert_eq!(server.get("k").body, b"value");
    assert_eq!(server.get("by%20hand").body, b"too");
    dir.assert_holds(&["k", "by hand"]);
}

#[test]
fn the_start_empties_staging_and_sets_aside_what_is_not_its_own() {
    directory_only!("hands in the directory");
    let dir = DataDir::temporary();
    fs::create_dir_all(dir.staging()).expect("a staging directory");
    for name in ["1", "upload-17", ".hidden"] {
        fs::write(dir.staging().join(name), "half a value").expect("litter");
    }
    // A server that is killed while it exchanges a value for what another program has made a folder leaves that there.
    fs::create_dir_all(dir.staging().join("7")).expect("a folder");
    fs::write(dir.staging().join("7/theirs"), "by hand").expect("a file");
    dir.place("k", "value");
    let server = Launch::new(&[]).on(&dir).start();
    dir.assert_holds(&["k"]);
    assert_eq!(server.get("k").body, b"value");
    let aside = fs::read_dir(dir.own("aside")).expect("what is set aside");
    let aside: Vec<_> = aside.map(|entry| entry.expect("an entry").path()).collect();
    assert_eq!(aside.len(), 1, "{aside:?}");
    let theirs = fs::read(aside[0].join("theirs")).expect("a file");
    assert_eq!(theirs, b"by hand");
}

/// A member of a group that may write in the directory could have the server's user write to any file of its own.
#[test]
fn no_link_in_the_servers_own_folder_is_followed() {
    directory_only!("hands in the directory");
    let args = words("--durability disk --sandbox off");
    for name in words("lock clock journal-state.new journal/id.new journal/control") {
        let dir = DataDir::temporary();
        let victim = dir.outside("victim");
        fs::write(&victim, "precious").expect("a file");
        let link = dir.own(name);
        fs::create_dir_all(link.parent().expect("a folder")).expect("a folder");
        symlink(&victim, &link).expect("a link");
        let started = Launch::new(&args).on(&dir).start_or_end();
        assert_eq!(fs::read(&victim).expect("a file"), b"precious", "{name}");
        drop(started);
    }
}
