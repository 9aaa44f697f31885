//! What file managers and Office send, as they send it: each can go on, and what it has stored is whole.

use super::start;
use crate::support::prelude::*;

/// Plays what a client sends on one connection, with these lines in each request: `request ; status ; lines ; body ;
/// text`. Lines are parted by ` | `, `@` in them is the last token that was granted, and a body in capitals is that of
/// `BODIES`. The answer has the text, in a field or in its body.
#[track_caller]
fn play(server: &TestServer, always: &str, rows: &str) {
    let (mut raw, mut token) = (server.connect(), String::new());
    for [request, status, lines, body, text] in table::<5>(rows) {
        let (method, target) = request.split_once(' ').expect("a target");
        let found = table::<2>(BODIES).find(|[name, _]| *name == body);
        let body = found.map_or(body, |[_, xml]| xml).as_bytes();
        let (length, sent) = if lines.contains("chunked") {
            (String::new(), in_chunks(body, 5))
        } else {
            (format!("Content-Length: {} | ", body.len()), body.to_vec())
        };
        let lines = format!("{length}{always} | {lines}").replace('@', &token);
        let lines = lines.split(" | ").filter(|line| !line.is_empty());
        let lines = lines.map(|line| format!("{line}\r\n"));
        let lines = lines.collect::<Vec<_>>().concat();
        let got = ask(&mut raw, method, target, &lines, &sent);
        if got.closes() {
            raw = server.connect();
        }
        let said = format!("{} {:?} {}", got.status, got.headers, got.text());
        assert!(
            got.status.to_string() == status && said.contains(text),
            "{request}: {said}"
        );
        token = got.header("lock-token").map_or(token, str::to_owned);
    }
}

const BODIES: &str = r#"
STAT ; <?xml version="1.0" encoding="utf-8"?><D:propfind xmlns:D="DAV:"><D:prop><D:getlastmodified/><D:getcontentlength/><D:creationdate/><D:resourcetype/></D:prop></D:propfind>
FOLDER ; <?xml version="1.0" encoding="utf-8"?><D:propfind xmlns:D="DAV:"><D:prop xmlns:A="http://www.apple.com/webdav_fs/props/"><D:getlastmodified/><D:getcontentlength/><D:resourcetype/><A:appledoubleheader/></D:prop></D:propfind>
QUOTA ; <?xml version="1.0" encoding="utf-8"?><D:propfind xmlns:D="DAV:"><D:prop><D:quota-available-bytes/><D:quota-used-bytes/><D:quota/><D:quotaused/></D:prop></D:propfind>
TAG ; <?xml version="1.0" encoding="utf-8"?><D:propfind xmlns:D="DAV:"><D:prop><D:getlastmodified/><D:getetag/></D:prop></D:propfind>
LOCK ; <?xml version="1.0" encoding="utf-8"?><D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype><D:owner><D:href>http://www.apple.com/webdav_fs/</D:href></D:owner></D:lockinfo>
LOCKWIN ; <?xml version="1.0" encoding="utf-8" ?><D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype><D:owner><D:href>HOST\ann</D:href></D:owner></D:lockinfo>
TIMES ; <?xml version="1.0" encoding="utf-8" ?><D:propertyupdate xmlns:D="DAV:" xmlns:Z="urn:schemas-microsoft-com:"><D:set><D:prop><Z:Win32CreationTime>Sun, 29 Nov 2026 10:00:00 GMT</Z:Win32CreationTime><Z:Win32LastModifiedTime>Sun, 29 Nov 2026 10:00:00 GMT</Z:Win32LastModifiedTime><Z:Win32FileAttributes>00000020</Z:Win32FileAttributes></D:prop></D:set></D:propertyupdate>
"#;

