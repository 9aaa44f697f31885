//! Keys that are named after their values: below the prefixes of `[[content]]` the last segment is the SHA-256 of the
//! value, and so it is in the repositories of restic.
//!
//! Pure. The digest in a name counts as one that was sent with the value, so it is compared as those are, before the
//! value is published. Values that came into the directory by hand are served whatever their names are.
//!
//! A repository is any folder below a prefix with `kind = "restic"`: it has `config`, and a folder for each of the
//! [kinds](KINDS) of files. A file of data lies in a folder of the first two digits of its name, `data/ab/abcd`, as
//! rest-server and restic itself have it, and is at that key alone; restic asks for `data/abcd`.

use data_encoding::HEXLOWER;

use crate::http::refusal::Refusal;
use crate::http::refusal::common::BAD_KEY;
use crate::http::service_config::ServiceConfig;
use crate::store::{Key, Prefixes};

/// The algorithm, as registries write it before a digest.
const ALGORITHM: &str = "sha256:";

/// The kinds of files in a repository, each in a folder of its own.
const KINDS: [&str; 5] = [DATA, "index", "keys", "locks", "snapshots"];
const DATA: &str = "data";

/// The one file of a repository that is not named after its value.
pub const CONFIG: &str = "config";

/// The SHA-256 that the name of `key` demands of the value, if it demands one; a name without a digest is refused where
/// it has to have one.
pub fn named_sha256(key: &Key<'_>, config: &ServiceConfig) -> Result<Option<[u8; 32]>, Refusal> {
    if config.named_by_sha256.is_empty() && config.repositories.is_empty() {
        return Ok(None);
    }
    let (name, prefix) = (key.name(), config.named_by_sha256.prefix_of(key.as_str()));
    if let Some(prefix) = prefix {
        let digits = name.strip_prefix(ALGORITHM).unwrap_or(name);
        return sha256(digits).map(Some).ok_or_else(|| {
            BAD_KEY.because(format!(
                "bad key: below {prefix:?} the last segment is the SHA-256 of the value, 64 digits in lower case with or without sha256: \
                 before them, and {name:?} is none"
            ))
        });
    }
    let Some((kind, place)) = place(key.as_str(), config).filter(|_| name != CONFIG) else {
        return Ok(None);
    };
    let digest = name_at(kind, place).and_then(sha256);
    digest.map(Some).ok_or_else(|| {
        BAD_KEY.because(format!(
            "bad key: in {kind}/ of a repository the name is the SHA-256 of the value, 64 digits in lower case, in data/ below a folder \
             of the first two, and {name:?} is none of these"
        ))
    })
}

/// True if the names of all keys below both folders follow the same rule, or none.
pub fn are_alike(folders: [&Key<'_>; 2], config: &ServiceConfig) -> bool {
    let folders = folders.map(|folder| format!("{folder}/"));
    let both = || [&folders[0], &folders[1]];
    let are_alike = |named: &Prefixes| {
        let [from, to] = both().map(|folder| named.prefix_of(folder));
        let mut whole = folders.iter();
        from == to && whole.all(|folder| from.is_some() || named.below(folder).next().is_none())
    };
    let [from, to] = both().map(|folder| place(folder, config));
    are_alike(&config.named_by_sha256) && are_alike(&config.repositories) && from == to
}

/// The kind of file of a repository that `key` is, and its place in the folder of these; `None` for another key.
pub fn place<'k>(key: &'k str, config: &ServiceConfig) -> Option<(&'k str, &'k str)> {
    let inside = &key[config.repositories.prefix_of(key)?.len()..];
    let mut segments = inside.rsplit('/');
    let (name, parent) = (segments.next()?, segments.next()?);
    if segments.next() == Some(DATA) && parent.len() == 2 {
        return Some((DATA, &inside[inside.len() - name.len() - "ab/".len()..]));
    }
    KINDS.contains(&parent).then_some((parent, name))
}

/// The name of the file at this [place], by which restic asks for it; `None` where it would find none there.
pub fn name_at<'k>(kind: &str, place: &'k str) -> Option<&'k str> {
    let mut name = Some(place);
    if kind == DATA {
        let (first, behind) = place.split_once('/')?;
        name = (first.len() == 2 && behind.starts_with(first)).then_some(behind);
    }
    name.filter(|name| sha256(name).is_some())
}

/// The key of the file of data that restic calls `key`; `None` where that is no such name.
pub fn placed(key: &Key<'_>, config: &ServiceConfig) -> Option<Key<'static>> {
    let (kind, name) = place(key.as_str(), config)?;
    sha256(name).filter(|_| kind == DATA)?;
    let folder = key.as_str().strip_suffix(name)?;
    Key::new(format!("{folder}{}/{name}", &name[..2])).ok()
}

/// The digest that these digits are.
fn sha256(digits: &str) -> Option<[u8; 32]> {
    let digest = HEXLOWER.decode(digits.as_bytes()).ok()?;
    digest.try_into().ok()
}
