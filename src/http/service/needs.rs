//! What each operation needs, and what is left of it for a client that has the rights to a part.
//!
//! Rights are decided by names alone, never by the state of the store. An operation that is allowed in part is narrowed
//! to that part: a PUT without the right to replace, to keys that have no value; a listing, to the keys that may be
//! listed. Keys that only the execution finds, in forms and in resumed uploads, are decided there.

use std::borrow::Cow;

use crate::access::Right;
use crate::http::admin::Page;
use crate::http::auth::authorize::not_allowed;
use crate::http::auth::credentials::{AuthMethod, Principal};
use crate::http::auth::need::Need;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::too_large;
use crate::http::service::operation::{Operation, Otherwise};
use crate::http::values::moves::MoveRequest;
use crate::http::values::put::PutOptions;
use crate::store::{self, Preconditions, WriteCondition};

impl Operation<'_> {
    /// Tells `each` of its needs, until one is not met.
    pub fn needs<E>(&self, mut each: impl FnMut(Need<'_>) -> Result<(), E>) -> Result<(), E> {
        match self {
            Self::Get { key, .. } => each(Need::all(Right::Read, key.as_str())),
            Self::Put { key, options, .. } | Self::CreateUpload { key, options, .. } => {
                options.needs(key.as_str(), each)
            }
            Self::Delete { key, preconditions } => {
                each(Need::all(Right::Delete, key.as_str()))?;
                match preconditions {
                    // A condition reveals the state of the value.
                    Some(_) => each(Need::all(Right::Read, key.as_str())),
                    None => Ok(()),
                }
            }
            Self::Site(asked) => each(Need::all(Right::Read, asked.key.as_str())),
            Self::Move(asked) => asked.needs(each),
            // As for a folder that is removed, and one that is made: of all keys that there could be below both.
            Self::MoveFolder(asked) => {
                let (from, to) = (asked.from.as_str(), asked.to.as_str());
                each(Need::below(Right::Read, from))?;
                Need::removal(from).into_iter().try_for_each(&mut each)?;
                each(Need::below(Right::Create, to))
            }
            // Each key is looked at before the first is copied, and when its turn comes.
            Self::CopyFolder(asked) => {
                let needs = Need::copy(asked.from.as_str(), asked.to.as_str());
                needs.into_iter().try_for_each(each)
            }
            // For all keys that there could be below it: none is asked for afterwards.
            Self::MakeFolder(folder) => each(Need::below(Right::Create, folder.as_str())),
            Self::RemoveFolder { folder, .. } => {
                let needs = Need::removal(folder.as_str());
                needs.into_iter().try_for_each(each)
            }
            Self::List(target) => each(Need::any(Right::List, &target.page.prefix)),
            Self::Ui(asked) => each(Need::any(Right::List, &asked.target.page.prefix)),
            // Each key is looked at when its turn comes.
            Self::Archive(asked) => {
                each(Need::any(Right::Read, &asked.page.prefix))?;
                each(Need::any(Right::List, &asked.page.prefix))
            }
            Self::Share(asked) => Need::share(asked.key.as_str())
                .into_iter()
                .try_for_each(each),
            Self::Unpack(asked) => each(Need::any(Right::Create, &asked.folder)),
            Self::Page(Page::Metrics, _) => each(Need::any(Right::Metrics, "")),
            Self::Watch(asked) => each(Need::any(Right::Watch, &asked.prefix)),
            Self::Page(..)
            | Self::SignIn(_)
            | Self::Redirect(_)
            | Self::Options(_)
            | Self::Upload(..)
            | Self::Form(_) => Ok(()),
        }
    }

    /// The request that it is for each value which it does not name.
    pub fn of_each(&self) -> Option<&'static str> {
        match self {
            Self::Archive(_) => Some("GET and listing"),
            Self::Unpack(_) | Self::Form(_) | Self::Upload(..) => Some("PUT"),
            Self::CopyFolder(_) => Some("COPY"),
            _ => None,
        }
    }

    /// Narrows it to what the `client` may do of it.
    pub fn permit(&mut self, client: &Principal) -> Result<(), Refusal> {
        match self {
            Self::Put { key, options, len } => {
                options.permit(key.as_str(), client)?;
                options.limit(client, *len)
            }
            Self::CreateUpload { key, options, .. } => {
                options.permit(key.as_str(), client)?;
                match client.by {
                    // A link is for one request.
                    AuthMethod::Link { .. } => Err(not_allowed(Right::Write)),
                    _ => Ok(()),
                }
            }
            Self::Move(asked) => asked.permit(client),
            // The refusal of an anonymous client asks it to authenticate, whatever the right.
            Self::SignIn(_) if client.subject.is_anonymous => Err(client.deny(Right::List)),
            // To one who may read the index, the listing is permitted where there is none.
            Self::Site(asked) if !client.may_read(asked.key.as_str()) => {
                match &mut asked.otherwise {
                    Otherwise::Listing(listing) => listing.permit(client),
                    Otherwise::Folder { .. } => {
                        client.meet(&Need::all(Right::Read, asked.key.as_str()))
                    }
                }
            }
            _ => {
                self.needs(|need| client.meet(&need))?;
                if let Some(page) = self.page() {
                    client.may_list(page);
                }
                Ok(())
            }
        }
    }

    /// The page of the listing that it is.
    fn page(&mut self) -> Option<&mut store::Page> {
        match self {
            Self::List(target) => Some(&mut target.page),
            Self::Ui(asked) => Some(&mut asked.target.page),
            Self::Archive(asked) => Some(&mut asked.page),
            _ => None,
        }
    }
}