/// A file is copied to the folder, with the two that macOS keeps beside it, then renamed, and removed with its folder.
#[test]
fn finder_stores_a_file() {
    directory_only!("locks");
    let server = start(&[]);
    let finder = "Accept: */* | User-Agent: WebDAVFS/3.0.0 (03008000) Darwin/24.6.0 (arm64)";
    play(
        &server,
        finder,
        r#"
        OPTIONS / ; 200 ; ; ; 1, 2
        PROPFIND / ; 207 ; Depth: 0 | Content-Type: text/xml ; STAT ; <D:collection/>
        PROPFIND / ; 207 ; Depth: 0 | Content-Type: text/xml ; QUOTA ; <D:quota-available-bytes>
        PROPFIND /.metadata_never_index ; 404 ; Depth: 0 | Content-Type: text/xml ; STAT
        PROPFIND / ; 207 ; Depth: 1 | Content-Type: text/xml ; FOLDER ; </D:getlastmodified>
        PROPFIND /._. ; 404 ; Depth: 0 | Content-Type: text/xml ; STAT
        PROPFIND /.DS_Store ; 404 ; Depth: 0 | Content-Type: text/xml ; STAT
        PROPFIND /a%20b.txt ; 404 ; Depth: 0 | Content-Type: text/xml ; STAT
        PUT /a%20b.txt ; 201
        LOCK /a%20b.txt ; 200 ; Depth: 0 | Timeout: Second-600 | Content-Type: text/xml; charset="utf-8" ; LOCK ; Second-600
        PUT /._a%20b.txt ; 201
        LOCK /._a%20b.txt ; 200 ; Depth: 0 | Timeout: Second-600 | Content-Type: text/xml; charset="utf-8" ; LOCK ; <D:locktoken>
        PUT /._a%20b.txt ; 204 ; If: (@) | Transfer-Encoding: chunked | X-Expected-Entity-Length: 15 ; its Apple double ; etag
        PROPFIND /._a%20b.txt ; 207 ; Depth: 0 | Content-Type: text/xml ; TAG ; <D:getetag>
        UNLOCK /._a%20b.txt ; 204 ; Lock-Token: @
        LOCK /a%20b.txt ; 423 ; Depth: 0 | Timeout: Second-600 | Content-Type: text/xml; charset="utf-8" ; LOCK
        DELETE /._a%20b.txt ; 204
        "#,
    );
    assert_eq!(server.dir.read("a b.txt"), b"");
    server.dir.remove("a b.txt");
    // Finder sends an empty file in one chunk too, and asks for more time while it sends a long one.
    play(
        &server,
        finder,
        r#"
        PUT /.DS_Store ; 201
        LOCK /.DS_Store ; 200 ; Depth: 0 | Timeout: Second-600 | Content-Type: text/xml; charset="utf-8" ; LOCK
        PUT /.DS_Store ; 204 ; If: (@) | Transfer-Encoding: chunked | X-Expected-Entity-Length: 0
        UNLOCK /.DS_Store ; 204 ; Lock-Token: @
        LOCK /c.txt ; 201 ; Depth: 0 | Timeout: Second-600 | Content-Type: text/xml; charset="utf-8" ; LOCK
        LOCK /c.txt ; 200 ; Depth: 0 | Timeout: Second-600 | Content-Type: text/xml | If: (@) ; ; <D:locktoken>
        PUT /c.txt ; 204 ; If: (@) | Transfer-Encoding: chunked | X-Expected-Entity-Length: 10 ; first save
        PUT /c.txt ; 204 ; If: (@) | Transfer-Encoding: chunked | X-Expected-Entity-Length: 11 ; second save
        PROPFIND /c.txt ; 207 ; Depth: 0 | Content-Type: text/xml ; STAT ; <D:getcontentlength>11<
        UNLOCK /c.txt ; 204 ; Lock-Token: @
        GET /c.txt ; 200 ; ; ; second save
        MKCOL /untitled%20folder/ ; 201
        MOVE /untitled%20folder/ ; 201 ; Destination: http://t/album/
        MOVE /c.txt ; 201 ; Destination: http://t/album/d.txt
        PROPFIND /album/ ; 207 ; Depth: 1 | Content-Type: text/xml ; FOLDER ; <D:href>/album/d.txt<
        "#,
    );
    assert_eq!(server.dir.read("album/d.txt"), b"second save");
    play(
        &server,
        finder,
        "DELETE /album/d.txt ; 204\nDELETE /album/ ; 204",
    );
    server.dir.assert_holds(&[".DS_Store"]);
}

const EXPLORER: &str = "Connection: Keep-Alive | User-Agent: Microsoft-WebDAV-MiniRedir/10.0.26100 | Cache-Control: no-cache | Pragma: no-cache | translate: f";

/// A file is dropped into a folder, saved, renamed and removed.
#[test]
fn explorer_stores_a_file() {
    directory_only!("locks");
    let server = start(&[]);
    play(
        &server,
        EXPLORER,
        r#"
        OPTIONS / ; 200 ; ; ; DAV
        PROPFIND / ; 207 ; Depth: 0 ; ; <D:collection/>
        PROPFIND /new.txt ; 404 ; Depth: 0
        PUT /new.txt ; 201
        LOCK /new.txt ; 200 ; Timeout: Second-3600 | Content-Type: text/xml; charset="utf-8" ; LOCKWIN ; <D:timeout>Second-3600<
        PROPPATCH /new.txt ; 207 ; If: (@) | Content-Type: text/xml; charset="utf-8" ; TIMES ; <Win32FileAttributes xmlns="urn:schemas-microsoft-com:"/></D:prop><D:status>HTTP/1.1 403
        HEAD /new.txt ; 200
        PUT /new.txt ; 423 ; ; lost
        PUT /new.txt ; 204 ; If: (@) ; saved
        PROPPATCH /new.txt ; 207 ; If: (@) | Content-Type: text/xml; charset="utf-8" ; TIMES
        LOCK /new.txt ; 200 ; If: (@) | Timeout: Second-3600 ; ; Second-3600
        UNLOCK /new.txt ; 204 ; Lock-Token: @
        PROPFIND / ; 207 ; Depth: 1 ; ; <D:href>/new.txt<
        GET /new.txt ; 200 ; ; ; saved
        PROPFIND /renamed.txt ; 404 ; Depth: 0
        MOVE /new.txt ; 201 ; Destination: http://t/renamed.txt | Overwrite: F
        MKCOL /New%20folder ; 201
        MOVE /renamed.txt ; 201 ; Destination: http://t/New%20folder/renamed.txt | Overwrite: T
        "#,
    );
    assert_eq!(server.dir.read("New folder/renamed.txt"), b"saved");
    play(&server, EXPLORER, "DELETE /New%20folder ; 204");
    server.dir.assert_holds(&[]);
}

