//! The fields of a MOVE or COPY: the key or folder that they name, of this server and of no other.

use hyper::Request;
use hyper::header::{HOST, HeaderName};
use hyper::http::uri::Authority;

use super::fields;
use crate::http::head::client::{Client, Peer};
use crate::http::head::path;
use crate::http::head::query::QueryFields;
use crate::http::service_config::ServiceConfig;
use crate::http::values::moves::Relocating;
use crate::http::values::moves::request::relocation;

/// The lines are the target, Host, X-Forwarded-Host, Destination and Overwrite, and then the same fields again. A
/// destination that is taken is a path, or a URL with the port and a name by which the server was asked; its key or
/// folder is the one of its path.
pub fn destination(data: &[u8]) {
    let (target, lines) =
        data.split_at(data.iter().position(|&b| b == b'\n').unwrap_or(data.len()));
    let names = ["x-forwarded-host", "destination", "overwrite"].map(HeaderName::from_static);
    let names = [&[HOST][..], &names].concat();
    let mut config = ServiceConfig::default();
    config.limits.max_key_depth = 4;
    config.allowed.hosts.add("files.example").expect("a name");
    let client = Client {
        by_trusted: true,
        ..Client::of(Peer::Process { uid: 1, pid: 1 })
    };
    let Ok(request) = Request::builder().method("MOVE").uri(target).body(()) else {
        return;
    };
    let mut head = request.into_parts().0;
    head.headers = fields(&names, lines.get(1..).unwrap_or_default());
    let query = QueryFields::of(head.uri.query());
    let (from, to, is_folder) = match relocation(&head, &query, false, client, &config) {
        Ok(Relocating::Value(asked)) => (asked.from, asked.to.key, false),
        Ok(Relocating::Folder(asked)) => (asked.from, asked.to, true),
        _ => return,
    };
    assert_ne!(from, to);
    assert!(is_folder || to.as_str().split('/').count() <= 4);
    let text = head.headers["destination"].to_str().expect("a text").trim();
    let (authority, path) = match text.split_once("://") {
        Some((scheme, rest)) => {
            let scheme = scheme.to_ascii_lowercase();
            let port = if scheme == "https" { ":443" } else { ":80" };
            let (authority, _) = rest.split_once('/').expect("a path");
            (Some((authority, port)), &rest[authority.len()..])
        }
        None => (None, text),
    };
    let expected = match path::folder(path) {
        Ok(Some(folder)) if is_folder => Ok(folder.trim_end_matches('/').to_owned()),
        _ => path::key(path, false).map(|key| key.as_str().to_owned()),
    };
    assert_eq!(expected, Ok(to.as_str().to_owned()));
    let Some((authority, port)) = authority else {
        return;
    };
    let known = ["host", "x-forwarded-host"].map(|name| head.headers.get(name));
    let known = known
        .into_iter()
        .flatten()
        .filter_map(|value| value.to_str().ok());
    let known: Vec<_> = known
        .chain(head.uri.authority().map(Authority::as_str))
        .collect();
    // Each with its port.
    let whole = |authority: &str| {
        let authority = authority.trim_end_matches(':').to_ascii_lowercase();
        let has_port = authority
            .rsplit_once(':')
            .is_some_and(|(_, port)| !port.contains(']'));
        if has_port {
            authority
        } else {
            authority + port
        }
    };
    let own = whole(authority);
    let (_, port) = own.rsplit_once(':').expect("a port");
    let is_asked = known.iter().any(|name| whole(name) == own);
    let is_named = ["files.example", "localhost", "127.", "[::1]"]
        .iter()
        .any(|name| own.starts_with(name))
        && known
            .iter()
            .any(|name| whole(name).ends_with(&format!(":{port}")));
    assert!(is_asked || is_named, "{text:?} {known:?}");
}
