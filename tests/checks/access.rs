//! Who asks, and who may do what: the file of `--access`, the field Authorization, the query of a signed link.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use form_urlencoded::Serializer;

use crate::access::{Right, parse};
use crate::http::auth::credentials::{self, Credentials, SignedLink, credentials};
use crate::http::head::query::QueryFields;
use crate::http::refusal::Refusal;

/// A file that is refused is told with its line; of one that counts, each right has a rule, and each rule gives its
/// rights.
pub fn access_file(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    // Nothing lies beside it: a file that it names is never there.
    let policy = match parse(Path::new("/dev/null/access.toml"), text) {
        Ok(policy) => policy,
        Err(why) => {
            let line = why.place.rsplit_once(':').map(|(_, line)| line.parse());
            let lines = 1 + text.matches('\n').count();
            let is_known = |line: usize| (1..=lines).contains(&line);
            let is_there = matches!(line, Some(Ok(line)) if is_known(line));
            // A file that it names has no line when it is not there.
            assert!(is_there || why.place.starts_with("/dev/null/"), "{why}");
            return;
        }
    };
    assert!(!policy.realm.contains(['"', '\\', '\r', '\n']));
    let given = policy.rules.iter().flat_map(|rule| &rule.who);
    let names = given.filter(|name| policy.subjects.contains_key(name.as_str()));
    for name in names.map(|name| Some(name.as_str())).chain([None]) {
        let subject = name.and_then(|name| policy.subjects.get(name));
        let grant = &subject.unwrap_or(&policy.anonymous).grant;
        let prefixes = policy.rules.iter();
        let prefixes = prefixes.flat_map(|rule| rule.prefixes_for(name));
        for prefix in prefixes.chain([String::new()]) {
            for (right, _) in Right::NAMED {
                let key = prefix.clone() + "x";
                for is_prefix in [false, true] {
                    let decided = policy.deciding(name, right, &key, is_prefix).is_some();
                    let keys = grant.keys(right);
                    let allowed = keys.has(&key) || (is_prefix && keys.may_have_below(&key));
                    assert_eq!(allowed, decided, "{name:?} {right:?} {key}");
                }
            }
        }
    }
}

/// Credentials are within their bounds, the same when it is written and read again, and shown by no `Debug` output.
pub fn authorization(data: &[u8]) {
    let Some(claimed) = credentials(data) else {
        return;
    };
    let shown = format!("{claimed:?}");
    let again = match &claimed {
        Credentials::Token(token) => {
            assert!((1..=1024).contains(&token.len()) && token.is_ascii());
            assert_eq!(shown, "Token");
            [b"Bearer ", *token].concat()
        }
        Credentials::Password(pair) => {
            assert!(pair.name.len() <= 1024 && pair.password.len() <= 1024);
            assert!(!pair.name.contains(':'));
            assert_eq!(shown, "Password");
            let pair = [pair.name.as_bytes(), b":", &pair.password].concat();
            format!("Basic {}", STANDARD.encode(pair)).into_bytes()
        }
    };
    assert!(credentials(&again) == Some(claimed));
}

fn signed_link(query: &str) -> Option<Result<SignedLink, Refusal>> {
    credentials::signed_link(&QueryFields::of(Some(query)))
}

/// A link is the same when it is written and read again, or with other parameters, and nothing of its own can be added
/// to it.
pub fn link(data: &[u8]) {
    let Ok(query) = std::str::from_utf8(data) else {
        return;
    };
    let read = signed_link(query);
    assert_eq!(read.is_some(), query.contains("signature="));
    let Some(Ok(link)) = read else { return };
    let again = written(&link);
    let read = signed_link(&again).and_then(Result::ok);
    assert_eq!(read.map(|link| written(&link)).as_deref(), Some(&*again));
    for more in ["signature=", "expires=1", "by=", "max=x"] {
        let added = signed_link(&format!("{query}&{more}"));
        assert!(matches!(added, Some(Err(_))), "{query} with {more}");
    }
    for more in ["x", "x=1", "a=signature=b"] {
        let added = signed_link(&format!("{query}&{more}")).and_then(Result::ok);
        let added = added.map(|link| written(&link));
        assert_eq!(added.as_deref(), Some(&*again), "{query} with {more}");
    }
}

fn written(link: &SignedLink) -> String {
    let mut query = Serializer::new(String::new());
    query.append_pair("expires", &link.expires.to_string());
    query.append_pair("by", &link.by);
    if let Some(max) = link.max {
        query.append_pair("max", &max.to_string());
    }
    query.append_pair("signature", &link.signature);
    query.finish()
}
