//! The signing of links to share, by the link key of the client's subject.
//!
//! Promises that a link is for no more than its client may do at this moment, and lasts no longer than its link key allows and its
//! client's subject counts. One who has only a link gets none: a link is no credential of a POST. No secret leaves the policy.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::access::{LinkKind, LinkTerms};
use crate::http::auth::credentials::{Principal, SignedLink};
use crate::http::auth::share::{BadShare, ShareRequest};
use crate::http::head::syntax::encoded;
use crate::http::refusal::Refusal;
use crate::http::response::outcome::Outcome;

/// Makes the link that was `asked` for by the client `principal`, which has the rights to it.
pub fn sign(principal: Option<&Principal>, asked: &ShareRequest) -> Result<Outcome, Refusal> {
    let principal = principal.ok_or(BadShare::NotOffered)?;
    let (policy, now) = (principal.access.policy(), SystemTime::now());
    let by = policy.shares.get(&principal.subject.name);
    let link_key = by.and_then(|by| Some((by, policy.link_keys.get(by)?)));
    let (by, link_key) = link_key.ok_or(BadShare::NotOffered)?;
    let most = link_key.lasts;
    let lasts = asked.lasts.unwrap_or(most);
    if lasts > most {
        return Err(BadShare::TooLong(most).into());
    }
    let since_epoch = |time: SystemTime| time.duration_since(UNIX_EPOCH);
    let seconds = |time| since_epoch(time).map_or(0, |it| it.as_secs());
    let end = seconds(now).saturating_add(lasts.as_secs());
    let end_of_subject = principal.subject.not_after.map(seconds);
    let expires = end_of_subject.map_or(end, |it| it.min(end));
    let terms = LinkTerms {
        kind: LinkKind::Read,
        key: asked.key.as_str(),
        expires,
        max: None,
    };
    let signature = policy.sign(by, &terms, now).ok_or(BadShare::NotCounted)?;
    let link = SignedLink {
        expires,
        by: by.to_string(),
        max: None,
        signature,
    };
    let (base, path, query) = (&asked.base, encoded(asked.key.as_str()), link.query());
    Ok(Outcome::Shared {
        link: format!("{base}/{path}?{query}\n"),
        lasts: expires.saturating_sub(seconds(now)),
    })
}
