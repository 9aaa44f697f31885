//! How fast a name becomes a key: the check that stands before every operation.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use data_server::store::{Key, MAX_SEGMENT};

fn keys(c: &mut Criterion) {
    let mut group = c.benchmark_group("key");
    let names = [
        ("short", "k1234567".to_owned()),
        ("hash", "0123456789abcdef".repeat(4)),
        ("longest", "x".repeat(MAX_SEGMENT)),
        ("folders", "0123456789abcdef/".repeat(4) + "k"),
        ("unicode", "ключ-".repeat(12)),
    ];
    for (what, name) in &names {
        group.throughput(Throughput::Bytes(name.len() as u64));
        group.bench_with_input(BenchmarkId::new("new", what), name, |b, name| {
            b.iter(|| Key::new(black_box(name)).is_ok());
        });
    }
    let bad = [
        ("reserved", ".data-server/lock"),
        ("slash_at_end", "0123456789abcdef0123456789abcdef/"),
    ];
    for (what, name) in bad {
        group.throughput(Throughput::Bytes(name.len() as u64));
        group.bench_with_input(BenchmarkId::new("refused", what), name, |b, name| {
            b.iter(|| Key::new(black_box(name)).is_err());
        });
    }
    group.finish();
}

criterion_group!(benches, keys);
criterion_main!(benches);
