//! The requests of a trial, and how many there are.
//!
//! A change that is judged is sent again only where it was surely not made, and all outcomes are distinguished.
//! All objects lie below a reserved name, which no key can have; a trial knows the names of its own, and removes them
//! at its end.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::join_all;
use hyper::Method;

use crate::s3::contract::{ContractError, WriteCondition, fails};
use crate::s3::objects::list::{StorePage, ask};
use crate::s3::objects::put::{nonce, written};
use crate::s3::transport::S3Client;
use crate::s3::transport::answer::{RequestError, parse};
use crate::s3::transport::body::{BodyFraming, SendBody};
use crate::s3::transport::call::Call;
use crate::sigv4::path;
use crate::value::{Error, Page, Prefixes};

/// The beginning of the names of the objects of every check, below the prefix of the place. No key begins so.
const OBJECTS: &str = ".data-server-check-";

/// The longest object of the check that is read.
const MOST: usize = 1 << 20;

/// Objects that are written or removed at once.
const AT_ONCE: usize = 16;

/// The store, tried below a name of its own, through one of its endpoints or all in turn.
#[derive(Debug)]
pub struct StoreTrial {
    pub(super) client: S3Client,
    /// The beginning of the names of all objects, below the prefix of the place.
    own: String,
    /// The encoded names of all objects, of all endpoints.
    objects: Rc<RefCell<Vec<String>>>,
}

/// The outcome of a change.
pub enum TrialOutcome {
    /// It was made.
    Done,
    /// The store says that its condition does not hold.
    NotHeld,
    /// The store says something else, asks to come again, or nothing is known.
    Unclear(String),
}

impl TrialOutcome {
    /// Fails unless `what` was made.
    pub fn must_be_made(self, what: &str) -> Result<(), ContractError> {
        let said = match self {
            Self::Done => return Ok(()),
            Self::NotHeld => "that the condition does not hold".to_owned(),
            Self::Unclear(said) => said,
        };
        fails(format!("{what} is not made: {said}"))
    }

    /// Fails unless the condition of `what` was found not to hold.
    pub fn must_be_refused(self, what: &str) -> Result<(), ContractError> {
        match self {
            Self::NotHeld => Ok(()),
            Self::Done => fails(format!("{what} is made all the same")),
            Self::Unclear(said) => fails(format!("{what} is answered {said}")),
        }
    }
}

impl StoreTrial {
    /// One trial through each of `clients`; all share the objects.
    pub fn through(clients: Vec<S3Client>) -> Result<Vec<Self>, Error> {
        let own = format!("{OBJECTS}{}-", nonce()?);
        let objects = Rc::default();
        let trial = |client| Self {
            client,
            own: own.clone(),
            objects: Rc::clone(&objects),
        };
        Ok(clients.into_iter().map(trial).collect())
    }

    /// An object that is not there.
    pub fn object(&self) -> String {
        let number = self.objects.borrow().len();
        self.named(&number.to_string())
    }

    /// The object of this name.
    pub fn named(&self, name: &str) -> String {
        let name = path(&format!("{}{}{name}", self.client.place.prefix, self.own));
        self.objects.borrow_mut().push(name.clone());
        name
    }

    /// Removes what is left of all objects, also of those that were written through other endpoints.
    pub async fn clear(&self) {
        for some in self.objects.take().chunks(AT_ONCE) {
            let removals = some.iter();
            join_all(removals.map(|one| self.delete(one, &WriteCondition::Any))).await;
        }
    }

    /// Writes these objects.
    pub async fn place_all(&self, objects: &[String]) -> Result<(), Error> {
        for some in objects.chunks(AT_ONCE) {
            let placed = join_all(some.iter().map(|one| self.place(one, "listed"))).await;
            placed.into_iter().try_for_each(|placed| placed.map(drop))?;
        }
        Ok(())
    }

    /// At most so many names from `prefix` on that follow `after`, or those of the page that `token` asks for, without
    /// the prefix and in the order of the store, where folders follow keys; and the token of the next page.
    pub async fn list(
        &self,
        prefix: &str,
        after: &str,
        (most, by_folder): (usize, bool),
        token: Option<&str>,
    ) -> Result<(Vec<String>, Option<String>), Error> {
        let prefix = format!("{}{prefix}", self.own);
        let page = Page {
            after: match after {
                "" => String::new(),
                after => format!("{prefix}{after}"),
            },
            // One more is asked for, to tell whether there are more.
            limit: most - 1,
            by_folder,
            folders: false,
            prefix,
            within: Prefixes::all(),
        };
        let mut found: StorePage = parse(&ask(&self.client, &page, 0, token).await?)?;
        let next = found.next()?;
        let below = format!("{}{}", self.client.place.prefix, page.prefix);
        let names = found.names();
        let names = names.filter_map(|name| name.strip_prefix(&below).map(str::to_owned));
        Ok((names.collect(), next))
    }

