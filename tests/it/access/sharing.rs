//! Proves that the server signs a link for a client that may read and share the value, for no longer than its rules
//! say, and for nobody else: not for a page of another origin, for one who has only a link, and by no other name of the
//! server.

use std::time::UNIX_EPOCH;

use sha2::{Digest as _, Sha256};

use super::{basic, bearer, revise, rule, serve_on, subject, with_password, write};
use crate::support::policy::in_set;
use crate::support::prelude::*;

const SECRET: &str = "planted-secret-of-shares-0123456789abcdef";
const PASSWORD: &str = "open sesame";

/// The names of link keys, the first of none.
const KEYS: [&str; 6] = ["none", "k1", "below", "of-most", "of-reader", "of-gone"];

/// A link key with this name and these lines besides.
fn key(name: &str, rest: &str) -> String {
    format!("[[link-key]]\nname = \"{name}\"\nsecret-file = \"{name}.key\"\n{rest}")
}

/// A subject for which the server signs links by this key.
fn sharer(name: &str, by: &str) -> String {
    subject(name) + &format!("shares = \"{by}\"\n")
}

const ALL: [&str; 4] = ["read", "write", "list", "link"];

fn policy() -> String {
    let hash = bcrypt::hash(PASSWORD, 4).expect("a hash");
    [
        sharer("ann", "k1"),
        with_password("bob", &hash) + "shares = \"k1\"\n",
        subject("carl"),
        rule("*", "", &ALL),
        key("k1", "lasts = \"2h\"\n"),
    ]
    .concat()
}

fn start(dir: &DataDir, text: &str, args: &[&str]) -> TestServer {
    for name in KEYS {
        dir.write_private(&format!("{name}.key"), &format!("{SECRET}-{name}"));
    }
    serve_on(dir, text, args)
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("after 1970").as_secs()
}

/// The target of the link in an answer, and its end.
#[track_caller]
fn link(got: &Response) -> (String, u64) {
    assert_eq!(got.status, 200, "{}", got.text());
    let text = got.text();
    let url = text.strip_suffix('\n').expect("a line");
    let (_, target) = url.split_once("://t/").expect("the host that was asked");
    let end = target.split_once("expires=").expect("an end").1;
    let end = end.split('&').next().and_then(|end| end.parse().ok());
    (format!("/{target}"), end.expect("a number"))
}

#[test]
fn a_link_to_share_reads_its_value_for_its_time_and_nothing_else() {
    let dir = DataDir::temporary();
    let mut server = start(
        &dir,
        &policy(),
        &["--audit-log", "--access-log", "--log-level", "trace"],
    );
    dir.place("in/a b", "value");
    dir.place("in/other", "other");
    let share =
        |query: &str| server.request("POST", &format!("/in/a%20b?{query}"), &bearer("ann"), b"");
    for (query, lasts) in [
        ("share=1h", 3600),
        ("share", 7200),
        ("share=", 7200),
        ("share=2h", 7200),
    ] {
        let before = now();
        let got = share(query);
        let (target, end) = link(&got);
        assert!(
            (before + lasts..=now() + lasts).contains(&end),
            "{query}: {end}"
        );
        assert!(target.starts_with("/in/a%20b?expires="), "{target}");
        assert_eq!(got.must("content-type"), "text/plain; charset=utf-8");
        assert!(got.must("cache-control").contains("no-store"));
        // Again and again, by anybody.
        for _ in 0..2 {
            assert_eq!(server.request("GET", &target, "", b"").body, b"value");
        }
        let (_, of_link) = target.split_once('?').expect("a query");
        for (method, target, status) in [
            ("HEAD", target.clone(), 200),
            ("PUT", target.clone(), 403),
            ("DELETE", target.clone(), 401),
            ("GET", format!("/in/other?{of_link}"), 403),
            ("GET", format!("/?{of_link}"), 401),
            ("GET", target.replace("expires=", "expires=1"), 403),
            // A link makes no links.
            ("POST", format!("/in/a%20b?share&{of_link}"), 400),
            ("POST", target, 405),
        ] {
            let got = server.request(method, &target, "", b"");
            assert_eq!(got.status, status, "{method} {target}");
        }
    }
    for (query, said) in [
        ("share=3h", "a link lasts at most 2h here"),
        ("share=9999999y", "a link lasts at most 2h here"),
        ("share=0s", "share=1h"),
        ("share=500ms", "share=1h"),
        ("share=-1h", "share=1h"),
        ("share=1", "share=1h"),
        ("share=99999999999999999999y", "share=1h"),
        ("share=1h&share=2h", "has share once"),
        ("share=1h&max=1", "no parameter \"max\""),
    ] {
        share(query).says(400, said);
    }
    share("share&hand-in").says(400, "of a link to a folder");
    assert_eq!(
        server
            .request("POST", "/in/a%20b", &bearer("ann"), b"")
            .status,
        405
    );
    // It ends with its time, and all end with their key.
    let (short, _) = link(&share("share=1s"));
    eventually("it ends", || {
        let got = server.request("GET", &short, "", b"");
        got.text() == "this link has expired\n"
    });
    let (kept, _) = link(&share("share=1h"));
    let other = policy().replace("name = \"k1\"\nsecret", "name = \"k2\"\nsecret");
    revise(&server, &other);
    assert_eq!(server.request("GET", &kept, "", b"").status, 403);
    share("share=1h").says(403, "`shares` of your subject");
    server.stop();
    let log = server.log().join("\n");
    assert!(!log.contains(SECRET), "{log}");
    for target in [&short, &kept] {
        let (_, signature) = target.split_once("signature=").expect("a signature");
        assert!(!log.contains(signature), "{log}");
    }
    // Who signed what, and for how long.
    let mut told = server.audited("result subject by method key lasts status");
    told.retain(|line| line.starts_with("shared"));
    let line = |lasts| format!("shared ann token POST /in/a%20b {lasts} 200");
    assert_eq!(told, [3600, 7200, 7200, 7200, 1, 3600].map(line));
}

