//! Digests in fields: Content-Digest, Repr-Digest and their Want- counterparts (RFC 9530), Digest, which Repr-Digest
//! replaced (RFC 3230), Content-MD5 (RFC 1864), and those that clients of S3 send (`x-amz-checksum-*`,
//! `x-amz-content-sha256`).
//!
//! Pure: reads what a client says a value's digests are, or which one it would like, and renders digests. It hashes
//! nothing. A PUT brings a whole value, so that content and representation are the same bytes, and both fields mean the
//! value. A part of a resumable upload has a digest of its own.

use std::fmt::Display;

use crate::http::refusal::Refusal;
use crate::http::refusal::kind::Kind;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use data_encoding::HEXLOWER_PERMISSIVE;
use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderName, HeaderValue, TRAILER};
use sfv::{Dictionary, ListEntry, Parser};

use crate::http::head::names::WANT_REPR_DIGEST;
use crate::http::head::syntax::names_member;
use crate::store::{Checksum, ChecksumKind, Digest, Digests, Wanted};

/// The digest of the bytes of a message.
pub const CONTENT_DIGEST: HeaderName = HeaderName::from_static("content-digest");
/// The digest of a whole value, also where only a part of it is sent.
pub const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");
/// Its predecessor.
pub const DIGEST: HeaderName = HeaderName::from_static("digest");
const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");
/// SHA-256 in hexadecimal digits, or a word in its place.
pub const AMZ_CONTENT_SHA256: HeaderName = HeaderName::from_static("x-amz-content-sha256");
const AMZ_SHA256: &str = "x-amz-checksum-sha256";

/// The fields of the checksums of S3 clients, base64 of their bytes.
pub const AMZ_CHECKSUM: &str = "x-amz-checksum-";
/// `x-amz-checksum-` and one of these is no checksum.
const NO_CHECKSUMS: [&str; 3] = ["algorithm", "mode", "type"];
const AMZ_CHECKSUMS: [(&str, ChecksumKind); 4] = [
    ("x-amz-checksum-crc32", ChecksumKind::Crc32),
    ("x-amz-checksum-crc32c", ChecksumKind::Crc32c),
    ("x-amz-checksum-crc64nvme", ChecksumKind::Crc64Nvme),
    ("x-amz-checksum-sha1", ChecksumKind::Sha1),
];

/// The algorithms of RFC 9530 for which an attacker cannot make two values with one digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Sha256,
    Sha512,
}

impl Algorithm {
    /// In the server's own order of preference: SHA-256 is enough for anyone, and its digests are shorter.
    const ALL: [Self; 2] = [Self::Sha256, Self::Sha512];

    /// Its name in the registry of RFC 9530.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha-256",
            Self::Sha512 => "sha-512",
        }
    }
}

/// `digest` as the value of a Content-Digest or Repr-Digest.
pub fn field(digest: &Digest) -> String {
    let (algorithm, bytes) = match digest {
        Digest::Sha256(bytes) => (Algorithm::Sha256, &bytes[..]),
        Digest::Sha512(bytes) => (Algorithm::Sha512, &bytes[..]),
    };
    format!("{}=:{}:", algorithm.name(), STANDARD.encode(bytes))
}

/// Computed too, for clients without another algorithm.
const MD5: &str = "md5";

const BAD_DIGEST: &Kind = &Kind::new(StatusCode::BAD_REQUEST, "bad-digest");

/// The refusal of digests that cannot be checked.
fn bad_digest(why: impl Display) -> Refusal {
    BAD_DIGEST.because(format!("bad digest: {why}"))
}

fn malformed() -> Refusal {
    bad_digest("a digest is malformed: it should look like sha-256=:base64:")
}

fn unknown(name: &HeaderName) -> Refusal {
    bad_digest(format_args!(
        "{name} has no digest that this server can check, which are sha-256, sha-512 and md5"
    ))
}

fn contradiction(algorithm: &str) -> Refusal {
    bad_digest(format_args!(
        "two digests by {algorithm} differ, so that no value can have both"
    ))
}

fn two_checksums() -> Refusal {
    bad_digest("a value has one x-amz-checksum-")
}

