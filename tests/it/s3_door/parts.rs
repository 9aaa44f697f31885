//! Uploads in parts: received, replaced and copied in any order, completed once, expired.

use super::{element, list, start};
use crate::support::prelude::*;

/// An upload of the object at this path.
struct Upload<'a> {
    server: &'a TestServer,
    path: &'static str,
    id: String,
}

impl<'a> Upload<'a> {
    #[track_caller]
    fn begin(server: &'a TestServer, path: &'static str, lines: &str) -> Self {
        let lines = format!("Content-Length: 0\r\n{lines}");
        let begun = ask(
            &mut server.connect(),
            "POST",
            &format!("{path}?uploads"),
            &lines,
            b"",
        );
        let id = element(&begun.text(), "UploadId");
        Self { server, path, id }
    }

    /// Sends a part; its tag.
    #[track_caller]
    fn put(&self, number: u16, body: &[u8]) -> String {
        let target = format!("{}?partNumber={number}&uploadId={}", self.path, self.id);
        let got = self.server.request("PUT", &target, &length(body), body);
        assert_eq!(got.status, 200, "{got:?}");
        got.must("etag").to_owned()
    }

    /// The target and the body that complete it with these parts.
    fn completion(&self, parts: &[(u16, &str)]) -> (String, String) {
        (format!("{}?uploadId={}", self.path, self.id), list(parts))
    }

    /// The same as the beginning of a row.
    fn row(&self, parts: &[(u16, &str)]) -> String {
        let (target, body) = self.completion(parts);
        format!("POST {target} {body}")
    }

    #[track_caller]
    fn complete(&self, parts: &[(u16, &str)]) -> Response {
        let (target, body) = self.completion(parts);
        ask(
            &mut self.server.connect(),
            "POST",
            &target,
            "",
            body.as_bytes(),
        )
    }
}

fn length(body: &[u8]) -> String {
    format!("Content-Length: {}\r\n", body.len())
}

fn parts_left(dir: &DataDir) -> usize {
    let left = fs::read_dir(dir.file(".data-server/parts")).expect("a folder");
    left.count()
}

#[test]
fn parts_become_a_value() {
    directory_only!("uploads in parts");
    let dir = DataDir::temporary();
    let launch = || Launch::new(&["--durability", "disk"]).listen("s3+http://127.0.0.1:0");
    let mut server = launch().on(&dir).start();
    server.talk("mkdir b\nPUT /b/source 0123456789 ; 200");
    let upload = Upload::begin(
        &server,
        "/b/k",
        "Content-Type: text/css\r\nx-amz-meta-a: 1\r\n",
    );
    let long = pattern(7, 300_000);
    let old = upload.put(3, b"old");
    let last = upload.put(3, b"last");
    let first = upload.put(1, &long);
    let id = upload.id;
    server.kill();
    server = launch().on(&dir).start();
    let upload = Upload {
        server: &server,
        path: "/b/k",
        id: id.clone(),
    };
    let target = format!("/b/k?partNumber=2&uploadId={id}");
    let lines = "x-amz-copy-source: /b/source\r\nx-amz-copy-source-range: bytes=2-4\r\nContent-Length: 0\r\n";
    let copied = ask(&mut server.connect(), "PUT", &target, lines, b"");
    let second = element(&copied.text(), "ETag").replace("&quot;", "\"");
    let [good, stale, unordered, missing] = [
        &[(1, &*first), (2, &second), (3, &last)][..],
        &[(1, &first), (2, &second), (3, &old)],
        &[(2, &second), (1, &first)],
        &[(1, &first), (4, &last)],
    ]
    .map(|parts| upload.row(parts));
    server.talk(&format!(
        "
        GET /b/k?uploadId={id} ; 200 ; ; <PartNumber>3</PartNumber> | <Size>300000</Size>
        GET /b/k?uploadId={id}&max-parts=1 ; 200 ; ; <NextPartNumberMarker>1<
        GET /b?uploads ; 200 ; ; <Key>k</Key> | {id}
        GET /b?uploads&prefix=x ; 200 ; ; <IsTruncated>false</IsTruncated></ListMultipartUploadsResult>
        PUT /b/k?partNumber=0&uploadId={id} x ; 400 ; ; InvalidArgument
        PUT /b/k?partNumber=1&uploadId=x x ; 404 ; ; NoSuchUpload
        PUT /b/other?partNumber=1&uploadId={id} x ; 404 ; ; NoSuchUpload
        PUT /b/k?partNumber=1&uploadId={id} x ; 400 ; Content-MD5: 1B2M2Y8AsgTpgAmY7PhCfg== ; BadDigest
        {stale} ; 400 ; ; <Code>InvalidPart</Code>
        {unordered} ; 400 ; ; <Code>InvalidPartOrder</Code>
        {missing} ; 400 ; ; <Code>InvalidPart</Code>
        {good} ; 404 ; If-Match: x-1 ; NoSuchKey
        {good} ; 400 ; x-amz-checksum-crc32: emyG8Q== | x-amz-checksum-type: FULL_OBJECT ; BadDigest
        {good} ; 400 ; x-amz-mp-object-size: 1 ; <Code>InvalidRequest</Code>
        PUT /none/k?partNumber=1&uploadId={id} x ; 404 ; ; <Code>NoSuchBucket</Code>
        GET /b/k?uploadId={id} ; 200 ; ; <StorageClass>STANDARD</StorageClass>
        GET /b/k ; 404
        {good} ; 200 ; If-None-Match: * ; <CompleteMultipartUploadResult | <Key>k</Key>
        HEAD /b/k ; 200 ; ; ; content-type: text/css | x-amz-meta-a: 1 | x-amz-upload-id: -
        DELETE /b/k?uploadId={id} ; 404 ; ; NoSuchUpload
        "
    ));
    let expected = [&long[..], b"234", b"last"].concat();
    assert!(
        server.get("b/k").body == expected,
        "the parts in their order"
    );
    let upload = Upload::begin(&server, "/b/k", "");
    let id = &upload.id;
    server.talk(&format!(
        "
        PUT /b/k?partNumber=1&uploadId={id} x ; 200
        DELETE /b/k?uploadId={id} ; 204
        GET /b?uploads ; 200 ; ; <IsTruncated>false</IsTruncated></ListMultipartUploadsResult>
        "
    ));
    assert_eq!(parts_left(&dir), 0, "files of parts that were given up");
}

