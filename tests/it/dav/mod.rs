//! The door of `WebDAV`: what its methods answer and do, its locks, and the requests of file managers.

mod clients;
mod locks;
mod properties;

use crate::support::prelude::*;

/// The value of a lockinfo, exclusive or shared.
fn lockinfo(scope: &str) -> String {
    format!(
        "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:{scope}/></D:lockscope><D:locktype><D:write/></D:locktype>\
         <D:owner><D:href>mailto:a@b</D:href></D:owner></D:lockinfo>"
    )
}

/// A server with this door alone.
fn start(args: &[&str]) -> TestServer {
    Launch::new(args).listen("dav+http://127.0.0.1:0").start()
}

/// A request with a body of XML.
fn send(server: &TestServer, method: &str, target: &str, lines: &str, xml: &str) -> Response {
    let lines = format!("Content-Length: {}\r\n{lines}", xml.len());
    ask(
        &mut server.connect(),
        method,
        target,
        &lines,
        xml.as_bytes(),
    )
}

/// Takes an exclusive lock; the lines that show its token.
#[track_caller]
fn lock(server: &TestServer, target: &str, lines: &str) -> String {
    let got = send(server, "LOCK", target, lines, &lockinfo("exclusive"));
    assert!(matches!(got.status, 200 | 201), "{got:?}");
    let token = got.must("lock-token");
    format!("If: ({token})\r\nLock-Token: {token}\r\n")
}

#[test]
fn methods_answer_as_rfc_4918_says() {
    directory_only!("folders");
    start(&[]).talk(
        "
        OPTIONS / ; 200 ; ; ; dav: 1, 2 | ms-author-via: DAV | accept-patch: -
        PUT /a one ; 201 ; ; ; etag
        PUT /a two ; 204 ; ; ; etag
        PUT /a x ; 412 ; If-None-Match: *
        GET /a ; 200 ; ; =two
        PUT /none/a x ; 409 ; ; MKCOL
        PUT /a/b x ; 409
        PUT /f/ x ; 405
        MKCOL /f ; 201
        MKCOL /f/ ; 405
        MKCOL /a ; 405
        MKCOL / ; 405
        MKCOL /none/f ; 409
        MKCOL /g x ; 415 ; Content-Length: 1
        PUT /f x ; 405
        PUT /f/1 one ; 201
        COPY /f/1 /f/2 ; 201
        COPY /f/1 /f/2 ; 204
        COPY /f/1 /f/2 ; 412 ; Overwrite: F
        COPY /f/1 /none/2 ; 409
        COPY /f/none /f/2 ; 404
        COPY /f/1 /f/1 ; 403
        MOVE /f/2 http://t/f/3 ; 201
        MOVE /f/3 http://other/f/4 ; 502
        MKCOL /f/sub ; 201
        MKCOL /f/sub/empty ; 201
        COPY /f /g ; 201
        holds a f/1 f/3 f/sub/empty g/1 g/3 g/sub/empty
        GET /g/sub/empty/?format=json ; 200
        MKCOL /g/sub/empty/ ; 405
        COPY /f/ /g/ ; 412 ; Overwrite: F
        COPY /f/ /f/sub/in ; 403
        COPY /f/sub /f ; 403
        COPY /f/ /h/ ; 201 ; Depth: 0
        MKCOL /h ; 405
        MOVE /f /h ; 204
        holds a h/1 h/3 h/sub/empty g/1 g/3 g/sub/empty
        MOVE /h/ /g/ ; 412 ; Overwrite: F
        MOVE /a /g ; 204
        GET /g ; 200 ; ; =two
        MOVE /h /g ; 204
        holds g/1 g/3 g/sub/empty
        MOVE /g / ; 403
        DELETE /g/1 ; 204
        DELETE /g/1 ; 404
        DELETE / ; 404
        DELETE /g ; 204
        DELETE /g/ ; 404
        PATCH /a ; 405 ; Content-Length: 0 ; ; allow
        holds
        ",
    );
}

/// Its first part would be stored as if it were all.
#[test]
fn what_the_plain_door_has_is_as_there() {
    directory_only!("uploads in parts");
    let server = start(&[]);
    server.talk(
        "
        PUT /a part ; 201 ; Upload-Complete: ?0 ; ; location
        GET /a ; 404
        POST /-/upload ; 415 ; Content-Length: 0
        GET /-/ready ; 200
        GET / ; 200 ; Accept: text/html ; ; content-security-policy: default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'
        ",
    );
    assert!(!server.dir.file("a").exists());
}

#[test]
fn a_read_only_server_answers_reads_alone() {
    directory_only!("folders");
    let server = start(&["--read-only"]);
    server.dir.place("a", "one");
    server.talk(
        "
        OPTIONS / ; 200 ; ; ; allow: GET, HEAD, PROPFIND, OPTIONS
        PROPFIND / ; 207 ; Depth: 1 ; /a<
        PUT /a x ; 403
        DELETE /a ; 403
        MKCOL /f ; 403
        LOCK /a ; 403
        MOVE /a /b ; 403
        ",
    );
}
