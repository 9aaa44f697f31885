//! LOCK and UNLOCK (RFC 4918, sections 9.10 and 9.11): what they ask for, and how the lock is told of. A name that has
//! nothing gets an empty value.

use std::time::{Duration, Instant};

use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderName};

use crate::access::Right;
use crate::http::body::request::Received;
use crate::http::body::response::Body;
use crate::http::dav::conditions::{TOKEN, lock_token};
use crate::http::dav::name::{Name, Resource, Target, needs_parent, resource};
use crate::http::dav::xml::{self, Element, discovered};
use crate::http::head::syntax::put as put_field;
use crate::http::locks::Lock;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::NO_SUCH_PATH;
use crate::http::refusal::kind::Kind;
use crate::http::request::RequestContext;
use crate::http::response::{Outcome, empty, plain};
use crate::http::values::moves::request::is_deep;
use crate::http::values::put::{PutRequest, put};
use crate::store::{Preconditions, UploadId};

const BAD_LOCK: &Kind = &Kind::new(StatusCode::BAD_REQUEST, "bad-lock");

const TIMEOUT: HeaderName = HeaderName::from_static("timeout");

/// The time after which a lock ends that is not refreshed: unless its client asks for another, and at most.
const USUAL: Duration = Duration::from_secs(10 * 60);
const MOST: Duration = Duration::from_secs(60 * 60);

/// The LOCK of a name: a new one, or what refreshes one where the body is empty.
pub struct LockRequest {
    is_deep: bool,
    pub timeout: Duration,
}

impl LockRequest {
    pub fn of(headers: &HeaderMap) -> Result<Self, Refusal> {
        Ok(Self {
            is_deep: is_deep(headers)?.unwrap_or(true),
            timeout: timeout(headers),
        })
    }
}

/// The time that a client asks for: the first that it can be given (section 10.7).
fn timeout(headers: &HeaderMap) -> Duration {
    let text = headers.get(TIMEOUT).and_then(|value| value.to_str().ok());
    let mut asked = text.unwrap_or_default().split(',').map(str::trim);
    let found = asked.find_map(|one| match one.strip_prefix("Second-") {
        Some(seconds) => seconds.parse().ok().map(Duration::from_secs),
        None => one.eq_ignore_ascii_case("infinite").then_some(MOST),
    });
    found.unwrap_or(USUAL).clamp(Duration::from_secs(1), MOST)
}

/// Answers a LOCK.
pub async fn lock(
    request: &RequestContext,
    Target { name, prefix }: &Target,
    asked: LockRequest,
    body: &mut Received<'_>,
) -> Outcome {
    let (locks, client) = (request.service.locks.as_ref(), request.uploader());
    let locks = locks.ok_or(NO_SUCH_PATH)?;
    let told = |lock: &Lock| {
        let found = discovered(prefix, lock);
        Body::bytes(format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:prop xmlns:D=\"DAV:\"><D:lockdiscovery>{found}</D:lockdiscovery></D:prop>\n"
        ))
    };
    let Some(info) = xml::receive(body).await? else {
        let tokens = request.tokens.borrow();
        let lock = locks.refresh(&name.text, &tokens, &client, asked.timeout)?;
        return Ok(xml::reply(plain(StatusCode::OK, told(&lock))));
    };
    let bad = || BAD_LOCK.because("LOCK takes a lockinfo: a write lock, exclusive or shared");
    let lock = Lock {
        name: name.text.as_str().into(),
        is_deep: asked.is_deep,
        is_shared: is_shared(&info).ok_or_else(bad)?,
        token: token()?,
        owner: owner(&info).into(),
        timeout: asked.timeout,
        client,
        until: Instant::now(),
    };
    // A client that may only create would keep others from what is not its own.
    let may_lock = |name: &str| request.permitted_now(|client| client.need(Right::Write, name));
    let mut new = None;
    match resource(request, name).await? {
        Some(Resource::Value(_)) => drop(may_lock(&name.text)?),
        Some(Resource::Folder) => drop(may_lock(&name.of_folder())?),
        None if name.is_folder => return Err(NO_SUCH_PATH),
        None => {
            needs_parent(request, name).await?;
            let mut value = PutRequest::of(name.key()?, &request.service.config)?;
            (value.preconditions, value.len) = (Some(Preconditions::NEW), Some(0));
            new = Some(Box::new(value));
        }
    }
    let lock = locks.grant(lock.extended(asked.timeout))?;
    let response = if let Some(new) = new {
        request.tokens.borrow_mut().push(lock.token.to_string());
        if let Err(why) = put(request, new, body).await {
            let _ = locks.remove(&lock.name, &lock.token, &lock.client);
            return Err(why);
        }
        plain(StatusCode::CREATED, told(&lock))
    } else {
        plain(StatusCode::OK, told(&lock))
    };
    Ok(xml::reply(response).with(|headers| put_field(headers, TOKEN, format!("<{}>", lock.token))))
}

/// True where a lock is asked for that others may share; a write lock is the only kind.
fn is_shared(info: &Element) -> Option<bool> {
    let scope = info.child("lockscope").filter(|_| info.is("lockinfo"))?;
    info.child("locktype")?.child("write")?;
    let is_shared = scope.child("shared").is_some();
    (is_shared || scope.child("exclusive").is_some()).then_some(is_shared)
}

/// What a client says of itself, as XML: an address, or a text.
pub fn owner(info: &Element) -> String {
    let text = |of: &Element| xml::text(of.text.trim());
    let Some(owner) = info.child("owner") else {
        return String::new();
    };
    let href = owner.child("href");
    href.map_or_else(
        || text(owner),
        |href| format!("<D:href>{}</D:href>", text(href)),
    )
}

/// A token that cannot be guessed (RFC 4122).
fn token() -> Result<Box<str>, Refusal> {
    let id = UploadId::random()?.to_string();
    let [a, b, c, d, e] = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &id[part]);
    Ok(format!("urn:uuid:{a}-{b}-{c}-{d}-{e}").into())
}

/// The token of the lock that an UNLOCK ends.
pub fn token_of(headers: &HeaderMap) -> Result<String, Refusal> {
    let bad = || BAD_LOCK.because("UNLOCK needs one Lock-Token, as LOCK has answered it");
    lock_token(headers).ok_or_else(bad)
}

/// Answers an UNLOCK.
pub fn unlock(request: &RequestContext, name: &Name, token: &str) -> Outcome {
    let locks = request.service.locks.as_ref().ok_or(NO_SUCH_PATH)?;
    locks.remove(&name.text, token, &request.uploader())?;
    Ok(empty(StatusCode::NO_CONTENT).into())
}
