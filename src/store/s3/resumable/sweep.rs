//! Resumable uploads that expired, and what they have in the store beside what is kept of them.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use hyper::Method;

use super::super::super::error::Error;
use super::super::super::list::Page;
use super::super::super::prefixes::Prefixes;
use super::super::super::resumable::UploadId;
use super::super::call::Call;
use super::super::client::Client;
use super::super::joining::forget;
use super::super::list::AT_ONCE;
use super::super::names::names;
use super::info::{self, Standing, Stored};
use super::remove::{clear, mark};
use super::unfinished::UnfinishedUploads;

/// Removes the uploads that nothing was done to for `expiry`; how many of them were unfinished. Without an expiry those that
/// are `old` and finished are removed, in any case tails that are old and belong to nothing. Those that are left are counted.
pub(in crate::store) async fn expire(
    client: &Client,
    unfinished: &UnfinishedUploads,
    expiry: Duration,
    old: Duration,
) -> Result<u64, Error> {
    let (now, mut expired) = (SystemTime::now(), 0);
    let limit = if expiry.is_zero() { old } else { expiry };
    let search = unfinished.search();
    let mut there = HashSet::new();
    for (name, modified) in all(client).await? {
        let age = now.duration_since(modified).unwrap_or_default();
        let (id, tail) = name.split_once('.').unzip();
        let Some(id) = UploadId::parse(id.unwrap_or(&name)) else {
            continue;
        };
        let object = info::object(client.place(), &name);
        if tail.is_some() {
            if age >= old && !there.contains(&id) {
                forget(client, &Call::named(Method::DELETE, object)).await;
            }
        } else if age < limit && !search.is_news(modified) {
            there.insert(id);
        } else {
            unfinished.look(id);
            let Some(mut stored) = info::load(client, &object).await? else {
                continue;
            };
            let was_open = stored.is_open();
            let is_removed = remove(client, &object, &mut stored, limit, !expiry.is_zero()).await?;
            let is_open = was_open && !is_removed;
            unfinished.looked(id, is_open, stored.info.uploader());
            if !is_removed {
                there.insert(id);
            } else if was_open {
                expired += 1;
                unfinished.expired.add(1);
            }
        }
    }
    unfinished.searched(&search, &there);
    Ok(expired)
}

/// What is kept of uploads: the names, and when each was changed.
async fn all(client: &Client) -> Result<Vec<(String, SystemTime)>, Error> {
    let folder = info::folder();
    let page = Page {
        prefix: folder.clone(),
        after: String::new(),
        limit: AT_ONCE,
        by_folder: false,
        within: Prefixes::all(),
    };
    let (mut found, mut token) = (Vec::new(), None);
    loop {
        let listed = names(client, &page, token.as_deref()).await?;
        let listed_names = listed.names.into_iter();
        found.extend(listed_names.filter_map(|(name, modified)| {
            Some((name.strip_prefix(&folder)?.to_owned(), modified))
        }));
        if listed.next.is_none() || listed.next == token {
            return Ok(found);
        }
        token = listed.next;
    }
}

/// Removes the upload if it is this old, and unfinished ones `too`, or goes on with its removal: whether it is removed.
async fn remove(
    client: &Client,
    object: &str,
    stored: &mut Stored,
    limit: Duration,
    too: bool,
) -> Result<bool, Error> {
    let stays = stored.age < limit || (stored.is_open() && !too);
    if stored.info.standing != Standing::Removed
        && (stays || !mark(client, object, &mut stored.info, &stored.etag).await?)
    {
        return Ok(false);
    }
    clear(client, object, &stored.info).await;
    Ok(true)
}
