//! What a real store does for the engine: values short and long, their conditions, digests and parts, and listings.

use data_server_testing::s3::VersityGw;
use hyper::Method;

use super::*;
use crate::s3::objects::multipart::Multipart;
use crate::s3::transport::call::Call;
use crate::value::{Digest, Wanted};

#[tokio::test]
async fn a_value_is_written_read_and_removed() {
    let Some(store) = VersityGw::shared() else {
        return;
    };
    let s3 = engine(&store.bucket.beneath("written"));
    let gateway = s3.gateway(0);
    let key = Key::new("a b/ü").unwrap();
    assert_eq!(gateway.head(&key).await.unwrap(), None);
    assert!(!gateway.delete(&key, None).await.unwrap());
    let kept = StoredHeaders {
        media_type: Some("text/plain; charset=utf-8".into()),
        fields: Some(b"cache-control: no-store\ncontent-encoding: gzip\n"[..].into()),
        sha256: None,
    };
    let written = write(gateway, &key, b"one", kept.clone(), &WriteCondition::Create)
        .await
        .unwrap();
    let meta = gateway.head(&key).await.unwrap().unwrap();
    assert_eq!((meta.len, &meta.etag), (3, &written.etag));
    assert_eq!(meta.media_type, kept.media_type.map(String::from));
    assert_eq!(Some(&*meta.fields), kept.fields.as_deref());
    assert!(meta.sha256.is_some());
    assert_eq!(
        read(gateway, &key, ReadRequest::default()).await.unwrap(),
        b"one"
    );
    let range = ReadRequest {
        range: Some(1..3),
        only: Some(&written.etag),
    };
    assert_eq!(read(gateway, &key, range).await.unwrap(), b"ne");
    assert!(gateway.delete(&key, None).await.unwrap());
    assert!(matches!(
        gateway.get(&key, ReadRequest::default()).await.unwrap(),
        GetOutcome::Gone
    ));
}

#[tokio::test]
async fn conditions_are_the_stores() {
    let Some(store) = VersityGw::shared() else {
        return;
    };
    let s3 = engine(&store.bucket.beneath("conditions"));
    let gateway = s3.gateway(0);
    let key = Key::new("k").unwrap();
    let swap = WriteCondition::Swap("\"d41d8cd98f00b204e9800998ecf8427e\"".to_owned());
    let put = async |value, condition| {
        write(gateway, &key, value, StoredHeaders::default(), condition).await
    };
    assert!(matches!(put(b"0", &swap).await, Err(Error::Precondition)));
    let first = put(b"1", &WriteCondition::Create).await.unwrap();
    let swap_first = WriteCondition::Swap(first.etag.clone());
    let again = put(b"2", &WriteCondition::Create).await;
    assert!(matches!(again, Err(Error::Precondition)), "{again:?}");
    let second = put(b"2", &swap_first).await.unwrap();
    let stale = put(b"3", &swap_first).await;
    assert!(matches!(stale, Err(Error::Precondition)), "{stale:?}");
    let only = ReadRequest {
        range: None,
        only: Some(&first.etag),
    };
    assert!(matches!(
        gateway.get(&key, only).await.unwrap(),
        GetOutcome::Changed
    ));
    let meta = gateway.head(&key).await.unwrap().unwrap();
    assert_eq!(meta.etag, second.etag);
    assert_eq!(meta.media_type, None);
    let conditional = gateway.delete(&key, Some(&second.etag)).await;
    assert!(matches!(conditional, Err(Error::NotSupported { .. })));
}

#[tokio::test]
async fn keys_are_listed_in_pages_and_by_folder() {
    let Some(store) = VersityGw::shared() else {
        return;
    };
    let s3 = engine(&store.bucket.beneath("listed"));
    let gateway = s3.gateway(0);
    let names = [
        "a",
        "b/1",
        "b/2",
        "b/c/3",
        "d+e%2F",
        "f g",
        "ü",
        "\u{10000}",
    ];
    for name in names {
        let key = Key::new(name).unwrap();
        write(
            gateway,
            &key,
            b"x",
            StoredHeaders::default(),
            &WriteCondition::Any,
        )
        .await
        .unwrap();
    }
    assert_eq!(items(gateway, 3, false).await, names);
    assert_eq!(items(gateway, 100, false).await, names);
    let folders = ["a", "b/", "d+e%2F", "f g", "ü", "\u{10000}"];
    for limit in 1..8 {
        assert_eq!(items(gateway, limit, true).await, folders, "{limit}");
    }
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
    let expected = {
        use sha2::Digest as _;
        <[u8; 32]>::from(sha2::Sha256::digest(&value))
    };
    let kept = StoredHeaders {
        media_type: None,
        fields: Some(b"content-encoding: gzip\n"[..].into()),
        sha256: None,
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
        let begin = UploadPlan {
            len,
            kept: kept.clone(),
            condition: condition.clone(),
            ..UploadPlan::default()
        };
        let mut upload = gateway.upload(&key, begin).await.unwrap();
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
        assert_eq!((meta.len, meta.etag), (3_500_000, written.etag), "{name}");
        assert_eq!(meta.fields, b"content-encoding: gzip\n", "{name}");
        let found = read(gateway, &key, ReadRequest::default()).await.unwrap();
        assert!(found == value, "{name}");
    }
    assert_eq!(s3.staged().bytes, 0);
}