#[test]
fn a_part_that_is_listed_with_another_checksum_is_refused() {
    directory_only!("uploads in parts");
    let dir = DataDir::temporary();
    let launch = || Launch::new(&[]).listen("s3+http://127.0.0.1:0");
    let mut server = launch().on(&dir).start();
    server.talk("mkdir b");
    let id = Upload::begin(&server, "/b/k", "").id;
    let target = format!("/b/k?partNumber=1&uploadId={id}");
    let lines = "x-amz-checksum-crc32: emyG8Q==\r\nContent-Length: 3\r\n";
    let part = server.request("PUT", &target, lines, b"one");
    assert_eq!(part.must("x-amz-checksum-crc32"), "emyG8Q==");
    // What was said of it is on the disk.
    server.kill();
    server = launch().on(&dir).start();
    let listed = list(&[(1, part.must("etag"))]);
    let with = |sum: &str| listed.replace("</ETag>", &format!("</ETag><Checksum{sum}"));
    let (wrong, right) = (
        with("CRC32>AAAAAA==</ChecksumCRC32>"),
        with("CRC32>emyG8Q==</ChecksumCRC32>"),
    );
    server.talk(&format!(
        "
        POST /b/k?uploadId={id} {wrong} ; 400 ; ; <Code>InvalidPart</Code>
        GET /b/k ; 404
        POST /b/k?uploadId={id} {right} ; 200
        GET /b/k ; 200 ; ; =one
        "
    ));
}

/// What the first and the last request of an upload say behind `x-amz-checksum-`, with parts that have these checksums;
/// and what the object keeps, or the code of the refusal.
const SUMS: &str = "
    algorithm: CRC32 ; crc32 ; ; uDltSA==-2 COMPOSITE
    algorithm: CRC32 ; crc32 ; crc32: uDltSA== ; uDltSA==-2 COMPOSITE
    ; crc32 ; crc32: uDltSA== ; uDltSA==-2 COMPOSITE
    ; crc32 ; crc32: uDltSA==-2 ; uDltSA==-2 COMPOSITE
    ; crc32 ; crc32: uDltSA==-3 ; InvalidRequest
    ; crc32 ; crc32: jBGBRQ==-2 | type: FULL_OBJECT ; InvalidDigest
    ; crc32 ; type: COMPOSITE ;
    ; crc32 ; ;
    algorithm: CRC32 ; crc32 ; crc32: jBGBRQ== ; BadDigest
    algorithm: CRC32 ; crc32 ; crc32: x ; InvalidDigest
    algorithm: CRC32 | type: FULL_OBJECT ; crc32 ; crc32: jBGBRQ== ; jBGBRQ== FULL_OBJECT
    algorithm: CRC32 | type: FULL_OBJECT ; crc32 ; crc32: uDltSA== ; BadDigest
    algorithm: CRC32 | type: FULL_OBJECT ; crc32 ; ;
    ; none ; type: FULL_OBJECT | crc32: jBGBRQ== ; jBGBRQ== FULL_OBJECT
    ; first ; crc32: uDltSA== ; InvalidRequest
    algorithm: CRC32 ; first ; ;
    algorithm: sha256 ; sha256 ; ; EZFMGaKKmMV9EvPM5sMreUR4T0tHgacGwk6x3ChOKFY=-2 COMPOSITE
    algorithm: SHA256 ; sha256 ; crc32: uDltSA== ; InvalidRequest
    algorithm: CRC64NVME ; none ; type: COMPOSITE ; InvalidRequest
