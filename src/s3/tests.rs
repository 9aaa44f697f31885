//! The engine against a real store, and against one that fails as told: an engine over a bucket, and the calls that tests
//! make again and again.

mod real_store;
mod stub;

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use data_server_testing::DEADLINE;
use data_server_testing::s3::Bucket;

use super::*;
use crate::s3::transport::credentials::Credentials;
use crate::s3::transport::sign::Secrets;
use crate::value::{Error, Key, Page, Prefixes};

fn value(len: u32) -> Vec<u8> {
    let words = (0..len.div_ceil(4)).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes());
    words.take(len as usize).collect()
}

async fn until(mut holds: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(DEADLINE, wait).await;
    waited.expect("it holds in time");
}

fn engine(bucket: &Bucket) -> S3 {
    let settings = Settings {
        place: BucketPrefix {
            bucket: bucket.name.clone(),
            prefix: bucket.prefix.clone(),
        },
        endpoints: bucket
            .endpoints
            .iter()
            .map(|addr| format!("http://{addr}"))
            .collect(),
        region: bucket.region.clone(),
        virtual_host: false,
        ca: None,
        timeout: Duration::from_secs(2),
        connections: 8,
        conditions: Conditions::Require,
        spool: std::env::temp_dir(),
        redirect_from: None,
    };
    let share = S3Resources {
        reactors: 1,
        cpus: None,
        compute_threads: 1,
        staging: StagingBounds::default(),
        read_only: false,
    };
    let credentials = Credentials::fixed(Secrets {
        id: bucket.keys.id.clone(),
        secret: bucket.keys.secret.clone(),
        token: bucket.keys.token.clone(),
    });
    let open = move || S3::with(settings, share, &Arc::new(credentials)).unwrap();
    // It blocks, which no thread of a runtime may.
    std::thread::spawn(open).join().unwrap()
}

async fn write(
    gateway: Gateway<'_>,
    key: &Key<'_>,
    value: &[u8],
    kept: StoredHeaders,
    condition: &WriteCondition,
) -> Result<Written, Error> {
    let begin = UploadPlan {
        len: Some(value.len() as u64),
        kept,
        condition: Some(condition.clone()),
        ..UploadPlan::default()
    };
    let mut upload = gateway.upload(key, begin).await?;
    push(&mut upload, value).await?;
    upload.publish(condition).await
}

async fn push(upload: &mut RemoteUpload, value: &[u8]) -> Result<(), Error> {
    for piece in value.chunks(70_001) {
        upload.push(Bytes::copy_from_slice(piece)).await?;
    }
    Ok(())
}

async fn read(
    gateway: Gateway<'_>,
    key: &Key<'_>,
    read: ReadRequest<'_>,
) -> Result<Vec<u8>, Error> {
    let GetOutcome::Value(_, mut body) = gateway.get(key, read).await? else {
        panic!("there is no such value");
    };
    let mut value = Vec::new();
    while let Some(data) = poll_fn(|cx| body.poll_next(cx)).await {
        value.extend_from_slice(&data?);
    }
    assert_eq!(body.remaining(), 0);
    Ok(value)
}

/// All items, in pages of `limit`.
async fn items(gateway: Gateway<'_>, limit: usize, by_folder: bool) -> Vec<String> {
    let (mut all, mut after) = (Vec::new(), String::new());
    loop {
        let page = Page {
            prefix: String::new(),
            after,
            limit,
            by_folder,
            within: Prefixes::all(),
        };
        let listing = gateway.list(&page).await.unwrap();
        let mut items = listing.folders;
        items.extend(listing.keys.into_iter().map(|(key, _)| key.to_string()));
        items.sort();
        assert!(items.len() <= limit);
        all.extend(items);
        match listing.next {
            Some(next) => after = next,
            None => return all,
        }
    }
}

#[test]
fn a_url_without_a_port_has_that_of_its_scheme() {
    for (url, expected) in [
        ("http://127.0.0.1:7070", Some(7070)),
        ("http://169.254.169.254", Some(80)),
        ("https://sts.us-east-1.amazonaws.com", Some(443)),
        ("https://[fd00:ec2::23]:8443/v1", Some(8443)),
        ("nonsense", None),
    ] {
        assert_eq!(port(url), expected, "{url}");
    }
}
