//! What a process that was killed leaves in a store: uploads in parts that were neither joined nor removed, whose parts the store
//! keeps, unseen, until it is told to forget them, and the objects of a check.
//!
//! All below the prefix that began a day ago are forgotten, whichever program began them: none takes so long, but for
//! resumable uploads, which say which they use. Those that expired are removed, too.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use hyper::Method;
use serde::Deserialize;
use tokio::time::{Instant, timeout};

use super::super::error::Error;
use super::call::Call;
use super::client::{Client, Found};
use super::escape;
use super::head::unclear;
use super::joining::forget;
use super::leftovers;
use super::resumable::UnfinishedUploads;
use super::resumable::sweep::{expire, in_use};

/// How old an upload is that has been given up.
const OLD: Duration = Duration::from_secs(24 * 3600);

/// How long after a sweep the next one is, and after one that failed.
const PAUSE: (Duration, Duration) = (OLD, Duration::from_secs(3600));

/// The longest page of uploads that is read.
const MAX_PAGE: usize = 16 << 20;

/// What sweeps a store from time to time.
#[derive(Debug)]
pub(super) struct Sweeper {
    client: Client,
    /// How long a resumable upload is kept; `None` where there are none.
    upload_expiry: Option<Duration>,
    unfinished: Arc<UnfinishedUploads>,
    /// When it does next; `None` while it sweeps.
    next: Mutex<Option<Instant>>,
    /// When it looks next for uploads that expired; `None` while it does.
    next_expiry: Mutex<Option<Instant>>,
}

/// The body of an answer to `ListMultipartUploads`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Page {
    upload: Vec<Upload>,
    is_truncated: bool,
    next_key_marker: String,
    next_upload_id_marker: String,
    encoding_type: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Upload {
    key: String,
    #[serde(rename = "UploadId")]
    id: String,
    initiated: String,
}

impl Sweeper {
    /// One with a client of its own, which tells what it finds.
    pub(super) fn new(
        client: Client,
        upload_expiry: Option<Duration>,
        unfinished: Arc<UnfinishedUploads>,
    ) -> Self {
        Self {
            client,
            upload_expiry,
            unfinished,
            next: Mutex::new(Some(Instant::now())),
            next_expiry: Mutex::new(upload_expiry.map(|_| Instant::now())),
        }
    }

    /// Sweeps, if it is time to.
    pub(super) async fn tick(&self) {
        if is_time(&self.next_expiry) {
            let pause = self.expire(self.upload_expiry.unwrap_or_default()).await;
            *locked(&self.next_expiry) = Some(Instant::now() + pause);
        }
        if is_time(&self.next) {
            let pause = self.sweep().await;
            *locked(&self.next) = Some(Instant::now() + pause);
        }
    }

    async fn expire(&self, expiry: Duration) -> Duration {
        match expire(&self.client, &self.unfinished, expiry, OLD).await {
            Ok(0) => {}
            Ok(uploads) => tracing::info!(uploads, "resumable uploads that expired are removed"),
            Err(error) => {
                tracing::warn!(%error, "the store was not searched for uploads that expired");
            }
        }
        if expiry.is_zero() {
            return OLD;
        }
        expiry.clamp(Duration::from_secs(1), PAUSE.1)
    }

    async fn sweep(&self) -> Duration {
        if let Err(error) = leftovers::sweep(&self.client, leftovers::OLD).await {
            tracing::warn!(%error, "the store was not searched for what a check left behind");
        }
        match sweep(&self.client, OLD).await {
            // Some stores list none.
            Ok(0) | Err(Error::NotSupported { .. }) => PAUSE.0,
            Ok(uploads) => {
                tracing::info!(uploads, "uploads in parts that were given up are removed");
                PAUSE.0
            }
            Err(error) => {
                tracing::warn!(%error, "the store was not searched for uploads that were given up");
                PAUSE.1
            }
        }
    }
}

fn is_time(next: &Mutex<Option<Instant>>) -> bool {
    let has_come = |next: &mut Instant| *next <= Instant::now();
    locked(next).take_if(has_come).is_some()
}

fn locked(next: &Mutex<Option<Instant>>) -> std::sync::MutexGuard<'_, Option<Instant>> {
    next.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has the store forget the uploads that began this long ago, but those of resumable uploads; how many there were.
pub(super) async fn sweep(client: &Client, old: Duration) -> Result<usize, Error> {
    let (mut found, mut after) = (0, (String::new(), String::new()));
    let mut in_use_now: Option<HashSet<String>> = None;
    loop {
        let page = page(client, &after).await?;
        let decode = |text: &str| escape::listed(text, page.encoding_type.as_deref());
        for upload in &page.upload {
            let Some(key) = decode(&upload.key).filter(|_| upload.is_older_than(old)) else {
                continue;
            };
            let used = match &mut in_use_now {
                Some(used) => used,
                None => in_use_now.insert(in_use(client).await?),
            };
            if used.contains(&upload.id) {
                continue;
            }
            let call = Call::named(Method::DELETE, escape::path(&key));
            forget(client, &call.with_query(&[("uploadId", &upload.id)])).await;
            found += 1;
        }
        let next = decode(&page.next_key_marker).unwrap_or_default();
        let next = (next, page.next_upload_id_marker);
        if !page.is_truncated || next == after {
            return Ok(found);
        }
        after = next;
    }
}

impl Upload {
    fn is_older_than(&self, old: Duration) -> bool {
        let began = humantime::parse_rfc3339_weak(&self.initiated).ok();
        let age = began.and_then(|began| SystemTime::now().duration_since(began).ok());
        age.is_some_and(|age| age >= old)
    }
}

async fn page(client: &Client, after: &(String, String)) -> Result<Page, Error> {
    let mut parameters = vec![
        ("uploads", ""),
        ("encoding-type", "url"),
        ("prefix", &client.place().prefix),
    ];
    if !after.0.is_empty() {
        parameters.extend([("key-marker", &*after.0), ("upload-id-marker", &*after.1)]);
    }
    let call = Call::bucket(Method::GET).with_query(&parameters);
    let Found::Answer(answer) = client.read(&call).await? else {
        return Err(unclear("there is no list of uploads"));
    };
    let body = timeout(client.timeout(), answer.whole(MAX_PAGE)).await;
    let body = body.map_err(|_| Error::TimedOut)?;
    let body = body.map_err(|said| Error::BadGateway { said })?;
    let text = std::str::from_utf8(&body).map_err(|_| unclear("a list is not UTF-8"))?;
    quick_xml::de::from_str(text).map_err(|error| Error::BadGateway {
        said: format!("a list of uploads cannot be read: {error}"),
    })
}
