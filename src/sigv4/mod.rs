//! Signature Version 4 of AWS, as clients and servers of S3 alike need it: the canonical request, the text that is
//! signed, the key of a day, and [bodies in chunks](chunks).
//!
//! Pure: it reads no clock, and neither a request nor its body. No key shows its contents, and signatures are compared
//! in constant time.

pub mod chunks;

use std::fmt;
use std::time::SystemTime;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest, Sha256};

/// The algorithm, as it is named in requests.
pub const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// The payload of a request whose body is not signed.
pub const UNSIGNED: &str = "UNSIGNED-PAYLOAD";

/// The payload of a request without a body: SHA-256 of nothing.
pub const NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// What stands behind the region in a scope.
const SERVICE: &str = "s3/aws4_request";

/// The characters that are encoded in names and values of a query.
const ALL: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The characters that are encoded in a path: `/` stays.
const PATH: &AsciiSet = &ALL.remove(b'/');

/// The day and the region that a key signs for; the service is S3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope<'a> {
    /// As `20130524`.
    pub day: &'a str,
    pub region: &'a str,
}

impl<'a> Scope<'a> {
    /// The scope that `text` is.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (day, rest) = text.split_once('/')?;
        let (region, service) = rest.split_once('/')?;
        (service == SERVICE).then_some(Self { day, region })
    }
}

impl fmt::Display for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { day, region } = self;
        write!(f, "{day}/{region}/{SERVICE}")
    }
}

/// The key of one scope.
#[derive(Clone)]
pub struct SigningKey(Hmac<Sha256>);

impl SigningKey {
    /// The key of `scope`, derived from a secret.
    pub fn new(secret: &str, scope: Scope<'_>) -> Self {
        let (service, request) = SERVICE.split_once('/').unwrap_or_default();
        let mut key = keyed(format!("AWS4{secret}").as_bytes());
        for step in [scope.day, scope.region, service, request] {
            key = keyed(&key.chain_update(step).finalize().into_bytes());
        }
        Self(key)
    }

    /// The signature of `text`.
    pub fn sign(&self, text: &str) -> String {
        let code = self.0.clone().chain_update(text).finalize();
        hex(&code.into_bytes())
    }

    /// True where `signature` is the one of `text`.
    pub fn verify(&self, text: &str, signature: &str) -> bool {
        let code = self.0.clone().chain_update(text);
        let signature = HEXLOWER_PERMISSIVE.decode(signature.as_bytes());
        signature.is_ok_and(|signature| code.verify_slice(&signature).is_ok())
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey")
    }
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    // A key of any length is one; the empty one only satisfies the type.
    Hmac::new_from_slice(key).unwrap_or_else(|_| Hmac::new(&[0; 64].into()))
}

/// A request, as its signature sees it.
pub struct CanonicalRequest<'a> {
    pub method: &'a str,
    /// The path of its URI, encoded once.
    pub path: &'a str,
    /// Its query, as [`query`] makes it.
    pub query: &'a str,
    /// The SHA-256 of its body in hexadecimal digits, or a word for it.
    pub payload: &'a str,
}

impl CanonicalRequest<'_> {
    /// The names of the signed `fields`, and the text that is signed at this time. The fields stand in the order of
    /// their names, in lower case, and the lines of one name in theirs.
    pub fn text(&self, fields: &[(&str, &[u8])], time: &str, scope: Scope<'_>) -> (String, String) {
        let mut names = String::new();
        let mut text = Vec::with_capacity(512);
        for part in [self.method, self.path, self.query] {
            text.extend_from_slice(part.as_bytes());
            text.push(b'\n');
        }
        for lines in fields.chunk_by(|(one, _), (other, _)| one == other) {
            let separator = if names.is_empty() { "" } else { ";" };
            names.extend([separator, lines[0].0]);
            text.extend_from_slice(lines[0].0.as_bytes());
            for (at, (_, value)) in lines.iter().enumerate() {
                text.push(if at == 0 { b':' } else { b',' });
                push_trimmed(&mut text, value);
            }
            text.push(b'\n');
        }
        for part in ["\n", &names, "\n", self.payload] {
            text.extend_from_slice(part.as_bytes());
        }
        let digest = hex(&Sha256::digest(text));
        (names, format!("{ALGORITHM}\n{time}\n{scope}\n{digest}"))
    }
}

