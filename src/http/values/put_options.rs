//! From the fields of a PUT to what its value is stored with.

use hyper::header::{CONTENT_RANGE, CONTENT_TYPE, HeaderMap};

use crate::http::refusal::rejection::Rejection;
use crate::http::service::operation::PutOptions;
use crate::http::service_config::ServiceConfig;
use crate::http::values::conditional::Preconditions;
use crate::http::values::digest_fields::{AMZ_CONTENT_SHA256, Expected, are_announced};
use crate::http::values::media;
use crate::http::values::stored_fields::{BadField, StoredFields};

impl PutOptions {
    pub fn of(headers: &HeaderMap, config: &ServiceConfig) -> Result<Self, Rejection> {
        // RFC 9110, section 14.4: a part must not be stored as if it were the whole.
        if headers.contains_key(CONTENT_RANGE) {
            return Err(Rejection::PartialPut);
        }
        // Some clients of S3 frame a body so, and leave out the coding that says it.
        let sha256 = headers.get(AMZ_CONTENT_SHA256);
        if sha256.is_some_and(|word| word.as_bytes().starts_with(b"STREAMING-")) {
            return Err(BadField::Framing.into());
        }
        Ok(Self {
            preconditions: Preconditions::of(headers),
            media_type: headers
                .get(CONTENT_TYPE)
                .and_then(|v| media::check(v.as_bytes()))
                .map(Into::into),
            // The C server knew none of these fields.
            fields: if config.compat {
                StoredFields::default()
            } else {
                StoredFields::of(headers)?
            },
            expected: Expected::of(headers)?,
            digests_follow: are_announced(headers),
            most: None,
            is_only_new: false,
            creation: None,
        })
    }
}
