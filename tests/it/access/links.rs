//! Proves that a signed link allows what it says, for as long as it says, and nothing else.

use super::{bearer, rule, serve_on, sign, subject, write};
use crate::support::prelude::*;

const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn policy() -> String {
    let key = |name: &str, rest: &str| {
        format!("[[link-key]]\nname = \"{name}\"\nsecret-file = \"{name}.key\"\n{rest}")
    };
    [
        subject("ann"),
        subject("bob"),
        rule("ann", "", &["read", "write", "link"]),
        rule("bob", "", &["read"]),
        key("k1", ""),
        key("in", "prefix = \"in/\"\n"),
        key("of-ann", "subject = \"ann\"\n"),
        key("of-bob", "subject = \"bob\"\n"),
    ]
    .concat()
}

fn start(dir: &DataDir) -> TestServer {
    for name in ["k1", "in", "of-ann", "of-bob"] {
        // Each key has one of its own.
        place_secret(dir, name, &format!("{name}-{SECRET}"));
    }
    serve_on(dir, &policy(), &["--access-log"])
}

fn place_secret(dir: &DataDir, name: &str, secret: &str) {
    dir.write_private(&format!("{name}.key"), secret);
}

#[test]
fn a_link_reads_its_value_and_nothing_else() {
    let dir = DataDir::temporary();
    let mut server = start(&dir);
    dir.place("in/a b", "value");
    dir.place("in/other", "other");
    let link = sign(&dir, "k1", "/in/a%20b", &[]);
    let mut connection = server.connect();
    let mut get = |method: &str, target: &str, lines: &str| {
        let answer = ask(&mut connection, method, target, lines, b"");
        (answer.status, answer.body)
    };
    assert_eq!(get("GET", &link, ""), (200, b"value".to_vec()));
    assert_eq!(get("HEAD", &link, "").0, 200);
    let found = get("GET", &link, "Range: bytes=1-2\r\n");
    assert_eq!(found, (206, b"al".to_vec()));
    // A browser may send what it knows besides.
    assert_eq!(get("GET", &link, &bearer("bob")).0, 200);
    // The same key, spelled in another way.
    let (path, query) = link.split_once('?').expect("a query");
    assert_eq!(path, "/in/a%20b");
    assert_eq!(get("GET", &format!("/in%2Fa%20b?{query}"), "").0, 200);
    // Mail and chat programs add parameters, and write a link in other ways that mean the same.
    let (expires, rest) = query.split_once('&').expect("several parameters");
    for good in [
        format!("{link}&utm_source=chat&utm_source=mail"),
        format!("{link}&fbclid="),
        format!("{path}?utm_source=x&{query}"),
        format!("{path}?{rest}&{expires}"),
        format!("{link}&"),
        format!("{link}&download=1"),
    ] {
        for method in ["GET", "HEAD"] {
            assert_eq!(get(method, &good, "").0, 200, "{method} {good}");
        }
    }
    for bad in [
        format!("/in/other?{query}"),
        format!("/in/other?{query}&utm_source=x"),
        link.replace("expires=", "expires=1"),
        link.replace("by=k1", "by=in2"),
        link.replace("by=k1", "by=of-bob"),
        format!("{link}&max=1"),
        format!("{link}&expires=1"),
        format!("{link}x"),
        link[..link.len() - 1].to_owned(),
    ] {
        let (status, body) = get("GET", &bad, "");
        assert_eq!(status, 403, "{bad}");
        assert_eq!(body, b"this link is not valid\n", "{bad}");
    }
    assert_eq!(get("DELETE", &link, "").0, 401);
    let found = get("GET", "/in/a%20b", "").0;
    assert_eq!(found, 401, "the connection has kept nothing");
    server.stop();
    let log = server.log().join("\n");
    assert!(!log.contains(query.split_once("signature=").expect("a signature").1));
    assert!(log.contains("\"subject\":\"link:k1\""), "{log}");
}

