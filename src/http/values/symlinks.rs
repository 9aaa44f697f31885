//! What symbolic links make of a request: where a name has no value and no folder, and links lead from it to one, it is
//! answered as a request of that one.
//!
//! Promises that the client needs its right to both names: what it may not read it gets as what is not there. A value
//! has the headers that its own name gives it. Asks the store only with `--follow-symlinks`. No change goes through a
//! link.

use crate::http::refusal::Refusal;
use crate::http::request::RequestContext;
use crate::http::values::get::{GetOptions, GetOutcome, get};
use crate::store::Key;

/// The name of the value, or of the folder, that links lead to from `name`.
pub async fn target(
    request: &RequestContext,
    name: &Key<'_>,
    is_folder: bool,
) -> Result<Option<Key<'static>>, Refusal> {
    let service = &*request.service;
    let directory = service.store.directory();
    let Some(directory) = directory.filter(|_| service.config.follows_symlinks) else {
        return Ok(None);
    };
    let target = directory.follow(name).await?;
    let target = target.filter(|target| target.is_folder == is_folder);
    Ok(target.map(|target| target.key))
}

/// The answer with the value that links lead to from `name`, as [`get`] finds it.
pub async fn value(
    request: &RequestContext,
    name: &Key<'_>,
    options: Option<&GetOptions>,
    codings: Option<&[usize]>,
) -> Result<Option<GetOutcome>, Refusal> {
    let key = target(request, name, false).await?;
    match key.filter(|key| request.may_read(key)) {
        Some(key) => get(request, &key, options, codings).await,
        None => Ok(None),
    }
}