/// Word opens a file by its address, refreshes its lock, and saves it; since 2016 it may show its token by Lock-Token
/// alone. On a drive of Explorer it saves a new file, which takes the name of the old one.
#[test]
fn office_saves_a_file() {
    directory_only!("locks");
    let server = start(&[]);
    server.dir.place("a.docx", "old");
    play(
        &server,
        "User-Agent: Microsoft Office Word 2014 | X-Office-Major-Version: 16 | X-FeatureVersion: 1 | X-IDCRL_ACCEPTED: t",
        r#"
        OPTIONS / ; 200 ; ; ; "ms-author-via", "DAV"
        HEAD /a.docx ; 200
        LOCK /a.docx ; 200 ; Timeout: Second-3600 | Content-Type: text/xml; charset="utf-8" ; LOCKWIN ; Second-3600
        GET /a.docx ; 200 ; ; ; old
        PROPFIND /a.docx ; 207 ; Depth: 0 ; ; <D:lockroot>
        LOCK /a.docx ; 200 ; If: (@) | Timeout: Second-3600 ; ; <D:locktoken>
        PUT /a.docx ; 204 ; If: (@) ; first save
        PUT /a.docx ; 423 ; Lock-Token: <urn:uuid:0> ; lost
        PUT /a.docx ; 204 ; Lock-Token: @ ; second save
        GET /a.docx ; 200 ; ; ; second save
        UNLOCK /a.docx ; 204 ; Lock-Token: @
        "#,
    );
    play(
        &server,
        EXPLORER,
        "
        PUT /~%24a.docx ; 201
        LOCK /~%24a.docx ; 200 ; Timeout: Second-3600 ; LOCKWIN
        PUT /~%24a.docx ; 204 ; If: (@) ; ann
        UNLOCK /~%24a.docx ; 204 ; Lock-Token: @
        PUT /8F2A.tmp ; 201
        LOCK /8F2A.tmp ; 200 ; Timeout: Second-3600 ; LOCKWIN
        PUT /8F2A.tmp ; 204 ; If: (@) ; third save
        PROPPATCH /8F2A.tmp ; 207 ; If: (@) ; TIMES
        UNLOCK /8F2A.tmp ; 204 ; Lock-Token: @
        MOVE /a.docx ; 201 ; Destination: http://t/71C0.tmp | Overwrite: F
        MOVE /8F2A.tmp ; 201 ; Destination: http://t/a.docx | Overwrite: F
        PROPFIND /a.docx ; 207 ; Depth: 0 ; ; <D:getcontentlength>10<
        DELETE /71C0.tmp ; 204
        DELETE /~%24a.docx ; 204
        ",
    );
    server.dir.assert_holds(&["a.docx"]);
    assert_eq!(server.dir.read("a.docx"), b"third save");
}

/// Two clients write one file until the server is killed: one by a lock, the other without. No value is torn, what
/// a client with the lock has read back is its own, and after a start the locks are gone, and told of.
#[test]
fn a_kill_under_two_clients_leaves_a_whole_value_and_no_lock() {
    directory_only!("locks");
    let dir = DataDir::temporary();
    let launch = || {
        Launch::new(&[])
            .listen("dav+http://127.0.0.1:0")
            .on(&dir)
            .start()
    };
    let mut server = launch();
    let values = [1, 2].map(|seed| pattern(seed, 300_000));
    let mut shown = String::new();
    for round in 0..5 {
        shown = super::lock(&server, "/a", "");
        let (head, whole) = values[0].split_at(150_000 + round);
        let mut half = server.connect();
        let length = values[0].len();
        half.begin("PUT", "/a", &format!("{shown}Content-Length: {length}\r\n"));
        half.send(head);
        assert_eq!(super::send(&server, "PUT", "/a", "", "lost").status, 423);
        if round == 4 {
            break;
        }
        half.send(whole);
        assert_eq!(half.head().status, 204);
        assert_eq!(server.get("a").body, values[0]);
        assert_eq!(super::send(&server, "UNLOCK", "/a", &shown, "").status, 204);
        assert_eq!(server.request("PUT", "/a", "", &values[1]).status, 204);
        assert_eq!(server.get("a").body, values[1]);
    }
    server.kill();
    let server = launch();
    assert_eq!(server.get("a").body, values[1]);
    assert_eq!(
        super::send(&server, "PUT", "/a", &shown, "lost").status,
        412
    );
    assert_eq!(super::send(&server, "LOCK", "/a", &shown, "").status, 412);
    let got = super::send(&server, "UNLOCK", "/a", &shown, "");
    got.says(409, "or the server was restarted");
    super::lock(&server, "/a", "");
    dir.assert_nothing_staged();
}
