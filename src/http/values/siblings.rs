//! Siblings: the values that hold another value compressed, `app.js.br` that of `app.js`.
//!
//! Promises that a sibling answers only a client that may read it, that none stands for a value that was replaced after
//! it, and that one that cannot be read fails no value. The fields are those of the value itself; bytes, length, time
//! and entity tag are the sibling's.

use crate::http::request::RequestContext;
use crate::http::service_config::ServiceConfig;
use crate::http::values::representation::RepresentedValue;
use crate::store::{Key, Purpose};

/// The content codings of siblings, those that save most first; a client prefers some of them, as places in this list.
pub const CODINGS: [&str; 3] = ["br", "zstd", "gzip"];

/// The ends of their names.
const ENDINGS: [&str; 3] = ["br", "zst", "gz"];

/// The key of the value that a value of this key would be a sibling of, by its name and its site.
pub fn value_of<'k>(key: &'k Key<'_>, config: &ServiceConfig) -> Option<Key<'k>> {
    let (value, ending) = config
        .sites
        .of(key.as_str())
        .and(key.as_str().rsplit_once('.'))?;
    Key::new(value).ok().filter(|_| ENDINGS.contains(&ending))
}

/// The sibling of `value` that the client prefers, if there is one that was made from the value.
pub async fn sibling(
    request: &RequestContext,
    key: &Key<'_>,
    codings: &[usize],
    value: &RepresentedValue,
) -> Option<RepresentedValue> {
    if !value.representation().has_siblings {
        return None;
    }
    let service = &*request.service;
    for &place in codings {
        let name = format!("{}.{}", key.as_str(), ENDINGS[place]);
        let Some(key) = Key::new(name).ok().filter(|key| request.may_read(key)) else {
            continue;
        };
        let found = service
            .store
            .get(service.reactor, &key, false, Purpose::Use)
            .await;
        let found = found.inspect_err(|error| service.log_failure(error, Some(request)));
        let coded = found.ok().flatten();
        if let Some(coded) = coded.and_then(|found| value.coded(found, CODINGS[place])) {
            return Some(coded);
        }
    }
    None
}