";

/// The checksums of `one` and `two` in a row's words.
fn sums(of: &str) -> [&'static str; 2] {
    match of {
        "crc32" => ["crc32: emyG8Q==", "crc32: EcqKZg=="],
        "first" => ["crc32: emyG8Q==", ""],
        "sha256" => [
            "sha256: dpLDrTVAu4A8Ags67mbNiIcSMjTqDG5xQ8Ct1z/0Me0=",
            "sha256: P8TM/nRYcOLA2Z9x8w/wZWyN7dQcwdfT03aw2+aF4vM=",
        ],
        _ => [""; 2],
    }
}

#[test]
fn a_checksum_is_of_the_parts_or_of_all_bytes_as_clients_mean_it() {
    directory_only!("uploads in parts");
    let server = start(&[]);
    server.talk("mkdir b");
    for row in SUMS.lines().map(str::trim).filter(|row| !row.is_empty()) {
        let row_of: Vec<_> = row.split(';').map(str::trim).collect();
        let [first, parts, last, expected] = row_of[..] else {
            panic!("not a row: {row}");
        };
        let lines = |words: &str| {
            let words = words.split('|').map(str::trim).filter(|it| !it.is_empty());
            let lines = words.flat_map(|it| ["x-amz-checksum-", it, "\r\n"]);
            lines.collect::<String>()
        };
        let upload = Upload::begin(&server, "/b/k", &lines(first));
        let tags = [(1, "one"), (2, "two")].map(|(number, body)| {
            let target = format!("/b/k?partNumber={number}&uploadId={}", upload.id);
            let lines = length(body.as_bytes()) + &lines(sums(parts)[number - 1]);
            let got = server.request("PUT", &target, &lines, body.as_bytes());
            got.must("etag").to_owned()
        });
        let (target, body) = upload.completion(&[(1, &tags[0]), (2, &tags[1])]);
        let complete = || {
            let mut raw = server.connect();
            ask(&mut raw, "POST", &target, &lines(last), body.as_bytes())
        };
        let (answer, again) = (complete(), complete());
        if answer.status != 200 {
            assert_eq!(element(&answer.text(), "Code"), expected, "{row}");
            server.talk("GET /b/k ; 404");
            continue;
        }
        assert_eq!(answer.text(), again.text(), "{row}");
        let mode = "x-amz-checksum-mode: ENABLED\r\n";
        let head = server.request("HEAD", "/b/k", mode, b"");
        let name = if first.contains("256") {
            "sha256"
        } else {
            "crc32"
        };
        let fields = [name, "type"].map(|it| head.header(&format!("x-amz-checksum-{it}")));
        let kept: Vec<_> = fields.into_iter().flatten().collect();
        assert_eq!(kept.join(" "), expected, "{row}");
        let told = answer.text();
        let is_told = |it: &&str| told.contains(&format!(">{it}</Checksum"));
        assert!(kept.iter().all(is_told), "{row}: {told}");
        server.talk("DELETE /b/k ; 204");
    }
}

#[test]
fn an_upload_begins_with_a_checksum_that_there_is() {
    directory_only!("uploads in parts");
    start(&[]).talk(
        "
        mkdir b
        POST /b/k?uploads ; 200 ; Content-Length: 0 | x-amz-checksum-algorithm: CRC32 ; ; x-amz-checksum-algorithm: CRC32
        POST /b/k?uploads ; 400 ; Content-Length: 0 | x-amz-checksum-algorithm: CRC31 ; InvalidRequest
        POST /b/k?uploads ; 400 ; Content-Length: 0 | x-amz-checksum-type: COMPOSITE ; InvalidRequest
        POST /b/k?uploads ; 400 ; Content-Length: 0 | x-amz-checksum-algorithm: SHA1 | x-amz-checksum-type: FULL_OBJECT ; InvalidRequest
        POST /b/k?uploads ; 400 ; Content-Length: 0 | x-amz-checksum-algorithm: CRC64NVME | x-amz-checksum-type: COMPOSITE ; InvalidRequest
        ",
    );
}

