//! The query of a signed link: `expires`, `by`, `signature`, and `max` for a PUT.
//!
//! Pure. A query with a `signature` is a link, and then it has nothing else: what stands twice, or is not known, makes it none
//! that is valid.

use form_urlencoded::parse;

/// A signed link. Its signature is in no `Debug` output.
#[derive(Default)]
pub struct SignedLink {
    pub expires: u64,
    /// The name of the key that it is signed with.
    pub by: String,
    pub max: Option<u64>,
    pub signature: String,
}

/// Why a link does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadLink {
    #[error("this link has expired")]
    Expired,
    #[error("this link is not valid")]
    Invalid,
}

/// The link that `query` is; `None` where it is none.
pub fn signed_link(query: Option<&str>) -> Option<Result<SignedLink, BadLink>> {
    let query = query?;
    let is_link = parse(query.as_bytes()).any(|(name, _)| name == "signature");
    is_link.then(|| read(query).ok_or(BadLink::Invalid))
}

fn read(query: &str) -> Option<SignedLink> {
    let (mut expires, mut by, mut max, mut signature) = (None, None, None, None);
    for (name, value) in parse(query.as_bytes()) {
        let is_new = match &*name {
            "expires" => expires.replace(number(&value)?).is_none(),
            "by" => by.replace(value.into_owned()).is_none(),
            "max" => max.replace(number(&value)?).is_none(),
            "signature" => signature.replace(value.into_owned()).is_none(),
            _ => false,
        };
        if !is_new {
            return None;
        }
    }
    Some(SignedLink {
        expires: expires?,
        by: by?,
        max,
        signature: signature?,
    })
}

/// A number as a link has it: in one way, so that a link has one text.
fn number(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

#[cfg(test)]
mod tests {
    use crate::http::auth::signed_link::*;

    #[test]
    fn a_link_has_each_of_its_parameters_once_and_no_other() {
        assert!(signed_link(None).is_none());
        for other in [
            "expires=1&by=a",
            "my_signature=abc",
            "a=signature=b",
            "X-Amz-Signature=abc",
        ] {
            assert!(signed_link(Some(other)).is_none(), "{other}");
        }
        assert!(signed_link(Some("signature")).is_some());
        assert!(signed_link(Some("%73ignature=s")).is_some());
        let good = "expires=1&by=a%20b&max=3&signature=s";
        let link = signed_link(Some(good)).unwrap().ok().unwrap();
        assert_eq!(
            (link.expires, &*link.by, link.max, &*link.signature),
            (1, "a b", Some(3), "s")
        );
        for bad in [
            "signature=s",
            "expires=1&by=a&signature=s&signature=s",
            "expires=1&expires=1&by=a&signature=s",
            "expires=1&by=a&signature=s&x=1",
            "expires=01&by=a&signature=s",
            "expires=-1&by=a&signature=s",
            "expires=1&by=a&max=&signature=s",
            "expires=99999999999999999999&by=a&signature=s",
        ] {
            assert_eq!(
                signed_link(Some(bad)).unwrap().err(),
                Some(BadLink::Invalid),
                "{bad}"
            );
        }
    }
}
