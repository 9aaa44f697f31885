//! From the fields of a PUT to what its value is stored with.

use hyper::header::{CONTENT_RANGE, CONTENT_TYPE, HeaderMap};

use crate::http::request::operation::PutOptions;
use crate::http::request::rejection::Rejection;
use crate::http::semantics::conditional::Preconditions;
use crate::http::semantics::digest_fields::{Expected, are_announced};
use crate::http::semantics::media;
use crate::http::semantics::stored_fields::StoredFields;
use crate::http::service_config::ServiceConfig;

impl PutOptions {
    pub(in crate::http) fn of(
        headers: &HeaderMap,
        config: &ServiceConfig,
    ) -> Result<Self, Rejection> {
        // RFC 9110, section 14.4: a part must not be stored as if it were the whole.
        if headers.contains_key(CONTENT_RANGE) {
            return Err(Rejection::PartialPut);
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
