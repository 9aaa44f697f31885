//! Credentials: from a file that another program renews, under load; and shown nowhere.

use std::sync::atomic::AtomicU32;

use super::send;
use crate::support::prelude::*;
use crate::support::s3::{Keys, Stub};

const SECRET: &str = "a-very-secret-key-of-this-test";

#[test]
fn keys_are_renewed_under_load_without_a_failed_request() {
    let stub = Stub::start();
    let [first, second] =
        ["first", "second"].map(|id| Keys::new(id, SECRET).with_token("session-token-of-the-test"));
    stub.accept(&[first.clone(), stub.bucket.keys.clone()]);
    let dir = TempDir::new().expect("a directory");
    let token = dir.path().join("token");
    fs::write(&token, "who I am").expect("a file");
    // The service that gives the keys, played by a server of values: they are good for some seconds only.
    let service = crate::support::TestServer::start(&[]);
    let give = |keys: &Keys, lasts: u64| {
        let end = humantime::format_rfc3339_seconds(
            std::time::SystemTime::now() + std::time::Duration::from_secs(lasts),
        );
        let given = serde_json::json!({
            "AccessKeyId": keys.id,
            "SecretAccessKey": keys.secret,
            "Token": keys.token,
            "Expiration": end.to_string(),
        });
        service.store("keys", given.to_string());
    };
    give(&first, 6);
    let mut bucket = stub.bucket.clone();
    bucket.keys = first.clone();
    let mut server = Launch::new(&["--s3-conditions", "off", "--access-log"])
        .on_bucket(&bucket)
        .env("AWS_ACCESS_KEY_ID", "")
        .env("AWS_SECRET_ACCESS_KEY", "")
        .env("AWS_SESSION_TOKEN", "")
        .env("HOME", dir.path())
        .env(
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            format!("http://{}/keys", service.addr),
        )
        .env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", &token)
        .start();
    let (done, asked) = (Done::default(), AtomicU32::new(0));
    thread::scope(|scope| {
        let _done = done.when_dropped();
        for client in 0..4 {
            let (server, done, asked) = (&server, &done, &asked);
            scope.spawn(move || {
                let key = format!("key-{client}");
                while !done.is_said() {
                    assert_eq!(send(server, "PUT", &key, "", b"value").status, 200);
                    assert_eq!(send(server, "GET", &key, "", b"").status, 200);
                    asked.fetch_add(2, Ordering::Relaxed);
                }
            });
        }
        // Both are good for a while, as they are where keys are rotated.
        stub.accept(&[first.clone(), second.clone(), stub.bucket.keys.clone()]);
        give(&second, 3600);
        eventually("only the second keys are used", || {
            stub.asked_last(50).iter().all(|asked| {
                let signed = asked.header("authorization");
                signed.is_some_and(|text| text.contains("=second/"))
            })
        });
        stub.accept(&[second.clone(), stub.bucket.keys.clone()]);
        let so_far = asked.load(Ordering::Relaxed);
        let comes = || asked.load(Ordering::Relaxed) > so_far + 50;
        eventually("requests go on", comes);
    });
    server.stop();
    let log = server.log().join("\n");
    for secret in [SECRET, "session-token-of-the-test", "who I am"] {
        assert!(!log.contains(secret), "{log}");
    }
}
