//! What a real store does for the engine: values, their conditions, and listings.

use data_server_testing::s3::VersityGw;

use super::*;

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
    let kept = Kept {
        media_type: Some("text/plain; charset=utf-8".into()),
        fields: Some(b"cache-control: no-store\ncontent-encoding: gzip\n"[..].into()),
        sha256: None,
    };
    let written = write(gateway, &key, b"one", kept.clone(), &Exact::Create)
        .await
        .unwrap();
    let meta = gateway.head(&key).await.unwrap().unwrap();
    assert_eq!((meta.len, &meta.etag), (3, &written.etag));
    assert_eq!(meta.media_type, kept.media_type.map(String::from));
    assert_eq!(Some(&*meta.fields), kept.fields.as_deref());
    assert!(meta.sha256.is_some());
    assert_eq!(read(gateway, &key, Read::default()).await.unwrap(), b"one");
    let range = Read {
        range: Some(1..3),
        only: Some(&written.etag),
    };
    assert_eq!(read(gateway, &key, range).await.unwrap(), b"ne");
    assert!(gateway.delete(&key, None).await.unwrap());
    assert!(matches!(
        gateway.get(&key, Read::default()).await.unwrap(),
        Got::Gone
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
    let swap = Exact::Swap("\"d41d8cd98f00b204e9800998ecf8427e\"".to_owned());
    let put =
        async |value, condition| write(gateway, &key, value, Kept::default(), condition).await;
    assert!(matches!(put(b"0", &swap).await, Err(Error::Precondition)));
    let first = put(b"1", &Exact::Create).await.unwrap();
    let swap_first = Exact::Swap(first.etag.clone());
    let again = put(b"2", &Exact::Create).await;
    assert!(matches!(again, Err(Error::Precondition)), "{again:?}");
    let second = put(b"2", &swap_first).await.unwrap();
    let stale = put(b"3", &swap_first).await;
    assert!(matches!(stale, Err(Error::Precondition)), "{stale:?}");
    let only = Read {
        range: None,
        only: Some(&first.etag),
    };
    assert!(matches!(
        gateway.get(&key, only).await.unwrap(),
        Got::Changed
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
        write(gateway, &key, b"x", Kept::default(), &Exact::Any)
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
