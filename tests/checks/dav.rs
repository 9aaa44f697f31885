//! What clients of `WebDAV` send: XML, and the fields of conditions and locks.

use std::time::Duration;

use hyper::header::HeaderName;

use super::fields;
use crate::http::dav::conditions::Conditions;
use crate::http::dav::locking::{LockRequest, owner, token_of};
use crate::http::dav::xml::{Element, parse, text};

/// A document that is taken is short and shallow, and what answers repeat of it is read as what it was.
pub fn dav_xml(data: &[u8]) {
    let Some(root) = parse(data) else {
        return;
    };
    let mut all = vec![(&root, 1)];
    let mut next = 0;
    while let Some(&(element, depth)) = all.get(next) {
        assert!(depth <= 10 && element.text.len() <= 1 << 10);
        let children = element.children.iter().map(|child| (child, depth + 1));
        all.extend(children);
        next += 1;
    }
    assert!(all.len() <= 500);
    let name = |of: &Element| (text(&of.namespace), of.name.clone());
    for some in all.chunks(400) {
        let names: String = some.iter().map(|(element, _)| element.empty()).collect();
        let again = inside(&names).expect("an answer").children;
        let again: Vec<_> = again.iter().map(name).collect();
        let names: Vec<_> = some.iter().map(|(element, _)| name(element)).collect();
        assert_eq!(again, names);
    }
    let owner = owner(&root);
    assert!(owner.len() > 1 << 10 || inside(&owner).is_some(), "{owner}");
}

/// An answer with this in it.
fn inside(said: &str) -> Option<Element> {
    parse(format!("<D:prop xmlns:D=\"DAV:\">{said}</D:prop>").as_bytes())
}

/// The lines are If, Lock-Token, Timeout and Depth, and then the same fields again. A token that is shown stands in the
/// field, and a lock lasts an hour at most.
pub fn dav_fields(data: &[u8]) {
    let names = ["if", "lock-token", "timeout", "depth"].map(HeaderName::from_static);
    let headers = fields(&names, data);
    let given = |name| headers.get(name).map_or("", |it| it.to_str().unwrap_or(""));
    if let Ok(conditions) = Conditions::of(&headers, "/prefix") {
        let tokens = conditions.tokens();
        assert!(tokens.len() <= 101);
        for token in tokens {
            let shown = format!("<{token}>");
            let is_sent = given("if").contains(&shown) || given("lock-token").trim() == shown;
            assert!(is_sent, "{token}");
        }
    }
    if let Ok(token) = token_of(&headers) {
        assert_eq!(given("lock-token").trim(), format!("<{token}>"));
    }
    if let Ok(asked) = LockRequest::of(&headers) {
        let hour = Duration::from_secs(60 * 60);
        assert!((Duration::from_secs(1)..=hour).contains(&asked.timeout));
    }
}
