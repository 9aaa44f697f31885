//! What `access explain` says of a request: it is parsed as the server does, and its operation says what it needs.

use std::time::Duration;

use hyper::header::{ACCEPT, CONTENT_TYPE};
use hyper::{Method, Request, Version};

use crate::access::{Policy, Subject};
use crate::http::auth::need::Need;
use crate::http::head::client::{Client, Peer};
use crate::http::head::names::UPLOAD_COMPLETE;
use crate::http::request::head::RequestHead;
use crate::http::service_config::{ServiceConfig, UploadLimits};
use crate::http::share::ShareRequest;
use crate::http::share::sign::explain_share;

/// What a request needs.
pub struct Explained {
    /// The rights.
    pub needs: Vec<Need<'static>>,
    /// The request that it is for each value which it does not name.
    pub of_each: Option<&'static str>,
    /// The link to share that it asks for.
    share: Option<ShareRequest>,
}

impl Explained {
    /// The needs of a request for `target`, with this destination if it is a MOVE or COPY; or why it is refused to
    /// everybody.
    pub fn of(method: &str, target: &str, destination: Option<&str>) -> Result<Self, String> {
        let request = Request::builder().method(method).uri(target);
        let request = request
            .header(ACCEPT, "application/json")
            .header("destination", destination.unwrap_or_default())
            .header(CONTENT_TYPE, "multipart/form-data; boundary=b")
            .version(Version::HTTP_11);
        let head = request.body(()).map_err(|why| why.to_string())?;
        let mut head = head.into_parts().0;
        if head.method == Method::POST {
            // By POST a value is stored as the first part of an upload.
            let complete = "?1".parse().map_err(|_| "no field")?;
            head.headers.insert(UPLOAD_COMPLETE, complete);
        }
        let config = ServiceConfig {
            authorizes: true,
            limits: UploadLimits {
                max_body: u64::MAX,
                max_key_depth: usize::MAX,
                ..UploadLimits::default()
            },
            ..ServiceConfig::default()
        };
        let client = Client::of(Peer::Process { uid: 0, pid: 0 });
        let head = RequestHead::new(&head, None, client, &config);
        let operation = head.operation(None).map_err(|why| why.to_string())?;
        let needs = operation.needs().into_iter().map(Need::into_owned);
        Ok(Self {
            needs: needs.collect(),
            of_each: operation.of_each(),
            share: ShareRequest::of(&head).ok().flatten(),
        })
    }

    /// The name of the link key that signs the link which it asks for, and the time that the link lasts.
    pub fn link_key(
        &self,
        policy: &Policy,
        subject: &Subject,
    ) -> Option<Result<(String, Duration), String>> {
        let asked = self.share.as_ref()?;
        Some(explain_share(policy, subject, asked).map_err(|why| why.to_string()))
    }
}