#[tokio::test]
async fn a_digest_is_proved_by_the_store_and_kept_or_computed() {
    use sha2::Digest as _;
    let Some(store) = VersityGw::shared() else {
        return;
    };
    let s3 = engine(&store.bucket.beneath("digests"));
    let gateway = s3.gateway(0);
    let value = value(900_000);
    let right = <[u8; 32]>::from(sha2::Sha256::digest(&value));
    let sha512 = <[u8; 64]>::from(sha2::Sha512::digest(&value));
    let key = Key::new("k").unwrap();
    for (sha256, len) in [
        (Some([7; 32]), Some(900_000)),
        (None, Some(900_000)),
        (Some(right), Some(900_000)),
        (Some(right), None),
    ] {
        let begin = UploadPlan {
            len,
            kept: StoredHeaders {
                sha256,
                ..StoredHeaders::default()
            },
            condition: Some(WriteCondition::Any),
            ..UploadPlan::default()
        };
        let mut upload = gateway.upload(&key, begin).await.unwrap();
        push(&mut upload, &value).await.unwrap();
        let written = upload.publish(&WriteCondition::Any).await;
        if sha256 == Some([7; 32]) {
            assert!(written.is_err(), "{written:?}");
            assert_eq!(gateway.head(&key).await.unwrap(), None);
            continue;
        }
        let etag = written.unwrap().etag;
        let meta = gateway.head(&key).await.unwrap().unwrap();
        assert_eq!(meta.sha256, sha256);
        let digest = gateway.digest(&key, &etag, false).await.unwrap();
        assert_eq!(digest, Some(Digest::Sha256(right)));
        let digest = gateway.digest(&key, &etag, true).await.unwrap();
        assert_eq!(digest, Some(Digest::Sha512(sha512)));
    }
    assert_eq!(gateway.digest(&key, "\"x\"", true).await.unwrap(), None);
}

#[tokio::test]
async fn an_upload_that_is_given_up_leaves_what_was_there() {
    let Some(store) = VersityGw::shared() else {
        return;
    };
    let s3 = engine(&store.bucket.beneath("cut"));
    let gateway = s3.gateway(0);
    let key = Key::new("k").unwrap();
    let old = write(
        gateway,
        &key,
        b"old",
        StoredHeaders::default(),
        &WriteCondition::Any,
    );
    let old = old.await.unwrap();
    for len in [Some(1_000_000), None] {
        for received in [0, 1, 500_000, 1_000_000] {
            let begin = UploadPlan {
                len,
                condition: Some(WriteCondition::Any),
                ..UploadPlan::default()
            };
            let mut upload = gateway.upload(&key, begin).await.unwrap();
            push(&mut upload, &value(received)).await.unwrap();
            drop(upload);
            let meta = gateway.head(&key).await.unwrap().unwrap();
            assert_eq!(meta.etag, old.etag);
        }
    }
    assert_eq!(s3.staged().bytes, 0);
}

#[tokio::test]
async fn parts_are_joined_under_a_condition_or_forgotten() {
    const PART: u64 = 5 << 20;
    let Some(store) = VersityGw::start(1) else {
        return;
    };
    let s3 = engine(&store.bucket);
    let gateway = s3.gateway(0);
    let client = gateway.client;
    let key = Key::new("k").unwrap();
    let value = value(12_000_000);
    let parts = async |condition: &WriteCondition| -> Result<Written, Error> {
        let kept = StoredHeaders {
            media_type: Some("text/plain".into()),
            fields: None,
            sha256: None,
        };
        let call = Call::object(Method::PUT, &client.place, &key)?.keeping(&kept)?;
        let len = value.len() as u64;
        let mut parts = Multipart::with_parts_of(PART, client, &call, len).await?;
        for piece in value.chunks(300_000) {
            parts.push(Bytes::copy_from_slice(piece)).await.unwrap();
        }
        assert_eq!(store.bucket.multipart_uploads(), 1);
        parts.finish(condition).await
    };
    let wrong = parts(&WriteCondition::Swap("\"x\"".to_owned())).await;
    assert!(matches!(wrong, Err(Error::Precondition)), "{wrong:?}");
    until(async || store.bucket.multipart_uploads() == 0).await;
    let written = parts(&WriteCondition::Create).await.unwrap();
    let meta = gateway.head(&key).await.unwrap().unwrap();
    assert_eq!(meta.etag, written.etag);
    assert_eq!(meta.media_type.as_deref(), Some("text/plain"));
    assert!(read(gateway, &key, ReadRequest::default()).await.unwrap() == value);
    let again = parts(&WriteCondition::Create).await;
    assert!(matches!(again, Err(Error::Precondition)), "{again:?}");
    until(async || store.bucket.multipart_uploads() == 0).await;
}
