//! Signatures of requests (AWS Signature Version 4), written for the tests: the server has its own.

use std::fmt::Write as _;
use std::time::SystemTime;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// The header that says what of the body the signature covers.
const PAYLOAD: &str = "x-amz-content-sha256";

/// An access key, with the region it is used in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    pub id: String,
    pub secret: String,
    pub token: Option<String>,
}

impl Keys {
    /// The id of those of the store in memory.
    pub(super) const STUB: &str = "stub";

    pub fn new(id: &str, secret: &str) -> Self {
        let (id, secret, token) = (id.to_owned(), secret.to_owned(), None);
        Self { id, secret, token }
    }

    /// With the token of a session.
    pub fn with_token(self, token: &str) -> Self {
        let token = Some(token.to_owned());
        Self { token, ..self }
    }

    /// The header lines that sign this request.
    pub fn sign(&self, request: &Unsigned<'_>) -> String {
        let time = &*time_text(request.time);
        let mut signed = vec![("x-amz-date", time)];
        if !request.lines.to_ascii_lowercase().contains(PAYLOAD) {
            signed.push((PAYLOAD, request.payload));
        }
        signed.extend(
            self.token
                .as_deref()
                .map(|token| ("x-amz-security-token", token)),
        );
        let lines = signed
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"));
        let lines: String = lines.collect();
        let (names, headers) = headers(&format!("{}{lines}", request.lines));
        let signature = self.signature(request, request.query, &names, &headers);
        let credential = format!("{}/{}", self.id, request.scope());
        format!(
            "{lines}Authorization: AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={signature}\r\n"
        )
    }

    /// The query by which a URL is signed that lasts so many seconds; its lines are to be sent with it.
    pub fn presign(&self, request: &Unsigned<'_>, seconds: u64) -> String {
        let (names, headers) = headers(request.lines);
        let credential = format!("{}/{}", self.id, request.scope()).replace('/', "%2F");
        let query = format!(
            "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={credential}&X-Amz-Date={}&X-Amz-Expires={seconds}&X-Amz-SignedHeaders={}",
            time_text(request.time),
            names.replace(';', "%3B")
        );
        // Other parameters are in lower case, and so behind these.
        let query = [&*query, request.query].join(if request.query.is_empty() { "" } else { "&" });
        let signature = self.signature(request, &query, &names, &headers);
        format!("{query}&X-Amz-Signature={signature}")
    }

    fn signature(&self, request: &Unsigned<'_>, query: &str, names: &str, headers: &str) -> String {
        let Unsigned {
            method,
            path,
            payload,
            ..
        } = request;
        let canonical = format!("{method}\n{path}\n{query}\n{headers}\n{names}\n{payload}");
        let digest = hex(&Sha256::digest(&canonical));
        let (time, scope) = (time_text(request.time), request.scope());
        self.sign_text(
            request,
            &format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{digest}"),
        )
    }

    /// The signature of this text, with the key of the request.
    pub fn sign_text(&self, request: &Unsigned<'_>, text: &str) -> String {
        let mut key = format!("AWS4{}", self.secret).into_bytes();
        let scope = request.scope();
        for part in scope.split('/').chain([text]) {
            key = mac(&key, part);
        }
        hex(&key)
    }
}

/// The names of the fields that are signed, those in these lines and Host, which is that of tests unless they have one,
/// and their canonical text.
fn headers(lines: &str) -> (String, String) {
    let lines = lines.split("\r\n").filter_map(|line| line.split_once(':'));
    let lines = lines.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()));
    let mut headers: Vec<_> = lines.collect();
    if headers.iter().all(|(name, _)| name != "host") {
        headers.push(("host".to_owned(), "t".to_owned()));
    }
    headers.sort();
    let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
    let text = headers
        .iter()
        .map(|(name, value)| format!("{name}:{value}\n"));
    (names.join(";"), text.collect())
}

/// As `20130524T000000Z`.
pub fn time_text(time: SystemTime) -> String {
    let text = humantime::format_rfc3339_seconds(time).to_string();
    text.replace(['-', ':'], "")
}

/// A request that is to be signed. `query` is in its canonical form; `lines` are the headers that it has besides, each
/// ending in CRLF.
#[derive(Clone, Copy)]
pub struct Unsigned<'a> {
    pub method: &'a str,
    pub region: &'a str,
    pub path: &'a str,
    pub query: &'a str,
    pub lines: &'a str,
    pub payload: &'a str,
    pub time: SystemTime,
}

impl Unsigned<'_> {
    pub fn scope(&self) -> String {
        let time = time_text(self.time);
        format!("{}/{}/s3/aws4_request", &time[..8], self.region)
    }
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// In hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The digest that a signature covers.
pub fn digest(body: &[u8]) -> String {
    hex(&Sha256::digest(body))
}
