//! curl over HTTP/2, in the clear and with TLS.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::server;
use crate::support::{Authority, Launch, TestServer, is_on_path, left_out, pattern};

/// More than a window of a stream, and of the connection.
const LONG: usize = 8_000_000;

/// How curl comes to speak HTTP/2 with a server.
struct Way {
    server: TestServer,
    scheme: &'static str,
    options: Vec<String>,
    _authority: Option<Authority>,
}

impl Way {
    /// By prior knowledge, and by ALPN; none where there is no curl that can.
    fn all(args: &[&str]) -> Vec<Self> {
        let version = Command::new("curl").arg("--version").output();
        let can = version.is_ok_and(|out| String::from_utf8_lossy(&out.stdout).contains("HTTP2"));
        if !can {
            assert!(!is_on_path("curl"), "a curl without HTTP/2");
            left_out("curl over HTTP/2", "there is no curl");
            return Vec::new();
        }
        let authority = Authority::new();
        let own = authority.issue("own", &["127.0.0.1"]);
        let sealed = Launch::new(&[args, &own.options()].concat()).listen("https://127.0.0.1:0");
        let ca = authority.file().to_str().expect("text").to_owned();
        vec![
            Self {
                server: server(args),
                scheme: "http",
                options: vec!["--http2-prior-knowledge".to_owned()],
                _authority: None,
            },
            Self {
                server: sealed.start(),
                scheme: "https",
                options: vec!["--http2".to_owned(), "--cacert".to_owned(), ca],
                _authority: Some(authority),
            },
        ]
    }

    /// Runs curl in `dir` for this path: the version and the status of its answer, and what it prints.
    #[track_caller]
    fn curl(&self, dir: &Path, path: &str, words: &[&str]) -> (String, Vec<u8>) {
        let out = Command::new("curl")
            .args(["--silent", "--show-error", "--noproxy", "*"])
            .args(["--max-time", "60"])
            .args(["--write-out", "%{stderr}%{http_version} %{http_code}"])
            .args(&self.options)
            .args(words)
            .arg(format!("{}://{}/{path}", self.scheme, self.server.addr))
            .current_dir(dir)
            .output()
            .expect("curl runs");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{words:?} {path}: {said}");
        (said, out.stdout)
    }

    #[track_caller]
    fn expect(&self, status: u16, path: &str, words: &[&str]) -> Vec<u8> {
        let dir = TempDir::new().expect("a directory");
        let (said, body) = self.curl(dir.path(), path, words);
        assert_eq!(said, format!("2 {status}"), "{words:?} {path}");
        body
    }
}

#[test]
fn values_are_written_read_and_removed() {
    for way in Way::all(&[]) {
        let dir = TempDir::new().expect("a directory");
        for (n, len) in [0, 1, 5_000, 200_000, LONG].into_iter().enumerate() {
            let value = pattern(n as u64 + 1, len);
            std::fs::write(dir.path().join("value"), &value).expect("a file");
            let (said, _) = way.curl(dir.path(), "k", &["--upload-file", "value"]);
            assert_eq!(said, "2 200", "{len}");
            assert!(way.expect(200, "k", &[]) == value, "{len}");
        }
        let head = String::from_utf8(way.expect(200, "k", &["--head"])).expect("text");
        assert!(head.contains("content-length: 8000000"), "{head}");
        let value = pattern(5, LONG);
        let range = way.expect(206, "k", &["--range", "1000000-1999999"]);
        assert!(range == value[1_000_000..2_000_000]);
        way.expect(416, "k", &["--range", "8000000-"]);
        way.expect(200, "k", &["--request", "DELETE"]);
        way.expect(404, "k", &[]);
        way.expect(404, "k", &["--head"]);
    }
}