/// Clients ask again where an answer is lost.
#[test]
fn a_completion_that_is_repeated_has_the_same_answer_while_the_object_is_that_one() {
    directory_only!("uploads in parts");
    let dir = DataDir::temporary();
    let launch = || Launch::new(&[]).listen("s3+http://127.0.0.1:0");
    let mut server = launch().on(&dir).start();
    server.talk("mkdir b");
    let upload = Upload::begin(&server, "/b/k", "x-amz-meta-a: 1\r\n");
    let part = upload.put(1, b"one");
    let parts = [(1, &*part)];
    // Two at once: one of them is the first.
    let tags = thread::scope(|scope| {
        let both = [(); 2].map(|()| scope.spawn(|| upload.complete(&parts)));
        both.map(|asked| {
            let answer = asked.join().expect("an answer");
            assert_eq!(answer.status, 200, "{answer:?}");
            element(&answer.text(), "ETag")
        })
    });
    assert_eq!(tags[0], tags[1]);
    let (row, id) = (upload.row(&parts), upload.id);
    server.talk(&format!("{row} ; 200 ; If-None-Match: * ; {}", tags[0]));
    server.kill();
    server = launch().on(&dir).start();
    let other = row.replace("/b/k?", "/b/other?");
    server.talk(&format!(
        "
        {row} ; 200 ; ; {}
        {other} ; 404 ; ; NoSuchUpload
        PUT /b/k?partNumber=1&uploadId={id} x ; 404 ; ; NoSuchUpload
        PUT /b/k one ; 200
        {row} ; 404 ; ; NoSuchUpload
        ",
        tags[0]
    ));
    let upload = Upload::begin(&server, "/b/k", "");
    let part = upload.put(1, b"one");
    let row = upload.row(&[(1, &part)]);
    server.talk(&format!("{row} ; 200\n{row} ; 200"));
    fs::write(dir.file("b/k"), "two").expect("other bytes");
    server.talk(&format!("{row} ; 404 ; ; NoSuchUpload"));
    assert_eq!(parts_left(&dir), 0);
}

/// Spaces come as long as it takes, and what is wrong then is said in the body.
#[test]
fn a_completion_that_takes_long_keeps_its_client() {
    directory_only!("uploads in parts");
    only_where!(can_trace(), "a slow copy", "strace does not run here");
    let launch = Launch::new(&["--audit-log"]).env("DATA_SERVER_PATIENCE", "1");
    let mut server = launch.listen("s3+http://127.0.0.1:0").start();
    server.talk("mkdir b");
    let upload = Upload::begin(&server, "/b/k", "");
    let part = upload.put(1, &pattern(1, 300_000));
    let copies = "copy_file_range,ioctl,sendfile,pread64";
    let attached = Attached::injecting(&server, copies, "delay_enter=200000");
    let answer = upload.complete(&[(1, &part)]);
    assert_eq!(answer.status, 200, "{answer:?}");
    let text = answer.text();
    let waited = text.starts_with("<?xml") && text.contains("?>\n ");
    assert!(waited && text.contains("<ETag>"), "{text}");
    let (target, body) = Upload::begin(&server, "/b/k", "").completion(&[(1, &part)]);
    let answer = ask(&mut server.connect(), "POST", &target, "", body.as_bytes());
    assert!(answer.text().contains("InvalidPart"), "{answer:?}");
    let upload = Upload::begin(&server, "/b/other", "");
    let part = upload.put(1, &pattern(2, 300_000));
    let (target, body) = upload.completion(&[(1, &part)]);
    let lines = "x-amz-checksum-crc32: emyG8Q==\r\nx-amz-checksum-type: FULL_OBJECT\r\n";
    let answer = ask(
        &mut server.connect(),
        "POST",
        &target,
        lines,
        body.as_bytes(),
    );
    drop(attached);
    assert_eq!(answer.status, 200, "{answer:?}");
    let text = answer.text();
    assert!(
        text.contains("?>\n ") && text.contains("<Code>BadDigest</Code>"),
        "{text}"
    );
    server.talk("GET /b/other ; 404");
    assert!(server.get("b/k").body == pattern(1, 300_000));
    server.stop();
    let changed = server
        .audited("method result status")
        .contains(&"POST changed 200".to_owned());
    assert!(changed, "the audit log has the change");
}

