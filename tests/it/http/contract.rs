//! Proves the table of statuses in docs/http.md, row by row over a real socket, in both modes. Each row has the answer and
//! the content of the directory afterwards.

use std::collections::BTreeMap;

use crate::support::{Response, TestServer, taken};

/// The content of the directory after the request. Before, it held only `here`, with the value `old`.
#[derive(Clone, Copy)]
enum After {
    Same,
    Gone,
    Also(&'static str, &'static str),
}
use After::{Also, Gone, Same};

/// A request, with `|` for each line end; ` HTTP/1.1` and a Host are added to a first line without a version.
struct Row {
    request: &'static str,
    default: (u16, After),
    compat: (u16, After),
}

const fn both(request: &'static str, status: u16, after: After) -> Row {
    Row {
        request,
        default: (status, after),
        compat: (status, after),
    }
}

const fn differ(request: &'static str, default: (u16, After), compat: (u16, After)) -> Row {
    Row {
        request,
        default,
        compat,
    }
}

const READS: &[Row] = &[
    both("GET /here||", 200, Same),
    both("HEAD /here||", 200, Same),
    both("GET /here HTTP/1.0||", 200, Same),
    both("GET /gone||", 404, Same),
    both("HEAD /gone||", 404, Same),
    both("GET /a/b||", 404, Same),
    both("HEAD /a/b||", 404, Same),
    differ("GET /here%2Fhere||", (404, Same), (400, Same)),
    differ("GET /here/||", (200, Same), (404, Same)),
    differ("GET /a/||", (200, Same), (404, Same)),
    differ("GET //here||", (400, Same), (404, Same)),
    differ("GET /a//b||", (400, Same), (404, Same)),
    differ("GET /a//||", (400, Same), (404, Same)),
    both("GET /here/here||", 404, Same),
    differ("GET /||", (200, Same), (404, Same)),
    differ("HEAD /||", (200, Same), (404, Same)),
];

const WRITES: &[Row] = &[
    both("PUT /new|Content-Length: 3||abc", 200, Also("new", "abc")),
    both("PUT /here|Content-Length: 3||abc", 200, Also("here", "abc")),
    both(
        "PUT /new HTTP/1.0|Content-Length: 3||abc",
        200,
        Also("new", "abc"),
    ),
    differ(
        "PUT /new|Content-Length: 0||",
        (200, Also("new", "")),
        (304, Same),
    ),
    differ(
        "PUT /here|Content-Length: 0||",
        (200, Also("here", "")),
        (304, Same),
    ),
    differ("PUT /new||", (200, Also("new", "")), (304, Same)),
    differ("PUT /here||", (200, Also("here", "")), (304, Same)),
    differ(
        "PUT /new|Transfer-Encoding: chunked||3|abc|0||",
        (200, Also("new", "abc")),
        (304, Same),
    ),
    differ(
        "PUT /here|Transfer-Encoding: chunked||3|abc|0||",
        (200, Also("here", "abc")),
        (304, Same),
    ),
    differ(
        "PUT /new|Transfer-Encoding: chunked||0||",
        (200, Also("new", "")),
        (304, Same),
    ),
    both(
        "PUT /new|Content-Encoding: gzip|Content-Length: 3||abc",
        200,
        Also("new", "abc"),
    ),
    differ(
        "PUT /new|Content-Encoding: aws-chunked|Content-Length: 3||abc",
        (415, Same),
        (200, Also("new", "abc")),
    ),
    differ(
        "PUT /new|Content-Language: not a tag|Content-Length: 3||abc",
        (400, Same),
        (200, Also("new", "abc")),
    ),
    both(
        "PUT /new|Content-Encoding: identity|Content-Length: 3||abc",
        200,
        Also("new", "abc"),
    ),
    differ("PUT /new HTTP/1.0||", (411, Same), (304, Same)),
    differ("PUT /here HTTP/1.0||", (411, Same), (304, Same)),
    differ("PUT /|Content-Length: 3||abc", (400, Same), (204, Same)),
    differ(
        "PUT /a/b|Content-Length: 3||abc",
        (200, Also("a/b", "abc")),
        (204, Same),
    ),
    differ(
        "PUT /here/b|Content-Length: 3||abc",
        (409, Same),
        (204, Same),
    ),
    differ("PUT /a/|Content-Length: 3||abc", (400, Same), (204, Same)),
    differ("PUT //a|Content-Length: 3||abc", (400, Same), (204, Same)),
    differ(
        "PUT /here/|Content-Length: 3||abc",
        (400, Same),
        (204, Same),
    ),
    differ(
        "PUT /here/../here|Content-Length: 3||abc",
        (400, Same),
        (204, Same),
    ),
    both("DELETE /here||", 200, Gone),
    both("DELETE /gone||", 404, Same),
    both("DELETE /||", 404, Same),
    both("DELETE /a/b||", 404, Same),
    both("DELETE /here/here||", 404, Same),
    differ("DELETE /here/||", (400, Same), (404, Same)),
    differ("DELETE //here||", (400, Same), (404, Same)),
];

