//! How fast the rules of HTTP are decided: framing, preconditions and ranges, where a request has them and where not.

use std::hint::black_box;
use std::time::SystemTime;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use data_server::http::Framing;
use data_server::http::conditional::preconditions as preconditions_of;
use data_server::http::range::ranges;
use data_server::store::Current;
use hyper::header::{HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH, RANGE};

const ETAG: &str = "\"18ea04c1e2788651\"";

fn headers(fields: &[(HeaderName, &'static str)]) -> HeaderMap {
    let fields = fields
        .iter()
        .map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
    fields.collect()
}

fn preconditions(c: &mut Criterion) {
    let mut group = c.benchmark_group("preconditions");
    let current = Current {
        etag: ETAG,
        variant: None,
        modified: SystemTime::UNIX_EPOCH,
    };
    let none = headers(&[]);
    group.bench_function("none", |b| b.iter(|| preconditions_of(black_box(&none))));
    let known = headers(&[(IF_NONE_MATCH, ETAG)]);
    group.bench_function("if_none_match", |b| {
        b.iter(|| {
            let preconditions = preconditions_of(black_box(&known));
            preconditions.is_some_and(|p| p.for_write(Some(current)))
        });
    });
    let listed = headers(&[(IF_MATCH, "\"a\", \"b\", \"c\", \"18ea04c1e2788651\"")]);
    group.bench_function("if_match_of_four", |b| {
        b.iter(|| {
            let preconditions = preconditions_of(black_box(&listed));
            preconditions.is_some_and(|p| p.for_write(Some(current)))
        });
    });
    group.finish();
}

fn range(c: &mut Criterion) {
    let mut group = c.benchmark_group("range");
    for (what, field) in [
        ("single", "bytes=1000-1999"),
        ("suffix", "bytes=-500"),
        (
            "sixteen",
            "bytes=0-1,200-201,400-401,600-601,800-801,1000-1001,1200-1201,1400-1401,1600-1601,1800-1801,2000-2001,2200-2201,2400-2401,2600-2601,2800-2801,3000-3001",
        ),
    ] {
        let headers = headers(&[(RANGE, field)]);
        group.bench_function(what, |b| b.iter(|| ranges(black_box(&headers), 1 << 20)));
    }
    group.finish();
}

fn framing(c: &mut Criterion) {
    let mut group = c.benchmark_group("framing");
    let plain = "GET /key HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\n\r\n";
    let browser = format!(
        "GET /key HTTP/1.1\r\nHost: localhost\r\n{}\r\n",
        "Sec-Fetch-Something: a value of some length\r\n".repeat(12)
    );
    for (what, head) in [("get_of_83_bytes", plain), ("get_of_600_bytes", &browser)] {
        let mut framing = Framing::default();
        group.bench_function(what, |b| {
            b.iter_batched_ref(
                || head.as_bytes().to_vec(),
                |head| framing.feed(black_box(head)),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, framing, preconditions, range);
criterion_main!(benches);
