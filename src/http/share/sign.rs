//! The signing of links to share, by the link key of the client's subject.
//!
//! Promises that a link is for no more than its client may do at this moment, and lasts no longer than its link key
//! allows and its client's subject counts. A link signs no further link: it is no credential of a POST. No secret
//! leaves the policy.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use hyper::StatusCode;

use crate::access::{Policy, Right, Subject};
use crate::http::audit::AuditEvent;
use crate::http::auth::credentials::{Principal, SignedLink};
use crate::http::auth::need::Need;
use crate::http::body::request::Received;
use crate::http::refusal::Refusal;
use crate::http::request::RequestContext;
use crate::http::request::head::RequestHead;
use crate::http::response::{Outcome, TEXT, unstored};
use crate::http::share::{NOT_COUNTED, NOT_OFFERED, ShareRequest, too_long};
use crate::http::verb::{Parsed, Verb};
use crate::store::second;

/// The request for a link.
pub fn link(asked: &RequestHead<'_>) -> Parsed {
    let request = ShareRequest::of(asked)?;
    Ok(request.map(|request| Box::new(request) as _))
}

#[async_trait(?Send)]
impl Verb for ShareRequest {
    fn needs(&self) -> Vec<Need<'_>> {
        let rights = self.terms(0).rights().iter();
        let needs = [Right::Link].into_iter().chain(rights.copied());
        needs.map(|right| Need::all(right, &self.of)).collect()
    }

    async fn perform(self: Box<Self>, request: &RequestContext, _: &mut Received<'_>) -> Outcome {
        let (link, lasts) = sign(request.principal(), &self)?;
        let record = &request.guard.exchange.record;
        record.audit(AuditEvent::Shared(lasts));
        Ok(unstored(StatusCode::OK, TEXT, link).into())
    }
}

/// Makes the link that was `asked` for by the client `principal`, if it has the rights to it. Returns it, and the
/// seconds that it lasts.
fn sign(principal: Option<&Principal>, asked: &ShareRequest) -> Result<(String, u64), Refusal> {
    let principal = principal.ok_or(NOT_OFFERED)?;
    let (policy, now) = (principal.access.policy(), SystemTime::now());
    // The rules may be others than before a check of its password.
    let principal = principal.by_policy(&policy)?;
    principal.meet_all(asked.needs())?;
    let link = signed(&policy, &principal.subject, asked, now)?;
    let lasts = link.expires.saturating_sub(second(now));
    Ok((
        format!("{}{}\n", asked.base, link.address(&asked.terms(0))),
        lasts,
    ))
}

/// The link that `subject`, which has the rights to it, has `asked` for at the time `now`.
fn signed(
    policy: &Policy,
    subject: &Subject,
    asked: &ShareRequest,
    now: SystemTime,
) -> Result<SignedLink, Refusal> {
    let by = policy.shares.get(&subject.name);
    let link_key = by.and_then(|by| Some((by, policy.link_keys.get(by)?)));
    let (by, link_key) = link_key.ok_or(NOT_OFFERED)?;
    let most = link_key.lasts;
    let lasts = asked.lasts.unwrap_or(most);
    if lasts > most {
        return Err(too_long(most));
    }
    let end = second(now).saturating_add(lasts.as_secs());
    let end_of_subject = subject.not_after.map(second);
    let expires = end_of_subject.map_or(end, |it| it.min(end));
    let signature = policy.sign(by, &asked.terms(expires), now);
    Ok(SignedLink {
        expires,
        by: by.to_string(),
        max: None,
        signature: signature.ok_or(NOT_COUNTED)?,
    })
}

/// What comes of this request by `subject` for a link, if it has the rights to it: the name of the link
/// key, and the time that the link lasts.
pub fn explain_share(
    policy: &Policy,
    subject: &Subject,
    asked: &ShareRequest,
) -> Result<(String, Duration), Refusal> {
    let now = SystemTime::now();
    let link = signed(policy, subject, asked, now)?;
    let lasts = link.expires.saturating_sub(second(now));
    Ok((link.by, Duration::from_secs(lasts)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::access::{Access, Evidence, LinkKind};
    use crate::http::auth::credentials::AuthMethod;

    const SUBJECT: &str = "[[subject]]\nname = \"ann\"\ntoken = \"sha256:TOKEN\"\nshares = \"k\"\n";
    const LINK_KEY: &str = "[[link-key]]\nname = \"k\"\nsecret-file = \"k.key\"\n";

    /// The check of a password takes time, in which the rules can change.
    #[test]
    fn the_rights_of_the_moment_count() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("access.toml");
        std::fs::write(dir.path().join("k.key"), [b'x'; 32]).expect("a secret");
        let token = Evidence::token(b"secret");
        let Evidence::Token(digest) = &token else {
            unreachable!()
        };
        let subject = SUBJECT.replace("TOKEN", &data_encoding::HEXLOWER.encode(digest));
        let write = |subject: &str, may: &str| {
            let rule = format!("[[rule]]\nwho = \"*\"\nmay = [{may}]\n");
            std::fs::write(&path, [subject, &rule, LINK_KEY].concat()).expect("a file");
        };
        write(&subject, "\"link\", \"read\"");
        let access = Arc::new(Access::read(path.clone()).expect("rules"));
        let found = Arc::clone(
            access
                .policy()
                .prove(&token, SystemTime::now())
                .expect("ann"),
        );
        let principal = Principal {
            subject: found,
            by: AuthMethod::Bearer,
            evidence: token,
            access: Arc::clone(&access),
        };
        let asked = ShareRequest {
            of: "a".to_owned(),
            kind: LinkKind::Read,
            lasts: None,
            base: String::new(),
        };
        let signed = || sign(Some(&principal), &asked);
        assert!(signed().is_ok());
        for (may, right) in [("\"link\"", Right::Read), ("\"read\"", Right::Link)] {
            write(&subject, may);
            access.reload().expect("rules");
            let refused = signed().expect_err("a refusal");
            let told = format!("not allowed: this needs the right to {} here", right.name());
            assert_eq!(refused.to_string(), told);
        }
        write("", "\"link\", \"read\"");
        access.reload().expect("rules");
        assert_eq!(signed().expect_err("a refusal").name(), "unauthenticated");
    }
}