const BAD_KEYS: &[Row] = &[
    both("GET /%2e%2e||", 400, Same),
    both("HEAD /%2e%2e||", 400, Same),
    both("DELETE /%2e%2e||", 400, Same),
    both("PUT /%2e%2e|Content-Length: 3||abc", 400, Same),
    both("GET /..||", 400, Same),
    both("PUT /.|Content-Length: 3||abc", 400, Same),
    differ("GET /a%2Fb||", (404, Same), (400, Same)),
    differ(
        "PUT /a%2Fb|Content-Length: 3||abc",
        (200, Also("a/b", "abc")),
        (400, Same),
    ),
    both("GET /a%2F%2Fb||", 400, Same),
    both("PUT /a%2F..%2Fb|Content-Length: 3||abc", 400, Same),
    both("PUT /-%2Fb|Content-Length: 3||abc", 400, Same),
    both("GET /a%00||", 400, Same),
    both("DELETE /here%00||", 400, Same),
    both("PUT /here%00|Content-Length: 3||abc", 400, Same),
    both("GET /%zz||", 400, Same),
    both("PUT /%2|Content-Length: 3||abc", 400, Same),
    both("GET /%c0%ae||", 400, Same),
    both("GET /.data-server||", 400, Same),
    both("PUT /.data-server|Content-Length: 3||abc", 400, Same),
    both("DELETE /.data-server||", 400, Same),
    both("HEAD /.data-server-2||", 400, Same),
];

const METHODS: &[Row] = &[
    differ(
        "POST /here|Content-Length: 3||abc",
        (405, Same),
        (404, Same),
    ),
    differ("POST /||", (405, Same), (404, Same)),
    differ(
        "PATCH /here|Content-Length: 3||abc",
        (405, Same),
        (404, Same),
    ),
    differ("OPTIONS /here||", (204, Same), (404, Same)),
    differ("OPTIONS *||", (204, Same), (404, Same)),
    differ("TRACE /here||", (405, Same), (404, Same)),
    differ("MKCOL /new||", (405, Same), (404, Same)),
    differ("put /new|Content-Length: 3||abc", (405, Same), (404, Same)),
];

const PROTOCOL: &[Row] = &[
    both("GET /here HTTP/1.1||", 400, Same),
    both("GET /here HTTP/1.1|Host: a|Host: a||", 400, Same),
    both("GET /here HTTP/1.1|Host: a b||", 400, Same),
    both("GET /here HTTP/1.1|Host: a/b||", 400, Same),
    both("DELETE /here HTTP/1.1||", 400, Same),
    both("PUT /new HTTP/1.1|Content-Length: 3||abc", 400, Same),
    both(
        "PUT /new HTTP/1.1|Host: a|Host: b|Content-Length: 3||abc",
        400,
        Same,
    ),
    both(
        "PUT /new|Transfer-Encoding: gzip, chunked||3|abc|0||",
        501,
        Same,
    ),
    both(
        "PUT /new|Transfer-Encoding: chunked|Transfer-Encoding: chunked||3|abc|0||",
        501,
        Same,
    ),
    both(
        "PUT /new|Content-Length: 3|Content-Length: 4||abc",
        400,
        Same,
    ),
    both("PUT /new|Content-Length: +3||abc", 400, Same),
    both("PUT /new|Expect: 200-ok|Content-Length: 3||abc", 417, Same),
    both("GET /here|Expect: nothing||", 417, Same),
];