/// The refusal of the digest of a whole value that comes with a part in the middle.
pub fn of_part() -> Refusal {
    bad_digest("a Repr-Digest comes with the first request of an upload, or with its last part")
}

/// The digests that a value must have, as far as the server can compute them.
impl Digests {
    /// The digests in `headers`, or trailers. Unknown algorithms are ignored if the field also has a known one. A
    /// malformed digest by a known algorithm, and a field without a known algorithm, are errors: no digest is skipped
    /// silently.
    ///
    /// Within a field the last of several digests by one algorithm counts (RFC 9651, section 4.2.2); two fields must
    /// not contradict each other.
    pub fn of(headers: &HeaderMap) -> Result<Self, Refusal> {
        Self::of_content(headers)?.and(Self::of_representation(headers)?)
    }

    /// As [`Digests::of`], but the digests of the bytes of the message alone.
    pub fn of_content(headers: &HeaderMap) -> Result<Self, Refusal> {
        let mut all = Self::of_field(headers, &CONTENT_DIGEST)?;
        for line in headers.get_all(CONTENT_MD5) {
            let md5 = array_of(line);
            let md5 = md5.ok_or_else(|| {
                bad_digest("Content-MD5 is malformed: it should be the base64 of 16 bytes")
            })?;
            all.md5 = either(all.md5, Some(md5), || contradiction(MD5))?;
        }
        all.and(Self::of_s3(headers)?)
    }

    /// The digests of a client of S3.
    fn of_s3(headers: &HeaderMap) -> Result<Self, Refusal> {
        let mut checksums = headers.keys().filter(|name| is_checksum(name));
        if let Some(unknown) = checksums.find(|name| !is_known_checksum(name)) {
            return Err(self::unknown(unknown));
        }
        let mut all = Self {
            sha256: headers.get(AMZ_CONTENT_SHA256).and_then(sha256_of_hex),
            ..Self::default()
        };
        let malformed = |name| {
            bad_digest(format_args!(
                "{name} is malformed: it should be base64 of as many bytes as the checksum has"
            ))
        };
        for line in headers.get_all(AMZ_SHA256) {
            let sha256 = array_of(line).ok_or_else(|| malformed(AMZ_SHA256))?;
            let differ = || contradiction(Algorithm::Sha256.name());
            all.sha256 = either(all.sha256, Some(sha256), differ)?;
        }
        for (name, kind) in AMZ_CHECKSUMS {
            for line in headers.get_all(name) {
                let bytes = STANDARD.decode(line).ok();
                let checksum = bytes.and_then(|bytes| Checksum::new(kind, &bytes));
                let checksum = checksum.ok_or_else(|| malformed(name))?;
                all.checksum = either(all.checksum, Some(checksum), two_checksums)?;
            }
        }
        Ok(all)
    }

    /// As [`Digests::of`], but the digests of the whole value alone, of which the message may bring a part.
    pub fn of_representation(headers: &HeaderMap) -> Result<Self, Refusal> {
        let digest = match joined(headers, &DIGEST)? {
            Some(field) => Self::parse(&modern(&field)?, &DIGEST)?,
            None => Self::default(),
        };
        digest.and(Self::of_field(headers, &REPR_DIGEST)?)
    }

    fn of_field(headers: &HeaderMap, name: &HeaderName) -> Result<Self, Refusal> {
        let field = joined(headers, name)?;
        field.map_or(Ok(Self::default()), |field| Self::parse(&field, name))
    }

    /// The digests of both, for instance of a head and of its trailers.
    pub fn and(self, other: Self) -> Result<Self, Refusal> {
        let differ = |algorithm: &'static str| move || contradiction(algorithm);
        Ok(Self {
            sha256: either(self.sha256, other.sha256, differ(Algorithm::Sha256.name()))?,
            sha512: either(self.sha512, other.sha512, differ(Algorithm::Sha512.name()))?,
            md5: either(self.md5, other.md5, differ(MD5))?,
            checksum: either(self.checksum, other.checksum, two_checksums)?,
        })
    }

    /// This SHA-256, if there is one.
    pub fn of_sha256(sha256: Option<[u8; 32]>) -> Self {
        Self {
            sha256,
            ..Self::default()
        }
    }

