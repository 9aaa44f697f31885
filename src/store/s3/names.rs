//! Names as a store lists them: in its order, whether they are those of keys or not.

use std::time::SystemTime;

use super::super::error::Error;
use super::super::list::Page;
use super::client::Client;
use super::escape;
use super::list::{ask, parse};

/// The names of a page of the store, as it has them.
#[derive(Debug)]
pub(super) struct Names {
    /// Without the prefix of the place, each with the time of its last change.
    pub(super) names: Vec<(String, SystemTime)>,
    /// What asks for the next page.
    pub(super) next: Option<String>,
}

/// The names of `page`, or of the one that `token` asks for.
pub(super) async fn names(
    client: &Client,
    page: &Page,
    token: Option<&str>,
) -> Result<Names, Error> {
    let mut found = parse(&ask(client, page, 0, token).await?)?;
    let next = found.next();
    let encoding = found.encoding_type.as_deref();
    let names = found.contents.iter().filter_map(|object| {
        let name = escape::listed(&object.key, encoding)?;
        let name = name.strip_prefix(&client.place().prefix)?.to_owned();
        Some((name, object.modified()))
    });
    Ok(Names {
        names: names.collect(),
        next,
    })
}
