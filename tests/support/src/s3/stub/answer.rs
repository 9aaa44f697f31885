//! From a request to its answer, by way of the faults that are planned for it.

use std::collections::HashMap;
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{HeaderMap, Method, Request, Response};
use percent_encoding::{percent_decode, percent_decode_str};

use super::objects::{Object, Refusal, decide, kept, lines};
use super::payload::{self, Payload};
use super::reply::{Body, broken, lost, refusal, reply, set};
use super::{Asked, Fault, Store, list, parts, read};

/// How long a store that races takes from its decision to its act: long enough for all racers to arrive on a busy
/// machine.
const RACE: Duration = Duration::from_millis(50);

/// A request, taken apart.
pub(super) struct Call {
    /// The endpoint that it came through.
    endpoint: usize,
    method: Method,
    pub(super) key: String,
    query: HashMap<String, String>,
    pub(super) headers: HeaderMap,
}

impl Call {
    /// Whether it came through an endpoint that lies by itself.
    pub(super) fn is_second(&self) -> bool {
        self.endpoint == 1
    }
}

/// The answer; an error closes the connection.
pub(super) async fn answer(
    store: Arc<Store>,
    endpoint: usize,
    request: Request<Incoming>,
) -> Result<Response<Body>, io::Error> {
    let (head, body) = request.into_parts();
    let path = percent_decode_str(head.uri.path()).decode_utf8_lossy();
    let bucket = format!("/{}", store.bucket);
    let key = path.strip_prefix(&bucket).unwrap_or(&path);
    let key = key.trim_start_matches('/').to_owned();
    let query = head.uri.query().unwrap_or_default();
    let call = Call {
        endpoint,
        method: head.method,
        key,
        query: parse(query),
        headers: head.headers,
    };
    let fault = note(&store, &call, query);
    let payload = payload::read(&call.headers, body).await;
    if fault == Fault::Twice {
        perform(&store, &call, payload.clone()).await?;
    }
    let done = perform(&store, &call, payload);
    Ok(match fault {
        Fault::None | Fault::Twice => done.await?,
        Fault::Refuse(status, code, retry_after) => refused(status, code, retry_after),
        Fault::Elsewhere(region) => {
            let mut answer = refusal((301, "PermanentRedirect"));
            set(&mut answer, "x-amz-bucket-region", region);
            answer
        }
        Fault::Answer(body) => reply(200, body),
        Fault::LoseUndone => return Err(lost()),
        Fault::StallUndone => pending().await,
        Fault::FailDone(status) => {
            done.await?;
            refused(status, "InternalError", Some(0))
        }
        Fault::Overtake(status) => {
            done.await?;
            let other = Object::new("another writer's".into(), Vec::new());
            store.state().objects.replace(&call.key, Some(other));
            refused(status, "InternalError", Some(0))
        }
        Fault::LoseDone => {
            done.await?;
            return Err(lost());
        }
        Fault::StallDone => {
            done.await?;
            pending().await
        }
        Fault::Slow(time) => {
            let answer = done.await?;
            tokio::time::sleep(time).await;
            answer
        }
        Fault::CutAt(len) => broken(done.await?, len, true).await,
        Fault::StallAt(len) => broken(done.await?, len, false).await,
    })
}

fn refused(status: u16, code: &'static str, retry_after: Option<u64>) -> Response<Body> {
    let mut answer = refusal((status, code));
    if let Some(seconds) = retry_after {
        answer.headers_mut().insert("retry-after", seconds.into());
    }
    answer
}

/// Keeps the request for the test; the fault that is planned for it.
fn note(store: &Store, call: &Call, query: &str) -> Fault {
    let asked = Asked {
        method: call.method.to_string(),
        key: call.key.clone(),
        query: query.to_owned(),
        headers: lines(&call.headers).collect(),
    };
    let mut state = store.state();
    let credential = asked.header("authorization").unwrap_or_default();
    let fits = |keys: &crate::s3::Keys| {
        credential.contains(&format!("Credential={}/", keys.id))
            && asked.header("x-amz-security-token") == keys.token.as_deref()
    };
    let is_known = state.keys.iter().any(fits);
    let planned = state.faults.iter_mut().find(|planned| {
        planned.times > 0 && planned.method == asked.method && asked.key.contains(&planned.key)
    });
    let fault = planned.map_or(Fault::None, |planned| {
        planned.times -= 1;
        planned.fault.clone()
    });
    state.asked.push(asked);
    if is_known {
        return fault;
    }
    Fault::Refuse(403, "InvalidAccessKeyId", None)
}

