//! Proves the table of statuses in docs/http.md, row by row over a real socket, in each mode. Each row has the answer
//! and the content of the directory afterwards.

use crate::support::prelude::*;

/// Requests, with `|` for each line end; ` HTTP/1.1` and a Host are added to a first line without a version. Behind
/// each the status, and what becomes of the directory, which held only `here` with the value `old`, if it changes; the
/// same with `--compat` where that differs, and with `--read-only` where no rule tells it.
const ROWS: &str = "
GET /here|| ; 200
HEAD /here|| ; 200
GET /here HTTP/1.0|| ; 200
GET /gone|| ; 404
HEAD /gone|| ; 404
GET /a/b|| ; 404
HEAD /a/b|| ; 404
GET /here%2Fhere|| ; 404 ; 400
GET /here/|| ; 200 ; 404
GET /a/|| ; 200 ; 404
GET //here|| ; 400 ; 404
GET /a//b|| ; 400 ; 404
GET /a//|| ; 400 ; 404
GET /here/here|| ; 404
GET /|| ; 200 ; 404
HEAD /|| ; 200 ; 404
GET /|Accept: text/html|| ; 200 ; 404
GET /?delimiter=/|| ; 200 ; 404

PUT /new|Content-Length: 3||abc ; 200 new=abc
PUT /here|Content-Length: 3||abc ; 200 here=abc
PUT /new HTTP/1.0|Content-Length: 3||abc ; 200 new=abc
PUT /new|Content-Length: 0|| ; 200 new= ; 304
PUT /here|Content-Length: 0|| ; 200 here= ; 304
PUT /new|| ; 200 new= ; 304
PUT /here|| ; 200 here= ; 304
PUT /new|Transfer-Encoding: chunked||3|abc|0|| ; 200 new=abc ; 304
PUT /here|Transfer-Encoding: chunked||3|abc|0|| ; 200 here=abc ; 304
PUT /new|Transfer-Encoding: chunked||0|| ; 200 new= ; 304
PUT /new|Transfer-Encoding: Chunked||3;name=value|abc|0002|de|0|X-Trailer: t|| ; 200 new=abcde ; 304
PUT /new|Content-Encoding: gzip|Content-Length: 3||abc ; 200 new=abc
PUT /new|Content-Encoding: aws-chunked|Content-Length: 3||abc ; 415 ; 200 new=abc
PUT /new|Content-Language: not a tag|Content-Length: 3||abc ; 400 ; 200 new=abc ; 403
PUT /new|Content-Encoding: identity|Content-Length: 3||abc ; 200 new=abc
PUT /new HTTP/1.0|| ; 411 ; 304
PUT /here HTTP/1.0|| ; 411 ; 304
PUT /|Content-Length: 3||abc ; 400 ; 204
PUT /a/b|Content-Length: 3||abc ; 200 a/b=abc ; 204
PUT /here/b|Content-Length: 3||abc ; 409 ; 204
PUT /a/|Content-Length: 3||abc ; 400 ; 204
PUT //a|Content-Length: 3||abc ; 400 ; 204
PUT /here/|Content-Length: 3||abc ; 400 ; 204
PUT /here/../here|Content-Length: 3||abc ; 400 ; 204
DELETE /here|| ; 200 gone
DELETE /gone|| ; 404
DELETE /|| ; 404 ; 404 ; 404
DELETE /a/b|| ; 404
DELETE /here/here|| ; 404
DELETE /here/|| ; 404
DELETE //here|| ; 400 ; 404

GET /%2e%2e|| ; 400
HEAD /%2e%2e|| ; 400
DELETE /%2e%2e|| ; 400
PUT /%2e%2e|Content-Length: 3||abc ; 400
GET /..|| ; 400
PUT /.|Content-Length: 3||abc ; 400
GET /a%2Fb|| ; 404 ; 400
PUT /a%2Fb|Content-Length: 3||abc ; 200 a/b=abc ; 400
GET /a%2F%2Fb|| ; 400
PUT /a%2F..%2Fb|Content-Length: 3||abc ; 400
PUT /-%2Fb|Content-Length: 3||abc ; 400
GET /a%00|| ; 400
DELETE /here%00|| ; 400
PUT /here%00|Content-Length: 3||abc ; 400
GET /%zz|| ; 400
PUT /%2|Content-Length: 3||abc ; 400
GET /%c0%ae|| ; 400
GET /.data-server|| ; 400
PUT /.data-server|Content-Length: 3||abc ; 400
DELETE /.data-server|| ; 400
HEAD /.data-server-2|| ; 400