    fn parse(field: &str, name: &HeaderName) -> Result<Self, Refusal> {
        let members = dictionary(field).ok_or_else(malformed)?;
        let known = Self {
            sha256: digest(&members, Algorithm::Sha256.name())?,
            sha512: digest(&members, Algorithm::Sha512.name())?,
            md5: digest(&members, MD5)?,
            checksum: None,
        };
        if known.wanted().is_none() {
            return Err(unknown(name));
        }
        Ok(known)
    }
}

/// True where digests are announced as trailers (RFC 9110, section 6.6.2).
pub fn are_announced(headers: &HeaderMap) -> bool {
    let names = [CONTENT_DIGEST, REPR_DIGEST, DIGEST, CONTENT_MD5];
    let is_announced = |name: &HeaderName| names_member(headers, &TRAILER, name.as_str());
    names.iter().any(is_announced)
}

/// The algorithm of the digest that the client wants, by [`WANT_REPR_DIGEST`]. A malformed field counts as absent.
pub fn want(headers: &HeaderMap) -> Option<Algorithm> {
    let members = dictionary(&joined(headers, &WANT_REPR_DIGEST).ok()??)?;
    let weight = |algorithm: &Algorithm| {
        let Some(ListEntry::Item(item)) = members.get(algorithm.name()) else {
            return None;
        };
        let weight = item.bare_item.as_integer().map(i64::from);
        weight.filter(|weight| (0..=10).contains(weight))
    };
    // RFC 9530, section 4: 0 is "not acceptable".
    let wanted = Algorithm::ALL.into_iter().filter(|a| weight(a) > Some(0));
    // Of equal ones `max_by_key` takes the last.
    wanted.rev().max_by_key(weight)
}

/// All lines of a field as one (RFC 9651, section 4.2), empty ones left out; `None` where there is none.
fn joined(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, Refusal> {
    let lines = headers.get_all(name).iter().map(HeaderValue::to_str);
    let lines: Result<Vec<_>, _> = lines.collect();
    let mut lines = lines.map_err(|_| malformed())?;
    lines.retain(|line| !line.is_empty());
    Ok((!lines.is_empty()).then(|| lines.join(", ")))
}

fn dictionary(field: &str) -> Option<Dictionary> {
    Parser::new(field).parse().ok()
}

/// The value of a Digest in the syntax of Repr-Digest: names have lower case, and digests stand between colons.
fn modern(field: &str) -> Result<String, Refusal> {
    let member = |member: &str| {
        let (algorithm, digest) = member.trim().split_once('=')?;
        Some(format!("{}=:{digest}:", algorithm.to_ascii_lowercase()))
    };
    let members: Option<Vec<_>> = field.split(',').map(member).collect();
    Ok(members.ok_or_else(malformed)?.join(", "))
}

fn digest<const N: usize>(
    members: &Dictionary,
    algorithm: &'static str,
) -> Result<Option<[u8; N]>, Refusal> {
    let digest = match members.get(algorithm) {
        Some(ListEntry::Item(item)) => item.bare_item.as_byte_sequence(),
        Some(_) => None,
        None => return Ok(None),
    };
    let digest = digest.ok_or_else(malformed)?.try_into();
    let why = |_| bad_digest(format_args!("a digest by {algorithm} has the wrong length"));
    digest.map(Some).map_err(why)
}

/// The bytes of a digest in base64.
fn array_of<const N: usize>(line: &HeaderValue) -> Option<[u8; N]> {
    STANDARD.decode(line).ok()?.try_into().ok()
}

/// The bytes of 64 hexadecimal digits; a client that has not hashed what it sends has a word in their place.
fn sha256_of_hex(text: &HeaderValue) -> Option<[u8; 32]> {
    let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?;
    bytes.try_into().ok()
}

/// True for a field with a checksum of a client of S3.
pub fn is_checksum(name: &HeaderName) -> bool {
    let kind = name.as_str().strip_prefix(AMZ_CHECKSUM);
    kind.is_some_and(|kind| !NO_CHECKSUMS.contains(&kind))
}

/// The checksums of a client of S3 in these fields.
pub fn checksums(fields: &HeaderMap) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
    let all = fields.iter();
    all.filter(|(name, _)| is_known_checksum(name))
}

