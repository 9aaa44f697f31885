//! A store that is reached by https: its certificate is proved, or the reason names what helps.

use crate::support::prelude::*;
use crate::support::s3::VersityGw;

/// A server over `store`, by the gateway that shows the certificate, with `args`.
fn start(store: &VersityGw, endpoint: &str, args: &[&str]) -> Result<TestServer, Ended> {
    let bucket = store.bucket.at(&[]);
    let args = [&["--s3-endpoint", endpoint, "--s3-timeout", "5s"], args].concat();
    Launch::new(&args).on_bucket(&bucket).start_or_end()
}

#[test]
fn values_come_and_go_by_https() {
    let mut store = needed!(VersityGw::start(1));
    let certificates = Certificates::new();
    let endpoint = format!("https://{}", store.secure(&certificates));
    let authority = certificates.authority();
    let authority = authority.to_str().expect("text");
    let server = start(&store, &endpoint, &["--s3-ca", authority]);
    let server = server.unwrap_or_else(|ended| panic!("{}", ended.stderr));
    let large = pattern(7, 40_000_000);
    for (key, value) in [("small", &b"value"[..]), ("large", &large), ("empty", b"")] {
        server.store(key, value);
        assert!(server.get(key).body == value, "{key}");
        let is_right = store.bucket.read(key).as_deref() == Some(value);
        assert!(is_right, "{key}, past the server");
    }
    let page = server
        .connect()
        .ask("GET / HTTP/1.1\r\nHost: t\r\nAccept: application/json\r\n\r\n");
    let page = page.json();
    let keys = page["keys"].as_array().expect("keys");
    let keys: Vec<_> = keys
        .iter()
        .map(|key| (key["key"].as_str(), key["size"].as_u64()))
        .collect();
    let expected = [("empty", 0), ("large", 40_000_000), ("small", 5)];
    assert_eq!(keys, expected.map(|(key, size)| (Some(key), Some(size))));
}

#[test]
fn a_certificate_that_nothing_proves_is_refused_with_what_helps() {
    let mut store = needed!(VersityGw::start(1));
    let (certificates, others) = (Certificates::new(), Certificates::new());
    let addr = store.secure(&certificates);
    let (own, wrong) = (certificates.authority(), others.authority());
    let [own, wrong] = [&own, &wrong].map(|file| file.to_str().expect("text"));
    let advice = "; --s3-ca FILE names the certificates that it may be issued by";
    let by_address = format!("https://{addr}");
    let by_name = format!("https://localhost:{}", addr.port());
    for (endpoint, args, reason) in [
        (&by_address, &[][..], advice),
        (&by_address, &["--s3-ca", wrong], advice),
        (
            &by_name,
            &["--s3-ca", own],
            "not valid for name \"localhost\"",
        ),
    ] {
        let Err(ended) = start(&store, endpoint, args) else {
            panic!("it trusts {endpoint} with {args:?}");
        };
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        let said = ended
            .stderr
            .lines()
            .find(|line| line.contains("cannot use the store"));
        let is_right = said.is_some_and(|line| line.contains(reason));
        assert!(is_right, "{}", ended.stderr);
    }
}

#[test]
fn a_certificate_that_stands_in_the_file_itself_is_trusted_for_its_names() {
    let mut store = needed!(VersityGw::start(1));
    let certificates = Certificates::self_signed();
    let addr = store.secure(&certificates);
    let own = certificates.authority();
    let own = ["--s3-ca", own.to_str().expect("text")];
    let server = start(&store, &format!("https://{addr}"), &own);
    let server = server.unwrap_or_else(|ended| panic!("{}", ended.stderr));
    server.store("key", "value");
    for (endpoint, args, reason) in [
        (
            format!("https://localhost:{}", addr.port()),
            &own[..],
            "not valid for name",
        ),
        (format!("https://{addr}"), &[], "; --s3-ca FILE names"),
    ] {
        let Err(ended) = start(&store, &endpoint, args) else {
            panic!("it trusts {endpoint} with {args:?}");
        };
        assert!(ended.stderr.contains(reason), "{}", ended.stderr);
    }
}
