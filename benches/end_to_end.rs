//! One client, one keep-alive connection, over loopback to the real binary: what a request costs from end to end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use data_server_testing::binary;
use tempfile::TempDir;

const SIZES: [(&str, usize); 3] = [("1KiB", 1 << 10), ("64KiB", 64 << 10), ("1MiB", 1 << 20)];

/// A server with one reactor on a directory of its own, ended when dropped.
struct Server {
    child: Child,
    address: String,
    dir: TempDir,
}

impl Server {
    fn start() -> Self {
        let dir = TempDir::new_in("/dev/shm")
            .or_else(|_| TempDir::new())
            .expect("a directory");
        let mut child = Command::new(binary())
            .args([
                "--threads",
                "1",
                "--listen",
                "127.0.0.1:0",
                "--allowed-host",
                "t",
                "--log-level",
                "warn",
                "--dir",
            ])
            .arg(dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server");
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("its output");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("listening on http://");
        let address = address.expect("an address").to_owned();
        Self {
            child,
            address,
            dir,
        }
    }

    fn connect(&self) -> Connection {
        let stream = TcpStream::connect(&self.address).expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        Connection {
            reader: BufReader::with_capacity(256 << 10, stream),
            line: String::new(),
            body: Vec::new(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Connection {
    reader: BufReader<TcpStream>,
    line: String,
    body: Vec<u8>,
}

impl Connection {
    /// Sends a request and reads its answer; the length of the body.
    fn ask(&mut self, request: &[u8]) -> usize {
        self.reader.get_mut().write_all(request).expect("a request");
        let mut length = 0;
        loop {
            self.line.clear();
            self.reader.read_line(&mut self.line).expect("a head");
            let line = self.line.trim_end();
            if line.is_empty() {
                break;
            }
            if line.starts_with("HTTP/") {
                assert!(line.contains(" 200 "), "{line}");
            } else if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse().expect("a length");
            }
        }
        self.body.resize(length, 0);
        self.reader.read_exact(&mut self.body).expect("a body");
        length
    }
}

fn over_loopback(c: &mut Criterion) {
    let server = Server::start();
    let mut group = c.benchmark_group("end_to_end");
    let mut connection = server.connect();
    for (what, size) in SIZES {
        std::fs::write(server.dir.path().join(what), vec![b'x'; size]).expect("a value");
        let request = format!("GET /{what} HTTP/1.1\r\nHost: t\r\n\r\n");
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(BenchmarkId::new("get", what), |b| {
            b.iter(|| assert_eq!(connection.ask(request.as_bytes()), size));
        });
    }
    for (what, size) in SIZES {
        let head = format!("PUT /put HTTP/1.1\r\nHost: t\r\nContent-Length: {size}\r\n\r\n");
        let request = [head.as_bytes(), &vec![b'x'; size]].concat();
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(BenchmarkId::new("put", what), |b| {
            b.iter(|| assert_eq!(connection.ask(&request), 0));
        });
    }
    group.throughput(Throughput::Elements(1));
    group.bench_function("connect_and_get/1KiB", |b| {
        let request = b"GET /1KiB HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n";
        b.iter(|| assert_eq!(server.connect().ask(request), 1 << 10));
    });
    group.finish();
}

criterion_group!(benches, over_loopback);
criterion_main!(benches);
