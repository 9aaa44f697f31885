//! The field If (RFC 4918, section 10.4): lists of tokens and entity tags, one of which must hold, and whose tokens its
//! client shows with it. Word shows that of its lock by Lock-Token alone.

use hyper::StatusCode;
use hyper::Uri;
use hyper::header::{HeaderMap, HeaderName};

use crate::http::dav::name::{Name, Resource, resource};
use crate::http::head::syntax::only;
use crate::http::refusal::Refusal;
use crate::http::refusal::common::PRECONDITION;
use crate::http::refusal::kind::Kind;
use crate::http::request::RequestContext;
use crate::http::values::representation::validators;

const BAD_IF: &Kind = &Kind::new(StatusCode::BAD_REQUEST, "bad-if");
const IF: HeaderName = HeaderName::from_static("if");
pub const TOKEN: HeaderName = HeaderName::from_static("lock-token");

/// The most states that a field names.
const MOST: usize = 100;

/// A state that a resource may have.
#[derive(Debug, PartialEq, Eq)]
enum State {
    /// It is locked by this token.
    Token(String),
    /// Its value has this entity tag.
    Tag(String),
}

/// A list: all of it must hold of the resource.
#[derive(Debug, Default, PartialEq, Eq)]
struct List {
    /// The path of another resource than that of the request, as the client has it.
    path: Option<String>,
    /// The states, and whether each must be, or must not.
    states: Vec<(bool, State)>,
}

/// The conditions of a request; none hold always.
#[derive(Debug)]
pub struct Conditions {
    lists: Vec<List>,
    /// The token of the field Lock-Token.
    shown: Option<String>,
}

impl Conditions {
    /// Those of a request; the `prefix` of a proxy is in front of the paths that they name.
    pub fn of(headers: &HeaderMap, prefix: &str) -> Result<Self, Refusal> {
        let shown = lock_token(headers);
        if !headers.contains_key(IF) {
            let lists = Vec::new();
            return Ok(Self { lists, shown });
        }
        let text = only(headers, &IF).and_then(|value| value.to_str().ok());
        let bad = || BAD_IF.because("the field If is not as RFC 4918, section 10.4, has it");
        let mut lists = text.and_then(parse).ok_or_else(bad)?;
        for path in lists.iter_mut().filter_map(|list| list.path.as_mut()) {
            let below = path.strip_prefix(prefix);
            if let Some(below) = below.filter(|below| below.starts_with('/')) {
                *path = below.to_owned();
            }
        }
        Ok(Self { lists, shown })
    }

    /// The tokens that are shown.
    pub fn tokens(&self) -> Vec<String> {
        let states = self.lists.iter().flat_map(|list| &list.states);
        let tokens = states.filter_map(|(_, state)| match state {
            State::Token(token) => Some(token.clone()),
            State::Tag(_) => None,
        });
        tokens.chain(self.shown.clone()).collect()
    }

    /// Refuses the request for `name` if no list holds; else its tokens are shown.
    pub async fn check(&self, request: &RequestContext, name: &Name) -> Result<(), Refusal> {
        let mut holds = self.lists.is_empty();
        for list in &self.lists {
            let named = list.path.as_deref().map(Name::at).transpose()?;
            holds = holds || list.holds(request, named.as_ref().unwrap_or(name)).await?;
        }
        if !holds {
            return Err(PRECONDITION);
        }
        request.tokens.replace(self.tokens());
        Ok(())
    }
}

/// The token of the field Lock-Token.
pub fn lock_token(headers: &HeaderMap) -> Option<String> {
    let text = only(headers, &TOKEN)?.to_str().ok()?.trim();
    let token = text.strip_prefix('<')?.strip_suffix('>')?;
    Some(token.to_owned())
}

impl List {
    async fn holds(&self, request: &RequestContext, name: &Name) -> Result<bool, Refusal> {
        let locks = request.service.locks.as_ref();
        let locks = locks.map_or_else(Vec::new, |locks| locks.of(&name.text));
        // Who may not read a value learns nothing of its versions.
        let may_read = request
            .principal()
            .is_none_or(|client| client.may_read(&name.text));
        let etag = match resource(request, name).await? {
            Some(Resource::Value(found)) if may_read => Some(validators(&found).etag),
            _ => None,
        };
        Ok(self.states.iter().all(|(is_so, state)| {
            let holds = match state {
                State::Token(token) => locks.iter().any(|lock| *lock.token == **token),
                State::Tag(tag) => etag.as_ref() == Some(tag),
            };
            holds == *is_so
        }))
    }
}

/// The lists of a field; `None` where it is malformed, or has too many.
fn parse(text: &str) -> Option<Vec<List>> {
    let (mut lists, mut path, mut rest) = (Vec::new(), None, text.trim_start());
    while !rest.is_empty() {
        if let Some((uri, behind)) = between(rest, '<', '>') {
            (path, rest) = (Some(uri.parse::<Uri>().ok()?.path().to_owned()), behind);
        }
        rest = rest.strip_prefix('(')?.trim_start();
        let mut states = Vec::new();
        while !rest.starts_with(')') {
            let not = rest.get(..3).filter(|not| not.eq_ignore_ascii_case("not"));
            rest = rest[not.map_or(0, str::len)..].trim_start();
            let (state, behind) = match between(rest, '<', '>') {
                Some((token, behind)) => (State::Token(token.to_owned()), behind),
                None => {
                    let (tag, behind) = between(rest, '[', ']')?;
                    (State::Tag(tag.trim().to_owned()), behind)
                }
            };
            states.push((not.is_none(), state));
            rest = behind;
        }
        rest = rest[1..].trim_start();
        let path = path.clone();
        lists.push(List { path, states });
    }
    let count: usize = lists.iter().map(|list| list.states.len()).sum();
    let is_right = count <= MOST && lists.iter().all(|list| !list.states.is_empty());
    Some(lists).filter(|lists| is_right && !lists.is_empty())
}

/// What stands between these two at the beginning of a text, and what comes behind it.
fn between(text: &str, open: char, close: char) -> Option<(&str, &str)> {
    let (inner, behind) = text.strip_prefix(open)?.split_once(close)?;
    Some((inner, behind.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn token(text: &str) -> (bool, State) {
        (true, State::Token(text.to_owned()))
    }

    #[test]
    fn lists_are_read_as_the_rfc_writes_them() {
        let tag = || (true, State::Tag("\"I am an ETag\"".to_owned()));
        let list = |path: Option<&str>, states| List {
            path: path.map(str::to_owned),
            states,
        };
        let not = (false, State::Token("DAV:no-lock".to_owned()));
        for (text, lists) in [
            (
                "(<urn:uuid:1> [\"I am an ETag\"]) ([\"I am an ETag\"])",
                vec![
                    list(None, vec![token("urn:uuid:1"), tag()]),
                    list(None, vec![tag()]),
                ],
            ),
            (
                "</a%20b>(<urn:uuid:1>)\t(Not <DAV:no-lock>)",
                vec![
                    list(Some("/a%20b"), vec![token("urn:uuid:1")]),
                    list(Some("/a%20b"), vec![not]),
                ],
            ),
            (
                "<http://h:1/c> (<x>)",
                vec![list(Some("/c"), vec![token("x")])],
            ),
        ] {
            assert_eq!(parse(text), Some(lists), "{text}");
        }
        for text in ["", "()", "(<a>", "<a>", "(a)", "(<a>) b", "(Not)"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse(&"(<a>)".repeat(MOST + 1)), None);
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "[ -~é]{0,60}", wild in "[<>()\\[\\]Not a]{0,30}") {
            parse(&text);
            parse(&wild);
        }
    }
}
