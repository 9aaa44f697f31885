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

    /// The header lines that sign this request. `query` is in its canonical form; `lines` are the headers that the
    /// request has besides, each ending in CRLF.
    pub(super) fn sign(&self, request: &Unsigned<'_>) -> String {
        let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let time = now.replace(['-', ':'], "");
        let day = &time[..8];
        let mut headers: Vec<(String, String)> = (request.lines.split("\r\n"))
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        headers.push(("host".to_owned(), "t".to_owned()));
        headers.push(("x-amz-date".to_owned(), time.clone()));
        let is_named = headers.iter().any(|(name, _)| name == PAYLOAD);
        if !is_named {
            headers.push((PAYLOAD.to_owned(), request.payload.to_owned()));
        }
        if let Some(token) = &self.token {
            headers.push(("x-amz-security-token".to_owned(), token.clone()));
        }
        headers.sort();
        let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
        let names = names.join(";");
        let mut canonical = format!("{}\n{}\n{}\n", request.method, request.path, request.query);
        for (name, value) in &headers {
            let _ = writeln!(canonical, "{name}:{value}");
        }
        let _ = write!(canonical, "\n{names}\n{}", request.payload);
        let scope = format!("{day}/{}/s3/aws4_request", request.region);
        let digest = hex(&Sha256::digest(&canonical));
        let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{digest}");
        let mut key = format!("AWS4{}", self.secret).into_bytes();
        for part in [day, request.region, "s3", "aws4_request", &text] {
            key = mac(&key, part);
        }
        let mut signed = format!("x-amz-date: {time}\r\n");
        if !is_named {
            let _ = write!(signed, "{PAYLOAD}: {}\r\n", request.payload);
        }
        if let Some(token) = &self.token {
            let _ = write!(signed, "x-amz-security-token: {token}\r\n");
        }
        let credential = format!("{}/{scope}", self.id);
        let signature = hex(&key);
        let _ = write!(
            signed,
            "Authorization: AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={signature}\r\n"
        );
        signed
    }
}

/// A request that is to be signed.
pub(super) struct Unsigned<'a> {
    pub(super) method: &'a str,
    pub(super) region: &'a str,
    pub(super) path: &'a str,
    pub(super) query: &'a str,
    pub(super) lines: &'a str,
    pub(super) payload: &'a str,
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
pub(super) fn digest(body: &[u8]) -> String {
    hex(&Sha256::digest(body))
}
