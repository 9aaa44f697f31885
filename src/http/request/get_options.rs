//! What the fields of a GET or HEAD ask for.

use hyper::Method;
use hyper::header::{HeaderMap, IF_RANGE, RANGE};
use hyper::http::request::Parts;

use crate::http::request::operation::GetOptions;
use crate::http::semantics::coding::Coding;
use crate::http::semantics::conditional::Preconditions;
use crate::http::semantics::digest_fields::{WANT_REPR_DIGEST, want};
use crate::http::service_config::ServiceConfig;

impl GetOptions {
    pub(in crate::http) fn of(head: &Parts, config: &ServiceConfig) -> Self {
        let mut ranges = HeaderMap::new();
        if head.method == Method::GET {
            for name in [RANGE, IF_RANGE] {
                for value in head.headers.get_all(&name) {
                    ranges.append(&name, value.clone());
                }
            }
        }
        Self {
            preconditions: Preconditions::of(&head.headers),
            ranges,
            digest: want(&head.headers, &WANT_REPR_DIGEST),
            coding: config
                .compress
                .then(|| Coding::preferred(&head.headers))
                .flatten(),
        }
    }
}
