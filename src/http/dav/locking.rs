//! LOCK and UNLOCK (RFC 4918, sections 9.10 and 9.11): what they ask for, and how the lock is told of. A name that has
//! nothing gets an empty value.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use quick_xml::escape::escape;

use crate::access::Right;
use crate::http::auth::credentials::Principal;
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::body::response::Body;
use crate::http::dav::conditions::{Conditions, TOKEN, lock_token};
use crate::http::dav::name::{Name, Resource, needs_parent, resource, to_store};
use crate::http::dav::properties::discovered;
use crate::http::dav::xml::{self, Element, MEDIA_TYPE};
use crate::http::head::syntax::put as put_field;
use crate::http::locks::Lock;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::NO_SUCH_PATH;
use crate::http::refusal::kind::Kind;
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::response::{Outcome, Reply, empty, plain};
use crate::http::values::moves::request::is_deep;
use crate::http::values::put::{PutRequest, put};
use crate::http::verb::{BodyUse, Parsed, Verb, parsed};
use crate::store::{Preconditions, UploadId};

const BAD_LOCK: &Kind = &Kind::new(StatusCode::BAD_REQUEST, "bad-lock");

const TIMEOUT: HeaderName = HeaderName::from_static("timeout");

/// The time after which a lock ends that is not refreshed: unless its client asks for another, and at most.
const USUAL: Duration = Duration::from_secs(10 * 60);
const MOST: Duration = Duration::from_secs(60 * 60);

/// The longest text that is kept of an owner, in bytes.
const MOST_OWNER: usize = 1 << 10;

/// The LOCK of a name: a new one, or what refreshes one where the body is empty.
struct Take {
    name: Name,
    is_deep: bool,
    timeout: Duration,
    conditions: Conditions,
    prefix: Box<str>,
    /// What an empty value is stored as.
    put: Option<Box<PutRequest>>,
}

/// The LOCK of `name`.
pub fn lock(asked: &RequestHead<'_>, name: Name, conditions: Conditions) -> Parsed {
    let headers = &asked.head.headers;
    let put = match name.key() {
        Ok(key) if !name.is_folder => {
            let mut put = PutRequest::of(key, asked.config)?;
            put.preconditions = Some(Preconditions::NEW);
            put.len = Some(0);
            Some(Box::new(put))
        }
        _ => None,
    };
    parsed(Take {
        is_deep: is_deep(headers)?.unwrap_or(true),
        timeout: timeout(headers),
        prefix: asked
            .client
            .forwarded_prefix(headers)
            .unwrap_or_default()
            .into(),
        name,
        conditions,
        put,
    })
}

/// The time that a client asks for: the first that it can be given (section 10.7).
fn timeout(headers: &HeaderMap) -> Duration {
    let text = headers.get(TIMEOUT).and_then(|value| value.to_str().ok());
    let mut asked = text
        .into_iter()
        .flat_map(|text| text.split(','))
        .map(str::trim);
    let found = asked.find_map(|one| match one.strip_prefix("Second-") {
        Some(seconds) => seconds.parse().ok().map(Duration::from_secs),
        None => one.eq_ignore_ascii_case("infinite").then_some(MOST),
    });
    found.unwrap_or(USUAL).clamp(Duration::from_secs(1), MOST)
}

#[async_trait(?Send)]
impl Verb for Take {
    fn needs(&self) -> Vec<Need<'_>> {
        to_store(&self.name)
    }

    fn permit(&mut self, client: &Principal) -> Result<(), Refusal> {
        client.meet_all(self.needs())
    }

    async fn perform(
        mut self: Box<Self>,
        request: &RequestContext,
        body: &mut Received<'_>,
    ) -> Outcome {
        let locks = request.service.locks.as_ref().ok_or(NO_SUCH_PATH)?;
        let asked = xml::receive(body).await?;
        self.conditions.check(request, &self.name).await?;
        let Some(asked) = asked else {
            let tokens = request.tokens.borrow();
            let lock =
                locks.refresh(&self.name.text, &tokens, &request.uploader(), self.timeout)?;
            return Ok(told(&lock, &self.prefix, Told::Refreshed));
        };
        let is_shared = scope(&asked)?;
        let lock = Lock {
            name: self.name.text.as_str().into(),
            is_deep: self.is_deep,
            is_shared,
            token: token()?,
            owner: owner(&asked),
            timeout: self.timeout,
            client: request.uploader(),
            until: Instant::now(),
        };
        let found = resource(request, &self.name).await?;
        if let Some(found) = &found {
            // A client that may only create would keep others from what is not its own.
            let end = if matches!(found, Resource::Folder) {
                "/"
            } else {
                ""
            };
            let locked = format!("{}{end}", self.name.text);
            request.permitted_now(|client| client.need(Right::Write, &locked))?;
        }
        if found.is_none() {
            needs_parent(request, &self.name).await?;
        }
        let lock = locks.grant(lock.extended(self.timeout))?;
        if found.is_some() {
            return Ok(told(&lock, &self.prefix, Told::Granted));
        }
        request.tokens.borrow_mut().push(lock.token.to_string());
        let made = match self.put.take() {
            Some(asked) => put(request, asked, body).await.map(drop),
            None => Err(NO_SUCH_PATH),
        };
        if let Err(why) = made {
            let _ = locks.remove(&self.name.text, &lock.token, &lock.client);
            return Err(why);
        }
        Ok(told(&lock, &self.prefix, Told::WithValue))
    }
}