/// What a link to a folder allows by which verb, the matrix of rights has.
#[test]
fn a_link_to_a_folder_is_followed_below_its_path_until_its_end() {
    let dir = DataDir::temporary();
    let mut server = start(&dir);
    for key in ["in/a b", "in/sub/c", "out/d"] {
        dir.place(key, key);
    }
    let link = sign(&dir, "in", "/in/", &[]);
    let root = link.strip_suffix("/in/").expect("the folder").to_owned();
    let get = |target: &str| server.request("GET", target, "Accept: text/html\r\n", b"");
    let page = get(&link);
    assert_eq!(
        (page.status, page.must("cache-control")),
        (200, "private, no-cache")
    );
    let rows = HtmlPage::parse(&page.body).rows();
    let rows: Vec<_> = rows.into_iter().map(|row| row.href).collect();
    assert_eq!(rows, ["../", "sub/", "a%20b"]);
    assert_eq!(get(&format!("{link}a%20b")).body, b"in/a b");
    let sub = server.request(
        "GET",
        &format!("{root}/in/sub"),
        "Accept: text/html\r\n",
        b"",
    );
    assert_eq!((sub.status, sub.must("location")), (302, "../in/sub/"));
    let zip = get(&format!("{link}sub/?archive=zip"));
    assert!(zip.body.starts_with(b"PK"), "{zip:?}");
    assert!(get(&format!("{root}/")).text().contains("href=\"in/\""));
    for bad in [
        format!("{root}/out/d"),
        format!("{root}/out/"),
        format!("{root}/in/../out/d"),
    ] {
        let found = get(&bad).status;
        assert!([400, 403, 404].contains(&found), "{bad}: {found}");
    }
    get(&format!("{root}{link}"));
    let (text, signature) = root.rsplit_once('.').expect("a signature");
    let (beginning, of_other) = (&text[..text.len() - 4], sign(&dir, "k1", "/out/", &[]));
    for bad in [
        format!("{root}x/in/"),
        format!("{text}/in/"),
        format!("{text}./in/"),
        format!("{beginning}.{signature}/in/"),
        format!(
            "{}.{signature}/out/",
            of_other.rsplit_once('.').expect("a signature").0
        ),
        "/-/link/in/".to_owned(),
        "/-/link/".to_owned(),
        sign(&dir, "of-bob", "/in/", &[]),
        sign(&dir, "of-ann", "/in/", &[]).replace('.', ".x"),
    ] {
        let refused = server.request("GET", &bad, "", b"");
        refused.says(403, "this link is not valid");
    }
    let ended = sign(&dir, "k1", "/in/", &["--lasts", "0s"]);
    server
        .request("GET", &ended, "", b"")
        .says(403, "this link has expired");
    // A server's own pages are not its folder's.
    assert_eq!(
        server
            .request("GET", &format!("{root}/-/metrics"), "", b"")
            .status,
        403
    );
    assert_eq!(
        server.request("GET", "/in/", "", b"").status,
        401,
        "nothing is kept"
    );
    server.stop();
    let log = server.log().join("\n");
    assert!(!log.contains(signature), "{log}");
    assert!(log.contains("\"subject\":\"link:in\""), "{log}");
}

#[test]
fn a_link_to_hand_files_in_takes_long_ones_in_parts_and_shows_none() {
    directory_only!("resumable uploads");
    let dir = DataDir::temporary();
    let server = start(&dir);
    dir.place("in/there", "old");
    let link = sign(&dir, "in", "/in/", &["--put"]);
    let mut raw = server.connect();
    let begun = ask(
        &mut raw,
        "PUT",
        &format!("{link}new"),
        "Upload-Complete: ?0\r\n",
        b"first",
    );
    assert_eq!(begun.status, 201, "{begun:?}");
    // Relative, and so below the path of the link.
    let path = begun.must("location").strip_prefix("..").expect("the root");
    let path = link.replace("/in/", path);
    let upload = Resumable { path };
    assert_eq!(upload.append(&mut raw, 5, true, b"last").status, 200);
    assert_eq!(dir.read("in/new"), b"firstlast");
    for accept in ["text/html", "application/json"] {
        let lines = format!("Accept: {accept}\r\n");
        let page = server.request("GET", &link, &lines, b"");
        assert_eq!(page.status, 200, "{page:?}");
        let names = ["there", "new"].map(|name| page.text().contains(&format!(">{name}<")));
        assert_eq!(names, [false; 2]);
        if accept == "text/html" {
            assert!(page.text().contains("id=\"send\""), "a form for files");
        }
    }
    let put = server.request("PUT", &format!("{link}there"), "", b"new");
    assert_eq!((put.status, dir.read("in/there")), (403, b"old".to_vec()));
}

