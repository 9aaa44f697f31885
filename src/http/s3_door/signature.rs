//! Who asks, of the clients of this door: Signature Version 4, in the field Authorization or in the query of a URL.
//!
//! Promises that a request which is let in by a signature is the one that was signed: its method, path, query, host,
//! all fields of S3 and the digest of its body, a short while ago or as long as its URL lasts. The path is verified as
//! it came, and as it is encoded by the rules, which some clients sign without sending it so: both name the same key.
//! A request without a signature is of whom the plain door would say. Secrets stay in `access`.

use std::time::{Duration, SystemTime};

use hyper::StatusCode;
use hyper::header::HeaderName;
use percent_encoding::percent_decode_str;

use crate::http::auth::credentials::AuthCache;
use crate::http::auth::{Guard, Identified};
use crate::http::head::names::AuthorizationFields;
use crate::http::head::syntax::{number, only};
use crate::http::refusal::Refusal;
use crate::http::refusal::kind::{Flag, Kind};
use crate::http::request::head::RequestHead;
use crate::http::values::digest_fields::AMZ_CONTENT_SHA256;
use crate::sigv4::{
    ALGORITHM, CanonicalRequest, Scope, UNSIGNED, parse_time, path, query, time_text,
};

const AMZ_DATE: HeaderName = HeaderName::from_static("x-amz-date");

/// How far the clocks of both sides may be apart.
const MOST_APART: Duration = Duration::from_secs(15 * 60);

/// The longest that a URL lasts: a week.
const LONGEST: u64 = 7 * 24 * 60 * 60;

/// The parameter of the signature of a URL, which it does not cover.
const SIGNATURE: &str = "X-Amz-Signature";

const MALFORMED: &Kind = &Kind::new(StatusCode::BAD_REQUEST, "bad-authorization");
const BAD_URL: &Kind = &Kind::new(StatusCode::BAD_REQUEST, "bad-signed-url");
const OTHER_VERSION: &Kind = &Kind::new(StatusCode::BAD_REQUEST, "signature-v2");
const APART: &Kind = &Kind::new(StatusCode::FORBIDDEN, "clock-skew").flags(&[Flag::Audited]);
const OVER: &Kind = &Kind::new(StatusCode::FORBIDDEN, "expired-url").flags(&[Flag::Audited]);
const LEFT_OUT: &Kind = &Kind::new(StatusCode::FORBIDDEN, "unsigned-field").flags(&[Flag::Audited]);

const VERSION_2: Refusal = Refusal::new(
    OTHER_VERSION,
    "this server takes Signature Version 4 (AWS4-HMAC-SHA256) and no other: set the client to it, as in signature_version = s3v4",
);

const TWICE: Refusal = Refusal::new(
    MALFORMED,
    "a request is authorized by its query or by one field Authorization, and by no more than that",
);

const NO_KEY: Refusal = Refusal::new(
    &Kind::new(StatusCode::FORBIDDEN, "no-such-access-key").flags(&[Flag::Audited]),
    "there is no such access key here: the file of --access names those that there are as s3-key",
);

const WRONG: Refusal = Refusal::new(
    &Kind::new(StatusCode::FORBIDDEN, "signature").flags(&[Flag::Audited]),
    "the signature does not match the request: check the secret key, and that no proxy changes Host, path or query",
);

/// Authenticates the client of a request.
pub fn identify(
    asked: &RequestHead<'_>,
    guard: Option<&Guard>,
    proven: &AuthCache,
) -> Result<Identified, Refusal> {
    let Some(guard) = guard else {
        return Ok(Identified::Known(None));
    };
    // Without subjects credentials mean nothing.
    let claim = guard.0.has_subjects().then(|| Claim::of(asked));
    let Some(claim) = claim.transpose()?.flatten() else {
        return guard.identify(asked.common.presented, asked.user(), asked.client, proven);
    };
    // No client is two subjects.
    if !matches!(
        asked.user(),
        AuthorizationFields::Nothing | AuthorizationFields::Field(b"")
    ) {
        return Err(TWICE);
    }
    claim.verify_time(SystemTime::now())?;
    let (policy, source) = (guard.0.policy(), asked.client.peer.source());
    let key = policy.s3_key(claim.key);
    let key = key.ok_or_else(|| guard.wrong_signature(source, NO_KEY))?;
    if !claim.is_of(asked, |text, signature| {
        key.signing_key(claim.scope).verify(text, signature)
    })? {
        return Err(guard.wrong_signature(source, WRONG));
    }
    let is_of_url = claim.lasts.is_some();
    let principal = guard.admit_signed(&policy, key, is_of_url, source)?;
    Ok(Identified::Known(Some(principal)))
}

