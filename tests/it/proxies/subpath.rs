//! Proves that each address which the server tells holds behind a proxy that serves it below a path, of which it knows
//! nothing. tests/browser has the page.

use reqwest::Url;

use crate::support::form::{FOLDER, FORM, file, form};
use crate::support::prelude::*;

const HTML: &str = "Accept: text/html\r\n";

/// nginx in front, with the server below `/files/`.
struct Site {
    proxy: Proxy,
    raw: Raw,
}

impl Site {
    fn of(server: &TestServer) -> Option<Self> {
        let location = format!(
            "proxy_pass http://{}/; proxy_set_header Host $http_host; proxy_redirect off;",
            server.addr
        );
        let proxy = Proxy::nginx("/files/", &location)?;
        let raw = Raw::connect(proxy.addr);
        Some(Self { proxy, raw })
    }

    fn ask(&mut self, method: &str, path: &str, lines: &str, body: &[u8]) -> Response {
        ask(&mut self.raw, method, path, lines, body)
    }

    /// The path that `reference` has in the answer to a request of `path`.
    fn target(&self, path: &str, reference: &str) -> String {
        let base = Url::parse(&format!("http://{}{path}", self.proxy.addr));
        let to = base
            .expect("an address")
            .join(reference)
            .expect("an address");
        let query = to
            .query()
            .map_or_else(String::new, |query| format!("?{query}"));
        to.path().to_owned() + &query
    }

    /// Where the answer to a request of `path` leads.
    fn location(&self, path: &str, answer: &Response) -> String {
        self.target(path, answer.must("location"))
    }
}

#[test]
fn an_upload_goes_on_where_its_location_is() {
    directory_only!("resumable uploads");
    clear_only!("its client is another program");
    let server = TestServer::start(&[]);
    let mut site = needed!(Site::of(&server));
    for key in ["k", "a/b/k", "a/b%20c"] {
        let path = format!("/files/{key}");
        let created = site.ask("PUT", &path, "Upload-Complete: ?0\r\n", b"one ");
        assert_eq!(created.status, 201);
        let upload = site.location(&path, &created);
        assert!(upload.starts_with("/files/-/uploads/"), "{upload}");
        let lines = "Content-Type: application/partial-upload\r\nUpload-Offset: 4\r\nUpload-Complete: ?1\r\nContent-Length: 3\r\n";
        assert_eq!(site.ask("PATCH", &upload, lines, b"two").status, 200);
        assert_eq!(server.get(key).body, b"one two");
    }
}

#[test]
fn a_listing_goes_on_where_its_link_is() {
    clear_only!("its client is another program");
    let server = TestServer::start(&[]);
    let keys = ["1", "2", "3"];
    for key in keys {
        server.store(&format!("a%20b/{key}"), key);
    }
    let mut site = needed!(Site::of(&server));
    for lines in [
        "Accept: text/plain\r\n",
        "Accept: application/json\r\n",
        HTML,
    ] {
        let (mut path, mut pages) = ("/files/a%20b/?limit=1".to_owned(), 0);
        loop {
            let got = site.ask("GET", &path, lines, b"");
            assert_eq!(got.status, 200, "{path}");
            pages += 1;
            let Some(link) = got.header("link") else {
                break;
            };
            let next = link.strip_prefix('<').and_then(|it| it.split_once('>'));
            path = site.target(&path, next.expect("a link").0);
        }
        assert_eq!(pages, keys.len(), "{lines}");
    }
}

#[test]
fn redirects_lead_to_the_folder() {
    clear_only!("its client is another program");
    let server = TestServer::start(&[]);
    server.store("a/b/k", "v");
    let mut site = needed!(Site::of(&server));
    let got = site.ask("GET", "/files/a/b", HTML, b"");
    assert_eq!(site.location("/files/a/b", &got), "/files/a/b/");
    let form = form(&[(FOLDER, b"a/b"), (&file("f"), b"x")]);
    let lines = format!("{HTML}{FORM}Content-Length: {}\r\n", form.len());
    let sent = site.ask("POST", "/files/-/upload", &lines, &form);
    assert_eq!(sent.status, 303);
    assert_eq!(site.location("/files/-/upload", &sent), "/files/a/b/");
}
