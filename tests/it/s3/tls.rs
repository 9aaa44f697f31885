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
    let page = server.get("?format=json").json();
    let sizes = [0, 1, 2].map(|at| page["keys"][at]["size"].as_u64());
    assert_eq!(sizes, [Some(0), Some(40_000_000), Some(5)]);
}

/// Of an authority, and one that stands in the file itself.
#[test]
fn a_certificate_that_nothing_proves_is_refused_with_what_helps() {
    let others = Certificates::new();
    let wrong = others.authority();
    for certificates in [Certificates::new(), Certificates::self_signed()] {
        let mut store = needed!(VersityGw::start(1));
        let addr = store.secure(&certificates);
        let own = certificates.authority();
        let (own, wrong) = (["--s3-ca", text(&own)], ["--s3-ca", text(&wrong)]);
        let advice = "; --s3-ca FILE names the certificates that it may be issued by";
        let by_address = format!("https://{addr}");
        let by_name = format!("https://localhost:{}", addr.port());
        let foreign = "not valid for name \"localhost\"";
        for (endpoint, args, reason) in [
            (&by_address, &[][..], advice),
            (&by_address, &wrong, advice),
            (&by_name, &own, foreign),
        ] {
            let ended = launch(&store, endpoint, args).run();
            ended.says(1, "cannot use the store");
            ended.says(1, reason);
        }
        launch(&store, &by_address, &own).start().store("key", "v");
    }
}