/// True where a lock is asked for that others may share; a write lock is the only kind.
fn scope(asked: &Element) -> Result<bool, Refusal> {
    let scope = asked.child("lockscope").filter(|_| asked.is("lockinfo"));
    let is_write = asked
        .child("locktype")
        .is_some_and(|kind| kind.child("write").is_some());
    let is_shared = scope.filter(|_| is_write).and_then(|scope| {
        let is_shared = scope.child("shared").is_some();
        (is_shared || scope.child("exclusive").is_some()).then_some(is_shared)
    });
    is_shared
        .ok_or_else(|| BAD_LOCK.because("LOCK takes a lockinfo: a write lock, exclusive or shared"))
}

/// What a client says of itself: an address, or a text.
fn owner(asked: &Element) -> Box<str> {
    let Some(owner) = asked.child("owner") else {
        return "".into();
    };
    let cut = |text: &str| -> String { text.trim().chars().take(MOST_OWNER / 4).collect() };
    match owner.child("href") {
        Some(href) => format!("<D:href>{}</D:href>", escape(cut(&href.text))).into(),
        None => escape(cut(&owner.text)).into(),
    }
}

/// A token that cannot be guessed (RFC 4122).
fn token() -> Result<Box<str>, Refusal> {
    let id = UploadId::random()?.to_string();
    let id = id.replace('-', "");
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| id.get(part).unwrap_or_default());
    Ok(format!("urn:uuid:{}", parts.join("-")).into())
}

/// What was done with a lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Refreshed,
    Granted,
    /// Its name had nothing, and has an empty value now.
    WithValue,
}

/// The answer with a lock, and with its token where that is new.
fn told(lock: &Lock, prefix: &str, what: Told) -> Reply {
    let found = discovered(lock, prefix);
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:prop xmlns:D=\"DAV:\"><D:lockdiscovery>{found}</D:lockdiscovery></D:prop>\n"
    );
    let body = Body::bytes(text);
    let response = if what == Told::WithValue {
        plain(StatusCode::CREATED, body)
    } else {
        plain(StatusCode::OK, body)
    };
    Reply::from(response).with(|headers| {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        if what != Told::Refreshed {
            put_field(headers, TOKEN, format!("<{}>", lock.token));
        }
    })
}

/// The UNLOCK of a name.
struct Unlock {
    name: Name,
    token: String,
}

pub fn unlock(asked: &RequestHead<'_>, name: Name) -> Parsed {
    let bad = || BAD_LOCK.because("UNLOCK needs one Lock-Token, as LOCK has answered it");
    let token = lock_token(&asked.head.headers).ok_or_else(bad)?;
    parsed(Unlock { name, token })
}

#[async_trait(?Send)]
impl Verb for Unlock {
    fn body(&self) -> BodyUse {
        BodyUse::Ignored
    }

    fn needs(&self) -> Vec<Need<'_>> {
        to_store(&self.name)
    }

    async fn perform(self: Box<Self>, request: &RequestContext, _: &mut Received<'_>) -> Outcome {
        let locks = request.service.locks.as_ref().ok_or(NO_SUCH_PATH)?;
        locks.remove(&self.name.text, &self.token, &request.uploader())?;
        Ok(empty(StatusCode::NO_CONTENT).into())
    }
}
