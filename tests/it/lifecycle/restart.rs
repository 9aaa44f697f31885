//! Proves that a start keeps the values of an earlier server, and removes what it left in staging. The torture suite kills servers.

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
fn the_start_empties_staging_and_removes_nothing_else() {
    directory_only!("hands in the directory");
    let dir = DataDir::temporary();
    fs::create_dir_all(dir.staging()).expect("a staging directory");
    for name in ["1", "upload-17", ".hidden"] {
        fs::write(dir.staging().join(name), "half a value").expect("litter");
    }
    dir.place("k", "value");
    let server = Launch::new(&[]).on(&dir).start();
    dir.assert_holds(&["k"]);
    assert_eq!(server.get("k").body, b"value");
}
