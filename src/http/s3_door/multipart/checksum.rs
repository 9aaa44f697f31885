//! The checksum of an upload in parts: of all its bytes, or, a composite, of the checksums of its parts.
//!
//! Which of the two a client means that does not say so is as in S3: a CRC-64 is of all bytes, another is a composite.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};

use crate::http::refusal::Refusal;
use crate::http::s3_door::errors::{BAD_CHECKSUM, NO_PART_CHECKSUM};
use crate::http::s3_door::fields::CHECKSUM_TYPE;
use crate::http::values::digest_fields::{
    AMZ_CHECKSUM, checksums, is_checksum, is_known_checksum, wanted_of,
};
use crate::http::values::put::verify;
use crate::store::{Checksum, Digests, Hasher, kept_value};

/// The algorithm of an upload, which its first request has.
pub const ALGORITHM: HeaderName = HeaderName::from_static("x-amz-checksum-algorithm");

/// The checksum of an upload.
pub struct Sum {
    name: HeaderName,
    /// The one that the last request has, and what it says.
    given: Option<HeaderValue>,
    expected: Digests,
    is_composite: bool,
    /// What hashes the checksums of the parts, and how many those are; `None` once a part has none.
    parts: Option<(Hasher, usize)>,
}

impl Sum {
    /// That of an upload whose `first` and `last` request have these fields; `None` where they name none.
    pub fn of(first: &HeaderMap, last: &HeaderMap) -> Result<Option<Self>, Refusal> {
        let given = last.iter().find(|(name, _)| is_checksum(name));
        let name = match (given, first.get(ALGORITHM)) {
            (Some((name, _)), _) => name.clone(),
            (None, Some(algorithm)) => name_of(algorithm).ok_or(BAD_CHECKSUM)?,
            (None, None) if first.contains_key(CHECKSUM_TYPE) => return Err(BAD_CHECKSUM),
            (None, None) => return Ok(None),
        };
        if !is_known_checksum(&name) || checksums(last).count() > 1 {
            return Err(BAD_CHECKSUM);
        }
        let said = last.get(CHECKSUM_TYPE).or(first.get(CHECKSUM_TYPE));
        let kind = name.as_str().trim_start_matches(AMZ_CHECKSUM);
        let is_composite = match (kind, said.map(HeaderValue::as_bytes)) {
            ("crc64nvme", None) | ("crc32" | "crc32c" | "crc64nvme", Some(b"FULL_OBJECT")) => false,
            ("crc64nvme", _) => return Err(BAD_CHECKSUM),
            (_, None | Some(b"COMPOSITE")) => true,
            _ => return Err(BAD_CHECKSUM),
        };
        let given = given.map(|(_, value)| value.clone());
        let mut expected = HeaderMap::new();
        if let Some(given) = &given {
            // Behind a composite may stand how many parts it is of.
            let mut pieces = given
                .as_bytes()
                .splitn(if is_composite { 2 } else { 1 }, |it| *it == b'-');
            let bare = HeaderValue::from_bytes(pieces.next().unwrap_or_default());
            expected.insert(name.clone(), bare.map_err(|_| BAD_CHECKSUM)?);
        }
        Ok(Some(Self {
            expected: Digests::of(&expected)?,
            parts: Some((Hasher::new(wanted_of(&name)), 0)),
            name,
            given,
            is_composite,
        }))
    }

    /// What all bytes must have.
    pub fn of_all(&self) -> Digests {
        if self.is_composite {
            Digests::default()
        } else {
            self.expected
        }
    }

    /// Takes the next part, with which these lines are `kept`.
    pub fn add(&mut self, kept: &[u8]) {
        let sum = kept_value(kept, self.name.as_str());
        let sum = sum.and_then(|sum| STANDARD.decode(sum).ok());
        self.parts = self
            .parts
            .take()
            .zip(sum)
            .map(|((mut hasher, parts), sum)| {
                hasher.update(&sum);
                (hasher, parts + 1)
            });
    }

    /// The field that the object keeps, if it is known: refused where it is not what was given.
    pub fn finish(self) -> Result<Option<(HeaderName, HeaderValue)>, Refusal> {
        let value = match (self.is_composite, self.parts, self.given) {
            (false, _, given) => given,
            (true, None, Some(_)) => return Err(NO_PART_CHECKSUM),
            (true, None, None) => None,
            (true, Some((hasher, parts)), given) => {
                let digests = hasher.finish();
                verify(&self.expected, &digests)?;
                let sum = digests.checksum.as_ref().map(Checksum::bytes);
                let sum = sum
                    .or(digests.sha256.as_ref().map(|it| &it[..]))
                    .unwrap_or_default();
                let value = format!("{}-{parts}", STANDARD.encode(sum));
                if given.is_some_and(|it| it.as_bytes().contains(&b'-') && it != value) {
                    return Err(BAD_CHECKSUM);
                }
                HeaderValue::try_from(value).ok()
            }
        };
        Ok(value.map(|value| (self.name, value)))
    }
}

/// The field of a checksum by this algorithm.
fn name_of(algorithm: &HeaderValue) -> Option<HeaderName> {
    let algorithm = algorithm.to_str().ok()?.to_ascii_lowercase();
    HeaderName::try_from(format!("{AMZ_CHECKSUM}{algorithm}")).ok()
}
