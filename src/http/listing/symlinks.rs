//! What symbolic links make of a request: where a name has no value and no folder, and links lead from it to one, it is
//! answered as a request of that one.
//!
//! Promises that the client needs its right to both names: what it may not read, or list, it gets as what is not there.
//! A value is answered, and has the headers that its own name gives it. A folder has one address, to which its listing
//! and its page lead: their names are those by which all is changed, and no change goes through a link. Asks the store
//! only with `--follow-symlinks`.

use crate::http::head::syntax::depth;
use crate::http::listing::ListTarget;
use crate::http::listing::perform::{folder_of, has_any};
use crate::http::refusal::Refusal;
use crate::http::request::RequestContext;
use crate::http::values::get::{GetOptions, GetOutcome, get};
use crate::store::{Key, Listing, Target, Unlisted};

async fn followed(request: &RequestContext, name: &Key<'_>) -> Result<Option<Target>, Refusal> {
    let service = &*request.service;
    let directory = service.store.directory();
    match directory.filter(|_| service.config.follows_symlinks) {
        Some(directory) => Ok(directory.follow(name).await?),
        None => Ok(None),
    }
}

/// The answer with the value that links lead to from `name`, as [`get`] finds it.
pub async fn value(
    request: &RequestContext,
    name: &Key<'_>,
    options: Option<&GetOptions>,
    codings: Option<&[usize]>,
) -> Result<Option<GetOutcome>, Refusal> {
    let target = followed(request, name).await?;
    match target.filter(|target| !target.is_folder && request.may_read(&target.key)) {
        Some(target) => get(request, &target.key, options, codings).await,
        None => Ok(None),
    }
}

/// The address of the folder of this name, or that links lead to from it, as [`folder_of`] finds it.
pub async fn folder(
    request: &RequestContext,
    name: &Key<'_>,
    depth: usize,
    query: Option<&str>,
) -> Result<Option<String>, Refusal> {
    let found = folder_of(request, name, depth, query).await?;
    if found.is_some() {
        return Ok(found);
    }
    let target = followed(request, name).await?;
    match target.filter(|target| target.is_folder) {
        Some(target) => folder_of(request, &target.key, depth, query).await,
        None => Ok(None),
    }
}

/// The address of the folder that links lead to from that of `target`, whose `listing` has nothing.
pub async fn listed(
    request: &RequestContext,
    target: &ListTarget,
    listing: &Listing,
) -> Result<Option<String>, Refusal> {
    let name = target
        .folder
        .strip_suffix('/')
        .filter(|_| !has_any(listing));
    let Some(name) = name.filter(|_| request.service.config.follows_symlinks) else {
        return Ok(None);
    };
    let query = target.query.as_deref();
    folder(request, &Key::new(name)?, depth(&request.path), query).await
}

/// The prefix of the folder that links lead to from that of this prefix.
pub async fn prefix(request: &RequestContext, prefix: &str) -> Result<Option<String>, Refusal> {
    let Some(name) = prefix.strip_suffix('/') else {
        return Ok(None);
    };
    let target = followed(request, &Key::new(name)?).await?;
    let target = target.filter(|target| target.is_folder);
    Ok(target.map(|target| format!("{}/", target.key)))
}

/// What the folder of `target` has beside its listing; nothing for who may not list all of it, and with a page that is
/// not its first.
pub async fn unlisted(request: &RequestContext, target: &ListTarget) -> Result<Unlisted, Refusal> {
    let (service, page) = (&*request.service, &target.page);
    let is_first = page.prefix == target.folder && page.after.is_empty();
    let directory = service.store.directory();
    match directory.filter(|_| is_first && page.within.has(&target.folder)) {
        Some(directory) => {
            let follows = service.config.follows_symlinks;
            let found = directory.lister.unlisted(&target.folder, follows);
            Ok(found.await?)
        }
        None => Ok(Unlisted::default()),
    }
}

/// What is not shown of a folder, in a sentence; empty where all is.
pub fn not_shown(found: &Unlisted, follows: bool) -> String {
    let of_links = if follows {
        [
            "symbolic link that leads out or nowhere",
            "symbolic links that lead out or nowhere",
        ]
    } else {
        ["symbolic link", "symbolic links"]
    };
    let of_names = ["name that cannot be served", "names that cannot be served"];
    let of_special = ["pipe, socket or device", "pipes, sockets or devices"];
    let counts: Vec<_> = [
        (found.symlinks, of_links),
        (found.names, of_names),
        (found.special, of_special),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, [one, many])| format!("{count} {}", if count == 1 { one } else { many }))
    .collect();
    let least = if found.has_more { "at least " } else { "" };
    if counts.is_empty() {
        return String::new();
    }
    format!("Not shown: {least}{}", counts.join(", "))
}