/// What a request says of its signature.
pub struct Claim<'a> {
    /// The id of the key.
    key: &'a str,
    pub scope: Scope<'a>,
    /// When it was signed.
    pub time: &'a str,
    /// The names of the signed fields.
    names: &'a str,
    pub signature: &'a str,
    /// How many seconds the URL lasts that it is of.
    lasts: Option<u64>,
}

impl<'a> Claim<'a> {
    /// The claim of a request; `None` where it has no signature.
    pub fn of(asked: &'a RequestHead<'_>) -> Result<Option<Self>, Refusal> {
        let query = &asked.query;
        if query.has("AWSAccessKeyId") && query.has("Signature") {
            return Err(VERSION_2);
        }
        let is_url = [SIGNATURE, "X-Amz-Credential"]
            .iter()
            .any(|name| query.has(name));
        let field = match asked.common.presented {
            AuthorizationFields::Nothing if is_url => return Self::of_url(asked).map(Some),
            AuthorizationFields::Nothing => return Ok(None),
            AuthorizationFields::Field(field) if !is_url => field,
            _ => return Err(TWICE),
        };
        let text = std::str::from_utf8(field).unwrap_or_default();
        let (scheme, rest) = text.split_once(' ').unwrap_or((text, ""));
        match scheme {
            ALGORITHM => Self::of_field(rest, asked).map(Some),
            "AWS" => Err(VERSION_2),
            _ if scheme.starts_with("AWS4-") => Err(MALFORMED.because(format!(
                "this server takes signatures by {ALGORITHM}, and by no other algorithm"
            ))),
            _ => Ok(None),
        }
    }

    fn of_field(text: &'a str, asked: &'a RequestHead<'_>) -> Result<Self, Refusal> {
        let malformed = || {
            MALFORMED.because(
                "the field Authorization should be AWS4-HMAC-SHA256 Credential=KEY/DAY/REGION/s3/aws4_request, SignedHeaders=..., Signature=...",
            )
        };
        let mut parts = [None; 3];
        for part in text.split(',') {
            let (name, value) = part.trim().split_once('=').ok_or_else(malformed)?;
            let at = ["Credential", "SignedHeaders", "Signature"]
                .iter()
                .position(|it| *it == name);
            let part = at.and_then(|at| parts.get_mut(at)).ok_or_else(malformed)?;
            if part.replace(value).is_some() {
                return Err(malformed());
            }
        }
        let [Some(credential), Some(names), Some(signature)] = parts else {
            return Err(malformed());
        };
        let time = only(&asked.head.headers, &AMZ_DATE).and_then(|time| time.to_str().ok());
        let time = time.ok_or_else(|| {
            MALFORMED.because("a signed request has one x-amz-date, as 20130524T000000Z")
        })?;
        Self::new([credential, names, signature, time], None, MALFORMED)
    }

    fn of_url(asked: &'a RequestHead<'_>) -> Result<Self, Refusal> {
        let one = |name: &str| {
            let mut values = asked.query.all(name);
            let value = values.next().filter(|_| values.next().is_none());
            value.ok_or_else(|| BAD_URL.because(format!("a signed URL has one {name}")))
        };
        if one("X-Amz-Algorithm")? != ALGORITHM {
            return Err(BAD_URL.because(format!("X-Amz-Algorithm of a signed URL is {ALGORITHM}")));
        }
        let lasts = number(one("X-Amz-Expires")?.as_bytes());
        let lasts = lasts
            .filter(|lasts| (1..=LONGEST).contains(lasts))
            .ok_or_else(|| {
                BAD_URL.because(format!(
                    "X-Amz-Expires is a number of seconds from 1 to {LONGEST}"
                ))
            })?;
        let parts = [
            "X-Amz-Credential",
            "X-Amz-SignedHeaders",
            SIGNATURE,
            "X-Amz-Date",
        ]
        .map(one);
        let [credential, names, signature, time] = parts;
        Self::new(
            [credential?, names?, signature?, time?],
            Some(lasts),
            BAD_URL,
        )
    }

