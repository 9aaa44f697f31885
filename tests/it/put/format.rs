//! The format on the disk: a directory with a journal that was not replayed, attributes, an upload and a kept record,
//! of which `format.txt` has the bytes. A server that reads it otherwise would lose what earlier servers have
//! acknowledged.

use std::os::unix::fs::FileExt;

use rustix::fs::{XattrFlags, fsetxattr};

use crate::support::prelude::*;

const FORMAT: &str = include_str!("format.txt");

const UPLOAD: &str = "27a9a934e2d68cfe8ca2d15fd27ac955";

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits");
    (0..hex.len()).step_by(2).map(byte).collect()
}

/// A directory with the files of [`FORMAT`].
fn unpacked() -> DataDir {
    let dir = DataDir::temporary();
    let mut file = None;
    let mut dated = Vec::new();
    for line in FORMAT.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        match (words.as_slice(), &file) {
            (["file", path, size, time], _) => {
                let path = dir.path().join(path);
                fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
                let made = fs::File::create(&path).expect("a file");
                made.set_len(size.parse().expect("a size")).expect("zeros");
                dated.push((path, Duration::from_nanos(time.parse().expect("a time"))));
                file = Some(made);
            }
            (["attribute", name, value], Some(file)) => {
                fsetxattr(file, *name, &bytes(value), XattrFlags::empty()).expect("an attribute");
            }
            ([offset, piece], Some(file)) => {
                let offset = offset.parse().expect("an offset");
                file.write_all_at(&bytes(piece), offset).expect("written");
            }
            _ => panic!("{line}"),
        }
    }
    for (path, time) in dated {
        let file = fs::File::options().append(true).open(path).expect("a file");
        let set = file.set_modified(SystemTime::UNIX_EPOCH + time);
        set.expect("a time");
    }
    dir
}

#[test]
fn a_directory_in_the_format_of_earlier_servers_is_read() {
    journal_only!();
    let dir = unpacked();
    // The upload in it is as old as the directory.
    let options = ["--durability", "disk", "--upload-expiry", "0s"];
    let mut server = Launch::new(&options).on(&dir).start();
    let replay = server.event("replayed the journal: a server was not ended in order");
    // Seven changes of the server, three records behind them.
    assert_eq!(replay.field("records"), "10");
    let zeros = vec![0; 70_000];
    let (typed, replaced) = ("\"18ebdcdd8c389031-d\"", "\"18ebdcdd8fe08b26-6\"");
    let (kept, large) = ("\"18ebdcdd65e1d1ff-1f\"", "\"18ebdcdd90b2d4d6-11170\"");
    let old = b"a value that no record is about";
    let stuck = "\"18ebdcdd93678590-15\"";
    for (key, value, etag, media_type) in [
        ("kept", &old[..], kept, "text/x-own"),
        ("folder/typed", b"a small value", typed, "text/x-own"),
        ("replaced", b"second", replaced, "application/octet-stream"),
        ("large", &zeros, large, "application/x-zeros"),
        ("stuck/key", b"kept for later starts", stuck, "text/x-own"),
    ] {
        let got = server.get(key);
        assert!(got.body == value, "{key}");
        assert_eq!(got.must("etag"), etag, "{key}");
        let found = got.must("content-type");
        assert!(found.starts_with(media_type), "{key}: {found}");
    }
    for key in ["kept", "folder/typed"] {
        assert_eq!(server.get(key).must("content-language"), "de", "{key}");
    }
    for key in ["removed", "gone", "cancelled", "large-unnamed"] {
        assert_eq!(server.get(key).status, 404, "{key}");
    }
    let path = format!("/-/uploads/{UPLOAD}");
    let (upload, raw) = (Resumable { path }, &mut server.connect());
    assert_eq!(upload.offset(raw), 9);
    assert_eq!(upload.append(raw, 9, true, b" half, more").status, 200);
    let got = server.get("upload");
    assert!(got.body == b"the first half, more" && got.must("content-type") == "text/x-own");
    server.stop();
}