POST /here|Content-Length: 3||abc ; 405 ; 404
POST /|| ; 405 ; 404
PATCH /here|Content-Length: 3||abc ; 405 ; 404
GET /-/upload|| ; 405 ; 404
HEAD /-/upload|| ; 405 ; 404
PUT /-/upload|| ; 405 ; 204 ; 405
DELETE /-/upload|| ; 405 ; 404 ; 405
PATCH /-/upload|| ; 405 ; 404
GET /-/upload/|| ; 404
GET /-/uploadx|| ; 404
POST /-/upload|| ; 415 ; 404 ; 403
OPTIONS /-/upload|| ; 204 ; 404
OPTIONS /here|| ; 204 ; 404
OPTIONS *|| ; 204 ; 404
OPTIONS /|| ; 204 ; 404
OPTIONS http://example.org/here|| ; 204 ; 404
OPTIONS http://example.org|| ; 204 ; 404
OPTIONS example.org:80|| ; 400
CONNECT example.org:80|| ; 405 ; 404
CONNECT /here|| ; 405 ; 404
TRACE /here|| ; 405 ; 404
MKCOL /new|Content-Length: 3||abc ; 415 ; 404
MKCOL /%zz/|| ; 400 ; 404
PROPFIND /here|| ; 405 ; 404
get /here|| ; 405 ; 404
put /new|Content-Length: 3||abc ; 405 ; 404

GET /here?query|| ; 200
GET http://example.org/here|| ; 200
GET HTTP://user@example.org:81/here?q|| ; 200
GET https://example.org/here|| ; 200
GET http://example.org|| ; 200 ; 404
GET http://example.org/|| ; 200 ; 404
GET http://example.org/%2e%2e|| ; 400
GET example.org:80|| ; 400
GET here|| ; 400
GET *|| ; 400
GET || ; 400
DELETE *|| ; 400
PUT example.org:80|| ; 400

