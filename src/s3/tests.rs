//! The engine against a real store, and against one that fails as told: values short and long, their conditions, digests and
//! parts, listings, and what is sent again, resumed or reported after a fault.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use data_server_testing::DEADLINE;
use data_server_testing::s3::{Bucket, Fault, Stub, VersityGw};
use hyper::Method;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use sha2::Digest as _;

use super::*;
use crate::s3::contract::WriteCondition;
use crate::s3::objects::multipart::Multipart;
use crate::s3::objects::put::{Write, nonce};
use crate::s3::objects::upload::RemoteUpload;
use crate::s3::transport::call::{Call, NONCE};
use crate::s3::transport::credentials::Credentials;
use crate::s3::transport::sign::Secrets;
use crate::transfer::UploadHead;
use crate::value::{Attributes, Digest, Error, Key, Page, Prefixes, Wanted};

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
async fn put(gateway: Gateway<'_>, key: &Key<'_>, value: &[u8]) -> Result<String, Error> {
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
    gateway: Gateway<'_>,
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
    assert_eq!(body.remaining(), 0);
    Ok(value)
}

/// All of the value of `key`.
async fn read_all(gateway: Gateway<'_>, key: &Key<'_>) -> Result<Vec<u8>, Error> {
    read(get(gateway, key, None, None).await).await
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
        put(gateway, &key, b"x").await.unwrap();
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

#[tokio::test]
async fn an_upload_that_is_given_up_leaves_what_was_there() {
    let Some(store) = VersityGw::shared() else {
        return;
    };
    let s3 = engine(&store.bucket.beneath("cut"));
    let gateway = s3.gateway(0);
    let key = Key::new("k").unwrap();
    let old = put(gateway, &key, b"old");
    let old = old.await.unwrap();
    for len in [Some(1_000_000), None] {
        for received in [0, 1, 500_000, 1_000_000] {
            let head = UploadHead {
                len,
                ..UploadHead::default()
            };
            let upload = gateway.upload(&key, head, Some(&WriteCondition::Any)).await;
            let mut upload = upload.unwrap();
            push(&mut upload, &value(received)).await.unwrap();
            drop(upload);
            let meta = gateway.head(&key).await.unwrap().unwrap();
            assert_eq!(meta.etag, old);
        }
    }
    assert_eq!(s3.quota().staged_bytes(), 0);
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
    let parts = async |condition: &WriteCondition| -> Result<String, Error> {
        let kept = Attributes {
            media_type: Some("text/plain".into()),
            fields: None,
        };
        let call = Call::object(Method::PUT, &client.place, &key)?.keeping(&kept)?;
        let len = value.len() as u64;
        let mut parts = Multipart::with_parts_of(PART, client, &call, len).await?;
        for piece in value.chunks(300_000) {
            parts.push(Bytes::copy_from_slice(piece)).await.unwrap();
        }
        assert_eq!(store.bucket.multipart_uploads(), 1);
        let write = Write {
            client,
            call: &call,
            condition,
        };
        parts.finish(&write).await
    };
    let wrong = parts(&WriteCondition::Swap("\"x\"".to_owned())).await;
    assert!(matches!(wrong, Err(Error::Precondition)), "{wrong:?}");
    until(async || store.bucket.multipart_uploads() == 0).await;
    let written = parts(&WriteCondition::Create).await.unwrap();
    let meta = gateway.head(&key).await.unwrap().unwrap();
    assert_eq!(meta.etag, written);
    assert_eq!(meta.media_type.as_deref(), Some("text/plain"));
    assert!(read_all(gateway, &key).await.unwrap() == value);
    let again = parts(&WriteCondition::Create).await;
    assert!(matches!(again, Err(Error::Precondition)), "{again:?}");
    until(async || store.bucket.multipart_uploads() == 0).await;
}

#[tokio::test]
async fn parts_that_were_perhaps_joined_are_not_said_to_be_refused() {
    let stub = Stub::start();
    let s3 = engine(&stub.bucket);
    let gateway = s3.gateway(0);
    let client = gateway.client;
    let join = async |name: &str, completing: [Fault; 2], head: Fault| {
        let key = Key::new(name).unwrap();
        let call = Call::object(Method::PUT, &client.place, &key).unwrap();
        let call = call.with(
            hyper::header::HeaderName::from_static(NONCE),
            &nonce().unwrap(),
        );
        let call = call.unwrap();
        let mut parts = Multipart::with_parts_of(10, client, &call, 10)
            .await
            .unwrap();
        parts.push(Bytes::from_static(b"0123456789")).await.unwrap();
        for fault in completing {
            stub.fail("POST", name, fault, 1);
        }
        stub.fail("HEAD", name, head, 100);
        let write = Write {
            client,
            call: &call,
            condition: &WriteCondition::Create,
        };
        parts.finish(&write).await
    };
    let made = || Fault::FailDone(503);
    let busy = || Fault::Refuse(503, "", Some(0));
    let found = join("found", [made(), Fault::None], Fault::None).await;
    assert!(found.is_ok(), "{found:?}");
    for (name, completing, head) in [
        ("unseen", [made(), Fault::None], busy()),
        (
            "denied",
            [made(), Fault::Refuse(403, "AccessDenied", None)],
            busy(),
        ),
        (
            "overtaken",
            [Fault::Overtake(503), Fault::None],
            Fault::None,
        ),
    ] {
        let joined = join(name, completing, head).await;
        let is_unknown = matches!(joined, Err(Error::OutcomeUnknown { .. }));
        assert!(is_unknown, "{name}: {joined:?}");
    }
    let undone = join(
        "undone",
        [busy(), Fault::Refuse(403, "AccessDenied", None)],
        Fault::None,
    );
    let undone = undone.await;
    assert!(matches!(undone, Err(Error::Refused { .. })), "{undone:?}");
}

#[tokio::test]
async fn what_was_surely_not_done_is_sent_again_and_what_perhaps_was_never() {
    let stub = Stub::start();
    let s3 = engine(&stub.bucket);
    let gateway = s3.gateway(0);
    let outcome = async |name: &'static str, fault, times| {
        stub.fail("PUT", name, fault, times);
        let key = Key::new(name).unwrap();
        let written = put(gateway, &key, b"x").await;
        let sent = stub.asked_for("PUT", name).len();
        (written.map(|_| ()), sent)
    };
    let busy = Fault::Refuse(503, "SlowDown", Some(0));
    assert!(matches!(
        outcome("busy", busy.clone(), 2).await,
        (Ok(()), 3)
    ));
    let conflict = Fault::Refuse(409, "ConditionalRequestConflict", None);
    let conflict = outcome("conflict", conflict, 1).await;
    assert!(matches!(conflict, (Ok(()), 2)), "{conflict:?}");
    let (too_busy, _) = outcome("too-busy", Fault::Refuse(503, "SlowDown", Some(9)), 1).await;
    assert!(matches!(too_busy, Err(Error::Busy { retry_after: 9 })));
    for (name, fault) in [
        ("done", Fault::FailDone(500)),
        ("lost", Fault::LoseDone),
        ("stalled", Fault::StallDone),
    ] {
        let done = outcome(name, fault, 1).await;
        assert!(matches!(done, (Ok(()), 1)), "{name}: {done:?}");
    }
    for (name, fault, late) in [
        ("undone", Fault::LoseUndone, false),
        ("stuck", Fault::StallUndone, true),
        ("failed", Fault::Refuse(500, "InternalError", None), false),
    ] {
        let (unknown, sent) = outcome(name, fault, 1).await;
        let is_unknown =
            matches!(unknown, Err(Error::OutcomeUnknown { is_late }) if is_late == late);
        assert!(is_unknown && sent == 1, "{name}: {unknown:?} {sent}");
    }
    let refused = outcome("refused", Fault::Refuse(403, "AccessDenied", None), 1).await;
    assert!(matches!(refused, (Err(Error::Refused { .. }), 1)));
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_resumed() {
    let stub = Stub::start();
    let s3 = engine(&stub.bucket);
    let gateway = s3.gateway(0);
    let key = Key::new("k").unwrap();
    let value: Vec<u8> = (0..60_000_u32)
        .flat_map(u32::to_le_bytes)
        .take(60_000)
        .collect();
    put(gateway, &key, &value).await.unwrap();
    stub.fail("GET", "k", Fault::CutAt(10_000), 3);
    assert_eq!(read_all(gateway, &key).await.unwrap(), value);
    stub.fail("GET", "k", Fault::StallAt(10_000), 1);
    let part = get(gateway, &key, Some(5..50_000), None).await;
    assert_eq!(read(part).await.unwrap(), value[5..50_000]);
    stub.fail("GET", "k", Fault::CutAt(100), 4);
    let cut = read_all(gateway, &key).await;
    assert!(matches!(cut, Err(Error::BadGateway { .. })), "{cut:?}");
}

#[tokio::test]
async fn two_versions_are_never_mixed() {
    let stub = Stub::start();
    let s3 = engine(&stub.bucket);
    let gateway = s3.gateway(0);
    let key = Key::new("k").unwrap();
    let store = async |value: &[u8]| {
        let written = put(gateway, &key, value).await;
        written.unwrap();
    };
    store(&vec![1; 60_000]).await;
    stub.fail("GET", "k", Fault::CutAt(10_000), 1);
    let mut body = get(gateway, &key, None, None).await.unwrap();
    store(&vec![2; 60_000]).await;
    let mut received = 0;
    let end = loop {
        match poll_fn(|cx| body.poll_next(cx)).await {
            Some(Ok(data)) => {
                assert!(data.iter().all(|&byte| byte == 1));
                received += data.len();
            }
            end => break end,
        }
    };
    assert!(matches!(end, Some(Err(Error::Truncated))), "{end:?}");
    assert!(received < 60_000);
}

#[tokio::test]
async fn a_store_that_is_not_there_is_unreachable() {
    let stub = Stub::start();
    let s3 = engine(&stub.bucket);
    drop(stub);
    let gateway = s3.gateway(0);
    let key = Key::new("k").unwrap();
    assert!(matches!(
        gateway.head(&key).await,
        Err(Error::Unreachable { .. })
    ));
    let written = put(gateway, &key, b"x").await;
    assert!(
        matches!(written, Err(Error::Unreachable { .. })),
        "{written:?}"
    );
}

#[tokio::test]
async fn a_long_value_meets_the_faults_of_a_store() {
    let stub = Stub::start();
    let s3 = engine(&stub.bucket);
    let gateway = s3.gateway(0);
    let outcome = async |name: &'static str, len: Option<u64>, fault| {
        stub.fail("PUT", name, fault, 1);
        let key = Key::new(name).unwrap();
        let head = UploadHead {
            len,
            ..UploadHead::default()
        };
        let condition = WriteCondition::Any;
        let mut upload = gateway.upload(&key, head, Some(&condition)).await?;
        push(&mut upload, &value(1_000_000)).await?;
        upload.publish(&WriteCondition::Any).await
    };
    for len in [Some(1_000_000), None] {
        let known = if len.is_some() { "known" } else { "unknown" };
        let name = |fault: &str| -> &'static str { format!("{known}-{fault}").leak() };
        for (fault, what) in [
            ("done", Fault::FailDone(500)),
            ("lost", Fault::LoseDone),
            ("stalled", Fault::StallDone),
        ] {
            let done = outcome(name(fault), len, what).await;
            assert!(done.is_ok(), "{known} {fault}: {done:?}");
            assert_eq!(stub.asked_for("PUT", name(fault)).len(), 1);
        }
        let stuck = outcome(name("stuck"), len, Fault::StallUndone).await;
        let is_late = matches!(stuck, Err(Error::OutcomeUnknown { .. } | Error::TimedOut));
        assert!(is_late, "{known}: {stuck:?}");
        let full = Fault::Refuse(507, "XMinioStorageFull", None);
        let full = outcome(name("full"), len, full).await;
        assert!(
            matches!(full, Err(Error::NoSpace { .. })),
            "{known}: {full:?}"
        );
        let busy = Fault::Refuse(503, "SlowDown", Some(0));
        let busy = outcome(name("busy"), len, busy).await;
        match len {
            Some(_) => assert!(matches!(busy, Err(Error::Busy { .. })), "{busy:?}"),
            None => assert!(busy.is_ok(), "{busy:?}"),
        }
    }
}

