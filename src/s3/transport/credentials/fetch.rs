//! Small requests to the services that give secrets. An error names the address and the status, and nothing that was sent.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::time::timeout;

use crate::s3::transport::connector::{Connector, connector, tls};

/// The longest wait for a connection: where there is no such service, its address often swallows what is sent.
const CONNECT: Duration = Duration::from_secs(1);

/// The longest wait for a whole answer.
const WAIT: Duration = Duration::from_secs(5);

/// The longest answer.
const MOST: usize = 64 << 10;

/// What sends them. It reads the certificates of the system when it is first used: many servers need none.
pub struct Fetcher {
    ca: Option<PathBuf>,
    client: OnceCell<Client<Connector, Full<Bytes>>>,
}

/// A request.
pub struct Ask<'a> {
    pub method: Method,
    pub uri: &'a str,
    pub headers: &'a [(&'static str, &'a str)],
    pub body: String,
}

impl<'a> Ask<'a> {
    pub fn get(uri: &'a str, headers: &'a [(&'static str, &'a str)]) -> Self {
        Self {
            method: Method::GET,
            uri,
            headers,
            body: String::new(),
        }
    }
}

/// An answer that is no success.
pub struct Refusal {
    pub why: String,
    pub body: Bytes,
}

impl Fetcher {
    /// One that also trusts the certificates of the file `ca`.
    pub fn new(ca: Option<PathBuf>) -> Self {
        Self {
            ca,
            client: OnceCell::new(),
        }
    }

    fn client(&self) -> Result<&Client<Connector, Full<Bytes>>, String> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let connector = connector(&tls(self.ca.as_deref())?, CONNECT, &Arc::default());
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(self.client.get_or_init(|| client))
    }

    /// The body of the answer.
    pub async fn fetch(&self, ask: Ask<'_>) -> Result<Bytes, Refusal> {
        let failed = |why: String| Refusal {
            why: format!("{}: {why}", ask.uri),
            body: Bytes::new(),
        };
        let mut request = Request::builder().method(&ask.method).uri(ask.uri);
        for &(name, value) in ask.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::from(ask.body));
        // What is wrong with a header may quote a secret.
        let request = request.map_err(|_| failed("cannot be asked".to_owned()))?;
        let fetched = timeout(WAIT, async {
            let client = self.client().map_err(failed)?;
            let answer = client.request(request).await;
            let answer = answer.map_err(|error| failed(cause(&error)))?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), MOST).collect().await;
            let body = body.map_err(|error| failed(error.to_string()))?.to_bytes();
            if status.is_success() {
                return Ok(body);
            }
            Err(Refusal {
                body,
                ..failed(format!("answered {}", status.as_u16()))
            })
        });
        fetched
            .await
            .unwrap_or_else(|_| Err(failed("no answer in time".to_owned())))
    }
}

/// The innermost cause, which says most.
fn cause(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.last().map_or_else(String::new, ToString::to_string)
}
