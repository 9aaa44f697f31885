//! Values and their conditions, digests and fields against a real store.

use data_server_testing::s3::VersityGw;
use sha2::Digest as _;

use super::*;
use crate::value::Digest;

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
    let kept = Attributes {
        media_type: Some("text/plain; charset=utf-8".into()),
        fields: Some(b"cache-control: no-store\ncontent-encoding: gzip\n"[..].into()),
    };
    let written = write(gateway, &key, b"one", kept.clone(), &WriteCondition::Create)
        .await
        .unwrap();
    let meta = gateway.head(&key).await.unwrap().unwrap();
    assert_eq!((meta.len, &meta.etag), (3, &written));
    assert_eq!(meta.media_type, kept.media_type.map(String::from));
    assert_eq!(Some(&*meta.fields), kept.fields.as_deref());
    assert!(meta.sha256.is_some());
    assert_eq!(read_all(gateway, &key).await.unwrap(), b"one");
    let part = get(gateway, &key, Some(1..3), Some(&written)).await;
    assert_eq!(read(part).await.unwrap(), b"ne");
    assert!(gateway.delete(&key, None).await.unwrap());
    assert!(get(gateway, &key, None, None).await.is_none());
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
    let swap_in = async |value, condition| {
        write(gateway, &key, value, Attributes::default(), condition).await
    };
    assert!(matches!(
        swap_in(b"0", &swap).await,
        Err(Error::Precondition)
    ));
    let first = swap_in(b"1", &WriteCondition::Create).await.unwrap();
    let swap_first = WriteCondition::Swap(first.clone());
    let again = swap_in(b"2", &WriteCondition::Create).await;
    assert!(matches!(again, Err(Error::Precondition)), "{again:?}");
    let second = swap_in(b"2", &swap_first).await.unwrap();
    let stale = swap_in(b"3", &swap_first).await;
    assert!(matches!(stale, Err(Error::Precondition)), "{stale:?}");
    assert!(get(gateway, &key, None, Some(&first)).await.is_none());
    let meta = gateway.head(&key).await.unwrap().unwrap();
    assert_eq!(meta.etag, second);
    assert_eq!(meta.media_type, None);
    let conditional = gateway.delete(&key, Some(&second)).await;
    assert!(matches!(conditional, Err(Error::NotSupported { .. })));
}

#[tokio::test]
async fn a_digest_is_proved_by_the_store_and_kept_or_computed() {
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
        let head = UploadHead {
            len,
            sha256,
            ..UploadHead::default()
        };
        let upload = gateway.upload(&key, head, Some(&WriteCondition::Any)).await;
        let mut upload = upload.unwrap();
        push(&mut upload, &value).await.unwrap();
        let written = upload.publish(&WriteCondition::Any).await;
        if sha256 == Some([7; 32]) {
            assert!(written.is_err(), "{written:?}");
            assert_eq!(gateway.head(&key).await.unwrap(), None);
            continue;
        }
        let mut found = gateway.find(&key, false).await.unwrap().unwrap();
        assert_eq!(found.meta.etag, written.unwrap());
        assert_eq!(found.meta.sha256, sha256);
        let digest = found.digest(false).await.unwrap();
        assert_eq!(digest, Some(Digest::Sha256(right)));
        let digest = found.digest(true).await.unwrap();
        assert_eq!(digest, Some(Digest::Sha512(sha512)));
        found.meta.etag = "\"x\"".to_owned();
        assert_eq!(found.digest(true).await.unwrap(), None);
    }
}
