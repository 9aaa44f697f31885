//! GET and HEAD of an object: conditions, one range, what was kept with it.

use hyper::Response;

use super::Store;
use super::answer::Call;
use super::objects::Refusal;
use super::reply::{Body, reply, set};

pub(super) fn read(store: &Store, call: &Call) -> Result<Response<Body>, Refusal> {
    let is_stale = store.lies.stale_second && call.is_second();
    let object = store.state().objects.of(&call.key, is_stale);
    let object = object.ok_or((404, "NoSuchKey"))?;
    let text = |name: &str| call.headers.get(name).and_then(|value| value.to_str().ok());
    if text("if-match").is_some_and(|tag| tag != "*" && tag != object.etag) {
        return Err((412, "PreconditionFailed"));
    }
    if text("if-none-match").is_some_and(|tag| tag == "*" || tag == object.etag) {
        let mut answer = reply(304, "");
        if !store.lies.bare_304 {
            set(&mut answer, "etag", &object.etag);
        }
        return Ok(answer);
    }
    let len = object.bytes.len();
    let range = text("range").map(|range| bounds(range, len)).transpose()?;
    let mut answer = match range {
        Some((from, to)) => {
            let mut answer = reply(206, object.bytes.slice(from..to));
            let place = format!("bytes {from}-{}/{len}", to - 1);
            set(&mut answer, "content-range", &place);
            answer
        }
        None => reply(200, object.bytes.clone()),
    };
    set(&mut answer, "etag", &object.etag);
    let modified = httpdate::fmt_http_date(object.modified);
    set(&mut answer, "last-modified", &modified);
    let wants_checksums = text("x-amz-checksum-mode").is_some();
    for (name, value) in &object.headers {
        if wants_checksums || !name.starts_with("x-amz-checksum-") {
            set(&mut answer, name, value);
        }
    }
    Ok(answer)
}

/// The first and the one behind the last byte of a range.
fn bounds(range: &str, len: usize) -> Result<(usize, usize), Refusal> {
    const BAD: Refusal = (416, "InvalidRange");
    let range = range.strip_prefix("bytes=").ok_or(BAD)?;
    let (from, to) = range.split_once('-').ok_or(BAD)?;
    let number = |text: &str| text.parse::<usize>().map_err(|_| BAD);
    let (from, to) = match (from, to) {
        ("", last) => (len.saturating_sub(number(last)?), len),
        (from, "") => (number(from)?, len),
        (from, to) => (number(from)?, len.min(number(to)? + 1)),
    };
    if from < to { Ok((from, to)) } else { Err(BAD) }
}
