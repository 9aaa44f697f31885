//! The requests of an upload in parts that are not parts: its begin, the joining of its parts, and its end without a value.

use bytes::Bytes;
use hyper::Method;
use hyper::header::{ETAG, HeaderName};
use quick_xml::escape::escape;
use serde::Deserialize;
use tokio::time::{Instant, timeout};

use super::super::error::Error;
use super::answer::{Answer, Failure};
use super::call::Call;
use super::client::Client;
use super::contract::{Exact, Written};
use super::escape::query;
use super::framing::CHECKSUM;
use super::head::{text, unclear};
use super::put::refused;
use super::send_body::SendBody;
use super::sign::{NOTHING, hex};
use super::tries::{Tries, error};

/// The longest answer to what begins and ends an upload in parts.
const MAX_ANSWER: usize = 64 << 10;

/// A part that the store has: what it says of it.
#[derive(Debug)]
pub(super) struct Part {
    number: u32,
    etag: String,
    /// Some stores join only parts whose checksums are named again.
    checksum: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Begun {
    upload_id: String,
}

/// What joining comes to: a store may begin a 200 before it knows that it fails.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Joined {
    #[serde(rename = "ETag")]
    etag: String,
    #[serde(rename = "Code")]
    code: String,
}

impl Part {
    /// The one with this number, as the store answers it.
    pub(super) fn of(number: u32, answer: &Answer) -> Result<Self, Failure> {
        let said = |name| text(&answer.headers, name).map(str::to_owned);
        let etag = said(&ETAG);
        let etag = etag.ok_or_else(|| Failure::Unfit(unclear("a part has no entity tag")))?;
        Ok(Self {
            number,
            etag,
            checksum: said(&HeaderName::from_static(CHECKSUM)),
        })
    }
}

/// Begins an upload in parts of what `call`, a PUT of all of it, says: what the store calls it.
pub(super) async fn initiate(client: &Client, call: &Call) -> Result<String, Error> {
    let call = Call {
        method: Method::POST,
        query: query(&[("uploads", "")]),
        ..call.clone()
    };
    let until = Instant::now() + client.timeout();
    let mut tries = Tries::until(until, client.counters());
    let answer = loop {
        // What is begun twice stays, unseen and without parts. It cannot be told from one that another server has begun and is
        // about to use: a list of uploads has neither their metadata nor who asked for them.
        match client.ask(&call, SendBody::Empty, NOTHING, until).await {
            Ok(answer) => break answer,
            Err(failure) => tries.again_after(failure).await?,
        }
    };
    let upload: Begun = parse(&whole(client, answer).await.map_err(error)?)?;
    Ok(upload.upload_id)
}

/// Has the store join `parts` as `call` says, if `condition` holds.
pub(super) async fn join(
    client: &Client,
    call: Call,
    parts: &[Part],
    condition: &Exact,
) -> Result<Written, Error> {
    let (body, payload) = listed(parts);
    let call = call.under(condition)?;
    let until = Instant::now() + client.timeout();
    let mut tries = Tries::until(until, client.counters());
    loop {
        let body = SendBody::Whole(body.clone());
        let failure = match client.ask(&call, body, &payload, until).await {
            Ok(answer) => match whole(client, answer).await {
                Ok(joined) => return written(&joined),
                Err(failure) => failure,
            },
            // It was joined before, or it was given up.
            Err(Failure::Refused(refusal)) if refusal.is_no_upload() => {
                return Err(Error::OutcomeUnknown { is_late: false });
            }
            Err(Failure::Refused(refusal)) => {
                // An earlier try may have joined them: the caller looks for the write.
                return Err(match refused(refusal, condition) {
                    Error::Precondition if tries.may_have_been_made() => {
                        Error::OutcomeUnknown { is_late: false }
                    }
                    error => error,
                });
            }
            Err(failure) => failure,
        };
        tries.again_after_nothing(failure).await?;
    }
}

/// What tells the store all parts, and how it is signed.
fn listed(parts: &[Part]) -> (Bytes, String) {
    use std::fmt::Write as _;
    let mut xml = "<CompleteMultipartUpload>".to_owned();
    for part in parts {
        let (number, etag) = (part.number, escape(&part.etag));
        let checksum = part
            .checksum
            .as_deref()
            .map(escape)
            .map_or_else(String::new, |sum| {
                format!("<ChecksumCRC64NVME>{sum}</ChecksumCRC64NVME>")
            });
        // Writing to a string does not fail.
        let _ = write!(
            xml,
            "<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag>{checksum}</Part>"
        );
    }
    xml.push_str("</CompleteMultipartUpload>");
    let payload = hex(&<sha2::Sha256 as sha2::Digest>::digest(&xml));
    (xml.into(), payload)
}

/// Has the store forget an upload in parts.
pub(super) async fn forget(client: &Client, call: &Call) {
    let until = Instant::now() + client.timeout();
    let mut tries = Tries::until(until, client.counters());
    loop {
        let failure = match client.ask(call, SendBody::Empty, NOTHING, until).await {
            Ok(_) => return,
            Err(Failure::Refused(refusal)) if refusal.is_missing() => return,
            Err(failure) => failure,
        };
        if let Err(error) = tries.again_after(failure).await {
            tracing::warn!(%error, "parts of an upload stay in the store");
            return;
        }
    }
}

async fn whole(client: &Client, answer: Answer) -> Result<Bytes, Failure> {
    let whole = timeout(client.timeout(), answer.whole(MAX_ANSWER)).await;
    whole.map_err(|_| Failure::Late)?.map_err(Failure::Lost)
}

fn written(body: &[u8]) -> Result<Written, Error> {
    let joined: Joined = parse(body)?;
    match &*joined.code {
        "" if !joined.etag.is_empty() => Ok(Written { etag: joined.etag }),
        "PreconditionFailed" => Err(Error::Precondition),
        _ => Err(Error::OutcomeUnknown { is_late: false }),
    }
}

fn parse<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Result<T, Error> {
    let text = std::str::from_utf8(body).map_err(|_| unclear("an answer is not UTF-8"))?;
    quick_xml::de::from_str(text).map_err(|error| Error::BadGateway {
        said: format!("an answer cannot be read: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_success_may_turn_out_to_be_none() {
        let joined = b"<CompleteMultipartUploadResult><ETag>&quot;a-1&quot;</ETag></CompleteMultipartUploadResult>";
        assert_eq!(written(joined).unwrap().etag, "\"a-1\"");
        let failed = b"<?xml version=\"1.0\"?>\n  <Error><Code>InternalError</Code></Error>";
        assert!(matches!(written(failed), Err(Error::OutcomeUnknown { .. })));
    }
}
