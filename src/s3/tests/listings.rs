//! Listings: by pages and by folder, what may be seen, and how much is asked for it.

use std::collections::BTreeSet;

use data_server_testing::s3::Stub;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};

use super::*;
use crate::value::{Page, Prefixes};

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
        folders: false,
        within: Prefixes::new(within.iter().map(String::as_str)),
    }
}

/// The items of `page`, and what its `next` is.
async fn listed(gateway: &Gateway, page: &Page) -> (Vec<String>, Option<String>) {
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