#[test]
fn a_link_lasts_a_day_where_its_key_says_nothing_and_no_longer_than_its_subject() {
    let dir = DataDir::temporary();
    let soon = now() + 600;
    let soon = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(soon));
    let text = [
        sharer("ann", "k1"),
        sharer("eve", "k1") + &format!("not-after = {soon}\n"),
        rule("*", "", &ALL),
        key("k1", ""),
    ];
    let server = start(&dir, &text.concat(), &[]);
    let share = |who, query: &str| {
        let got = server.request("POST", &format!("/k?{query}"), &bearer(who), b"");
        link(&got).1 - now()
    };
    assert!((86_300..=86_400).contains(&share("ann", "share")));
    for query in ["share", "share=1h"] {
        assert!(share("eve", query) <= 600);
    }
    assert!(share("eve", "share=1m") <= 60);
    for (lasts, is_good) in [
        ("\"1s\"", true),
        ("\"0s\"", false),
        ("\"1\"", false),
        ("1", false),
    ] {
        let path = write(&dir, &key("k1", &format!("lasts = {lasts}\n")));
        let check = Launch::new(&["access", "check", &path]).bare().run();
        assert_eq!(check.code == Some(0), is_good, "{lasts}: {}", check.stderr);
    }
}

/// For each set of rights of the client to what begins with `in/`, each link key that its subject may name, and each
/// key.
#[test]
fn a_link_is_made_where_the_rules_say_and_nowhere_else() {
    const SET: [&str; 3] = ["read", "link", "list"];
    let mut text = [
        key("k1", ""),
        key("below", "prefix = \"in/below/\"\n"),
        key("of-most", "subject = \"most\"\n"),
        key("of-reader", "subject = \"reader\"\n"),
        key("of-gone", "subject = \"gone\"\n"),
        subject("most"),
        subject("reader"),
        rule("most", "in/k", &["read", "link"]),
        rule("reader", "", &["read"]),
    ]
    .concat();
    for by in KEYS {
        for set in 0..1 << SET.len() {
            let name = format!("{by}-{set}");
            text += &sharer(&name, by);
            text += &rule(&name, "in/", &in_set(&SET, set));
        }
    }
    let dir = DataDir::temporary();
    let server = start(&dir, &text, &[]);
    let (mut asked, mut made) = (0, 0);
    for by in KEYS {
        for set in 0..1 << SET.len() {
            for at in ["in/k", "in/below/k", "out/k"] {
                dir.place(at, at);
                let name = format!("{by}-{set}");
                let got = server.request("POST", &format!("/{at}?share"), &bearer(&name), b"");
                let is_ours = set & 3 == 3 && at.starts_with("in/");
                let counts = match by {
                    "k1" => true,
                    "below" => at == "in/below/k",
                    "of-most" => at == "in/k",
                    _ => false,
                };
                let says = format!("{name} {at}: {}", got.text());
                asked += 1;
                if is_ours && counts {
                    let (target, _) = link(&got);
                    let read = server.request("GET", &target, "", b"");
                    assert_eq!(read.text(), at, "{says}");
                    made += 1;
                } else {
                    assert_eq!(got.status, 403, "{says}");
                }
                let nobody = server.request("POST", &format!("/{at}?share"), "", b"");
                assert_eq!(nobody.status, 401);
                // The page offers it where one is made.
                if set == 7 {
                    let page = "Accept: text/html\r\n";
                    let page = server.request("GET", "/", &(bearer(&name) + page), b"");
                    let page = HtmlPage::parse(&page.body);
                    let rights = page.element("keys-view").attribute("data-rights");
                    let rights: serde_json::Value =
                        serde_json::from_str(rights.expect("rights")).expect("JSON");
                    let shown = rights["share"].as_array().expect("prefixes").iter();
                    let mut shown = shown.map(|prefix| prefix.as_str().expect("text"));
                    let is_shown = shown.any(|prefix| at.starts_with(prefix));
                    assert_eq!(is_shown, is_ours && counts, "{says}");
                }
            }
        }
    }
    say(&format!(
        "{asked} requests for links answered as the rules say, {made} links made"
    ));
}

