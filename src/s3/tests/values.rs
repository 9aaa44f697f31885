//! Values and their conditions, digests and fields against a real store.

use data_server_testing::s3::VersityGw;
use sha2::Digest as _;

use super::*;
use crate::value::Digest;

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
