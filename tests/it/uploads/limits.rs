//! Proves that uploads keep to the options of the server: sizes, room, what may be written, and which pages may.

use crate::support::prelude::*;

#[test]
fn a_value_is_held_to_max_body_over_all_its_parts() {
    directory_only!("resumable uploads");
    let server = TestServer::start(&["--max-body", "1000"]);
    for lines in [
        "Upload-Complete: ?0\r\nUpload-Length: 1001\r\n",
        "Upload-Complete: ?1\r\n",
    ] {
        let body = vec![0; if lines.contains("Length") { 0 } else { 1001 }];
        let refused = Resumable::ask_to_create(&mut server.connect(), "k", lines, &body);
        assert_eq!(refused.status, 413);
        assert!(refused.must("upload-limit").starts_with("max-size=1000"));
    }
    let upload = Resumable::create(&mut server.connect(), "k", "", &[1; 600]);
    let refused = upload.append(&mut server.connect(), 600, true, &[2; 401]);
    assert_eq!(refused.status, 413, "{refused:?}");
    let stored = upload.append(&mut server.connect(), 600, true, &[2; 400]);
    let status = stored.status;
    assert_eq!(status, 200, "a length that is announced costs nothing");
    let upload = Resumable::create(&mut server.connect(), "k", "", &[1; 600]);
    let body = in_chunks(&[2; 401], 401);
    let lines = "Transfer-Encoding: chunked\r\n";
    let refused = upload.append_with(&mut server.connect(), 600, true, lines, &body);
    assert_eq!(refused.status, 413);
    assert_eq!(upload.state(&mut server.connect()).status, 404);
}

#[test]
fn what_is_received_counts_in_max_staged_also_after_a_restart() {
    directory_only!("what waits in a store is not staged");
    let dir = DataDir::temporary();
    let args = ["--max-staged", "1MiB", "--max-staged-per-client", "0"];
    let mut server = Launch::new(&args).on(&dir).start();
    let lines = "Upload-Complete: ?0\r\nUpload-Length: 600000\r\n";
    let known = Resumable::ask_to_create(&mut server.connect(), "k", lines, b"x");
    assert_eq!(known.status, 201);
    let grows = Resumable::create(&mut server.connect(), "l", "", &pattern(1, 300_000));
    let part = pattern(2, 200_000);
    let refused = grows.append(&mut server.connect(), 300_000, false, &part);
    // What is announced and has not come counts for nothing.
    assert_eq!(refused.status, 204);
    let refused = grows.append(&mut server.connect(), 500_000, false, &pattern(3, 548_576));
    assert_eq!(refused.status, 503);
    let staged =
        |server: &TestServer| Scrape::of(server.addr).count("data_server_staged_bytes", &[]);
    let before = staged(&server);
    assert_eq!(before, 500_001);
    server.stop();
    drop(server);

    let server = Launch::new(&args).on(&dir).start();
    assert_eq!(staged(&server), before);
    assert_eq!(server.put("m", pattern(1, 600_000)).status, 503);
    assert_eq!(grows.cancel(&mut server.connect()).status, 204);
    server.store("m", pattern(1, 600_000));
    assert_eq!(staged(&server), 1);
    let stored = Resumable::of(&known).append(&mut server.connect(), 1, true, &vec![0; 599_999]);
    assert_eq!(stored.status, 200);
    assert_eq!(staged(&server), 0);
}

#[test]
fn a_server_that_is_read_only_has_no_uploads() {
    directory_only!("resumable uploads");
    let dir = DataDir::temporary();
    let server = Launch::new(&[]).on(&dir).start();
    let upload = Resumable::create(&mut server.connect(), "k", "", b"x");
    drop(server);
    let server = Launch::new(&["--read-only"]).on(&dir).start();
    let lines = "Upload-Complete: ?0\r\n";
    let refused = Resumable::ask_to_create(&mut server.connect(), "k", lines, b"x");
    assert_eq!(refused.status, 403);
    assert_eq!(upload.state(&mut server.connect()).status, 404);
    for method in ["PATCH", "DELETE"] {
        let refused = server.request(method, &upload.path, "", b"");
        let is_right = [403, 404, 405].contains(&refused.status);
        assert!(is_right, "{method}: {}", refused.status);
    }
    let options = server.request("OPTIONS", "/k", "", b"");
    assert_eq!(options.header("upload-limit"), None);
    assert_eq!(dir.uploads().len(), 2, "it stays for a server that writes");
}