impl PutOptions {
    /// Tells `each` of the needs of a PUT of `key`, until one is not met.
    fn needs<E>(
        &self,
        key: &str,
        mut each: impl FnMut(Need<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(given) = &self.preconditions else {
            return each(Need::Store(Cow::Borrowed(key)));
        };
        each(Need::all(Right::Create, key))?;
        if matches!(given.exact(), Some(WriteCondition::Create)) {
            return Ok(());
        }
        each(Need::all(Right::Write, key))?;
        // A condition reveals the state of the value.
        each(Need::all(Right::Read, key))
    }

    /// Narrows a PUT of `key` to what the `client` may store there.
    pub fn permit(&mut self, key: &str, client: &Principal) -> Result<(), Refusal> {
        self.needs(key, |need| client.meet(&need))?;
        if self.preconditions.is_none() && !client.allows(Right::Write, key) {
            self.preconditions = Some(Preconditions::NEW);
            self.existing = Some(client.subject.grant.existing(key));
        }
        Ok(())
    }

    /// Limits an upload of `len` bytes by a signed link to the length of the link.
    fn limit(&mut self, client: &Principal, len: Option<u64>) -> Result<(), Refusal> {
        let AuthMethod::Link { max } = client.by else {
            return Ok(());
        };
        self.most = max;
        match (max, len) {
            (Some(limit), Some(len)) if len > limit => Err(too_large(limit)),
            _ => Ok(()),
        }
    }
}

impl MoveRequest {
    /// Tells `each` of its needs, until one is not met: at the source it is a GET and, if that loses its value, a
    /// DELETE, and at the destination a PUT.
    fn needs<E>(&self, mut each: impl FnMut(Need<'_>) -> Result<(), E>) -> Result<(), E> {
        let from = self.from.as_str();
        each(Need::all(Right::Read, from))?;
        if !self.is_copy {
            each(Need::all(Right::Delete, from))?;
        }
        self.options.needs(self.to.as_str(), each)
    }

    /// Narrows it to what the `client` may do of it.
    pub fn permit(&mut self, client: &Principal) -> Result<(), Refusal> {
        self.needs(|need| client.meet(&need))?;
        // Whether there was a value is the state of that.
        self.may_tell = client.allows(Right::Read, self.to.as_str());
        self.options.permit(self.to.as_str(), client)
    }
}
