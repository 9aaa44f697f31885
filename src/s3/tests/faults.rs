//! What is sent again, resumed or reported after a fault of a store that fails on demand.

use data_server_testing::s3::{Fault, Stub};

use super::*;
use crate::s3::objects::multipart::MultipartUpload;
use crate::s3::objects::put::{Write, nonce};
use crate::s3::transport::call::NONCE;

#[tokio::test]
async fn parts_that_were_perhaps_joined_are_not_said_to_be_refused() {
    let stub = Stub::start();
    let s3 = engine(&stub.bucket);
    let gateway = s3.gateway(0);
    let client = &gateway.client;
    let join = async |name: &str, completing: [Fault; 2], head: Fault| {
        let key = Key::new(name).unwrap();
        let call = Call::object(Method::PUT, &client.place, &key).unwrap();
        let call = call.with(NONCE, &nonce().unwrap());
        let call = call.unwrap();
        let mut parts = MultipartUpload::with_parts_of(10, client, &call, 10)
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
    let is_right = matches!(written, Err(Error::Unreachable { .. }));
    assert!(is_right, "{written:?}");
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
        let is_right = matches!(full, Err(Error::NoSpace { .. }));
        assert!(is_right, "{known}: {full:?}");
        let busy = Fault::Refuse(503, "SlowDown", Some(0));
        let busy = outcome(name("busy"), len, busy).await;
        match len {
            Some(_) => assert!(matches!(busy, Err(Error::Busy { .. })), "{busy:?}"),
            None => assert!(busy.is_ok(), "{busy:?}"),
        }
    }
}