/// The bytes that this checksum is of: behind that of the checksums of parts stands how many those are.
pub fn checksum_type(value: &HeaderValue) -> &'static str {
    let is_composite = value.as_bytes().contains(&b'-');
    if is_composite {
        "COMPOSITE"
    } else {
        "FULL_OBJECT"
    }
}

/// The checksum of a client of S3 that comes in this field.
pub fn wanted_of(name: &HeaderName) -> Wanted {
    let known = AMZ_CHECKSUMS.iter().find(|(known, _)| name == known);
    Wanted {
        sha256: *name == AMZ_SHA256,
        checksum: known.map(|(_, kind)| *kind),
        ..Wanted::default()
    }
}

/// True where the server can compute the checksum that comes in this field.
pub fn is_known_checksum(name: &HeaderName) -> bool {
    *name == AMZ_SHA256 || AMZ_CHECKSUMS.iter().any(|(known, _)| name == known)
}

/// The digest of either; two that differ are this error.
fn either<T: PartialEq>(
    a: Option<T>,
    b: Option<T>,
    differ: impl FnOnce() -> Refusal,
) -> Result<Option<T>, Refusal> {
    match (a, b) {
        (Some(a), Some(b)) if a != b => Err(differ()),
        (a, b) => Ok(a.or(b)),
    }
}

#[cfg(test)]
mod tests {
    use crate::http::values::digest_fields::*;
    use proptest::option;
    use proptest::prelude::*;

    /// SHA-256 of `{"hello": "world"}` and a line feed, from RFC 9530, appendix A.
    const HELLO: &str = "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:";
    /// Its SHA-512, from appendix B.
    const HELLO_512: &str = "sha-512=:YMAam51Jz/jOATT6/zvHrLVgOYTGFy1d6GJiOHTohq4yP+pgk4vf2aCsyRZOtw8MjkM7iw7yZ/WkppmM44T3qg==:";

    fn headers(fields: &[(&str, &str)]) -> HeaderMap {
        let field = |&(name, value): &(&str, &str)| {
            (HeaderName::try_from(name).unwrap(), value.parse().unwrap())
        };
        fields.iter().map(field).collect()
    }

    fn expected(fields: &[(&str, &str)]) -> Result<Digests, Refusal> {
        Digests::of(&headers(fields))
    }

    /// Of one Repr-Digest.
    fn expected_of(field: &str) -> Result<Digests, Refusal> {
        expected(&[("repr-digest", field)])
    }

    fn sha256(of: &Digests) -> Option<String> {
        of.sha256.map(|digest| field(&Digest::Sha256(digest)))
    }

    #[test]
    fn the_examples_of_rfc_9530() {
        let one = expected_of(HELLO).unwrap();
        assert_eq!(sha256(&one).as_deref(), Some(HELLO));
        assert_eq!(one.sha512, None);

        let both = format!("{HELLO}, {HELLO_512}");
        let both = expected(&[("content-digest", &both)]).unwrap();
        assert_eq!(both.sha256, one.sha256);
        let sha512 = both.sha512.map(|digest| field(&Digest::Sha512(digest)));
        assert_eq!(sha512.as_deref(), Some(HELLO_512));
    }

    #[test]
    fn unknown_algorithms_are_ignored_beside_a_known_one_and_refused_alone() {
        for fields in [&[][..], &[("repr-digest", "")], &[("digest", "")]] {
            assert_eq!(expected(fields), Ok(Digests::default()), "{fields:?}");
        }
        for (name, field) in [
            ("repr-digest", "sha=:AAAA:, unixsum=:Aw==:"),
            ("repr-digest", "sha-1=:AAAA:"),
            ("content-digest", "x, y=1;z, w=(1 2), v=\"sha-256=:AAAA:\""),
            ("digest", "UNIXsum=AAAA, SHA=AAAA"),
        ] {
            let why = unknown(&HeaderName::from_static(name));
            assert_eq!(expected(&[(name, field)]), Err(why), "{field}");
        }
        let beside = format!("unixsum=:Aw==:, sha=:AAAA:, {HELLO}");
        let beside = expected_of(&beside).unwrap();
        assert_eq!(sha256(&beside).as_deref(), Some(HELLO));
    }