/// Of an editor of Windows, or of `echo`.
#[test]
fn the_files_of_secrets_and_passwords_may_have_a_byte_order_mark_and_a_line_end() {
    let dir = DataDir::temporary();
    let key = "[[link-key]]\nname = \"k1\"\nsecret-file = \"k1.key\"\n";
    let rules = format!(
        "\u{feff}htpasswd = \"users\"\r\n{key}{}",
        rule("ann", "", &["read"])
    );
    let hash = bcrypt::hash("password", 4).expect("a hash");
    dir.write_private("users", &format!("\u{feff}ann:{hash}\r\n"));
    dir.place("k", "v");
    for written in ["", "\n", "\r\n"] {
        for mark in ["", "\u{feff}"] {
            place_secret(&dir, "k1", &format!("{mark}{SECRET}{written}"));
            let server = serve_on(&dir, &rules, &[]);
            let own = sign(&dir, "k1", "/k", &[]);
            place_secret(&dir, "k1", SECRET);
            for link in [own, sign(&dir, "k1", "/k", &[])] {
                assert_eq!(
                    server.request("GET", &link, "", b"").body,
                    b"v",
                    "{written:?}"
                );
            }
            let got = server.request("GET", "/k", &super::basic("ann", "password"), b"");
            assert_eq!(got.status, 200);
        }
    }
}

#[test]
fn a_link_for_a_put_stores_one_value_of_bounded_size() {
    let dir = DataDir::temporary();
    let server = start(&dir);
    let put =
        |target: &str, lines: &str, body: &[u8]| server.request("PUT", target, lines, body).status;
    let link = sign(&dir, "k1", "/in/new", &["--put", "--max", "10B"]);
    assert_eq!(put(&link, "", b"12345678901"), 413);
    let chunked = b"b\r\n12345678901\r\n0\r\n\r\n";
    assert_eq!(put(&link, "Transfer-Encoding: chunked\r\n", chunked), 413);
    let found = put(&link, "Upload-Complete: ?0\r\n", b"1");
    assert_eq!(found, 403, "in one request alone");
    let more = format!("{link}&utm_source=x");
    assert_eq!(put(&format!("{more}&max=11"), "", b"v"), 403);
    assert_eq!(put(&more, "", b"12345678901"), 413);
    assert_eq!(put(&more, "", b"1234567890"), 200);
    assert_eq!(put(&link, "", b"again"), 403);
    let found = put(&sign(&dir, "k1", "/in/new2", &[]), "", b"by a link for GET");
    assert_eq!(found, 403);
    let get = server.request("GET", &link, "", b"").status;
    assert_eq!(get, 403, "it is for PUT");
    assert_eq!(dir.read("in/new"), b"1234567890");
    let free = sign(&dir, "k1", "/in/long", &["--put"]);
    assert_eq!(put(&free, "", &vec![b'x'; 3_000_000]), 200);
}

