//! Certificates of this machine's loopback address, made by `openssl` for one test.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// An authority, and a certificate of 127.0.0.1 that it has issued.
pub struct Certificates {
    dir: TempDir,
}

impl Certificates {
    #[track_caller]
    pub fn new() -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        let authority = "-x509 -subj /CN=authority -keyout ca.key -out ca.pem";
        let own = "-x509 -subj /CN=store -CA ca.pem -CAkey ca.key -keyout own.key -out own.pem \
                   -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE";
        for what in [authority, own] {
            openssl(dir.path(), what);
        }
        Self { dir }
    }

    /// A certificate of 127.0.0.1 that has signed itself, as docs/tls.md makes one: it is its own authority.
    #[track_caller]
    pub fn self_signed() -> Self {
        let dir = TempDir::new().expect("a temporary directory");
        let own =
            "-x509 -subj /CN=store -keyout own.key -out ca.pem -addext subjectAltName=IP:127.0.0.1";
        openssl(dir.path(), own);
        std::fs::copy(dir.path().join("ca.pem"), dir.path().join("own.pem")).expect("a copy");
        Self { dir }
    }

    /// The certificate of the authority, in PEM.
    pub fn authority(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// The options that have a gateway show the certificate.
    pub(crate) fn options(&self) -> [OsString; 4] {
        let file = |name| self.dir.path().join(name).into_os_string();
        let [cert, key] = ["--cert", "--key"].map(OsString::from);
        [cert, file("own.pem"), key, file("own.key")]
    }
}

/// The status of this page, if it is there and proves itself by a certificate of this authority.
pub(crate) fn status_by_tls(url: &str, authority: &Path) -> Option<u16> {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--output", "/dev/null", "--noproxy", "*"]);
    curl.args(["--write-out", "%{http_code}", "--cacert"])
        .arg(authority);
    let printed = curl.arg(url).output().expect("curl runs").stdout;
    String::from_utf8(printed).ok()?.parse().ok()
}

impl Default for Certificates {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

#[track_caller]
pub(crate) fn openssl(dir: &Path, what: &str) {
    let words = "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    let mut openssl = Command::new("openssl");
    openssl.args(words.split(' ')).args(what.split_whitespace());
    let made = openssl.current_dir(dir).output().expect("openssl runs");
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "openssl req {what}: {said}");
}
