//! The fields of a head that only the logs tell: query, range, agent and referrer, without the secrets of queries. Pure.

use form_urlencoded::parse;
use hyper::header::{HeaderMap, HeaderName, RANGE, REFERER, USER_AGENT};
use hyper::http::request::Parts;

/// A parameter with one of these in its name has a secret: signed links of this server and of S3, tokens, passwords.
const SECRETS: [&str; 5] = ["signature", "token", "password", "secret", "credential"];
/// One with this name has the signature of a link of Azure.
const AZURE: &str = "sig";

/// The fields of a head that only the logs tell.
#[derive(Debug)]
pub struct LoggedFields {
    query: Option<String>,
    range: Option<String>,
    agent: Option<String>,
    referrer: Option<String>,
}

impl LoggedFields {
    /// Those of `head`.
    pub fn of(head: &Parts) -> Self {
        let text = |name| text(&head.headers, &name);
        Self {
            query: head.uri.query().map(redacted),
            range: text(RANGE),
            agent: text(USER_AGENT),
            referrer: text(REFERER).map(|url| match url.split_once('?') {
                Some((page, query)) => format!("{page}?{}", redacted(query)),
                None => url,
            }),
        }
    }

    /// The query, the range, the client's program and the page that led there, as far as they are known.
    pub fn fields(said: Option<&Self>) -> [Option<&str>; 4] {
        let fields = said.map(|said| [&said.query, &said.range, &said.agent, &said.referrer]);
        fields.map_or([None; 4], |fields| fields.map(Option::as_deref))
    }
}

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = headers.get(name)?.as_bytes();
    Some(String::from_utf8_lossy(value).into_owned())
}

/// `query` with `***` for each secret.
fn redacted(query: &str) -> String {
    query.split_inclusive('&').map(without_secret).collect()
}

/// Others separate by semicolons: what stands behind one is looked at too, and belongs to a secret before it.
fn without_secret(parameter: &str) -> String {
    let (parameter, end) = match parameter.strip_suffix('&') {
        Some(parameter) => (parameter, "&"),
        None => (parameter, ""),
    };
    let mut at = 0;
    for part in parameter.split_inclusive(';') {
        if let Some((name, _)) = part.split_once('=')
            && names_a_secret(name)
        {
            return format!("{}{name}=***{end}", &parameter[..at]);
        }
        at += part.len();
    }
    format!("{parameter}{end}")
}

fn names_a_secret(name: &str) -> bool {
    let decoded = parse(name.as_bytes()).next();
    let decoded = decoded.map(|(name, _)| name.to_ascii_lowercase());
    decoded.is_some_and(|name| name == AZURE || SECRETS.iter().any(|word| name.contains(word)))
}

#[cfg(test)]
mod tests {
    use crate::http::exchange::logged_fields::redacted;

    #[test]
    fn secrets_are_hidden_and_the_rest_stays() {
        for (query, told) in [
            ("", ""),
            ("a=b&prefix=x%20y&&flag&=", "a=b&prefix=x%20y&&flag&="),
            (
                "expires=1&by=k&signature=s3cr3t",
                "expires=1&by=k&signature=***",
            ),
            ("%73ignature=s3cr3t&max=1", "%73ignature=***&max=1"),
            (
                "a=b;access_token=s3cr3t;s3cr3t&X-Amz-Signature=s3cr3t",
                "a=b;access_token=***&X-Amz-Signature=***",
            ),
            (
                "password=s3cr3t=s3cr3t&sig=&design=a",
                "password=***&sig=***&design=a",
            ),
        ] {
            assert_eq!(redacted(query), told);
        }
    }
}