/// A store with an object for each of `keys`.
async fn stocked(keys: impl Iterator<Item = String>) -> (Stub, S3) {
    let stub = Stub::start();
    let s3 = engine(&stub.bucket);
    let first = Key::new("first").unwrap();
    put(s3.gateway(0), &first, b"x").await.unwrap();
    let named = |key: &str| format!("{}{key}", stub.bucket.prefix);
    let keys = keys.map(|key| named(&key));
    stub.copy(&named("first"), keys);
    s3.gateway(0).delete(&first, None).await.unwrap();
    (stub, s3)
}

fn page(prefix: &str, limit: usize, by_folder: bool, within: &[String]) -> Page {
    Page {
        prefix: prefix.to_owned(),
        after: String::new(),
        limit,
        by_folder,
        within: Prefixes::new(within.iter().map(String::as_str)),
    }
}

/// The items of `page`, and what its `next` is.
async fn listed(gateway: Gateway<'_>, page: &Page) -> (Vec<String>, Option<String>) {
    let listing = gateway.list(page).await.unwrap();
    let keys = listing.keys.into_iter().map(|(key, _)| key.to_string());
    let mut items: Vec<_> = keys.chain(listing.folders).collect();
    items.sort();
    (items, listing.next)
}

#[tokio::test]
async fn pages_have_what_may_be_seen_and_nothing_else() {
    let keys = [
        "a", "a+", "a-", "a/b", "a/b/c", "a/c", "a0", "ab", "b/-", "b/a/x", "b/b/x", "b/b/y", "b0",
    ];
    let (_stub, s3) = stocked(keys.iter().map(|&key| key.to_owned())).await;
    let mut runner = TestRunner::new(Config {
        failure_persistence: None,
        ..Config::default()
    });
    let text = "(a|b|a/|a/b|b/|b/b/|b/b/y|a-|x|[ab0/-]{0,3})";
    let strategy = (vec(text, 0..4), text, 1_usize..4, any::<bool>());
    for _ in 0..128 {
        let (within, prefix, limit, by_folder) =
            strategy.new_tree(&mut runner).expect("a case").current();
        let mut page = page(&prefix, limit, by_folder, &within);
        let seen = keys.iter().filter(|key| page.within.has(key));
        let below = seen.filter_map(|key| key.strip_prefix(&*prefix));
        let items = below.map(|rest| match rest.split_once('/') {
            Some((folder, _)) if by_folder => format!("{prefix}{folder}/"),
            _ => format!("{prefix}{rest}"),
        });
        let whole: Vec<String> = items.collect::<BTreeSet<_>>().into_iter().collect();
        let mut pages = whole.chunks(limit).peekable();
        while let Some(expected) = pages.next() {
            let next = pages.peek().and(expected.last().cloned());
            let found = listed(s3.gateway(0), &page).await;
            assert_eq!(found, (expected.to_vec(), next), "{page:?}");
            page.after.clone_from(expected.last().expect("an item"));
        }
        let found = listed(s3.gateway(0), &page).await;
        assert_eq!(found, (Vec::new(), None), "{page:?}");
    }
}

