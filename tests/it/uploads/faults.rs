//! Proves that an upload that was received whole stays while it can be published later, whatever has failed.

use super::told;
use crate::support::prelude::*;

fn start(args: &[&str]) -> TestServer {
    Launch::new(args).on(&DataDir::temporary()).start()
}

/// An upload of `value` that lacks its last byte.
fn nearly(server: &TestServer, value: &[u8]) -> Resumable {
    let lines = format!("Upload-Length: {}\r\n", value.len());
    let first = &value[..value.len() - 1];
    Resumable::create(&mut server.connect(), "k", &lines, first)
}

fn finish(server: &TestServer, upload: &Resumable, value: &[u8]) -> u16 {
    let offset = value.len() - 1;
    let mut raw = server.connect();
    let answer = upload.append(&mut raw, offset, true, &value[offset..]);
    answer.status
}

#[test]
fn an_upload_whose_publishing_fails_can_be_published_later() {
    directory_only!("the files of uploads");
    tracing_only!("uploads that cannot be published");
    for durability in ["os", "disk"] {
        let server = start(&["--durability", durability]);
        let value = pattern(1, 300_000);
        let upload = nearly(&server, &value);
        let tracer = Attached::injecting(&server, "linkat,renameat,renameat2,rename", "error=EIO");
        assert_eq!(finish(&server, &upload, &value), 500);
        tracer.detach();
        let raw = &mut server.connect();
        let state = upload.state(raw);
        assert_eq!(told(&state), (204, "?0", 300_000), "the upload is there");
        assert_eq!(server.get("k").status, 404);
        assert_eq!(upload.append(raw, 300_000, true, b"").status, 200);
        assert!(server.get("k").body == value);
    }
}

#[test]
fn an_upload_whose_sync_failed_is_not_published_later() {
    directory_only!("the files of uploads");
    tracing_only!("uploads whose sync fails");
    let server = start(&["--durability", "disk"]);
    let value = pattern(1, 300_000);
    let upload = nearly(&server, &value);
    let tracer = Attached::to(&server, &["-e", "inject=fsync:error=ENOSPC"]);
    assert_eq!(finish(&server, &upload, &value), 507);
    tracer.detach();
    // The kernel has forgotten what it could not write: a later sync would call it done.
    assert_eq!(upload.state(&mut server.connect()).status, 404);
    assert_eq!(server.get("k").status, 404);
}

/// A part broke off, and the next one is refused: the offset in the refusal is as good as any other.
#[test]
fn an_offset_in_a_refusal_is_on_the_disk() {
    directory_only!("the files of uploads");
    http1_only!("a part that breaks off at a byte");
    tracing_only!("syncs of uploads");
    let server = start(&["--durability", "disk"]);
    let value = pattern(1, 300_000);
    let lines = "Upload-Length: 300000\r\n";
    let upload = Resumable::create(&mut server.connect(), "k", lines, &value[..10]);
    let mut broken = server.connect();
    broken.send(upload.append_head(10, false, 100));
    broken.send(&value[10..40]);
    broken.reset();
    let received = || {
        let files = fs::read_dir(server.dir.own("uploads")).expect("the uploads");
        let mut lens = files.map(|file| file.expect("an entry").metadata().map_or(0, |m| m.len()));
        lens.any(|len| len == 40)
    };
    eventually("the part is received", received);
    let tracer = Attached::to(&server, &["-e", "trace=fsync"]);
    let wrong = "Upload-Length: 299999\r\n";
    let mut raw = server.connect();
    let answer = upload.append_with(&mut raw, 40, false, wrong, b"");
    assert_eq!(answer.status, 400, "{answer:?}");
    assert_eq!(answer.must("upload-offset"), "40");
    let calls = tracer.detach();
    let is_upload = |call: &&Call| call.args.contains("/uploads/");
    assert!(calls.iter().any(|call| is_upload(&call)), "{calls:?}");
}

#[test]
fn an_upload_whose_record_cannot_be_read_at_the_start_is_kept() {
    directory_only!("the files of uploads");
    let dir = DataDir::temporary();
    let mut server = Launch::new(&[]).on(&dir).start();
    let upload = Resumable::create(&mut server.connect(), "k", "", b"some bytes");
    server.stop();
    drop(server);
    let record = upload.file(&dir, ".json");
    let text = fs::read(&record).expect("the record");
    // Reading it fails, as on a disk that fails for a moment.
    fs::remove_file(&record).expect("a removal");
    fs::create_dir(&record).expect("a directory in its place");

    let mut server = Launch::new(&[]).on(&dir).start();
    server
        .event("an upload cannot be read: it is kept, and can be resumed only after another start");
    assert_eq!(upload.state(&mut server.connect()).status, 404);
    server.stop();
    drop(server);
    fs::remove_dir(&record).expect("the directory");
    fs::write(&record, text).expect("the record");

    let server = Launch::new(&[]).on(&dir).start();
    let raw = &mut server.connect();
    assert_eq!(upload.offset(raw), 10);
    assert_eq!(upload.append(raw, 10, true, b", more").status, 200);
    let comes = || server.get("k").body == b"some bytes, more";
    eventually("it is the value", comes);
}
