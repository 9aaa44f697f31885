//! Resumable uploads of the engine: what the sweep removes, and servers that send parts at the same time.

use data_server_testing::s3::Stub;

use super::super::super::digest::Wanted;
use super::super::resumable::sweep::expire;
use super::*;

/// What is sent as two parts.
const LEN: u32 = 32 << 20;

async fn begin(s3: &S3, first: &[u8]) -> crate::store::UploadId {
    let new = NewRemoteUpload {
        uploader: crate::store::staging_quota::Uploader::new("a client"),
        key: Key::new("k").unwrap(),
        length: None,
        fields: Vec::new(),
        kept: Kept::default(),
    };
    let mut upload = s3.gateway(0).begin_resumable(new).await.unwrap();
    append(&mut upload, first).await.unwrap();
    upload.keep().await.unwrap();
    upload.announce()
}

async fn resume(s3: &S3, id: crate::store::UploadId) -> RemoteResumable {
    s3.gateway(0).resume(id).await.unwrap().expect("an upload")
}

async fn append(upload: &mut RemoteResumable, bytes: &[u8]) -> Result<(), Error> {
    upload.receive(Wanted::default(), false).await?;
    for piece in bytes.chunks(100_000) {
        upload.push(Bytes::copy_from_slice(piece)).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_part_of_a_server_that_has_lost_the_upload_replaces_none() {
    let stub = Stub::start();
    let [first, second] = [engine(&stub.bucket), engine(&stub.bucket)];
    let id = begin(&first, b"").await;
    let value = value(LEN);
    let half = value.len() / 2;
    let mut late = resume(&first, id).await;
    append(&mut late, &value[..half]).await.unwrap();
    let mut upload = resume(&second, id).await;
    assert_eq!(upload.offset(), half as u64);
    append(&mut upload, &value[half..]).await.unwrap();
    // Its part arrives after the one that stands for the same bytes.
    let lost = append(&mut late, &vec![7; half]).await;
    assert!(matches!(lost, Err(Error::Taken)), "{lost:?}");
    upload.publish(&Exact::Create).await.unwrap();
    assert!(stub.bucket.read("k").as_deref() == Some(&value));
    assert!(matches!(late.keep().await, Err(Error::Taken)));
}

#[tokio::test]
async fn the_sweep_removes_what_expired_and_what_belongs_to_nothing() {
    let (day, now) = (Duration::from_secs(24 * 3600), Duration::ZERO);
    let stub = Stub::start();
    let s3 = engine(&stub.bucket);
    let (client, unfinished) = (&s3.clients[0], s3.unfinished_uploads());
    let [open, complete] = [begin(&s3, b"open").await, begin(&s3, b"done").await];
    let mut done = resume(&s3, complete).await;
    done.publish(&Exact::Any).await.unwrap();
    drop(done);
    let tail = format!(".data-server/uploads/{open}.of-a-request-that-was-killed");
    let orphan = ".data-server/uploads/0123456789abcdef0123456789abcdef.tail";
    stub.bucket.place(&tail, "x");
    stub.bucket.place(orphan, "x");
    let there = |what: &str| stub.bucket.objects().iter().any(|o| o.key.contains(what));
    assert_eq!(expire(client, unfinished, day, day).await.unwrap(), 0);
    assert!(there(&open.to_string()) && there(&complete.to_string()) && there(orphan));
    assert_eq!(
        expire(client, unfinished, now, now).await.unwrap(),
        0,
        "without an expiry"
    );
    assert!(!there(orphan) && !there(&complete.to_string()));
    assert_eq!(resume(&s3, open).await.offset(), 4);
    until(async || {
        expire(client, unfinished, Duration::from_millis(1), now)
            .await
            .unwrap()
            == 1
    })
    .await;
    expire(client, unfinished, day, now).await.unwrap();
    assert!(!there(".data-server"), "{:?}", stub.bucket.objects());
    assert_eq!(stub.bucket.read("k").as_deref(), Some(&b"done"[..]));
}
