//! The endpoints of a store, asked in turn, past those that could not be reached a moment ago.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::call::path;
use crate::s3::contract::Settings;

/// For how long an endpoint that could not be reached is passed over, where there are others.
const AVOIDED: Duration = Duration::from_secs(1);

/// The endpoints of a store.
#[derive(Debug)]
pub struct Endpoints {
    all: Vec<Endpoint>,
    next: AtomicUsize,
    began: Instant,
}

/// One endpoint, as the bucket is reached through it.
#[derive(Debug)]
pub struct Endpoint {
    /// `http` or `https`.
    pub scheme: String,
    /// Its host, with the port where that is not the scheme's own.
    pub authority: String,
    /// The beginning of the path of the bucket, without a `/` at its end.
    root: String,
    /// Until when it is passed over, in milliseconds since the start.
    avoided_until: AtomicU64,
}

impl Endpoints {
    /// Those of `settings`; the reason, where one is no origin.
    pub fn new(settings: &Settings) -> Result<Self, String> {
        let of_aws = format!("https://s3.{}.amazonaws.com", settings.region);
        let origins = if settings.endpoints.is_empty() {
            std::slice::from_ref(&of_aws)
        } else {
            &settings.endpoints
        };
        let all = origins.iter().map(|origin| Endpoint::new(origin, settings));
        Ok(Self {
            all: all.collect::<Result<_, _>>()?,
            next: AtomicUsize::new(0),
            began: Instant::now(),
        })
    }

    /// The first, as text.
    pub fn first(&self) -> String {
        self.all[0].origin()
    }

    /// The next one.
    pub fn next(&self) -> &Endpoint {
        let now = self.now();
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let in_turn = || (0..self.all.len()).map(|n| &self.all[(first + n) % self.all.len()]);
        let reachable =
            |endpoint: &&Endpoint| endpoint.avoided_until.load(Ordering::Relaxed) <= now;
        in_turn()
            .find(reachable)
            .unwrap_or(&self.all[first % self.all.len()])
    }

    /// `endpoint` could not be reached.
    pub fn avoid(&self, endpoint: &Endpoint) {
        let until = self.now() + as_millis(AVOIDED);
        endpoint.avoided_until.store(until, Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        as_millis(self.began.elapsed())
    }
}

impl Endpoint {
    fn new(origin: &str, settings: &Settings) -> Result<Self, String> {
        let wrong = || format!("{origin:?} is not the origin of an endpoint");
        let (scheme, rest) = origin.split_once("://").ok_or_else(wrong)?;
        let (authority, below) = rest.split_once('/').unwrap_or((rest, ""));
        if !matches!(scheme, "http" | "https") || authority.is_empty() {
            return Err(wrong());
        }
        let authority = as_sent(scheme, authority);
        let below = below.trim_end_matches('/');
        let mut root = if below.is_empty() {
            String::new()
        } else {
            format!("/{below}")
        };
        let bucket = &settings.place.bucket;
        let authority = if settings.virtual_host {
            format!("{bucket}.{authority}")
        } else {
            root.push('/');
            root.push_str(&path(bucket));
            authority
        };
        Ok(Self {
            scheme: scheme.to_owned(),
            authority,
            root,
            avoided_until: AtomicU64::new(0),
        })
    }

    /// The beginning of the URIs of its objects, before their paths.
    pub fn origin(&self) -> String {
        format!("{}://{}", self.scheme, self.authority)
    }

    /// The path of the object with this encoded name, or of the bucket, whose name is empty.
    pub fn path(&self, object: &str) -> String {
        if object.is_empty() && !self.root.is_empty() {
            return self.root.clone();
        }
        format!("{}/{object}", self.root)
    }
}

/// An authority as every client writes it in Host: a link signs what its user is going to send.
fn as_sent(scheme: &str, authority: &str) -> String {
    let own_port = if scheme == "https" { ":443" } else { ":80" };
    let authority = authority.strip_suffix(own_port).unwrap_or(authority);
    authority.to_ascii_lowercase()
}

fn as_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::as_sent;

    #[test]
    fn an_authority_is_written_as_clients_write_it() {
        for (scheme, given, sent) in [
            ("https", "S3.Example:443", "s3.example"),
            ("http", "s3.example:80", "s3.example"),
            ("http", "s3.example:443", "s3.example:443"),
            ("https", "[::1]:7070", "[::1]:7070"),
            ("http", "[fe80::80]", "[fe80::80]"),
        ] {
            assert_eq!(as_sent(scheme, given), sent);
        }
    }
}
