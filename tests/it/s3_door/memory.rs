//! Memory does not grow with the parts of uploads: 64 uploads at once, two parts of each under way, and all completed.

use super::{element, list, start};
use crate::support::prelude::*;

const UPLOADS: usize = 64;
const BLOCK: usize = 64 << 10;

/// Less than a third of what is under way in the short form.
const LIMIT_KIB: u64 = 96 << 10;

/// Of each part.
fn size() -> usize {
    scaled(3_000_000, 40_000_000)
}

#[test]
fn two_parts_of_each_of_64_uploads_at_once_stay_under_96_mib() {
    directory_only!("uploads in parts");
    let server = start(&[]);
    server.talk("mkdir b");
    let here = AtomicUsize::new(0);
    let all_are_here = || {
        here.fetch_add(1, Ordering::AcqRel);
        let comes = || here.load(Ordering::Acquire) == 2 * UPLOADS;
        eventually("all parts are in the middle", comes);
    };
    thread::scope(|scope| {
        for n in 0..UPLOADS {
            let (server, all_are_here) = (&server, &all_are_here);
            scope.spawn(move || upload(server, n, all_are_here));
        }
    });
    let peak = server.proc().peak_rss_kib();
    eprintln!(
        "peak RSS: {} MiB after {UPLOADS} uploads in 2 parts",
        peak >> 10
    );
    assert!(peak < LIMIT_KIB, "{peak} KiB resident");
    let value = server.dir.read("b/7");
    let is_whole = value.len() == 2 * size() && value.chunks(size()).all(|it| it == part());
    assert!(is_whole, "another value");
    assert_eq!(server.dir.names().len(), UPLOADS);
}

fn part() -> Vec<u8> {
    let block = pattern(1, BLOCK);
    block.iter().copied().cycle().take(size()).collect()
}

fn upload(server: &TestServer, n: usize, all_are_here: &(dyn Fn() + Sync)) {
    let (target, empty) = (format!("/b/{n}"), "Content-Length: 0\r\n");
    let raw = &mut server.connect();
    let begun = ask(raw, "POST", &format!("{target}?uploads"), empty, b"");
    let id = element(&begun.text(), "UploadId");
    let send = |number| {
        send(
            server,
            &format!("{target}?partNumber={number}&uploadId={id}"),
            number,
            all_are_here,
        )
    };
    let send = &send;
    let tags = thread::scope(|scope| {
        [1, 2]
            .map(|number| scope.spawn(move || send(number)))
            .map(|it| it.join().expect("a tag"))
    });
    let list = list(&[(1, &tags[0]), (2, &tags[1])]);
    let done = ask(
        raw,
        "POST",
        &format!("{target}?uploadId={id}"),
        "",
        list.as_bytes(),
    );
    assert_eq!(done.status, 200, "{done:?}");
}

/// Sends a part, the second one in chunks as clients send it by default; its entity tag.
fn send(server: &TestServer, target: &str, number: u16, all_are_here: &dyn Fn()) -> String {
    let (mut raw, block) = (server.connect(), pattern(1, BLOCK));
    let in_chunks = number == 2;
    let chunk = |block: &[u8]| {
        if in_chunks {
            let size = format!("{:x}\r\n", block.len());
            [size.as_bytes(), block, b"\r\n"].concat()
        } else {
            block.to_vec()
        }
    };
    let blocks = || {
        (0..size())
            .step_by(BLOCK)
            .map(|from| &block[..BLOCK.min(size() - from)])
    };
    let end: &[u8] = if in_chunks { b"0\r\n\r\n" } else { b"" };
    let len = blocks().map(|block| chunk(block).len()).sum::<usize>() + end.len();
    let lines = if in_chunks {
        format!(
            "x-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER\r\nx-amz-decoded-content-length: {}\r\n",
            size()
        )
    } else {
        String::new()
    };
    raw.send(format!(
        "PUT {target} HTTP/1.1\r\nHost: t\r\nContent-Length: {len}\r\n{lines}\r\n"
    ));
    for (n, block) in blocks().enumerate() {
        if n == 8 {
            all_are_here();
        }
        raw.send(chunk(block));
    }
    raw.send(end);
    let answer = raw.answer();
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.must("etag").to_owned()
}
