//! DELETE, MOVE and COPY of a value, where a folder may have its name.

use async_trait::async_trait;
use hyper::{Method, StatusCode};

use crate::access::Right;
use crate::http::auth::credentials::Principal;
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::listing::perform::folder_of;
use crate::http::locks::Scope;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::NO_SUCH_KEY;
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::response::{Outcome, empty};
use crate::http::values::conditional::preconditions_of_write;
use crate::http::values::moves::MoveRequest;
use crate::http::values::moves::perform::{RelocatedValue, relocate};
use crate::http::verb::{BodyUse, Parsed, Verb, parsed};
use crate::store::{Error, Key, Preconditions, Purpose};

/// The removal of a value.
pub fn removal(asked: &RequestHead<'_>) -> Parsed {
    if asked.head.method != Method::DELETE {
        return Ok(None);
    }
    removal_of(asked, asked.key()?.into_owned())
}

/// The removal of the value of this key.
pub fn removal_of(asked: &RequestHead<'_>, key: Key<'static>) -> Parsed {
    asked.config.may_change()?;
    asked.refuses_if()?;
    let preconditions = preconditions_of_write(&asked.head.headers);
    parsed(Delete { key, preconditions })
}

/// Removes a value.
pub struct Delete {
    pub key: Key<'static>,
    pub preconditions: Option<Preconditions>,
}

#[async_trait(?Send)]
impl Verb for Delete {
    fn body(&self) -> BodyUse {
        BodyUse::Ignored
    }

    fn needs(&self) -> Vec<Need<'_>> {
        // A condition reveals the state of the value.
        let reads = self.preconditions.as_ref().map(|_| Right::Read);
        let rights = [Right::Delete].into_iter().chain(reads);
        let needs = rights.map(|right| Need::all(right, self.key.as_str()));
        needs.collect()
    }

    async fn perform(self: Box<Self>, request: &RequestContext, _: &mut Received<'_>) -> Outcome {
        delete(request, *self).await?;
        Ok(empty(StatusCode::OK).into())
    }
}

#[async_trait(?Send)]
impl Verb for MoveRequest {
    fn body(&self) -> BodyUse {
        BodyUse::Ignored
    }

    /// At the source it is a GET and, if that loses its value, a DELETE, and at the destination a PUT.
    fn needs(&self) -> Vec<Need<'_>> {
        let removes = (!self.is_copy).then_some(Right::Delete);
        let of_source = [Right::Read].into_iter().chain(removes);
        let of_source = of_source.map(|right| Need::all(right, self.from.as_str()));
        of_source.chain(self.to.needs()).collect()
    }

    fn permit(&mut self, client: &Principal) -> Result<(), Refusal> {
        client.meet_all(self.needs())?;
        // Whether there was a value is the state of that.
        self.may_tell = client.allows(Right::Read, self.to.key.as_str());
        self.to.permit(client)
    }

    async fn perform(self: Box<Self>, request: &RequestContext, _: &mut Received<'_>) -> Outcome {
        Ok(move_value(request, *self).await?.into())
    }
}

/// Removes a value.
pub async fn delete(request: &RequestContext, asked: Delete) -> Result<(), Refusal> {
    let Delete { key, preconditions } = asked;
    let _changing = request.begin_change(&[Scope::one(key.as_str())])?;
    let (service, name) = (&*request.service, key.clone());
    let deleted = service.store.delete(service.reactor, key, preconditions);
    if deleted.await? {
        request.changed(&name);
        return Ok(());
    }
    without_value(request, name).await
}

/// Moves or copies a value.
pub async fn move_value(
    request: &RequestContext,
    asked: MoveRequest,
) -> Result<RelocatedValue, Refusal> {
    let (from, is_copy) = (asked.from.clone(), asked.is_copy);
    let ends = [asked.to.key.as_str(), from.as_str()].map(Scope::one);
    let _changing = request.begin_change(&ends[..2 - usize::from(is_copy)])?;
    let Some(relocated) = relocate(request, asked, Purpose::Use).await? else {
        return without_value(request, from).await;
    };
    if !is_copy {
        request.changed(&from);
    }
    request.changed(&relocated.key);
    Ok(relocated)
}

/// Refuses a change of `key`, which has no value. Clients of `WebDAV` leave out the `/` of a folder and take 404 for
/// gone already, so a folder that the client may see is named.
async fn without_value<T>(request: &RequestContext, key: Key<'static>) -> Result<T, Refusal> {
    let service = &*request.service;
    if !service.config.compat
        && service.store.has_folder(&key).await?
        && folder_of(request, &key, 0, None).await?.is_some()
    {
        let why = "a folder, whose path ends with '/', has this name";
        return Err(Error::Occupied(why.to_owned()).into());
    }
    Err(NO_SUCH_KEY)
}