#[test]
fn with_compat_or_discard_an_upload_is_a_put_like_any_other() {
    directory_only!("the mode of the C server");
    for arg in ["--compat", "--discard"] {
        let server = TestServer::start(&[arg]);
        let lines = "Upload-Complete: ?0\r\nUpload-Draft-Interop-Version: 8\r\n";
        let stored = Resumable::ask_to_create(&mut server.connect(), "k", lines, b"x");
        assert_eq!(stored.status, 200, "{arg}");
        assert_eq!(stored.header("upload-complete"), None);
        server.dir.assert_no_uploads();
        let path = "/-/uploads/00000000000000000000000000000000";
        assert_eq!(server.request("HEAD", path, "", b"").status, 404);
        let post = "Content-Length: 0\r\nUpload-Complete: ?0\r\n";
        let refused = server.request("POST", "/k", post, b"");
        assert_eq!(refused.status, if arg == "--compat" { 404 } else { 405 });
    }
}

#[test]
fn pages_of_other_origins_need_leave() {
    directory_only!("resumable uploads");
    let page = "Origin: https://app.example\r\nSec-Fetch-Site: cross-site\r\n";
    let server = TestServer::start(&[]);
    let upload = Resumable::create(&mut server.connect(), "k", "", b"x");
    let refused = upload.append_with(&mut server.connect(), 1, true, page, b"y");
    assert_eq!(refused.status, 403);
    let status = server.request("DELETE", &upload.path, page, b"").status;
    assert_eq!(status, 403);

    let server = TestServer::start(&["--cors-origin", "https://app.example"]);
    let raw = &mut server.connect();
    let lines = format!("Content-Length: 0\r\nUpload-Complete: ?0\r\n{page}");
    let created = ask(raw, "POST", "/k", &lines, b"");
    assert_eq!(created.status, 201);
    let fields = "location upload-offset upload-complete upload-length upload-limit";
    for field in words(fields) {
        let exposed = created.must("access-control-expose-headers");
        assert!(exposed.contains(field), "{field}: {exposed}");
    }
    let path = Resumable::of(&created).path;
    let fields = "upload-offset,upload-complete,upload-length,upload-draft-interop-version";
    let asks = format!(
        "{page}Access-Control-Request-Method: PATCH\r\nAccess-Control-Request-Headers: {fields}\r\n"
    );
    let preflight = ask(raw, "OPTIONS", &path, &asks, b"");
    assert_eq!(preflight.status, 204);
    let methods = preflight.must("access-control-allow-methods");
    assert!(methods.contains("PATCH"), "{methods}");
    assert_eq!(preflight.must("access-control-allow-headers"), fields);
}

#[test]
fn the_number_of_uploads_is_bounded() {
    directory_only!("the files of uploads");
    let args = words("--max-uploads-per-client 0 --trusted-proxy 127.0.0.1");
    let server = Launch::new(&args).on(&DataDir::in_memory()).start();
    let raw = &mut server.connect();
    // Those that are complete make room.
    for _ in 0..20 {
        let upload = Resumable::create(raw, "k", "", b"");
        assert_eq!(upload.append(raw, 0, true, b"x").status, 200);
    }
    let create = put_head("k", 0).replace("\r\n\r\n", "\r\nUpload-Complete: ?0\r\n\r\n");
    for _ in 0..100 {
        raw.send(create.repeat(100));
        for _ in 0..100 {
            assert_eq!(raw.answer().status, 201);
        }
    }
    let refused = Resumable::ask_to_create(raw, "k", "Upload-Complete: ?0\r\n", b"");
    assert_eq!(refused.status, 503, "{refused:?}");
    // One of theirs gives way to another client.
    let lines = "Upload-Complete: ?0\r\nX-Forwarded-For: 192.0.2.1\r\n";
    let taken = Resumable::ask_to_create(raw, "k", lines, b"x");
    assert_eq!(taken.status, 201, "{taken:?}");
    assert_eq!(server.dir.uploads().len(), 20_000);
}