#[test]
fn parts_of_uploads_that_nobody_goes_on_with_expire() {
    directory_only!("uploads in parts");
    let server = start(&["--upload-expiry", "1s"]);
    server.talk("mkdir b");
    let upload = Upload::begin(&server, "/b/k", "");
    upload.put(1, b"one");
    upload.put(2, &pattern(1, 200_000));
    eventually("the upload expires", || parts_left(&server.dir) == 0);
    let row = upload.row(&[(1, "\"x\"")]);
    server.talk(&format!(
        "
        {row} ; 404 ; ; NoSuchUpload
        GET /b?uploads ; 200 ; ; <IsTruncated>false</IsTruncated></ListMultipartUploadsResult>
        "
    ));
    let staged = || Scrape::of(server.addr).count("data_server_staged_bytes", &[]) == 0;
    eventually("its bytes are free for others", staged);
}

/// Begins an upload of `b/k` with a part of so many bytes; its identifier.
fn begin(server: &TestServer, len: usize) -> String {
    let begun = server.request("POST", "/b/k?uploads", "Content-Length: 0\r\n", b"");
    let id = element(&begun.text(), "UploadId");
    assert_eq!(send(server, &id, 1, len), 200);
    id
}

fn send(server: &TestServer, id: &str, number: u16, len: usize) -> u16 {
    let target = format!("/b/k?partNumber={number}&uploadId={id}");
    let sent = server.request("PUT", &target, "", &pattern(1, len));
    sent.status
}

#[test]
fn parts_count_at_the_next_start_whatever_its_bounds_are() {
    directory_only!("uploads in parts");
    let dir = DataDir::temporary();
    let start = |most: &str, bound: &str| {
        let bound = format!("max-size = \"{bound}\", full = \"refuse\"");
        let staged = ["--max-staged", most, "--max-staged-per-client", "0"];
        let launch = Launch::new(&[&staged[..], &["--bound", &bound]].concat());
        launch.listen("s3+http://127.0.0.1:0").on(&dir).start()
    };
    let staged =
        |server: &TestServer| Scrape::of(server.addr).count("data_server_staged_bytes", &[]);
    let mut server = start("1MiB", "1MiB");
    server.talk("mkdir b");
    let id = begin(&server, 300_000);
    assert_eq!(send(&server, &id, 2, 250_000), 200);
    server.kill();
    let mut server = start("400KiB", "1MiB");
    assert_eq!(staged(&server), 550_000, "what lies there");
    assert_eq!(send(&server, &id, 3, 10), 503);
    server.kill();
    let server = start("1MiB", "400KiB");
    assert_eq!(server.put("b/v", pattern(1, 50_000)).status, 507);
    let ended = server.request("DELETE", &format!("/b/k?uploadId={id}"), "", b"");
    assert_eq!((ended.status, staged(&server)), (204, 0));
    assert_eq!(server.put("b/v", pattern(1, 50_000)).status, 200);
}

/// What was not synced may be anything after a reboot.
#[test]
fn a_reboot_ends_uploads_whose_parts_may_not_be_on_the_disk() {
    directory_only!("uploads in parts");
    for (servers, stays) in [
        ("disk disk", true),
        ("os disk disk", true),
        ("os os", false),
        ("os disk", false),
        ("disk os disk", false),
    ] {
        let dir = DataDir::temporary();
        let start = |durability| {
            let launch = Launch::new(&["--durability", durability]).on(&dir);
            launch.listen("s3+http://127.0.0.1:0").start()
        };
        let mut names = words(servers);
        let last = names.pop().expect("a server");
        let mut id = String::new();
        for (n, durability) in (1..).zip(names) {
            let mut server = start(durability);
            if n == 1 {
                server.talk("mkdir b");
                id = begin(&server, 100_000);
            }
            assert_eq!(send(&server, &id, n, 100_000), 200);
            server.kill();
        }
        let record = dir.own(&format!("parts/{id}.json"));
        let text = fs::read_to_string(&record).expect("a record");
        let mut text: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        text["boot"] = "another".into();
        text["started"] = 1.into();
        fs::write(record, text.to_string()).expect("a record");
        let server = start(last);
        let listed = server.request("GET", &format!("/b/k?uploadId={id}"), "", b"");
        assert_eq!(listed.status == 200, stays, "{servers}: {listed:?}");
    }
}
