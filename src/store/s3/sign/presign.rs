//! A signature in the query of a URI: the holder of the URI may make that one request, for a while.
//!
//! It binds the method, the host, the path and the time. It does not bind the version of the object: that takes a signed
//! `If-Match`, which a client that follows a redirect does not send.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hyper::header::{HOST, HeaderMap};

use super::super::super::error::Error;
use super::super::escape;
use super::super::secrets::Secrets;
use super::{ALGORITHM, Signed, Signer, basic_format, canonical, value};

/// What a link is for.
pub(in super::super) struct Link<'a> {
    pub(in super::super) method: &'a str,
    /// The host as the client names it, with the port where that is not the scheme's own.
    pub(in super::super) host: &'a str,
    /// The path of its URI, as it is sent.
    pub(in super::super) path: &'a str,
    /// For how long it works.
    pub(in super::super) valid: Duration,
}

impl Signer {
    /// The query of the URI of `link`.
    pub(in super::super) fn presign(
        &self,
        link: &Link<'_>,
        secrets: &Arc<Secrets>,
        now: SystemTime,
    ) -> Result<String, Error> {
        let time = basic_format(now);
        let credential = format!("{}/{}", secrets.id, self.scope(&time[..8]));
        let seconds = link.valid.as_secs().to_string();
        let mut parameters = vec![
            ("X-Amz-Algorithm", ALGORITHM),
            ("X-Amz-Credential", &credential),
            ("X-Amz-Date", &time),
            ("X-Amz-Expires", &seconds),
            ("X-Amz-SignedHeaders", HOST.as_str()),
        ];
        if let Some(token) = &secrets.token {
            parameters.push(("X-Amz-Security-Token", token));
        }
        let query = escape::query(&parameters);
        let request = Signed {
            method: link.method,
            path: link.path,
            query: &query,
            payload: "UNSIGNED-PAYLOAD",
        };
        let headers = HeaderMap::from_iter([(HOST, value(link.host)?)]);
        let (_, canonical) = canonical(&request, &headers);
        let signature = self.signature(&canonical, &time, secrets);
        Ok(format!("{query}&X-Amz-Signature={signature}"))
    }
}