/// A body of no known length would be held to the limit of all values.
#[test]
fn a_link_for_a_put_is_as_bounded_by_webdav() {
    directory_only!("folders");
    let dir = DataDir::temporary();
    dir.place("in/there", "v");
    place_secret(&dir, "k1", SECRET);
    let key = "[[link-key]]\nname = \"k1\"\nsecret-file = \"k1.key\"\n";
    let server = serve_on(&dir, key, &["--listen", "dav+http://127.0.0.1:0"]);
    let link = sign(&dir, "k1", "/in/new", &["--put", "--max", "10B"]);
    let put = |lines: &str, body: &[u8]| server.request("PUT", &link, lines, body).status;
    assert_eq!(put("", b"12345678901"), 413);
    let chunked = b"b\r\n12345678901\r\n0\r\n\r\n";
    assert_eq!(put("Transfer-Encoding: chunked\r\n", chunked), 411);
    assert!(!dir.file("in/new").exists());
    assert_eq!(put("", b"1234567890"), 201);
    assert_eq!(put("", b"again"), 403);
    assert_eq!(dir.read("in/new"), b"1234567890");
}

#[test]
fn a_link_ends_with_its_time_its_key_and_the_right_of_its_subject() {
    let dir = DataDir::temporary();
    let server = start(&dir);
    dir.place("in/key", "v");
    dir.place("out", "v");
    let get = |target: &str| {
        let answer = server.request("GET", target, "", b"");
        (answer.status, answer.text())
    };
    let expired = sign(&dir, "k1", "/in/key", &["--lasts", "0s"]);
    assert_eq!(get(&expired), (403, "this link has expired\n".to_owned()));
    assert_eq!(get(&sign(&dir, "in", "/in/key", &[])).0, 200);
    let found = get(&sign(&dir, "in", "/out", &[])).0;
    assert_eq!(found, 403, "beyond the prefix of the key");
    assert_eq!(get(&sign(&dir, "of-ann", "/out", &[])).0, 200);
    let found = get(&sign(&dir, "of-bob", "/out", &[])).0;
    assert_eq!(found, 403, "without the right to links");
    let link = sign(&dir, "k1", "/out", &[]);
    assert_eq!(get(&link).0, 200);
    place_secret(&dir, "k1", "another secret of thirty-two bytes");
    write(&dir, &policy());
    server.signal(rustix::process::Signal::HUP);
    server.event("reload: access reread");
    assert_eq!(get(&link).0, 403, "the secret was replaced");
}

/// A `+` in the name of the key was read as a space, and a server below a path of a proxy knows nothing of that path.
#[test]
fn a_link_is_signed_for_any_name_and_below_any_path() {
    let dir = DataDir::temporary();
    place_secret(&dir, "a+b", SECRET);
    let key = "[[link-key]]\nname = \"a+b\"\nsecret-file = \"a+b.key\"\nprefix = \"in/\"\n";
    let server = serve_on(&dir, key, &[]);
    dir.place("in/a b", "v");
    let base = "https://site.example/files";
    let asked = "
        ; https://site.example/in/a%20b
        --base https://site.example/files ; in/a%20b
        --base https://site.example/files/ ; https://site.example/files/in/a%20b
        --base https://site.example/files ; /in/a%20b";
    for [options, url] in table(asked) {
        let link = sign(&dir, "a+b", url, &words(options));
        let below = if options.is_empty() {
            "https://site.example"
        } else {
            base
        };
        let target = link.strip_prefix(below).expect("the address of the server");
        assert_eq!(server.request("GET", target, "", b"").status, 200, "{link}");
    }
    // With the file at hand a link that would not count is not made.
    let access = dir.outside("access.toml");
    let signed = |by: &str, target: &str| {
        let access = access.to_str().expect("text");
        let args = [
            &["sign", "--by", by, "--access", access],
            &words(target)[..],
        ];
        Launch::new(&args.concat()).bare().run()
    };
    let good = signed("a+b", "/in/a%20b");
    let good = good.printed();
    let found = server.request("GET", good, "", b"").status;
    assert_eq!(found, 200, "{good}");
    let not_made = r#"
        none ; /in/x ; no link key "none"
        a+b ; /out/x ; see its prefix
        a+b ; --base https://s/files https://s/filesin/x ; it is not below --base
        a+b ; --base https://s/files?x in/x ; a query of its own"#;
    for [by, target, part] in table(not_made) {
        signed(by, target).says(2, part);
    }
}
