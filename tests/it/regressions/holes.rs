//! A part of a resumable upload was given up for another request while a disk thread took its bytes from the socket. The
//! connection dropped what came next from the same socket, and the thread wrote what came behind that: the value had a hole.

use crate::support::prelude::*;

const LENGTH: usize = 48 << 20;

/// What the server gathers of a part before it writes any of it, and more: of a shorter part nothing may be seen to arrive.
const GATHERED: usize = 1 << 20;

/// The bytes that have been received of the only upload.
fn received(server: &TestServer) -> u64 {
    let dir = server.dir.path().join(".data-server/uploads");
    let files = server.dir.uploads();
    let lens = files.iter().filter(|name| name.len() == 32);
    let lens = lens.filter_map(|name| fs::metadata(dir.join(name)).ok());
    lens.map(|file| file.len()).max().unwrap_or(0)
}

#[test]
fn a_part_that_is_given_up_while_it_arrives_leaves_no_hole() {
    http1_only!("parts that pass through the kernel");
    clear_only!("parts that pass through the kernel");
    directory_only!("parts that pass through the kernel");
    let server = Launch::new(&["--threads", "2"]).start();
    let value = pattern(1, LENGTH);
    let lines = format!("Upload-Length: {LENGTH}\r\n");
    let upload = Resumable::create(&mut server.connect(), "k", &lines, b"");
    let (mut offset, mut given_up) = (0, 0);
    // The last byte is not sent, so that each of these parts is given up.
    while LENGTH - offset > GATHERED {
        let mut sender = server.connect();
        sender.send(upload.append_head(offset, true, LENGTH - offset));
        let (mut sending, rest, begun) = (sender.twin(), &value[offset..LENGTH - 1], offset as u64);
        thread::scope(|scope| {
            scope.spawn(move || sending.offer(rest));
            eventually("some of it has arrived", || received(&server) > begun);
            offset = upload.offset(&mut server.connect());
            // What is still being sent has no reader.
            sender.finish();
        });
        given_up += 1;
        assert!(given_up < 1000, "{offset} bytes");
    }
    eprintln!("{given_up} parts");
    eventually("the rest is taken", || {
        let last = upload.append(&mut server.connect(), offset, true, &value[offset..]);
        if last.status == 409 {
            // A part that had not been begun came in between.
            offset = last.must("upload-offset").parse().expect("an offset");
        }
        last.status == 200
    });
    let stored = server.get("k").body;
    let hole = stored.iter().zip(&value).position(|(a, b)| a != b);
    assert_eq!((stored.len(), hole), (LENGTH, None));
}
