//! A bucket as a test sees it: what a server is started with, and signed requests past the server.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::time::SystemTime;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::sign::{Keys, Unsigned, digest};
use crate::{Raw, Response, ask, words};

/// What stays as it is in a path, and in a query. Written apart from the server, so that it checks what the server
/// encodes.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
const PATH: &AsciiSet = &SEGMENT.remove(b'/');

/// Values in a bucket of a store.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// The addresses at which the store is reached.
    pub endpoints: Vec<SocketAddr>,
    pub name: String,
    /// What all keys begin with; empty, or it ends with `/`.
    pub prefix: String,
    pub region: String,
    pub keys: Keys,
}

/// An object in a listing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    pub key: String,
    pub len: u64,
}

impl Bucket {
    /// A folder of a data-server with the door of S3, which has no secrets.
    #[track_caller]
    pub fn of_door(door: SocketAddr, name: &str) -> Self {
        let bucket = Self {
            endpoints: vec![door],
            name: name.to_owned(),
            prefix: String::new(),
            region: "us-east-1".to_owned(),
            keys: Keys::new("any", "any"),
        };
        bucket.make();
        bucket
    }

    /// The same bucket, with another prefix: for a server that should find it empty.
    pub fn beneath(&self, prefix: &str) -> Self {
        Self {
            prefix: format!("{prefix}/"),
            ..self.clone()
        }
    }

    /// The same bucket, reached at these addresses: through a proxy, or by some of its gateways.
    pub fn at(&self, endpoints: &[SocketAddr]) -> Self {
        Self {
            endpoints: endpoints.to_vec(),
            ..self.clone()
        }
    }

    /// The options that have a server serve it, without `--spool`.
    pub fn options(&self) -> Vec<OsString> {
        let place = format!("s3://{}/{}", self.name, self.prefix);
        let mut options = vec!["--store".to_owned(), place];
        options.extend(["--s3-region".to_owned(), self.region.clone()]);
        for endpoint in &self.endpoints {
            options.extend(["--s3-endpoint".to_owned(), format!("http://{endpoint}")]);
        }
        options.into_iter().map(OsString::from).collect()
    }

    /// The variables with its credentials. Instance metadata is never asked for: a test machine may be one of a cloud.
    pub fn variables(&self) -> Vec<(&'static str, OsString)> {
        let Keys { id, secret, token } = &self.keys;
        let variables = [
            ("AWS_ACCESS_KEY_ID", id.into()),
            ("AWS_SECRET_ACCESS_KEY", secret.into()),
            ("AWS_EC2_METADATA_DISABLED", "true".into()),
        ];
        let token = token
            .iter()
            .map(|token| ("AWS_SESSION_TOKEN", token.into()));
        variables.into_iter().chain(token).collect()
    }

    /// Has a server try what is known of its store as little as it can. Removals of a real one are found to be unsafe
    /// by some of many races; the store in memory is what its test makes it.
    pub fn trial(&self) -> (&'static str, OsString) {
        let is_stub = self.keys.id == Keys::STUB;
        let races = if is_stub { "1" } else { "64" };
        ("DATA_SERVER_TRIAL", races.into())
    }

    /// A signed request for an object, at the first endpoint. `lines` are more headers, each ending in CRLF.
    #[track_caller]
    pub fn ask(&self, method: &str, key: &str, lines: &str, body: &[u8]) -> Response {
        let key = format!("/{}{key}", self.prefix);
        self.send(method, &key, "", lines, body)
    }

    /// Stores an object past the server.
    #[track_caller]
    pub fn place(&self, key: &str, value: impl AsRef<[u8]>) {
        let answer = self.ask("PUT", key, "", value.as_ref());
        assert_eq!(answer.status, 200, "PUT {key}: {}", text(&answer));
    }

    /// Removes every object below the prefix, past the server.
    #[track_caller]
    pub fn clear(&self) {
        for object in self.objects() {
            let answer = self.ask("DELETE", &object.key, "", b"");
            assert_eq!(answer.status, 204, "DELETE {}", object.key);
        }
    }

