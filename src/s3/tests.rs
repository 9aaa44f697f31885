//! The engine against a real store, and against one that fails on demand: each file tests one part of it, with what is
//! here.

mod faults;
mod listings;
mod uploads;
mod values;

use std::future::poll_fn;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use data_server_testing::s3::Bucket;
use hyper::Method;

use super::*;
use crate::s3::contract::WriteCondition;
use crate::s3::objects::upload::RemoteUpload;
use crate::s3::transport::call::Call;
use crate::s3::transport::credentials::CurrentSecrets;
use crate::s3::transport::sign::Secrets;
use crate::transfer::UploadHead;
use crate::value::{Attributes, Error, Key};

fn value(len: u32) -> Vec<u8> {
    let words = (0..len.div_ceil(4)).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes());
    words.take(len as usize).collect()
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
        requires_conditions: true,
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
    let credentials = CurrentSecrets::fixed(Secrets {
        id: bucket.keys.id.clone(),
        secret: bucket.keys.secret.clone(),
        token: bucket.keys.token.clone(),
    });
    let open = move || S3::with(settings, share, &credentials).unwrap();
    // It blocks, which no thread of a runtime may.
    std::thread::spawn(open).join().unwrap()
}

async fn write(
    gateway: &Gateway,
    key: &Key<'_>,
    value: &[u8],
    attributes: Attributes,
    condition: &WriteCondition,
) -> Result<String, Error> {
    let head = UploadHead {
        len: Some(value.len() as u64),
        attributes,
        ..UploadHead::default()
    };
    let mut upload = gateway.upload(key, head, Some(condition)).await?;
    push(&mut upload, value).await?;
    upload.publish(condition).await
}

/// Writes `value` without a condition, and nothing else that is kept with it.
async fn put(gateway: &Gateway, key: &Key<'_>, value: &[u8]) -> Result<String, Error> {
    write(
        gateway,
        key,
        value,
        Attributes::default(),
        &WriteCondition::Any,
    )
    .await
}

async fn push(upload: &mut RemoteUpload, value: &[u8]) -> Result<(), Error> {
    for piece in value.chunks(70_001) {
        upload.push(Bytes::copy_from_slice(piece)).await?;
    }
    Ok(())
}

/// The bytes of the value of `key`, or the part of it, where there is one.
async fn get(
    gateway: &Gateway,
    key: &Key<'_>,
    range: Option<Range<u64>>,
    only: Option<&str>,
) -> Option<RemoteBody> {
    let call = Call::object(Method::GET, &gateway.client.place, key).unwrap();
    let found = gateway.get(call, range, only).await.unwrap();
    found.map(|(_, body)| body)
}

async fn read(body: Option<RemoteBody>) -> Result<Vec<u8>, Error> {
    let mut body = body.expect("there is such a value");
    let mut value = Vec::new();
    while let Some(data) = poll_fn(|cx| body.poll_next(cx)).await {
        value.extend_from_slice(&data?);
    }
    assert_eq!(body.left, 0);
    Ok(value)
}

/// All of the value of `key`.
async fn read_all(gateway: &Gateway, key: &Key<'_>) -> Result<Vec<u8>, Error> {
    read(get(gateway, key, None, None).await).await
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
