//! Objects that a check wrote and did not remove, because its process was killed.
//!
//! They are told by their names, which no key can have, and by their age: a check takes seconds, or some minutes at length.

use std::time::{Duration, SystemTime};

use hyper::Method;

use super::super::error::Error;
use super::super::list::Page;
use super::super::prefixes::Prefixes;
use super::call::Call;
use super::client::Client;
use super::escape;
use super::list::AT_ONCE;
use super::names::names;

/// What the names of the objects of every check begin with, below the prefix of the place.
pub(super) const OBJECTS: &str = ".data-server-check-";

/// How old an object is whose check has ended.
pub(super) const OLD: Duration = Duration::from_secs(3600);

/// Removes what checks wrote this long ago; how many objects there were.
pub(super) async fn sweep(client: &Client, old: Duration) -> Result<usize, Error> {
    let page = Page {
        prefix: OBJECTS.to_owned(),
        after: String::new(),
        limit: AT_ONCE,
        by_folder: false,
        within: Prefixes::all(),
    };
    let (mut found, mut token) = (0, None);
    loop {
        let more = names(client, &page, token.as_deref()).await?;
        for (name, modified) in more.names {
            let age = SystemTime::now().duration_since(modified);
            if age.is_ok_and(|age| age >= old) {
                let name = format!("{}{name}", client.place().prefix);
                let call = Call::named(Method::DELETE, escape::path(&name));
                // Sent twice, it removes no more.
                client.read(&call).await?;
                found += 1;
            }
        }
        let is_end = more.next.is_none() || more.next == token;
        token = more.next;
        if is_end {
            break;
        }
    }
    if found > 0 {
        tracing::info!(objects = found, "what a check left behind is removed");
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::super::key::RESERVED;
    use super::*;

    #[test]
    fn no_key_is_an_object_of_a_check() {
        assert!(OBJECTS.starts_with(RESERVED));
    }
}