    /// The object, past the server; `None` where there is none.
    #[track_caller]
    pub fn read(&self, key: &str) -> Option<Vec<u8>> {
        let answer = self.ask("GET", key, "", b"");
        match answer.status {
            200 => Some(answer.body),
            404 => None,
            status => panic!("GET {key}: {status} {}", text(&answer)),
        }
    }

    /// Every object below the prefix, in byte order; the prefix is left out.
    #[track_caller]
    pub fn objects(&self) -> Vec<Listed> {
        let mut found = Vec::new();
        loop {
            let after = found.last().map_or_else(String::new, |last: &Listed| {
                encode(&format!("{}{}", self.prefix, last.key))
            });
            let prefix = encode(&self.prefix);
            let query = format!("list-type=2&max-keys=1000&prefix={prefix}&start-after={after}");
            let page = self.send("GET", "", &query, "", b"");
            assert_eq!(page.status, 200, "the listing: {}", text(&page));
            let xml = String::from_utf8(page.body).expect("text");
            for item in elements(&xml, "Contents") {
                let key = unescape(elements(item, "Key").next().expect("a key"));
                let key = key.strip_prefix(&self.prefix).expect("below the prefix");
                let len = elements(item, "Size").next().expect("a size");
                let len = len.parse().expect("digits");
                let key = key.to_owned();
                found.push(Listed { key, len });
            }
            if !xml.contains("<IsTruncated>true</IsTruncated>") {
                return found;
            }
        }
    }

    /// How many multipart uploads are under way below the prefix.
    #[track_caller]
    pub fn multipart_uploads(&self) -> usize {
        let query = format!("prefix={}&uploads=", encode(&self.prefix));
        let answer = self.send("GET", "", &query, "", b"");
        assert_eq!(answer.status, 200, "GET ?{query}: {}", text(&answer));
        elements(&text(&answer), "Upload").count()
    }

    /// Makes the bucket.
    #[track_caller]
    pub(super) fn make(&self) {
        let answer = self.send("PUT", "", "", "", b"");
        assert_eq!(answer.status, 200, "a new bucket: {}", text(&answer));
    }

    #[track_caller]
    fn send(&self, method: &str, key: &str, query: &str, lines: &str, body: &[u8]) -> Response {
        let path = format!("/{}{}", self.name, utf8_percent_encode(key, PATH));
        let payload = named_payload(lines).unwrap_or_else(|| digest(body));
        let signed = self.keys.sign(&Unsigned {
            method,
            region: &self.region,
            path: &path,
            query,
            lines,
            payload: &payload,
            time: SystemTime::now(),
        });
        let target = format!("{path}?{query}");
        let target = target.trim_end_matches('?');
        let lines = format!("{lines}{signed}");
        let raw = &mut Raw::connect(self.endpoints[0]);
        ask(raw, method, target, &lines, body)
    }
}

/// What the signature says of the body, where the headers name it.
fn named_payload(lines: &str) -> Option<String> {
    let mut lines = lines.lines().filter_map(|line| line.split_once(": "));
    lines.find_map(|(name, value)| (name == "x-amz-content-sha256").then(|| value.to_owned()))
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

fn text(answer: &Response) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}

/// The text of each element of this name.
fn elements<'a>(xml: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let items = xml.split(&*open).skip(1);
    let texts = items.filter_map(|rest| rest.split(&*close).next());
    texts.collect::<Vec<_>>().into_iter()
}

fn unescape(text: &str) -> String {
    // Each with what it stands for.
    let named = words("lt < gt > quot \" #34 \" #39 ' apos ' amp &");
    let pairs = named
        .chunks(2)
        .map(|pair| (format!("&{};", pair[0]), pair[1]));
    pairs.fold(text.to_owned(), |text, (name, is)| text.replace(&name, is))
}
