//! A door that speaks lines of words: a request is a line such as `rename a b`, maybe with a body, and its answer too.
//!
//! It shows that the core can be called: what clients ask for are functions with typed results, in nobody's dialect,
//! and what they need is said with them. Only the line `mod door` of `src/http/mod.rs` knows of it.

mod tests;

use std::future::poll_fn;

use crate::access::Right;
use crate::http::body::{Content, request::Received};
use crate::http::changes::{Delete, delete, move_value};
use crate::http::folders::change::{
    MakeFolder, MoveFolder, RemoveFolder, make_folder, move_folder, remove_folder,
};
use crate::http::folders::copy::{CopyFolder, copy_folder};
use crate::http::listing::{ListFormat, ListTarget, Query};
use crate::http::piece::Piece;
use crate::http::refusal::{Refusal, common::NO_SUCH_KEY};
use crate::http::request::RequestContext;
use crate::http::uploads::UploadPart;
use crate::http::uploads::parts::{RefusedUpload, append, begin, cancel, publish, resume};
use crate::http::values::get::{GetOutcome, get};
use crate::http::values::moves::{FolderMove, MoveRequest};
use crate::http::values::put::{PutRequest, put};
use crate::http::verb::Verb;
use crate::store::{Digests, Error, Key, Preconditions, Stays, UploadId};

/// The answer to the request that `line` is.
async fn answer(request: &RequestContext, line: &str, body: &mut Received<'_>) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let answered = perform(request, &words, body).await;
    answered.unwrap_or_else(|RefusedUpload { why, state }| {
        let state = state.map_or_else(String::new, |state| format!(", {:?}", state.offset));
        format!("no: {}{state}", why.name())
    })
}

type Said = Result<String, RefusedUpload>;
async fn perform(request: &RequestContext, words: &[&str], body: &mut Received<'_>) -> Said {
    let service = &*request.service;
    Ok(match *words {
        ["fetch", name] => {
            let client = request.principal();
            client.map_or(Ok(()), |client| client.need(Right::Read, name))?;
            let found = get(request, &key(name)?, None, None).await?;
            let Some(GetOutcome::Value(mut found)) = found else {
                return Err(NO_SUCH_KEY.into());
            };
            let len = found.value.found.len();
            let (mut text, mut content) = (vec![], Content::of(&mut found.value.found, 0..len));
            while let Some(piece) = poll_fn(|cx| content.poll_piece(cx, false)).await {
                if let Piece::Bytes(bytes) = piece? {
                    text.push(bytes);
                }
            }
            String::from_utf8_lossy(&text.concat()).into_owned()
        }
        ["store", name, ref new @ ..] => {
            let stored = put(request, stored(request, name, new)?, body).await?;
            format!("stored {}", stored.etag)
        }
        ["drop", name] => {
            let (key, preconditions) = (key(name)?, None);
            delete(request, permitted(request, Delete { key, preconditions })?).await?;
            format!("dropped {name}")
        }
        [how @ ("rename" | "double"), from, to, ref new @ ..] => {
            let before = (*new == ["new"]).then_some(Preconditions::NEW);
            let asked = MoveRequest {
                is_copy: how == "double",
                ..MoveRequest::of_ends(key(from)?, key(to)?, before, &service.config)?
            };
            let made = move_value(request, permitted(request, asked)?).await?;
            format!("it is {}", made.key)
        }
        ["found", folder] => {
            make_folder(
                request,
                permitted(request, MakeFolder::of(key(folder)?, &service.config)?)?,
            )
            .await?;
            "founded".to_owned()
        }
        ["raze", folder] => {
            let (folder, is_deep) = (key(folder)?, true);
            let asked = permitted(request, RemoveFolder { folder, is_deep })?;
            format!("razed {}", remove_folder(request, asked).await?.removed)
        }
        [how @ ("rename-all" | "double-all"), from, to] => {
            let asked = FolderMove {
                from: key(from)?,
                to: key(to)?,
                overwrites: true,
            };
            if how == "rename-all" {
                move_folder(request, permitted(request, MoveFolder(asked))?.0).await?;
                return Ok(format!("all is below {to}"));
            }
            let asked = permitted(request, CopyFolder(asked))?.0;
            let copied = copy_folder(request, asked, async || Ok(Stays::default())).await?;
            format!("doubled {}", copied.copied)
        }
        ["names", folder] => {
            let target = ListTarget::new(folder.to_owned(), Query::default(), ListFormat::Json);
            let page = permitted(request, target)?.page;
            let listing = service.store.list(service.reactor, page).await?;
            let names = listing.keys.iter().map(|(key, _)| key.as_str());
            names.collect::<Vec<_>>().join(" ")
        }
        ["begin", name] => {
            let asked = stored(request, name, &[])?;
            let begun = begin(request, &asked, None, Vec::new()).await?;
            begun.map_err(Error::from)?.announce().to_string()
        }
        [how @ ("add" | "finish" | "forget"), id, ref at @ ..] => {
            let mut upload = resume(request, UploadId::parse(id).ok_or(NO_SUCH_KEY)?).await?;
            let (at, part) = (at.concat().parse().unwrap_or(0), UploadPart::default());
            match how {
                "add" => drop(append(request, &mut upload, at, &part, body).await?),
                "finish" => drop(publish(request, &mut upload, None, Digests::default()).await?),
                _ => cancel(request, &mut upload).await?,
            }
            format!("{how}: {} bytes", upload.offset())
        }
        _ => return Err(NO_SUCH_KEY.into()),
    })
}

/// The `asked` request, if the client may make it.
fn permitted<V: Verb>(request: &RequestContext, mut asked: V) -> Result<V, Refusal> {
    let client = request.principal();
    client.map_or(Ok(()), |client| asked.permit(client))?;
    Ok(asked)
}

/// What is stored as the value of `name`, if the client may store it; `new` where it has none.
fn stored(request: &RequestContext, name: &str, new: &[&str]) -> Result<Box<PutRequest>, Refusal> {
    let mut asked = PutRequest::of(key(name)?, &request.service.config)?;
    asked.preconditions = (new == ["new"]).then_some(Preconditions::NEW);
    let client = request.principal();
    client.map_or(Ok(()), |client| asked.permit(client))?;
    Ok(Box::new(asked))
}

fn key(name: &str) -> Result<Key<'static>, Refusal> {
    Ok(Key::new(name.to_owned())?)
}