    fn new(
        [credential, names, signature, time]: [&'a str; 4],
        lasts: Option<u64>,
        kind: &'static Kind,
    ) -> Result<Self, Refusal> {
        let (key, scope) = credential.split_once('/').unwrap_or((credential, ""));
        let scope = Scope::parse(scope).filter(|scope| time.starts_with(scope.day)).ok_or_else(|| {
            kind.because("the credential should be KEY/DAY/REGION/s3/aws4_request, of the day of x-amz-date")
        })?;
        let mut all = names.split(';');
        if !all.clone().is_sorted_by(|one, other| one < other) || !all.any(|name| name == "host") {
            return Err(kind.because(
                "the signed headers are names in lower case and in order, and host is one of them",
            ));
        }
        Ok(Self {
            key,
            scope,
            time,
            names,
            signature,
            lasts,
        })
    }

    /// Refuses it where it is too old, or of a time to come.
    fn verify_time(&self, now: SystemTime) -> Result<(), Refusal> {
        let signed = parse_time(self.time)
            .ok_or_else(|| MALFORMED.because("the time of a signature is as 20130524T000000Z"))?;
        let (told, now_told) = (self.time, time_text(now));
        if signed > now + MOST_APART || self.lasts.is_none() && signed + MOST_APART < now {
            return Err(APART.because(format!(
                "the clocks differ: the request was signed at {told}, and here it is {now_told}; 15 minutes are allowed"
            )));
        }
        match self.lasts {
            Some(lasts) if signed + Duration::from_secs(lasts) < now => Err(OVER.because(format!(
                "this URL has expired: it was signed at {told} for {lasts} s, and now it is {now_told}"
            ))),
            _ => Ok(()),
        }
    }

    /// True where its signature is one of the request, as `verify` says of a text that is signed.
    pub fn is_of(
        &self,
        asked: &RequestHead<'_>,
        mut verify: impl FnMut(&str, &str) -> bool,
    ) -> Result<bool, Refusal> {
        let head = asked.head;
        let is_signed = |name: &str| self.names.split(';').any(|signed| signed == name);
        let mut unsigned = head.headers.keys().map(HeaderName::as_str);
        // What the body is held against is refused there, where it is wrong.
        let is_left_out = |name: &&str| {
            name.starts_with("x-amz-") && *name != AMZ_CONTENT_SHA256.as_str() && !is_signed(name)
        };
        if let Some(name) = unsigned.find(is_left_out) {
            return Err(LEFT_OUT.because(format!("{name} is not one of the signed headers")));
        }
        let payload = self.payload(asked)?;
        let pairs = asked.query.pairs();
        let pairs: Vec<_> = pairs
            .filter(|(name, _)| self.lasts.is_none() || *name != SIGNATURE)
            .collect();
        let query = query(&pairs);
        let decoded = percent_decode_str(asked.path).decode_utf8().ok();
        let by_rules = decoded.map(|decoded| path(&decoded));
        let forwarded = asked
            .client
            .forwarded_host(&head.headers)
            .map(str::as_bytes);
        for path in [Some(asked.path), by_rules.as_deref()]
            .into_iter()
            .flatten()
        {
            let request = CanonicalRequest {
                method: head.method.as_str(),
                path,
                query: &query,
                payload,
            };
            for host in [Some(asked.common.host()), forwarded].into_iter().flatten() {
                let (_, text) = request.text(&self.fields(asked, host), self.time, self.scope);
                if verify(&text, self.signature) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The signed fields of a request for `host`.
    fn fields<'f>(
        &'f self,
        asked: &'f RequestHead<'_>,
        host: &'f [u8],
    ) -> Vec<(&'f str, &'f [u8])> {
        let mut fields = Vec::new();
        for name in self.names.split(';') {
            let before = fields.len();
            if name == "host" {
                fields.push((name, host));
            } else {
                let lines = asked.head.headers.get_all(name);
                fields.extend(lines.iter().map(|line| (name, line.as_bytes())));
            }
            if fields.len() == before {
                fields.push((name, &[]));
            }
        }
        fields
    }

    /// The payload that was signed.
    fn payload<'f>(&self, asked: &'f RequestHead<'_>) -> Result<&'f str, Refusal> {
        let given = only(&asked.head.headers, &AMZ_CONTENT_SHA256);
        let given = given.and_then(|given| given.to_str().ok());
        if self.lasts.is_some() {
            let is_signed = self
                .names
                .split(';')
                .any(|name| name == AMZ_CONTENT_SHA256.as_str());
            return Ok(given.filter(|_| is_signed).unwrap_or(UNSIGNED));
        }
        given.ok_or_else(|| MALFORMED.because("a signed request has one x-amz-content-sha256"))
    }
}

#[cfg(test)]
mod tests {
    use hyper::Request;
    use proptest::prelude::*;

    use super::*;
    use crate::http::head::client::{Client, Peer};
    use crate::http::service_config::ServiceConfig;
    use crate::sigv4::SigningKey;

    const TIME: &str = "20130524T000000Z";
    const SCOPE: Scope<'_> = Scope {
        day: "20130524",
        region: "r",
    };
    const NAMES: &str = "host;x-amz-content-sha256;x-amz-date;x-amz-meta-a";

    /// True where a request with this head is verified, whose field Authorization is of the claim `signed`.
    fn is_verified([method, target, host, value, payload]: [&str; 5], signed: &str) -> bool {
        let request = Request::builder()
            .method(method)
            .uri(target)
            .header("host", host);
        let request = request
            .header("x-amz-meta-a", value)
            .header("x-amz-date", TIME);
        let request = request.header("x-amz-content-sha256", payload);
        let request = request.header("authorization", signed).body(()).unwrap();
        let (head, ()) = request.into_parts();
        let (client, config) = (
            Client::of(Peer::Process { uid: 1, pid: 1 }),
            ServiceConfig::default(),
        );
        let asked = RequestHead::new(&head, None, client, &config);
        let claim = Claim::of(&asked).unwrap().unwrap();
        let key = SigningKey::new("secret", claim.scope);
        claim
            .is_of(&asked, |text, signature| key.verify(text, signature))
            .unwrap()
    }

    proptest! {
        #[test]
        fn a_request_is_verified_as_it_was_signed_and_as_no_other(
            name in "(/[a-z +~%!é]{1,5}){1,3}",
            pairs in prop::collection::vec(("[b-d%&= +é]{1,3}", "[b-d%&= +/é]{0,3}"), 0..4),
            value in "[a-c]{0,3}( [a-c]{1,3})?",
            change in 0..5_usize,
        ) {
            let pairs: Vec<_> = pairs.iter().map(|(name, value)| (&**name, &**value)).collect();
            let (path, query) = (path(&name), query(&pairs));
            let request = CanonicalRequest { method: "PUT", path: &path, query: &query, payload: UNSIGNED };
            let fields = ["h", UNSIGNED, TIME, &value].map(str::as_bytes);
            let fields: Vec<_> = NAMES.split(';').zip(fields).collect();
            let (names, text) = request.text(&fields, TIME, SCOPE);
            let signature = SigningKey::new("secret", SCOPE).sign(&text);
            let signed = format!("{ALGORITHM} Credential=id/{SCOPE},SignedHeaders={names}, Signature={signature}");
            let target = format!("{path}?{query}");
            let mut sent = ["PUT", &target, "h", &value, UNSIGNED];
            prop_assert!(is_verified(sent, &signed));
            // As other clients encode it.
            let plain = target.replace("%2B", "%2b").replace("%7E", "~").replace('!', "%21");
            prop_assert!(is_verified(["PUT", &plain, "h", &value, UNSIGNED], &signed));
            let other = [
                "POST".to_owned(),
                if query.is_empty() { format!("{path}?a") } else { format!("{target}&a") },
                "i".to_owned(),
                format!("{value}x"),
                "STREAMING-UNSIGNED-PAYLOAD-TRAILER".to_owned(),
            ];
            sent[change] = &other[change];
            prop_assert!(!is_verified(sent, &signed));
        }
    }
}