#[tokio::test]
async fn a_page_of_few_keys_among_many_asks_for_few() {
    let hidden = (0..20_000).map(|n| format!("hidden{}/{n:05}", n % 10));
    let visible = ["a/1", "hidden5/own/1", "hidden5/own/2", "z"];
    let keys = hidden.chain(visible.map(str::to_owned));
    let (stub, s3) = stocked(keys).await;
    let within = ["a/", "b/none", "hidden5/own/", "z"].map(str::to_owned);
    for (by_folder, expected) in [(false, &visible[..]), (true, &["a/", "hidden5/", "z"])] {
        let before = stub.asked().len();
        let found = listed(s3.gateway(0), &page("", 100, by_folder, &within)).await;
        assert_eq!(
            found,
            (expected.iter().map(|&item| item.to_owned()).collect(), None)
        );
        let asked = &stub.asked()[before..];
        assert_eq!(asked.len(), within.len(), "once for each prefix: {asked:?}");
        for asked in asked {
            let is_narrow = within.iter().any(|prefix| {
                let prefix = format!("{}{prefix}", stub.bucket.prefix).replace('/', "%2F");
                asked.query.contains(&format!("&prefix={prefix}&"))
                    || asked.query.ends_with(&format!("&prefix={prefix}"))
            });
            assert!(is_narrow, "{asked:?}");
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
