//! Proves that the fields of a PUT travel with its value: Cache-Control, Content-Disposition, Content-Encoding and
//! Content-Language are kept in one attribute, its media type in another, answered as they were sent, removed by the
//! next PUT, and no way to inject a header. A stored coding stays as it is.

use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};

use crate::support::prelude::*;

mod answered;
mod kept;
mod named;
mod restores;

const NAME: &str = "user.data-server.fields";

/// Each kept field with a value of it.
const FIELDS: [(&str, &str); 4] = [
    ("cache-control", "public, max-age=60, immutable"),
    (
        "content-disposition",
        "attachment; filename=\"a b.txt\"; filename*=UTF-8''%C3%A9.txt",
    ),
    ("content-encoding", "x-own, GZIP"),
    ("content-language", "de-CH, en"),
];

fn all_lines() -> String {
    FIELDS
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .concat()
}

/// The attribute of this key's file, or what its object in a store has of it.
fn attribute(dir: &DataDir, key: &str) -> Option<String> {
    if let Some(bucket) = dir.bucket() {
        let head = bucket.ask("HEAD", key, "", b"");
        let lines = FIELDS.iter().filter_map(|(name, _)| {
            // VersityGW keeps the framing of an upload as a coding.
            let kept = head.header(name)?;
            let kept = kept.strip_prefix("aws-chunked").unwrap_or(kept);
            let kept = kept.trim_start_matches(',');
            (!kept.is_empty()).then(|| format!("{name}: {kept}\n"))
        });
        return Some(lines.collect()).filter(|text: &String| !text.is_empty());
    }
    let mut room = [0; 4096];
    let file = File::open(dir.file(key)).expect("the value");
    let len = fgetxattr(&file, NAME, &mut room).ok()?;
    Some(String::from_utf8_lossy(&room[..len]).into_owned())
}

/// The attribute with the media type of a value.
const MEDIA_TYPE: &str = "user.mime_type";

/// The media type attribute of this key's file, or the type of its object in a store.
fn media_type(dir: &DataDir, key: &str) -> Option<Vec<u8>> {
    if let Some(bucket) = dir.bucket() {
        let head = bucket.ask("HEAD", key, "", b"");
        return head.header("content-type").map(Into::into);
    }
    let mut buf = [0; 1024];
    let file = File::open(dir.file(key)).expect("the value");
    let len = fgetxattr(&file, MEDIA_TYPE, &mut buf).ok()?;
    Some(buf[..len].to_vec())
}

fn set(dir: &DataDir, key: &str, name: &str, value: &[u8]) {
    let file = File::open(dir.file(key)).expect("the value");
    fsetxattr(&file, name, value, XattrFlags::empty()).expect("an attribute by hand");
}

fn put(server: &TestServer, key: &str, lines: &str, value: &[u8]) -> Response {
    server.request("PUT", &format!("/{key}"), lines, value)
}

fn get(raw: &mut Raw, key: &str, lines: &str) -> Response {
    ask(raw, "GET", &format!("/{key}"), lines, b"")
}

/// Asserts that the response has these of the fields, and not the others.
#[track_caller]
fn assert_fields(got: &Response, expected: &[(&str, &str)]) {
    for (name, _) in FIELDS {
        let values = expected.iter().filter(|(n, _)| *n == name).map(|(_, v)| *v);
        let values: Vec<&str> = values.collect();
        assert_eq!(got.all(name), values.concat(), "{name} of {}", got.status);
    }
}
