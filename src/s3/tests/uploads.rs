//! Long values against a real store: sent as they come, kept until their end, in parts, or given up.

use data_server_testing::s3::{Bucket, VersityGw};
use data_server_testing::{DEADLINE, Launch};
use sha2::Digest as _;

use super::*;
use crate::s3::objects::multipart::MultipartUpload;
use crate::s3::objects::put::Write;
use crate::value::Wanted;

async fn until(mut holds: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(DEADLINE, wait).await;
    waited.expect("it holds in time");
}

#[tokio::test]
async fn a_long_value_is_sent_as_it_comes_or_kept_until_its_end() {
    let Some(store) = VersityGw::shared() else {
        return;
    };
    let s3 = engine(&store.bucket.beneath("long"));
    let gateway = s3.gateway(0);
    let value = value(3_500_000);
    let wanted = Wanted::ALL;
    let expected = <[u8; 32]>::from(sha2::Sha256::digest(&value));
    let kept = Attributes {
        media_type: None,
        fields: Some(b"content-encoding: gzip\n"[..].into()),
    };
    for (name, len, condition, hashed) in [
        (
            "straight",
            Some(3_500_000),
            Some(WriteCondition::Create),
            false,
        ),
        (
            "straight-hashed",
            Some(3_500_000),
            Some(WriteCondition::Any),
            true,
        ),
        ("spooled", None, Some(WriteCondition::Create), false),
        ("spooled-hashed", None, Some(WriteCondition::Any), true),
        ("kept", Some(3_500_000), None, true),
    ] {
        let key = Key::new(name).unwrap();
        let head = UploadHead {
            len,
            attributes: kept.clone(),
            ..UploadHead::default()
        };
        let upload = gateway.upload(&key, head, condition.as_ref()).await;
        let mut upload = upload.unwrap();
        if hashed {
            upload.hash(wanted);
        }
        push(&mut upload, &value).await.unwrap();
        if hashed || len.is_none() {
            let digests = upload.digests(wanted).await.unwrap();
            assert_eq!(digests.sha256, Some(expected), "{name}");
            assert!(digests.sha512.is_some() && digests.md5.is_some());
        }
        assert_eq!(gateway.head(&key).await.unwrap(), None, "{name}");
        if condition.is_none() {
            let wrong = upload
                .publish(&WriteCondition::Swap("\"x\"".to_owned()))
                .await;
            assert!(matches!(wrong, Err(Error::Precondition)), "{wrong:?}");
        }
        let condition = condition.unwrap_or(WriteCondition::Create);
        let written = upload.publish(&condition).await.unwrap();
        let meta = gateway.head(&key).await.unwrap().unwrap();
        assert_eq!((meta.len, meta.etag), (3_500_000, written), "{name}");
        assert_eq!(meta.fields, b"content-encoding: gzip\n", "{name}");
        let found = read_all(gateway, &key).await.unwrap();
        assert!(found == value, "{name}");
    }
    assert_eq!(s3.quota().staged_bytes(), 0);
}

#[tokio::test]
async fn parts_are_joined_under_a_condition_or_forgotten() {
    let Some(store) = VersityGw::start(1) else {
        return;
    };
    join_parts_in(&store.bucket).await;
}

#[tokio::test]
async fn parts_are_joined_by_another_data_server() {
    let server = Launch::new(&[]).listen("s3+http://127.0.0.1:0").start();
    join_parts_in(&Bucket::of_door(server.addr, "values")).await;
}

async fn join_parts_in(bucket: &Bucket) {
    const PART: u64 = 5 << 20;
    let s3 = engine(bucket);
    let gateway = s3.gateway(0);
    let client = &gateway.client;
    let key = Key::new("k").unwrap();
    let value = value(12_000_000);
    let parts = async |condition: &WriteCondition| -> Result<String, Error> {
        let kept = Attributes {
            media_type: Some("text/plain".into()),
            fields: None,
        };
        let call = Call::object(Method::PUT, &client.place, &key)?.keeping(&kept)?;
        let len = value.len() as u64;
        let mut parts = MultipartUpload::with_parts_of(PART, client, &call, len).await?;
        for piece in value.chunks(300_000) {
            parts.push(Bytes::copy_from_slice(piece)).await.unwrap();
        }
        assert_eq!(bucket.multipart_uploads(), 1);
        let write = Write {
            client,
            call: &call,
            condition,
        };
        parts.finish(&write).await
    };
    let wrong = parts(&WriteCondition::Swap("\"x\"".to_owned())).await;
    assert!(matches!(wrong, Err(Error::Precondition)), "{wrong:?}");
    until(async || bucket.multipart_uploads() == 0).await;
    let written = parts(&WriteCondition::Create).await.unwrap();
    let meta = gateway.head(&key).await.unwrap().unwrap();
    assert_eq!(meta.etag, written);
    assert_eq!(meta.media_type.as_deref(), Some("text/plain"));
    assert!(read_all(gateway, &key).await.unwrap() == value);
    let again = parts(&WriteCondition::Create).await;
    assert!(matches!(again, Err(Error::Precondition)), "{again:?}");
    until(async || bucket.multipart_uploads() == 0).await;
}
