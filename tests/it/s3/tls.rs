//! A store that is reached by https: its certificate is proved, or the reason names what helps.

use crate::support::prelude::*;
use crate::support::s3::VersityGw;

/// A server over `store`, by the gateway that shows the certificate, with `args`.
fn launch(store: &VersityGw, endpoint: &str, args: &[&str]) -> Launch {
    let bucket = store.bucket.at(&[]);
    let args = [&["--s3-endpoint", endpoint, "--s3-timeout", "5s"], args].concat();
    Launch::new(&args).on_bucket(&bucket)
}

#[test]
fn values_come_and_go_by_https() {
    let mut store = needed!(VersityGw::start(1));
    let certificates = Certificates::new();
    let endpoint = format!("https://{}", store.secure(&certificates));
    let authority = certificates.authority();
    let server = launch(&store, &endpoint, &["--s3-ca", text(&authority)]).start();
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
        let ended = launch(&store, endpoint, args).run();
        ended.says(1, "cannot use the store");
        ended.says(1, reason);
    }
}

#[test]
fn a_certificate_that_stands_in_the_file_itself_is_trusted_for_its_names() {
    let mut store = needed!(VersityGw::start(1));
    let certificates = Certificates::self_signed();
    let addr = store.secure(&certificates);
    let own = certificates.authority();
    let own = ["--s3-ca", own.to_str().expect("text")];
    let server = launch(&store, &format!("https://{addr}"), &own).start();
    server.store("key", "value");
    let by_name = format!("https://localhost:{}", addr.port());
    let by_address = format!("https://{addr}");
    for (endpoint, args, reason) in [
        (by_name, &own[..], "not valid for name"),
        (by_address, &[], "; --s3-ca FILE names"),
    ] {
        launch(&store, &endpoint, args).run().says(1, reason);
    }
}