/// What a page of another origin can have a browser send with the password that it keeps, or without one.
#[test]
fn a_page_of_another_origin_makes_no_link() {
    let dir = DataDir::temporary();
    let text = policy() + &rule("anonymous", "", &["list"]);
    for args in [&[][..], &["--cors-origin", "*"], &["--cors-origin", "null"]] {
        let server = start(&dir, &text, args);
        let own = format!("{}://t", if is_tls() { "https" } else { "http" });
        for (page, is_own) in [
            (String::new(), true),
            (format!("Origin: {own}"), true),
            ("Sec-Fetch-Site: same-origin".to_owned(), true),
            ("Sec-Fetch-Site: cross-site".to_owned(), false),
            ("Sec-Fetch-Site: same-site".to_owned(), false),
            ("Origin: https://evil.example".to_owned(), false),
            // A stored page, which has a sandbox.
            ("Origin: null".to_owned(), false),
            (
                "Sec-Fetch-Site: cross-site\r\nOrigin: null".to_owned(),
                false,
            ),
        ] {
            let page = page + "\r\n";
            let page = page.trim_start();
            for body in ["", "Content-Type: text/plain\r\n"] {
                let lines = basic("bob", PASSWORD) + page + body;
                let got = server.request("POST", "/k?share", &lines, b"");
                assert_eq!(
                    got.status,
                    if is_own { 200 } else { 403 },
                    "{args:?} {page}"
                );
            }
        }
        // No page can ask for it by a link or an image.
        let got = server.request("GET", "/k?share=1h", &basic("bob", PASSWORD), b"");
        assert_eq!(got.status, 404);
    }
}

#[test]
fn a_link_has_the_names_by_which_the_server_is_asked_and_no_others() {
    clear_only!("the scheme");
    let dir = DataDir::temporary();
    let prefixed = "X-Forwarded-Prefix: /files/\r\n";
    let proxied = "X-Forwarded-Proto: https\r\nX-Forwarded-Host: store.example\r\n";
    for (trust, trusts) in [
        (&[][..], false),
        // Another machine than the one that asks is a proxy.
        (&["--trusted-proxy", "10.9.0.0/16"], false),
        (&["--trusted-proxy", "127.0.0.0/8"], true),
    ] {
        let names = ["--allowed-host", "store.example,other.example"];
        let server = start(&dir, &policy(), &[&names[..], trust].concat());
        let asked = |target: &str, host: &str, lines: &str| {
            let ann = bearer("ann");
            let head = format!("POST {target} HTTP/1.1\r\n{host}{ann}{lines}\r\n");
            server.connect().ask(head)
        };
        let base = |lines: &str| {
            let got = asked("/a%2Fb%22?share", "Host: other.example:81\r\n", lines);
            let text = got.text();
            let (base, _) = text
                .split_once("/a/b%22?expires=")
                .unwrap_or_else(|| panic!("{text}"));
            base.to_owned()
        };
        let plain = "http://other.example:81";
        for (lines, of_proxy) in [
            ("", plain),
            (proxied, "https://store.example"),
            ("X-Forwarded-Proto: HTTPS\r\n", "https://other.example:81"),
            (prefixed, "http://other.example:81/files"),
            ("X-Forwarded-Host: evil.example\r\n", plain),
            ("X-Forwarded-Host: store.example@evil.example\r\n", plain),
            ("X-Forwarded-Host: store.example/evil\r\n", plain),
            ("X-Forwarded-Host: store.example:99999\r\n", plain),
            ("X-Forwarded-Host: store.example:\r\n", plain),
            ("X-Forwarded-Host: store.example, other.example\r\n", plain),
            ("X-Forwarded-Host: :81\r\n", plain),
            (
                "X-Forwarded-Host: store.example\r\nX-Forwarded-Host: evil.example\r\n",
                plain,
            ),
            ("X-Forwarded-Proto: javascript\r\n", plain),
            ("X-Forwarded-Prefix: @evil.example\r\n", plain),
            ("X-Forwarded-Prefix: /\"><b>\r\n", plain),
            ("X-Forwarded-Prefix: /?a=\r\n", plain),
            // Browsers would leave them out, or merge them.
            ("X-Forwarded-Prefix: /a/../b\r\n", plain),
            ("X-Forwarded-Prefix: /a/./b\r\n", plain),
            ("X-Forwarded-Prefix: /a/%2E%2e/b\r\n", plain),
            ("X-Forwarded-Prefix: /a//b/\r\n", plain),
            ("X-Forwarded-Prefix: //evil.example\r\n", plain),
            ("X-Forwarded-Prefix: /\r\n", plain),
            (
                "X-Forwarded-Prefix: /a/..b//\r\n",
                "http://other.example:81/a/..b",
            ),
        ] {
            assert_eq!(
                base(lines),
                if trusts { of_proxy } else { plain },
                "{lines}"
            );
        }
        let hostile = asked("/a?share", "Host: evil.example\r\n", "");
        assert_eq!(hostile.status, 421);
        let absolute = asked("http://store.example/a?share", "Host: t\r\n", "");
        assert!(
            absolute
                .text()
                .starts_with("http://store.example/a?expires=")
        );
        // A Host that is taken is one of a link.
        let colon = asked("/a?share", "Host: other.example:\r\n", "");
        let text = colon.text();
        assert!(
            text.starts_with("http://other.example:/a?expires="),
            "{text}"
        );
        let no_port = asked("/a?share", "Host: other.example:99999\r\n", "");
        assert_eq!(no_port.status, 400);
        let none = asked("/a?share", "Host:\r\n", "");
        assert!(none.text().starts_with("/a?expires="), "{}", none.text());
    }
}

