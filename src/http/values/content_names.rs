//! Keys that are named after their values: below the prefixes of `[[content]]` the last segment is the SHA-256 of the
//! value.
//!
//! Pure. The digest in a name counts as one that was sent with the value, so it is compared as those are, before the
//! value is published. Values that came into the directory by hand are served whatever their names are.

use data_encoding::HEXLOWER;

use crate::http::refusal::Refusal;
use crate::http::refusal::common::BAD_KEY;
use crate::http::service_config::ServiceConfig;
use crate::store::Key;

/// The algorithm, as registries write it before a digest.
const ALGORITHM: &str = "sha256:";

/// The SHA-256 that the name of `key` demands of the value, if it demands one; a name without a digest is refused where
/// it has to have one.
pub fn named_sha256(key: &Key<'_>, config: &ServiceConfig) -> Result<Option<[u8; 32]>, Refusal> {
    let Some(prefix) = config.named_by_sha256.prefix_of(key.as_str()) else {
        return Ok(None);
    };
    let name = key.name();
    let digits = name.strip_prefix(ALGORITHM).unwrap_or(name);
    let digest = HEXLOWER.decode(digits.as_bytes()).ok();
    let sha256 = digest.and_then(|digest| digest.try_into().ok());
    sha256.map(Some).ok_or_else(|| {
        BAD_KEY.because(format!(
            "bad key: below {prefix:?} the last segment is the SHA-256 of the value, 64 digits in lower case with or without sha256: \
             before them, and {name:?} is none"
        ))
    })
}

/// True if the names of all keys below both folders follow the same rule, or none.
pub fn are_alike(folders: [&Key<'_>; 2], config: &ServiceConfig) -> bool {
    let named = &config.named_by_sha256;
    let folders = folders.map(|folder| format!("{folder}/"));
    let [from, to] = [&folders[0], &folders[1]].map(|folder| named.prefix_of(folder));
    let mut whole = folders.iter();
    from == to && whole.all(|folder| from.is_some() || named.below(folder).next().is_none())
}
