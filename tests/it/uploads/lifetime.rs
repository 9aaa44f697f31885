//! Proves that an upload survives its connection, its server and what is promised of the machine, and no longer than it
//! may.

use super::told;
use crate::support::prelude::*;

fn start(dir: &DataDir, args: &[&str]) -> TestServer {
    Launch::new(args).on(dir).start()
}

fn kill(mut server: TestServer) {
    server.kill();
}

/// Makes it look as if nothing had been done to `upload` for two days.
fn age(dir: &DataDir, upload: &Resumable) {
    let long_ago = SystemTime::now() - Duration::from_secs(48 * 3600);
    let data = File::options().append(true).open(upload.file(dir, ""));
    let aged = data.and_then(|data| data.set_modified(long_ago));
    aged.expect("a time");
}

/// Changes the record of `upload`.
fn edit(dir: &DataDir, upload: &Resumable, edit: impl FnOnce(&mut serde_json::Value)) {
    let record = upload.file(dir, ".json");
    let text = fs::read_to_string(&record).expect("a record");
    let mut json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    edit(&mut json);
    fs::write(&record, json.to_string()).expect("another record");
}

#[test]
fn a_clock_that_was_put_forward_expires_no_upload() {
    const DAYS: i64 = 3 * 24 * 3600;
    directory_only!("the files of uploads");
    let dir = DataDir::temporary();
    let server = start(&dir, &["--upload-expiry", "0s"]);
    let raw = &mut server.connect();
    let kept = Resumable::create(raw, "kept", "", b"x");
    let old = Resumable::create(raw, "old", "", b"x");
    kill(server);
    // Both were touched two days ago by the clock, which was put forward by three since the one was written.
    age(&dir, &kept);
    age(&dir, &old);
    edit(&dir, &kept, |json| {
        let started = json["started"].as_i64().expect("a time");
        json["started"] = (started - DAYS).into();
    });
    let server = start(&dir, &[]);
    eventually("the other expires", || dir.uploads().len() == 2);
    let raw = &mut server.connect();
    assert_eq!(old.state(raw).status, 404);
    assert_eq!(kept.offset(raw), 1);
}

#[test]
fn an_upload_goes_on_after_a_restart_and_after_a_kill() {
    directory_only!("the files of uploads");
    for durability in ["os", "disk"] {
        let dir = DataDir::temporary();
        let args = ["--durability", durability];
        let value = pattern(1, 1_500_000);
        let lines = "Content-Type: text/x-own\r\nUpload-Length: 1500000\r\n";
        let mut server = start(&dir, &args);
        let upload = Resumable::create(&mut server.connect(), "a/k", lines, &value[..400_000]);
        server.stop();
        drop(server);

        let server = start(&dir, &args);
        let raw = &mut server.connect();
        let state = upload.state(raw);
        assert_eq!(state.must("upload-offset"), "400000");
        assert_eq!(state.must("upload-length"), "1500000");
        let part = &value[400_000..900_000];
        assert_eq!(upload.append(raw, 400_000, false, part).status, 204);
        kill(server);

        let server = start(&dir, &args);
        let raw = &mut server.connect();
        assert_eq!(upload.offset(raw), 900_000);
        let status = upload.append(raw, 900_000, true, &value[900_000..]).status;
        assert_eq!(status, 200);
        kill(server);

        let server = start(&dir, &args);
        let state = upload.state(&mut server.connect());
        // The client may have lost the answer.
        assert_eq!(told(&state), (204, "?1", 1_500_000));
        let got = server.get("a/k");
        assert!(got.body == value);
        assert_eq!(got.must("content-type"), "text/x-own");
        dir.assert_holds(&["a/k"]);
    }
}

#[test]
fn what_was_written_of_a_part_is_there_after_a_kill() {
    directory_only!("the files of uploads");
    let dir = DataDir::temporary();
    let value = pattern(1, 8_000_000);
    let server = start(&dir, &[]);
    let upload = Resumable::create(&mut server.connect(), "k", "", b"");
    let mut raw = server.connect();
    raw.send(upload.append_head(0, true, value.len()));
    raw.send(&value[..5_000_000]);
    let written = || fs::metadata(upload.file(&dir, "")).expect("the file");
    eventually("some of it is written", || written().len() >= 4_000_000);
    kill(server);
    let server = start(&dir, &[]);
    let raw = &mut server.connect();
    let offset = upload.offset(raw);
    assert!((4_000_000..=5_000_000).contains(&offset), "{offset}");
    let status = upload.append(raw, offset, true, &value[offset..]).status;
    assert_eq!(status, 200);
    assert!(server.get("k").body == value);
}