/// A POST that creates an upload stores its value, here an empty one.
#[test]
fn a_request_for_a_link_stores_nothing() {
    let dir = DataDir::temporary();
    let server = start(&dir, &policy(), &[]);
    server.request("PUT", "/k", &bearer("ann"), b"value");
    for complete in ["?1", "?0"] {
        let lines = format!("{}Upload-Complete: {complete}\r\n", bearer("ann"));
        link(&server.request("POST", "/k?share=1h", &lines, b""));
        let got = server.request("GET", "/k", &bearer("ann"), b"");
        assert_eq!(got.body, b"value", "{complete}");
    }
}

#[test]
fn explain_says_which_link_key_signs_and_for_how_long() {
    let dir = DataDir::temporary();
    let rules = [
        sharer("ann", "k1"),
        subject("carl"),
        sharer("dora", "below"),
        sharer("eve", "k1"),
        rule("ann", "", &ALL),
        rule("carl", "", &ALL),
        rule("dora", "", &ALL),
        rule("eve", "", &["read"]),
        key("k1", "lasts = \"2h\"\n"),
        key("below", "prefix = \"in/\"\n"),
    ];
    let server = start(&dir, &rules.concat(), &[]);
    let path = dir.outside("access.toml");
    let allowed = "link: allowed by rule 1, for ann with the prefix \"\"|read: allowed by rule 1, for ann with the prefix \"\"|";
    let of_dora = allowed.replace("rule 1", "rule 3").replace("ann", "dora");
    for (who, target, expected) in [
        (
            "ann",
            "/a?share=1h",
            format!("{allowed}link-key: \"k1\" signs for 1h"),
        ),
        (
            "ann",
            "/a?share=90m",
            format!("{allowed}link-key: \"k1\" signs for 1h 30m"),
        ),
        (
            "ann",
            "/a?share",
            format!("{allowed}link-key: \"k1\" signs for 2h"),
        ),
        (
            "ann",
            "/a?share=3h",
            format!("{allowed}link-key: refused, a link lasts at most 2h here"),
        ),
        (
            "dora",
            "/in/a?share",
            format!("{of_dora}link-key: \"below\" signs for 1day"),
        ),
        (
            "dora",
            "/a?share",
            format!("{of_dora}link-key: refused, links of this link key do not count"),
        ),
        (
            "carl",
            "/a?share",
            "link-key: refused, this server signs no links for you".to_owned(),
        ),
        (
            "eve",
            "/a?share",
            "link: refused, no rule allows it|read: allowed by rule 4".to_owned(),
        ),
    ] {
        let args = [
            "access",
            "explain",
            path.to_str().expect("text"),
            who,
            "POST",
            target,
        ];
        let explained = Launch::new(&args).bare().run();
        let said = &explained.stdout;
        let is_right = said.contains(&expected.replace('|', "\n"));
        assert!(is_right, "{who} {target} {said}");
        let answer = server.request("POST", target, &bearer(who), b"");
        let code = i32::from(answer.status != 200);
        assert_eq!(explained.code, Some(code), "{who} {target} {answer:?}");
    }
}