GET /here HTTP/1.1|Host: localhost:8080|| ; 200
GET /here HTTP/1.1|Host: 127.0.0.1|| ; 200
GET /here HTTP/1.1|Host: [::1]|| ; 200
GET /here HTTP/1.1|Host: [::1]:80|| ; 200
GET /here HTTP/1.1|Host: a-b.example.org.|| ; 200
GET /here HTTP/1.1|Host: x:|| ; 200
GET /here HTTP/1.1|Host: a:b|| ; 400
GET /here HTTP/1.1|Host: a:80:80|| ; 400
GET /here HTTP/1.1|Host: [::1|| ; 400
GET /here HTTP/1.1|Host: [::1]x|| ; 400
GET /here HTTP/1.1|Host: user@host|| ; 400
GET /here HTTP/1.1|Host: a?b|| ; 400
GET /here HTTP/1.1|Host: a#b|| ; 400
GET /here HTTP/1.1|Host: \u{e9}|| ; 400
GET /here HTTP/1.1|| ; 400
GET /here HTTP/1.1|Host: a|Host: a|| ; 400
GET /here HTTP/1.1|Host: a b|| ; 400
GET /here HTTP/1.1|Host: a/b|| ; 400
DELETE /here HTTP/1.1|| ; 400
PUT /new HTTP/1.1|Content-Length: 3||abc ; 400
PUT /new HTTP/1.1|Host: a|Host: b|Content-Length: 3||abc ; 400
PUT /new|Transfer-Encoding: gzip, chunked||3|abc|0|| ; 501
PUT /new|Transfer-Encoding: chunked|Transfer-Encoding: chunked||3|abc|0|| ; 501
PUT /new|Content-Length: 3|Content-Length: 4||abc ; 400
PUT /new|Content-Length: +3||abc ; 400
PUT /new|Content-Length: 9223372036854775808|| ; 413
PUT /new|Content-Length: 18446744073709551613|| ; 413
PUT /new|Expect: 200-ok|Content-Length: 3||abc ; 417
GET /here|Expect: nothing|| ; 417
";

#[test]
fn every_row_of_the_table_in_each_mode() {
    let mut faults = Vec::new();
    let modes = [
        "",
        "--compat",
        "--read-only",
        "--discard",
        "--discard --compat",
    ];
    let modes = modes.map(words);
    let modes: Vec<&[&str]> = modes.iter().map(Vec::as_slice).collect();
    for args in taken(&modes) {
        let server = TestServer::start(args);
        for [request, default, compat, read_only] in table(ROWS) {
            let cell = match args {
                ["--read-only"] => refused(default, read_only, request),
                [.., "--compat"] if !compat.is_empty() => compat,
                _ => default,
            };
            let (status, mut values) = expected(cell);
            if args.contains(&"--discard") && request.starts_with("PUT ") {
                values = expected("200").1;
            }
            let answer = perform(&server, request);
            let stored = server.dir.values();
            let mut found = misshapen(&answer, request, args);
            // Where nothing is stored, nothing is in the way.
            let is_free = args.contains(&"--discard") && cell == "409";
            if answer.status != if is_free { 200 } else { status } {
                found.push("status");
            }
            if stored != values {
                found.push("directory");
            }
            if !found.is_empty() {
                let told = format!("{found:?} with {stored:?}, {answer:?}");
                faults.push(format!("{args:?} {request}: {told}"));
            }
            if !args.contains(&"--read-only") {
                server.dir.assert_nothing_staged();
            }
        }
    }
    assert!(faults.is_empty(), "not kept:\n{}", faults.join("\n"));
}

/// Sends the request on a connection of its own to a directory that holds only `here`.
fn perform(server: &TestServer, request: &str) -> Response {
    server.dir.clear();
    server.dir.place("here", "old");
    server.connect().ask(on_the_wire(request))
}

fn on_the_wire(request: &str) -> String {
    let (first, rest) = request.split_once('|').expect("a line end");
    let has_version = first.contains(" HTTP/");
    let version = if has_version {
        ""
    } else {
        " HTTP/1.1\r\nHost: t"
    };
    format!("{first}{version}\r\n{}", rest.replace('|', "\r\n"))
}

/// The cell of a request where nothing may be written: unless its own cell says else, a write that is no bad request is
/// refused.
fn refused<'a>(default: &'a str, read_only: &'a str, request: &str) -> &'a str {
    let is_write = ["PUT ", "DELETE ", "MKCOL "]
        .iter()
        .any(|write| request.starts_with(write));
    match default {
        _ if !read_only.is_empty() => read_only,
        "400" | "417" | "501" => default,
        _ if is_write => "403",
        _ => default,
    }
}

/// The status of a cell, and what the directory has then.
fn expected(cell: &str) -> (u16, BTreeMap<Vec<u8>, Vec<u8>>) {
    let mut values = BTreeMap::from([(b"here".to_vec(), b"old".to_vec())]);
    let (status, after) = cell.split_once(' ').unwrap_or((cell, ""));
    match after.split_once('=') {
        Some((key, value)) => drop(values.insert(key.into(), value.into())),
        None if after == "gone" => values.clear(),
        None => assert_eq!(after, ""),
    }
    (status.parse().expect("a status"), values)
}

/// The faults in the headers and the body that every answer has, whatever its status.
fn misshapen(answer: &Response, request: &str, args: &[&str]) -> Vec<&'static str> {
    if answer.status == 400 && answer.closes() && answer.length() == 0 {
        return vec![]; // hyper's own answer to a head it could not parse
    }
    let is = |name: &str, value: &str| {
        let all = answer.header(name);
        all.is_some_and(|found| found.starts_with(value))
    };
    let method = request.split(' ').next().unwrap_or_default();
    let target = request.split([' ', '|', '?']).nth(1).unwrap_or_default();
    let value_of_here = method == "GET" && target.ends_with("/here");
    let methods = match (request.contains(" /-/upload|"), args) {
        (true, ["--read-only"]) => "OPTIONS",
        (true, _) => "POST, OPTIONS",
        (false, ["--read-only"]) => "GET, HEAD, OPTIONS",
        (false, _) => "GET, HEAD, PUT, DELETE, MOVE, COPY, MKCOL, OPTIONS",
    };
    let mut faults = Vec::new();
    let mut check = |what, is_kept: bool| faults.extend((!is_kept).then_some(what));
    check("no Server", answer.header("server").is_none());
    check("Date", answer.header("date").is_some_and(is_now));
    check("nosniff", is("x-content-type-options", "nosniff"));
    let for_others = answer.header("access-control-allow-methods");
    check("nothing for pages of others", for_others.is_none());
    match answer.status {
        405 => check("Allow", is("allow", methods)),
        204 => {
            check("Allow", method == "PUT" || is("allow", methods));
            check(
                "no length of no body",
                answer.header("content-length").is_none(),
            );
        }
        200 if value_of_here => {
            check("value", answer.body == b"old");
            check("Accept-Ranges", is("accept-ranges", "bytes"));
            let octets = is("content-type", "application/octet-stream");
            check("Content-Type of a value", octets);
            check("ETag", is("etag", "\""));
            check("Last-Modified", is("last-modified", ""));
        }
        200 if matches!(method, "PUT" | "DELETE") => check("an empty body", answer.length() == 0),
        400 if request.contains("|Host:") => check("the end", answer.closes() || is_http2()),
        _ => {}
    }
    if answer.status >= 400 && method != "HEAD" {
        check("one line of reason", is_one_line(&answer.body));
        check("Content-Type of a reason", is("content-type", "text/plain"));
    }
    faults
}

/// Whether this date is within a minute of now.
fn is_now(date: &str) -> bool {
    let off = SystemTime::now().duration_since(httpdate::parse_http_date(date).expect("a date"));
    off.unwrap_or_else(|early| early.duration()) < Duration::from_secs(60)
}

fn is_one_line(body: &[u8]) -> bool {
    let end = body.iter().position(|byte| *byte == b'\n');
    body.len() > 1 && end == Some(body.len() - 1) && std::str::from_utf8(body).is_ok()
}