    #[test]
    fn md5_and_the_field_before_repr_digest_are_compared_too() {
        let md5 = expected(&[("content-md5", "Q2hlY2sgSW50ZWdyaXR5IQ==")]).unwrap();
        for (name, field) in [
            ("repr-digest", "md5=:Q2hlY2sgSW50ZWdyaXR5IQ==:"),
            ("digest", "MD5=Q2hlY2sgSW50ZWdyaXR5IQ=="),
        ] {
            assert_eq!(expected(&[(name, field)]).unwrap(), md5, "{field}");
        }
        let old = "SHA-256=RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=,unixsum=AAAA";
        let old = expected(&[("digest", old)]).unwrap();
        assert_eq!(sha256(&old).as_deref(), Some(HELLO));
        for bad in ["sha-256", "sha-256=A!", "sha-256=:AAAA:", "sha-256=,"] {
            let why = expected(&[("digest", bad)]);
            assert_eq!(why, Err(malformed()), "{bad}");
        }
    }

    #[test]
    fn what_cannot_be_compared_with_is_an_error() {
        const MALFORMED: &str = "a digest is malformed: it should look like sha-256=:base64:";
        const MD5: &str = "Content-MD5 is malformed: it should be the base64 of 16 bytes";
        const LENGTH: &str = "a digest by sha-256 has the wrong length";
        let zeros = field(&Digest::Sha256([0; 32]));
        for (field, why) in [
            ("sha-256=:AAAA:", LENGTH),
            ("sha-256=::", LENGTH),
            (
                &HELLO.replace("256", "512"),
                "a digest by sha-512 has the wrong length",
            ),
            ("sha-256", MALFORMED),
            ("sha-256=1", MALFORMED),
            ("sha-256=\"AAAA\"", MALFORMED),
            ("sha-256=(:AAAA:)", MALFORMED),
            ("sha-256=:AAAA", MALFORMED),
            ("sha-256=:A!AA:", MALFORMED),
            ("SHA-256=:AAAA:", MALFORMED),
            (&format!("{HELLO},"), MALFORMED),
            (&format!("{HELLO} x=1"), MALFORMED),
            (&format!("{HELLO}, ?"), MALFORMED),
        ] {
            assert_eq!(
                expected_of(field),
                Err(bad_digest(why.to_owned())),
                "{field}"
            );
        }
        let check = ("content-md5", "Q2hlY2sgSW50ZWdyaXR5IQ==");
        for md5 in ["AAAA", "", &check.1[..22], &format!("{},", check.1)] {
            assert_eq!(
                expected(&[("content-md5", md5)]),
                Err(bad_digest(MD5)),
                "{md5}"
            );
        }
        let both = expected(&[("repr-digest", HELLO), ("content-digest", &zeros)]);
        let differ = |name| {
            Err(bad_digest(format!(
                "two digests by {name} differ, so that no value can have both"
            )))
        };
        assert_eq!(both, differ("sha-256"));
        let both = expected(&[check, ("content-md5", "AAAAAAAAAAAAAAAAAAAAAA==")]);
        assert_eq!(both, differ("md5"));
        let not_text = hyper::header::HeaderValue::from_bytes(b"x=\"\xe9\"").unwrap();
        let headers = HeaderMap::from_iter([(REPR_DIGEST, not_text)]);
        assert_eq!(Digests::of(&headers), Err(malformed()));
    }

    #[test]
    fn lines_are_one_dictionary_and_its_last_word_counts() {
        let zeros = field(&Digest::Sha256([0; 32]));
        let one = expected_of(HELLO).unwrap();
        let (hello, none) = (("repr-digest", HELLO), ("repr-digest", ""));
        for fields in [
            &[("repr-digest", &*zeros), hello][..],
            &[none, hello, none],
            &[("repr-digest", &format!("{zeros},\t {HELLO};a=1"))],
            &[("repr-digest", &format!("sha-256=1, {HELLO}"))],
            &[hello, ("content-digest", HELLO)],
        ] {
            assert_eq!(expected(fields), Ok(one), "{fields:?}");
        }
        let apart = expected(&[hello, ("content-digest", HELLO_512)]).unwrap();
        assert_eq!((apart.sha256, apart.sha512.is_some()), (one.sha256, true));
    }