    /// Writes an object without a condition, as often as that takes; its entity tag.
    pub async fn place(&self, object: &str, value: impl Into<Bytes>) -> Result<String, Error> {
        let call = Call::named(Method::PUT, object.to_owned()).carrying(value.into());
        let placed = self.client.repeat(&call, self.client.deadline()).await;
        let placed = placed.and_then(|answer| written(&answer));
        placed.map_err(RequestError::error)
    }

    /// Writes an object, if the condition holds.
    pub async fn put(&self, object: &str, value: &str, condition: &WriteCondition) -> TrialOutcome {
        let call = || Call::named(Method::PUT, object.to_owned()).under(condition);
        self.change(|| Ok(call()?.carrying(value.to_owned().into())))
            .await
    }

    /// Removes an object, if the condition holds.
    pub async fn delete(&self, object: &str, condition: &WriteCondition) -> TrialOutcome {
        self.change(|| Call::named(Method::DELETE, object.to_owned()).under(condition))
            .await
    }

    /// Writes an object in pieces, with a trailer; `framed` is the body with it, `len` the length of what it frames.
    pub async fn put_framed(
        &self,
        object: &str,
        framed: impl Fn() -> SendBody,
        len: usize,
    ) -> TrialOutcome {
        let framing = BodyFraming::new(len as u64, None);
        self.change(|| {
            let mut call = Call::named(Method::PUT, object.to_owned()).framed(&framing)?;
            call.body = framed();
            Ok(call)
        })
        .await
    }

    /// Tries a change again only where it was surely not made: an endpoint is away, or the store is busy.
    async fn change(&self, call: impl Fn() -> Result<Call, Error>) -> TrialOutcome {
        let (client, mut tries) = (&self.client, self.client.tries());
        let changed = tries.change(async |tries| {
            let call = call().map_err(RequestError::NotTried)?;
            client.ask(&call, tries.until).await
        });
        match changed.await {
            Ok(_) => TrialOutcome::Done,
            Err(RequestError::Refused(refusal)) if refusal.is_changed() || refusal.is_missing() => {
                TrialOutcome::NotHeld
            }
            Err(RequestError::Refused(refusal)) => TrialOutcome::Unclear(refusal.said()),
            Err(RequestError::NotTried(error)) => TrialOutcome::Unclear(error.to_string()),
            Err(_) => TrialOutcome::Unclear("nothing that is clear".to_owned()),
        }
    }

    /// The object as it is; `None` where there is none.
    pub async fn read(&self, object: &str) -> Result<Option<Bytes>, Error> {
        let call = Call::named(Method::GET, object.to_owned());
        let Some(answer) = self.client.read(&call).await? else {
            return Ok(None);
        };
        let whole = answer.whole(MOST, self.client.timeout).await;
        whole.map(Some).map_err(RequestError::error)
    }
}

/// The number of times that each thing is tried.
#[derive(Clone, Copy, Debug)]
pub struct CheckEffort {
    /// Races of creations, and as many of swaps.
    pub races: usize,
    /// Races of removals against swaps.
    pub removals: usize,
    /// Uploads that are cut off.
    pub cuts: usize,
    /// Looks at what they left.
    pub looks: usize,
    /// Keys in a listing, beside the keys whose order is tested.
    pub listed: usize,
    /// Writes through each endpoint that are read through the others, and races through all of them.
    pub across: usize,
    /// True where conditions are tried at all.
    pub conditions: bool,
}

impl CheckEffort {
    /// The effort at the start of a server: about a second.
    pub fn at_start(conditions: bool) -> Self {
        let short = Self {
            races: 16,
            removals: 64,
            cuts: 2,
            looks: 3,
            listed: 0,
            across: 0,
            conditions,
        };
        short.unless_of_tests(Self {
            races: 1,
            cuts: 1,
            looks: 1,
            ..short
        })
    }

    /// The effort of `check-store`: some seconds.
    pub fn at_length() -> Self {
        let long = Self {
            races: 300,
            removals: 300,
            cuts: 15,
            looks: 3,
            // More than a store lists at once.
            listed: 1100,
            across: 100,
            conditions: true,
        };
        long.unless_of_tests(Self {
            races: 20,
            cuts: 3,
            across: 10,
            ..long
        })
    }

    /// This effort; in a debug build where `DATA_SERVER_TRIAL` says how many races of removals there are, so many, and
    /// else `less`. The tests try a store some hundred times, and in full where they ask for that.
    fn unless_of_tests(self, less: Self) -> Self {
        let removals = std::env::var("DATA_SERVER_TRIAL").ok();
        let removals = removals.filter(|_| cfg!(debug_assertions));
        let removals = removals.and_then(|removals| removals.parse().ok());
        removals.map_or(self, |removals| Self { removals, ..less })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::RESERVED;

    #[test]
    fn no_key_is_an_object_of_a_check() {
        assert!(OBJECTS.starts_with(RESERVED));
    }
}
