//! PUT, DELETE and MKCOL, as RFC 4918 has them: a folder must be there for what is stored. What each does is done by
//! the core.

use hyper::StatusCode;
use hyper::header::HeaderMap;

use crate::http::body::request::Received;
use crate::http::changes::{self, Delete};
use crate::http::dav::name::{Name, Resource, Target, needs_parent, permitted, resource};
use crate::http::dav::xml::stayed;
use crate::http::folders::change::{MakeFolder, RemoveFolder, make_folder, remove_folder};
use crate::http::locks::Scope;
use crate::http::refusal::Refusal;
use crate::http::refusal::failures::NAME_TAKEN;
use crate::http::refusal::kind::Kind;
use crate::http::request::RequestContext;
use crate::http::response::{Outcome, Reply, empty};
use crate::http::values::put::{PutRequest, put};
use crate::http::values::representation::stored;
use crate::store::{Preconditions, Stays};

pub const IS_FOLDER: Refusal = Refusal::new(NAME_TAKEN, "a folder has this name");
const TAKES_NO_BODY: &Kind = &Kind::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "folder-with-body");

/// The answer to a change that has made something, or replaced it, with these headers.
pub fn made(is_new: bool, headers: HeaderMap) -> Reply {
    let response = if is_new {
        empty(StatusCode::CREATED)
    } else {
        empty(StatusCode::NO_CONTENT)
    };
    Reply::from(response).with(|of_response| *of_response = headers)
}

/// Stores a value.
pub async fn store(
    request: &RequestContext,
    name: &Name,
    asked: Box<PutRequest>,
    body: &mut Received<'_>,
) -> Outcome {
    let before = resource(request, name).await?;
    match before {
        Some(Resource::Folder) => return Err(IS_FOLDER),
        Some(Resource::Value(_)) => {}
        None => needs_parent(request, name).await?,
    }
    let has_date = asked.has_date();
    let reply = stored(put(request, asked, body).await?, has_date);
    Ok(made(
        before.is_none(),
        reply.response.into_parts().0.headers,
    ))
}

/// Makes a folder.
pub async fn make(
    request: &RequestContext,
    name: &Name,
    folder: MakeFolder,
    body: &mut Received<'_>,
) -> Outcome {
    if body.ignore().await? {
        return Err(TAKES_NO_BODY.because("MKCOL takes no body here"));
    }
    if resource(request, name).await?.is_some() {
        return Err(NAME_TAKEN.because("a value or a folder has this name"));
    }
    needs_parent(request, name).await?;
    make_folder(request, folder).await?;
    Ok(empty(StatusCode::CREATED).into())
}

/// Removes a value, or a folder with all that is in it.
pub async fn delete(
    request: &RequestContext,
    target: &Target,
    preconditions: Option<Preconditions>,
) -> Outcome {
    let found = target.found(request).await?;
    let stays = remove(request, &target.name, &found, preconditions).await?;
    if stays.count > 0 {
        return Ok(stayed(&target.prefix, &stays));
    }
    Ok(empty(StatusCode::NO_CONTENT).into())
}

/// Removes what was found by this `name`, and its locks; answers what stays of a folder. No client gets a lock there
/// until those are forgotten.
pub async fn remove(
    request: &RequestContext,
    name: &Name,
    found: &Resource,
    preconditions: Option<Preconditions>,
) -> Result<Stays, Refusal> {
    let (key, is_deep) = (name.key()?, true);
    let begin = || request.begin_change(&[Scope::deep(&name.text)]);
    let (changing, stays) = match found {
        Resource::Value(_) => {
            let asked = permitted(request, Delete { key, preconditions })?;
            let changing = begin()?;
            changes::delete(request, asked).await?;
            (changing, Stays::default())
        }
        Resource::Folder => {
            let folder = key;
            let asked = permitted(request, RemoveFolder { folder, is_deep })?;
            (begin()?, remove_folder(request, asked).await?.stays)
        }
    };
    if let Some(changing) = changing.filter(|_| stays.count == 0) {
        changing.forget_locks();
    }
    Ok(stays)
}
