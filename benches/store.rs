//! What a value costs without HTTP: from the cache, from its file, and into it; in memory where there is such a place,
//! so that it is the store that is measured and not a disk.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use data_server::store::{Directory, Key, Options, Purpose};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

const SIZES: [(&str, usize); 3] = [("1KiB", 1 << 10), ("8KiB", 8 << 10), ("64KiB", 64 << 10)];

fn place() -> TempDir {
    TempDir::new_in("/dev/shm")
        .or_else(|_| TempDir::new())
        .expect("a directory")
}

fn open(dir: &TempDir, cache: u64) -> Directory {
    let options = Options {
        cache,
        cached_files: 1000,
        ..Options::default()
    };
    Directory::open(dir.path(), &options).expect("a store")
}

/// As a reactor has it.
fn runtime() -> Runtime {
    Builder::new_current_thread().build().expect("a runtime")
}

fn key(name: &str) -> Key<'_> {
    Key::new(name).expect("a key")
}

async fn put(store: &Directory, name: String, value: Bytes) {
    let key = Key::new(name).expect("a key");
    let mut upload = store
        .upload(&key, Some(value.len() as u64), None)
        .await
        .expect("an upload");
    upload.push(value).await.expect("a push");
    store.put(key, upload, None).await.expect("a put");
}

/// Gets a value until the cache keeps it: only once nothing has changed it for a while.
fn until_cached(runtime: &Runtime, store: &Directory, what: &str) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while store.get_cached(&key(what)).is_none() {
        assert!(Instant::now() < deadline, "the cache does not keep {what}");
        let found = runtime
            .block_on(store.get(&key(what), Purpose::Use))
            .expect("a get");
        assert!(found.is_some());
    }
}

fn reads(c: &mut Criterion) {
    let (dir, runtime) = (place(), runtime());
    for (what, size) in SIZES {
        std::fs::write(dir.path().join(what), vec![b'x'; size]).expect("a value");
    }
    let mut group = c.benchmark_group("get");
    let store = open(&dir, 64 << 20);
    for (what, size) in SIZES {
        until_cached(&runtime, &store, what);
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(BenchmarkId::new("cached", what), |b| {
            b.iter(|| store.get_cached(black_box(&key(what))));
        });
    }
    drop(store);
    let store = open(&dir, 0);
    for (what, size) in SIZES {
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(BenchmarkId::new("uncached", what), |b| {
            b.iter(|| {
                runtime
                    .block_on(store.get(black_box(&key(what)), Purpose::Use))
                    .expect("a get")
            });
        });
    }
    group.bench_function("absent", |b| {
        b.iter(|| {
            runtime
                .block_on(store.get(black_box(&key("absent")), Purpose::Use))
                .expect("a get")
        });
    });
    group.finish();
}

fn writes(c: &mut Criterion) {
    let (dir, runtime) = (place(), runtime());
    let store = open(&dir, 64 << 20);
    let mut group = c.benchmark_group("put");
    for (what, size) in SIZES {
        let value = Bytes::from(vec![b'x'; size]);
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(BenchmarkId::new("replaced", what), |b| {
            b.iter(|| runtime.block_on(put(&store, "same".into(), value.clone())));
        });
    }
    let value = Bytes::from(vec![b'x'; 1 << 10]);
    let mut next = 0_u64;
    group.throughput(Throughput::Bytes(1 << 10));
    group.bench_function("new/1KiB", |b| {
        b.iter(|| {
            next += 1;
            let name = format!("new-{}", next % 100_000);
            if next > 100_000 {
                // Makes the name new again; part of what is measured, and only on very long runs.
                let _ = std::fs::remove_file(dir.path().join(&name));
            }
            runtime.block_on(put(&store, name, value.clone()));
        });
    });
    // What a batch saves: 32 writers at once.
    group.throughput(Throughput::Elements(32));
    group.bench_function("replaced_by_32_at_once/1KiB", |b| {
        b.iter(|| {
            runtime.block_on(async {
                let puts = (0..32).map(|n| put(&store, format!("one-of-{n}"), value.clone()));
                futures(puts).await;
            });
        });
    });
    group.finish();
}

/// Waits for all of them, polling them together.
async fn futures<F: Future<Output = ()>>(all: impl Iterator<Item = F>) {
    let mut waiting: Vec<_> = all.map(Box::pin).collect();
    std::future::poll_fn(|cx| {
        waiting.retain_mut(|future| future.as_mut().poll(cx).is_pending());
        if waiting.is_empty() {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
}

criterion_group!(benches, reads, writes);
criterion_main!(benches);
