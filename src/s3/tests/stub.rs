//! What the engine does about the faults of a store, which it sends again, resumes or reports; and what it asks of a store for a page of
//! which only some keys may be seen.

use std::collections::BTreeSet;

use data_server_testing::s3::{Fault, Stub};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};

use super::*;

#[tokio::test]
async fn what_was_surely_not_done_is_sent_again_and_what_perhaps_was_never() {
    let stub = Stub::start();
    let s3 = engine(&stub.bucket);
    let gateway = s3.gateway(0);
    let outcome = async |name: &'static str, fault, times| {
        stub.fail("PUT", name, fault, times);
        let key = Key::new(name).unwrap();
        let written = write(
            gateway,
            &key,
            b"x",
            StoredHeaders::default(),
            &WriteCondition::Any,
        )
        .await;
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
    write(
        gateway,
        &key,
        &value,
        StoredHeaders::default(),
        &WriteCondition::Any,
    )
    .await
    .unwrap();
    stub.fail("GET", "k", Fault::CutAt(10_000), 3);
    assert_eq!(
        read(gateway, &key, ReadRequest::default()).await.unwrap(),
        value
    );
    stub.fail("GET", "k", Fault::StallAt(10_000), 1);
    let range = ReadRequest {
        range: Some(5..50_000),
        only: None,
    };
    assert_eq!(read(gateway, &key, range).await.unwrap(), value[5..50_000]);
    stub.fail("GET", "k", Fault::CutAt(100), 4);
    let cut = read(gateway, &key, ReadRequest::default()).await;
    assert!(matches!(cut, Err(Error::BadGateway { .. })), "{cut:?}");
}

#[tokio::test]
async fn two_versions_are_never_mixed() {
    let stub = Stub::start();
    let s3 = engine(&stub.bucket);
    let gateway = s3.gateway(0);
    let key = Key::new("k").unwrap();
    let put = async |value: &[u8]| {
        let written = write(
            gateway,
            &key,
            value,
            StoredHeaders::default(),
            &WriteCondition::Any,
        )
        .await;
        written.unwrap();
    };
    put(&vec![1; 60_000]).await;
    stub.fail("GET", "k", Fault::CutAt(10_000), 1);
    let GetOutcome::Value(_, mut body) = gateway.get(&key, ReadRequest::default()).await.unwrap()
    else {
        panic!("there is no such value");
    };
    put(&vec![2; 60_000]).await;
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
    let written = write(
        gateway,
        &key,
        b"x",
        StoredHeaders::default(),
        &WriteCondition::Any,
    )
    .await;
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
        let begin = UploadPlan {
            len,
            condition: Some(WriteCondition::Any),
            ..UploadPlan::default()
        };
        let mut upload = gateway.upload(&key, begin).await?;
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
    write(
        s3.gateway(0),
        &first,
        b"x",
        StoredHeaders::default(),
        &WriteCondition::Any,
    )
    .await
    .unwrap();
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
