//! Buckets in the name of the host (`--s3-host`).

use crate::support::policy::{rule, subject, write_policy};
use crate::support::prelude::*;
use crate::support::s3::{Keys, Unsigned};

/// The hosts that a request may name, and the key whose value it gets by the path `/b/k`.
const HOSTS: &str = "
    s3.example ; b/k
    s3.example:8333 ; b/k
    S3.EXAMPLE ; b/k
    b.s3.example ; b/b/k
    b.s3.example:8333 ; b/b/k
    B.S3.Example:1 ; b/b/k
    a.b.s3.example ; a.b/b/k
    b.other.example ; b/b/k
    bs3.example ; b/k
    .s3.example ; b/k
    s3.example.org ; b/k
    [::1] ; b/k
    [::1]:8333 ; b/k
    127.0.0.1:8333 ; b/k";

fn launch(dir: &DataDir, args: &[&str]) -> TestServer {
    for key in ["b/k", "b/b/k", "a.b/b/k"] {
        dir.place(key, key);
    }
    let hosts = ["--s3-host", "s3.example,other.example"];
    let launch = Launch::new(&[args, &hosts].concat());
    launch.listen("s3+http://127.0.0.1:0").on(dir).start()
}

#[test]
fn a_host_names_a_bucket() {
    directory_only!("buckets");
    let server = launch(&DataDir::temporary(), &[]);
    for [host, key] in table(HOSTS) {
        let head = format!("GET /b/k HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let answer = server.connect().ask(head);
        assert_eq!((answer.status, &*answer.text()), (200, key), "{host}");
    }
    let ask = |method: &str, target: &str, lines: &str| {
        let head = format!("{method} {target} HTTP/1.1\r\n{lines}Content-Length: 0\r\n\r\n");
        server.connect().ask(head)
    };
    let of = |name: &str| format!("Host: {name}.s3.example\r\n");
    assert!(
        ask("GET", "/?list-type=2", &of("b"))
            .text()
            .contains("<Key>b/k</Key>")
    );
    assert!(
        ask("GET", "/", "Host: s3.example\r\n")
            .text()
            .contains("<Name>b</Name>")
    );
    assert_eq!(ask("PUT", "/", &of("new")).status, 200);
    assert!(server.dir.file("new").is_dir());
    assert_eq!(ask("PUT", "/d/", &of("new")).status, 200);
    assert!(server.dir.file("new/d").is_dir());
    assert_eq!(ask("GET", "/k", &of("none")).status, 404);
    assert_eq!(ask("GET", "/../b/k", &of("new")).status, 400);
}

#[test]
fn a_signature_is_over_the_host_that_names_the_bucket() {
    directory_only!("buckets");
    let dir = DataDir::temporary();
    let secret = "planted-secret-of-ann-0123456789";
    let policy = [
        subject("ann"),
        format!("s3-key = \"ANN\"\ns3-secret = \"{secret}\"\n"),
        rule("ann", "b/", &["read"]),
    ];
    let path = write_policy(&dir, &policy.concat());
    let server = launch(&dir, &["--access", &path]);
    let ask = |signed: &str, sent: &str| {
        let of = Unsigned {
            method: "GET",
            region: "eu-north-7",
            path: "/b/k",
            query: "",
            lines: &format!("Host: {signed}\r\n"),
            payload: "UNSIGNED-PAYLOAD",
            time: SystemTime::now(),
        };
        let lines = Keys::new("ANN", secret).sign(&of);
        let head = format!("GET /b/k HTTP/1.1\r\nHost: {sent}\r\n{lines}\r\n");
        let answer = server.connect().ask(head);
        (answer.status, answer.text())
    };
    let host = "b.s3.example:8333";
    assert_eq!(ask(host, host), (200, "b/b/k".to_owned()));
    assert_eq!(ask("s3.example", "s3.example"), (200, "b/k".to_owned()));
    // Signed for one bucket, and sent to another; a bucket without a right.
    assert_eq!(ask("s3.example", host).0, 403);
    assert_eq!(ask(host, "b.s3.example").0, 403);
    assert_eq!(ask("a.b.s3.example", "a.b.s3.example").0, 403);
}