/// Adds `value` without the spaces around it, and with one for each run of them.
fn push_trimmed(text: &mut Vec<u8>, value: &[u8]) {
    let words = value.split(|&b| b == b' ').filter(|word| !word.is_empty());
    for (at, word) in words.enumerate() {
        if at > 0 {
            text.push(b' ');
        }
        text.extend_from_slice(word);
    }
}

/// `bytes` in hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

/// A path of a URI: `/` stays.
pub fn path(text: &str) -> String {
    utf8_percent_encode(text, PATH).to_string()
}

/// A query of a URI, in the order of the names, as it is signed.
pub fn query(parameters: &[(&str, &str)]) -> String {
    let encode = |text| utf8_percent_encode(text, ALL).to_string();
    let pairs = parameters.iter();
    let mut pairs: Vec<_> = pairs
        .map(|(name, value)| (encode(name), encode(value)))
        .collect();
    pairs.sort_unstable();
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    pairs.join("&")
}

/// `time` as `20130524T000000Z`.
pub fn time_text(time: SystemTime) -> String {
    let text = humantime::format_rfc3339_seconds(time).to_string();
    text.replace(['-', ':'], "")
}

/// The time that a [text](time_text) says.
pub fn parse_time(text: &str) -> Option<SystemTime> {
    let is_plain = |at: usize, byte: u8| match at {
        8 => byte == b'T',
        15 => byte == b'Z',
        _ => byte.is_ascii_digit(),
    };
    let is_time = text.len() == 16
        && text
            .bytes()
            .enumerate()
            .all(|(at, byte)| is_plain(at, byte));
    if !is_time {
        return None;
    }
    let [year, month, day, hour, minute, second] =
        [0..4, 4..6, 6..8, 9..11, 11..13, 13..15].map(|at| &text[at]);
    humantime::parse_rfc3339(&format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z")).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_time_is_read_as_it_is_written() {
        let may_2013 = SystemTime::UNIX_EPOCH + Duration::from_secs(1_369_353_600);
        assert_eq!(time_text(may_2013), "20130524T000000Z");
        assert_eq!(parse_time("20130524T000000Z"), Some(may_2013));
        for bad in [
            "",
            "20130524T000000",
            "20130524t000000Z",
            "2013052aT000000Z",
            "20131324T000000Z",
        ] {
            assert_eq!(parse_time(bad), None, "{bad}");
        }
        let multibyte = "201305\u{e9}4T000000Z";
        assert_eq!(parse_time(multibyte), None);
    }

    #[test]
    fn lines_of_one_field_are_joined_and_spaces_are_folded() {
        let request = CanonicalRequest {
            method: "GET",
            path: "/",
            query: "",
            payload: UNSIGNED,
        };
        let scope = Scope {
            day: "20130524",
            region: "r",
        };
        let text = |fields: &[(&str, &[u8])]| request.text(fields, "20130524T000000Z", scope);
        let apart = text(&[("host", b"h"), ("x-amz-a", b" 1  2 "), ("x-amz-a", b"3")]);
        assert_eq!(apart, text(&[("host", b"h"), ("x-amz-a", b"1 2,3")]));
        assert_eq!(apart.0, "host;x-amz-a");
    }

    #[test]
    fn a_query_is_in_the_order_of_its_names() {
        assert_eq!(
            query(&[("a-b", "2"), ("a", "x y"), ("a", "+/")]),
            "a=%2B%2F&a=x%20y&a-b=2"
        );
    }

    #[test]
    fn a_scope_is_of_s3() {
        let scope = Scope {
            day: "20130524",
            region: "eu",
        };
        assert_eq!(Scope::parse(&scope.to_string()), Some(scope));
        for other in [
            "20130524/eu/ec2/aws4_request",
            "20130524/eu",
            "",
            "a/b/c/s3/aws4_request",
        ] {
            assert_eq!(Scope::parse(other), None, "{other}");
        }
    }
}
