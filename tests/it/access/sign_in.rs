//! Proves the addresses by which a person signs in and out on the page for browsers.

use super::{bearer, rule, serve, subject};
use crate::support::prelude::*;

const HTML: &str = "Accept: text/html\r\n";

fn page(server: &TestServer, target: &str, lines: &str) -> Response {
    server.request("GET", target, &format!("{HTML}{lines}"), b"")
}

#[test]
fn one_who_is_not_known_is_asked_and_then_led_to_the_folder() {
    let rules = rule("ann", "ann/", &["read", "write", "list"])
        + &rule("anonymous", "public/", &["read", "list"]);
    let server = serve(&(subject("ann") + &rules), &[]);
    let asked = page(&server, "/?sign-in=public%2F", "");
    assert_eq!(asked.status, 401);
    assert!(asked.all("www-authenticate").contains("Basic realm="));
    for (target, to) in [
        ("/?sign-in=public%2F", "./public/"),
        ("/?sign-in=a%20b/%3C%3E/", "./a%20b/%3C%3E/"),
        ("/?sign-in", "./"),
        // Nothing that leads away.
        ("/?sign-in=//evil.example/", "./"),
        ("/?sign-in=https://evil.example/", "./"),
        ("/?sign-in=../x/", "./"),
        ("/?sign-in=%0d%0aX:%20y/", "./%0D%0AX%3A%20y/"),
    ] {
        let led = page(&server, target, &bearer("ann"));
        assert_eq!((led.status, led.must("location")), (302, to), "{target}");
    }
    // What a browser sent is taken for nothing any more: no challenge that it could answer by itself.
    let out = page(&server, "/?sign-out", &bearer("ann"));
    let challenge = "Bearer realm=\"signed out\"";
    assert_eq!((out.status, out.must("www-authenticate")), (401, challenge));
    assert!(String::from_utf8_lossy(&out.body).contains("You are signed out"));

    // The page says who one is, or how to say it.
    let text = |lines: &str, target: &str| {
        String::from_utf8(page(&server, target, lines).body).expect("UTF-8")
    };
    let anonymous = text("", "/");
    assert!(anonymous.contains("href=\"./?sign-in=\">Sign in</a>"));
    assert!(anonymous.contains("Nothing that you may see here"));
    assert!(text("", "/public/").contains("href=\"../?sign-in=public/\">Sign in</a>"));
    assert!(text("", "/public/").contains("There is no folder public/<"));
    let ann = text(&bearer("ann"), "/");
    assert!(ann.contains("Signed in as </span>ann</span>") && !ann.contains(">Sign in<"));
    // A program that sends a token forgets it by itself.
    assert!(!ann.contains("Sign out"));
}

#[test]
fn without_rules_nobody_is_asked() {
    let server = TestServer::start(&[]);
    for target in ["/?sign-in", "/?sign-out"] {
        let got = page(&server, target, "");
        assert_eq!(got.status, 200);
        assert!(!String::from_utf8_lossy(&got.body).contains("class=\"account\""));
    }
}
