//! curl over HTTP/2, in the clear and with TLS.

use super::server;
use crate::support::prelude::*;

/// More than a window of a stream, and of the connection.
const LONG: usize = 8_000_000;

#[test]
fn values_are_written_read_and_removed() {
    only_where!(is_on_path("curl"), "curl over HTTP/2", "there is no curl");
    let authority = Authority::new();
    let own = authority.issue("own", &["127.0.0.1"]);
    let sealed = Launch::new(&own.options()).listen("https://127.0.0.1:0");
    let ca = authority.file();
    let ca = ["--http2", "--cacert", ca.to_str().expect("text")];
    for (scheme, server, options) in [
        ("http", server(&[]), &["--http2-prior-knowledge"][..]),
        ("https", sealed.start(), &ca),
    ] {
        let dir = TempDir::new().expect("a directory");
        // The version and the status are those of its answer; what it prints.
        let curl = |status: u16, words: &[&str]| {
            let out = Command::new("curl")
                .args(["--silent", "--show-error", "--noproxy", "*"])
                .args(["--max-time", "60"])
                .args(["--write-out", "%{stderr}%{http_version} %{http_code}"])
                .args(options)
                .args(words)
                .arg(format!("{scheme}://{}/k", server.addr))
                .current_dir(dir.path())
                .output()
                .expect("curl runs");
            let said = String::from_utf8_lossy(&out.stderr);
            assert_eq!(said, format!("2 {status}"), "{scheme} {words:?}");
            out.stdout
        };
        for (seed, len) in (1..).zip([0, 1, 5_000, 200_000, LONG]) {
            let value = pattern(seed, len);
            fs::write(dir.path().join("value"), &value).expect("a file");
            curl(200, &["--upload-file", "value"]);
            assert!(curl(200, &[]) == value, "{len}");
        }
        let head = String::from_utf8(curl(200, &["--head"])).expect("text");
        assert!(head.contains("content-length: 8000000"), "{head}");
        let range = curl(206, &["--range", "1000000-1999999"]);
        assert!(range == pattern(5, LONG)[1_000_000..2_000_000]);
        curl(416, &["--range", "8000000-"]);
        curl(200, &["--request", "DELETE"]);
        curl(404, &[]);
        curl(404, &["--head"]);
    }
}