#[test]
fn the_methods_of_a_value_with_the_query_of_a_link_have_post() {
    let dir = DataDir::temporary();
    let posts = |server: &TestServer, method: &str, target: &str| {
        let answer = server.request(method, target, &bearer("ann"), b"");
        let methods = answer.must("allow").split(", ").collect::<Vec<_>>();
        methods.contains(&"POST")
    };
    for option in ["--access-log", "--read-only"] {
        let server = start(&dir, &policy(), &[option]);
        for method in ["OPTIONS", "PATCH"] {
            assert!(posts(&server, method, "/a?share=1h"), "{option} {method}");
            for target in ["/a", "/in/?share", "/?share", "/a?shared"] {
                assert!(
                    !posts(&server, method, target),
                    "{option} {method} {target}"
                );
            }
        }
        assert!(!posts(&server, "POST", "/a"), "{option}");
    }
    let server = Launch::new(&[]).on(&dir).start();
    assert!(!posts(&server, "OPTIONS", "/a?share=1h"), "without rules");
}

/// Under the name of the other key a link of one would have other rights than it was made with.
#[test]
fn two_link_keys_of_one_secret_are_refused() {
    let dir = DataDir::temporary();
    let long = SECRET.repeat(2);
    let digest = |text: &str| Sha256::digest(text).to_vec();
    let digits = |length| "0123456789".repeat(7)[..length].to_owned();
    // HMAC pads a secret of less than 64 bytes with NULs, and takes a longer one by its digest.
    for (other, first, is_one) in [
        (format!("{SECRET}\n").into_bytes(), SECRET, true),
        (format!("{SECRET}\0").into_bytes(), SECRET, true),
        (format!("{SECRET}\0\0\0\n").into_bytes(), SECRET, true),
        (digest(&long), &long, true),
        ([digest(&long), vec![0]].concat(), &long, true),
        (format!("\0{SECRET}").into_bytes(), SECRET, false),
        (format!("{long}\0").into_bytes(), &long, false),
        (digest(SECRET), SECRET, false),
        (digest(&digits(64)), &digits(64), false),
        (digest(&digits(65)), &digits(65), true),
    ] {
        dir.write_private("k1.key", first);
        let path = dir.write_private("k2.key", "");
        fs::write(path, &other).expect("a secret");
        let path = write(&dir, &[key("k1", ""), key("k2", "")].concat());
        let check = Launch::new(&["access", "check", &path]).bare().run();
        let said = &check.stderr;
        assert_eq!(check.code == Some(0), !is_one, "{other:?} {said}");
        let why = ":6: two link keys of one secret";
        assert_eq!(said.contains(why), is_one, "{other:?} {said}");
        assert!(!said.contains(first), "{said}");
    }
}

#[test]
fn a_link_is_made_where_nothing_may_be_changed_and_not_without_rules() {
    let dir = DataDir::temporary();
    let share = |server: &TestServer, lines: &str| server.request("POST", "/k?share", lines, b"");
    let server = start(&dir, &policy(), &["--read-only"]);
    assert_eq!(share(&server, &bearer("ann")).status, 200);
    share(&server, &bearer("carl")).says(403, "`shares` of your subject");
    assert_eq!(share(&server, &bearer("unknown")).status, 401);
    assert_eq!(share(&server, "").status, 401);
    drop(server);
    let server = Launch::new(&[]).on(&dir).start();
    let got = share(&server, "Accept: application/problem+json\r\n");
    assert_eq!(got.status, 403);
    assert_eq!(got.json()["type"], "urn:data-server:problem:no-share");
    drop(server);
    if !taken(&[&["--compat"]]).is_empty() {
        let server = start(&dir, &policy(), &["--compat"]);
        assert_eq!(share(&server, &bearer("ann")).status, 404);
    }
}

/// A link key that is removed to end its links leaves the rest of the file in force.
#[test]
fn a_subject_whose_link_key_is_gone_is_warned_of() {
    let dir = DataDir::temporary();
    let path = write(&dir, &sharer("ann", "gone"));
    let check = Launch::new(&["access", "check", &path]).bare().run();
    let is_warned = check.stdout.contains("there is no link key \"gone\"");
    assert!(check.code == Some(0) && is_warned, "{}", check.stdout);
}