    #[test]
    fn the_example_of_rfc_1864() {
        let md5 = expected(&[("content-md5", "Q2hlY2sgSW50ZWdyaXR5IQ==")]).unwrap();
        assert_eq!(md5.md5.as_ref(), Some(b"Check Integrity!"));
        assert_eq!((md5.sha256, md5.sha512), (None, None));
    }

    #[test]
    fn trailers_add_to_the_head_and_may_not_contradict_it() {
        let head = expected_of(HELLO).unwrap();
        let trailer = expected(&[("content-digest", HELLO_512)]).unwrap();
        let both = head.and(trailer).unwrap();
        assert_eq!((both.sha256, both.sha512), (head.sha256, trailer.sha512));
        assert_eq!(both.and(head), Ok(both));
        let other = Digests {
            sha256: Some([0; 32]),
            ..Digests::default()
        };
        assert_eq!(both.and(other), Err(contradiction("sha-256")));
    }

    #[test]
    fn the_heaviest_known_wish_is_granted() {
        use Algorithm::{Sha256, Sha512};
        for (field, wanted) in [
            ("sha-256=1", Some(Sha256)),
            ("sha-512=3, sha-256=10, unixsum=0", Some(Sha256)),
            ("sha-256=1, sha-512=2", Some(Sha512)),
            ("sha-512=5, sha-256=5", Some(Sha256)),
            ("sha-256=0, sha-512=1", Some(Sha512)),
            ("sha-256=11, sha-512=1", Some(Sha512)),
            ("sha-256=-1, sha-512=1;a", Some(Sha512)),
            ("sha-256=2.5, sha-512=1", Some(Sha512)),
            ("sha-256=1, sha-256=0", None),
            ("sha-256=0", None),
            ("sha-256", None),
            ("sha-256=:AAAA:", None),
            ("sha-256=1,", None),
            ("md5=10, sha=3", None),
            ("", None),
        ] {
            let of = |name| want(&headers(&[(name, field)]));
            assert_eq!(of("want-repr-digest"), wanted, "{field}");
            assert_eq!(of("content-digest"), None);
        }
        assert_eq!(want(&HeaderMap::new()), None);
    }

    proptest! {
        #[test]
        fn what_is_rendered_is_read_again(
            sha256 in option::of(any::<[u8; 32]>()),
            sha512 in option::of(any::<[[u8; 32]; 2]>()),
            junk in prop::collection::vec("[a-z]{1,5}(=[0-9]{1,3}|=:AAAA:|=\"[a-z,]{0,5}\")?", 0..3),
            lines: bool,
        ) {
            let sha512 = sha512.map(|halves| <[u8; 64]>::try_from(halves.concat()).unwrap());
            let mut members = junk;
            members.extend(sha256.map(|digest| field(&Digest::Sha256(digest))));
            members.extend(sha512.map(|digest| field(&Digest::Sha512(digest))));
            members.reverse();
            let headers = if lines {
                members.iter().map(|m| (REPR_DIGEST, m.parse().unwrap())).collect()
            } else {
                headers(&[("repr-digest", &members.join(" , "))])
            };
            let expected = Digests { sha256, sha512, ..Digests::default() };
            let expected = if expected.wanted().is_none() && !members.is_empty() {
                Err(unknown(&REPR_DIGEST))
            } else {
                Ok(expected)
            };
            prop_assert_eq!(Digests::of(&headers), expected);
        }

        #[test]
        fn nothing_panics(field in "[ -~]{0,50}", name in 0..5_usize) {
            let names = [CONTENT_DIGEST, DIGEST, REPR_DIGEST, CONTENT_MD5, WANT_REPR_DIGEST];
            let of = |name: &HeaderName| HeaderMap::from_iter([(name.clone(), field.trim().parse().unwrap())]);
            let _ = Digests::of(&of(&names[name]));
            want(&of(&WANT_REPR_DIGEST));
        }
    }
}
