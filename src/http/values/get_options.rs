//! What the fields of a GET or HEAD ask for.

use hyper::Method;
use hyper::header::{HeaderMap, IF_RANGE, RANGE};
use hyper::http::request::Parts;

use crate::http::service::operation::GetOptions;
use crate::http::service_config::ServiceConfig;
use crate::http::values::coding::Coding;
use crate::http::values::conditional::Preconditions;
use crate::http::values::digest_fields::{WANT_REPR_DIGEST, want};

impl GetOptions {
    pub fn of(head: &Parts, config: &ServiceConfig) -> Self {
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