#[test]
fn a_restart_of_the_machine_leaves_what_was_synced() {
    directory_only!("the files of uploads");
    let value = pattern(1, 300_000);
    // A clock that is set from a file at each boot has two of them look alike.
    let other_boot = |json: &mut serde_json::Value| json["boot"] = "another".into();
    // Where the name of the boot is hidden, or an earlier version has written the record.
    let other_time = |json: &mut serde_json::Value| {
        json["boot"] = serde_json::Value::Null;
        json["started"] = 1.into();
    };
    let others: [fn(&mut serde_json::Value); 2] = [other_boot, other_time];
    let cases = others.map(|other| [("os", other), ("disk", other)]);
    for (durability, other) in cases.concat() {
        let dir = DataDir::temporary();
        let args = ["--durability", durability];
        let server = start(&dir, &args);
        let upload = Resumable::create(&mut server.connect(), "k", "", &value[..200_000]);
        kill(server);
        // As if the machine had been started later than it was, and more had been written than synced.
        edit(&dir, &upload, other);
        let data = upload.file(&dir, "");
        let bytes = [fs::read(&data).expect("the bytes"), vec![0; 5000]].concat();
        fs::write(&data, bytes).expect("zeros");

        let server = start(&dir, &args);
        let raw = &mut server.connect();
        if durability == "os" {
            assert_eq!(upload.state(raw).status, 404, "nothing was promised");
            assert_eq!(dir.uploads(), [""; 0]);
        } else {
            assert_eq!(upload.offset(raw), 200_000);
            let status = upload.append(raw, 200_000, true, &value[200_000..]).status;
            assert_eq!(status, 200);
            assert!(server.get("k").body == value);
        }
    }
}

#[test]
fn the_start_takes_a_published_upload_for_complete_and_removes_what_is_none() {
    directory_only!("the files of uploads");
    let dir = DataDir::temporary();
    let server = start(&dir, &[]);
    let upload = Resumable::create(&mut server.connect(), "k", "Upload-Length: 5\r\n", b"whole");
    let other = Resumable::create(&mut server.connect(), "other", "", b"x");
    kill(server);
    let id = "0123456789abcdef0123456789abcdef";
    for name in ["x", id, "0123456789abcdef0123456789abcdee.json"] {
        fs::write(dir.own("uploads").join(name), "not a record").expect("a file");
    }
    // The server ended between the link and the removal of the first name.
    fs::hard_link(upload.file(&dir, ""), dir.file("k")).expect("a link");
    let server = start(&dir, &[]);
    let raw = &mut server.connect();
    assert_eq!(upload.state(raw).must("upload-complete"), "?1");
    assert_eq!(upload.append(raw, 5, false, b"more").status, 409);
    assert_eq!(server.get("k").body, b"whole");
    assert_eq!(fs::metadata(dir.file("k")).expect("the value").nlink(), 1);
    assert_eq!(other.offset(&mut server.connect()), 1);
    let left = dir.uploads();
    let found = left.len();
    assert_eq!(found, 3, "the start removes what is no upload: {left:?}");
}

#[test]
fn unfinished_uploads_expire() {
    directory_only!("the files of uploads");
    let dir = DataDir::temporary();
    let server = start(&dir, &["--upload-expiry", "1s"]);
    let raw = &mut server.connect();
    let upload = Resumable::create(raw, "k", "Upload-Length: 300000\r\n", &pattern(1, 200_000));
    assert_eq!(upload.state(raw).must("upload-limit"), "max-age=1");
    let metric = |name: &str| Scrape::of(server.addr).count(name, &[]);
    assert_eq!(metric("data_server_uploads_unfinished"), 1);
    assert_eq!(metric("data_server_staged_bytes"), 200_000);
    eventually("the upload expires", || dir.uploads().is_empty());
    assert_eq!(upload.state(&mut server.connect()).status, 404);
    let comes = || metric("data_server_uploads_expired_total") == 1;
    eventually("it is counted", comes);
    assert_eq!(metric("data_server_uploads_unfinished"), 0);
    assert_eq!(metric("data_server_staged_bytes"), 0);
}

/// The time counts from when it was asked for last.
#[test]
fn an_upload_expires_also_while_no_server_runs_and_never_without_expiry() {
    directory_only!("the files of uploads");
    let dir = DataDir::temporary();
    let server = start(&dir, &["--upload-expiry", "0s"]);
    let upload = Resumable::create(&mut server.connect(), "k", "", b"x");
    age(&dir, &upload);
    let state = upload.state(&mut server.connect());
    assert_eq!(state.must("upload-limit"), "min-size=0");
    kill(server);
    for (expiry, is_aged) in [("24h", false), ("0s", true)] {
        if is_aged {
            age(&dir, &upload);
        }
        let server = start(&dir, &["--upload-expiry", expiry]);
        assert_eq!(upload.offset(&mut server.connect()), 1, "{expiry}");
        kill(server);
    }
    age(&dir, &upload);
    let server = start(&dir, &[]);
    eventually("the upload expires", || dir.uploads().is_empty());
    assert_eq!(upload.state(&mut server.connect()).status, 404);
}

#[test]
fn an_upload_that_its_client_never_heard_of_goes_with_its_request() {
    directory_only!("the files of uploads");
    let server = TestServer::start(&["--body-timeout", "2s"]);
    let head =
        "PUT /k HTTP/1.1\r\nHost: t\r\nContent-Length: 3000000\r\nUpload-Complete: ?0\r\n\r\n";
    // It breaks off; it pauses for too long.
    let (mut broken, mut slow) = (server.connect(), server.connect());
    for raw in [&mut broken, &mut slow] {
        raw.send(head);
        raw.send(pattern(1, 1_000_000));
    }
    eventually("both are there", || server.dir.uploads().len() == 4);
    broken.break_off();
    eventually("the one is removed", || server.dir.uploads().len() == 2);
    eventually("the other is removed", || server.dir.uploads().is_empty());
    let count = Scrape::of(server.addr).count("data_server_uploads_unfinished", &[]);
    assert_eq!(count, 0);
}