async fn perform(
    store: &Store,
    call: &Call,
    payload: Payload,
) -> Result<Response<Body>, io::Error> {
    let is_kept = payload.is_whole || store.lies.keeps_cuts;
    if !is_kept {
        return Err(lost());
    }
    if !payload.fits && payload.is_whole && !(payload.is_chunked && store.lies.ignores_trailers) {
        return Ok(refusal((400, "BadDigest")));
    }
    let done = match call.method {
        Method::GET | Method::HEAD if call.key.is_empty() => Ok(bucket(store, call)),
        Method::GET | Method::HEAD => read::read(store, call),
        Method::PUT => put(store, call, payload).await,
        Method::POST => post(store, call, &payload.bytes),
        Method::DELETE => delete(store, call).await,
        _ => Err((405, "MethodNotAllowed")),
    };
    Ok(done.unwrap_or_else(refusal))
}

fn bucket(store: &Store, call: &Call) -> Response<Body> {
    let state = store.state();
    if call.query.contains_key("uploads") {
        let prefix = call.query.get("prefix").map_or("", String::as_str);
        return reply(200, parts::list(&state.objects, prefix));
    }
    reply(200, list::page(&state.objects, &call.query, &store.lies))
}

async fn put(store: &Store, call: &Call, payload: Payload) -> Result<Response<Body>, Refusal> {
    let query = |name: &str| call.query.get(name).map(String::as_str);
    if let (Some(id), Some(number)) = (query("uploadId"), query("partNumber")) {
        let number = number.parse().map_err(|_| (400, "InvalidArgument"))?;
        let etag = parts::part(&mut store.state().objects, id, number, payload.bytes);
        let mut answer = reply(200, "");
        set(&mut answer, "etag", &etag.ok_or((404, "NoSuchUpload"))?);
        return Ok(answer);
    }
    if call.key.is_empty() {
        return Ok(reply(200, ""));
    }
    let mut conditions = call.headers.clone();
    if store.lies.ignores_create {
        conditions.remove("if-none-match");
    }
    if store.lies.ignores_swap {
        conditions.remove("if-match");
    }
    let is_conditional =
        conditions.contains_key("if-none-match") || conditions.contains_key("if-match");
    let races = store.lies.races || store.lies.races_across && call.is_second();
    if races && is_conditional {
        decide(&conditions, store.state().objects.stored.get(&call.key))?;
        tokio::time::sleep(RACE).await;
        conditions.clear();
    }
    let mut headers = kept(&call.headers);
    if !store.lies.codes_chunked {
        headers.retain_mut(|(name, value)| {
            let is_coding = name == "content-encoding";
            if is_coding {
                let plain = value.replace("aws-chunked", "");
                plain.trim_matches([',', ' ']).clone_into(value);
            }
            !(is_coding && value.is_empty())
        });
    }
    let mut state = store.state();
    let (mut bytes, mut body) = (payload.bytes, String::new());
    if let Some(source) = call.headers.get("x-amz-copy-source") {
        let source = percent_decode(source.as_bytes()).decode_utf8_lossy();
        let key = source.splitn(3, '/').nth(2).unwrap_or_default();
        let found = state.objects.stored.get(key).ok_or((404, "NoSuchKey"))?;
        let only = call.headers.get("x-amz-copy-source-if-match");
        if only.is_some_and(|only| only.as_bytes() != found.etag.as_bytes()) {
            return Err((412, "PreconditionFailed"));
        }
        bytes = found.bytes.clone();
        let tag = found.etag.replace('"', "&quot;");
        body = format!("<CopyObjectResult><ETag>{tag}</ETag></CopyObjectResult>");
    }
    let object = Object::new(bytes, headers);
    decide(&conditions, state.objects.stored.get(&call.key))?;
    let mut answer = reply(200, body);
    set(&mut answer, "etag", &object.etag);
    state.objects.replace(&call.key, Some(object));
    Ok(answer)
}

fn post(store: &Store, call: &Call, body: &[u8]) -> Result<Response<Body>, Refusal> {
    let mut state = store.state();
    if call.query.contains_key("uploads") {
        let begun = parts::create(&mut state.objects, &call.key, &call.headers);
        return Ok(reply(200, begun));
    }
    let id = call.query.get("uploadId").ok_or((400, "InvalidArgument"))?;
    parts::complete(&mut state.objects, id, &call.headers, body).map(|xml| reply(200, xml))
}

async fn delete(store: &Store, call: &Call) -> Result<Response<Body>, Refusal> {
    if let Some(id) = call.query.get("uploadId") {
        let gone = store.state().objects.uploads.remove(id);
        return gone.map(|_| reply(204, "")).ok_or((404, "NoSuchUpload"));
    }
    let mut conditions = call.headers.clone();
    if store.lies.ignores_delete {
        conditions.clear();
    }
    if store.lies.races_delete && conditions.contains_key("if-match") {
        decide(&conditions, store.state().objects.stored.get(&call.key))?;
        tokio::time::sleep(RACE).await;
        conditions.clear();
    }
    let mut state = store.state();
    decide(&conditions, state.objects.stored.get(&call.key))?;
    state.objects.replace(&call.key, None);
    Ok(reply(204, ""))
}

fn parse(query: &str) -> HashMap<String, String> {
    let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let these = pairs.map(|(name, value)| (decode(name), decode(value)));
    these.collect()
}