#[test]
fn every_row_of_the_table_in_both_modes() {
    let mut faults = Vec::new();
    for args in taken(&[&[], &["--compat"]]) {
        let compat = args.contains(&"--compat");
        let server = TestServer::start(args);
        for row in [READS, WRITES, BAD_KEYS, METHODS, PROTOCOL]
            .into_iter()
            .flatten()
        {
            let (status, after) = if compat { row.compat } else { row.default };
            let answer = perform(&server, row.request);
            let stored = server.dir.values();
            let mut found = misshapen(&answer, row.request);
            if answer.status != status {
                found.push("status");
            }
            if stored != expected(after) {
                found.push("directory");
            }
            if !found.is_empty() {
                faults.push(format!(
                    "{args:?} {}: {found:?} with {stored:?}, {answer:?}",
                    row.request
                ));
            }
            server.dir.assert_nothing_staged();
        }
    }
    assert!(
        faults.is_empty(),
        "{} rows are not kept:\n{}",
        faults.len(),
        faults.join("\n")
    );
}

/// Sends the request on a connection of its own to a directory that holds only `here`.
fn perform(server: &TestServer, request: &str) -> Response {
    server.dir.clear();
    server.dir.place("here", "old");
    server.connect().ask(on_the_wire(request))
}

fn on_the_wire(request: &str) -> String {
    let (first, rest) = request.split_once('|').expect("a line end");
    let version = if first.contains(" HTTP/") {
        ""
    } else {
        " HTTP/1.1\r\nHost: t"
    };
    format!("{first}{version}\r\n{}", rest.replace('|', "\r\n"))
}

fn expected(after: After) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut values = BTreeMap::from([(b"here".to_vec(), b"old".to_vec())]);
    match after {
        Same => {}
        Gone => values.clear(),
        Also(key, value) => {
            values.insert(key.into(), value.into());
        }
    }
    values
}

/// The faults in the headers and the body that every answer has, whatever its status.
fn misshapen(answer: &Response, request: &str) -> Vec<&'static str> {
    if answer.status == 400 && answer.closes() && answer.length() == 0 {
        return vec![]; // hyper's own answer to a head it could not parse
    }
    let is = |name: &str, value: &str| {
        answer
            .header(name)
            .is_some_and(|found| found.starts_with(value))
    };
    let method = request.split(' ').next().unwrap_or_default();
    let value_of_here = answer.status == 200
        && request.starts_with("GET /here")
        && !request.starts_with("GET /here/");
    let has_reason = answer.status >= 400 && method != "HEAD";
    let checks = [
        ("Server", is("server", "data-server")),
        ("Date", is("date", "")),
        (
            "Allow",
            !matches!(answer.status, 405 | 204)
                || answer.status == 204 && method == "PUT"
                || is("allow", "GET, HEAD, PUT, DELETE, OPTIONS"),
        ),
        ("nosniff", is("x-content-type-options", "nosniff")),
        (
            "Accept-Ranges",
            !value_of_here || is("accept-ranges", "bytes"),
        ),
        ("value", !value_of_here || answer.body == b"old"),
        (
            "Content-Type of a value",
            !value_of_here || is("content-type", "application/octet-stream"),
        ),
        ("ETag", !value_of_here || is("etag", "\"")),
        ("Last-Modified", !value_of_here || is("last-modified", "")),
        (
            "an empty body",
            answer.status != 200 || !matches!(method, "PUT" | "DELETE") || answer.length() == 0,
        ),
        (
            "one line of reason",
            !has_reason || is_one_line(&answer.body),
        ),
        (
            "Content-Type of a reason",
            !has_reason || is("content-type", "text/plain"),
        ),
    ];
    checks
        .into_iter()
        .filter(|(_, kept)| !kept)
        .map(|(what, _)| what)
        .collect()
}

fn is_one_line(body: &[u8]) -> bool {
    let end = body.iter().position(|byte| *byte == b'\n');
    body.len() > 1 && end == Some(body.len() - 1) && std::str::from_utf8(body).is_ok()
}
