//! Proves that a large upload, for which the connection takes the socket over, ends where its length says, and that
//! requests before and behind it, errors and aborts behave as with a small one.

use proptest::prelude::*;

use crate::support::prelude::*;

/// The shortest body that is taken over.
const LARGE: usize = 256 << 10;

/// With any spelling of the length, and any fields around it.
#[test]
fn a_large_body_ends_where_its_length_says() {
    http1_only!("where a body ends");
    let server = TestServer::start(&[]);
    let mut connection = server.connect();
    let value = pattern(5, 300_000);
    let heads = [
        "PUT /k HTTP/1.1\r\nHost: t\r\ncontent-LENGTH:300000\r\n\r\n",
        "PUT /k HTTP/1.1\r\nContent-Length:  \t 0000300000 \t\r\nHost: t\r\n\r\n",
        "\r\nPUT /k HTTP/1.1\r\nContent-Length: 300000\r\nContent-Type: text/plain\r\nHost: t\r\n\r\n",
        "PUT /k HTTP/1.0\r\nHost: t\r\nConnection: keep-alive\r\nContent-Length: 300000\r\n\r\n",
        "PUT http://t/k HTTP/1.1\r\nHost: t\r\nContent-Length: 300000\r\nExpect: 100-continue\r\n\r\n",
    ];
    for head in heads {
        connection.send(head);
        connection.send(&value);
        connection.send(get_head("k"));
        let mut answer = connection.answer();
        if answer.status == 100 {
            answer = connection.answer();
        }
        assert_eq!(answer.status, 200, "{head}");
        assert!(connection.answer().body == value, "{head}");
        let found = connection.ask("DELETE /k HTTP/1.1\r\nHost: t\r\n\r\n");
        assert_eq!(found.status, 200);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scaled(6, 32)))]

    /// With any division of the head and the body into packets.
    #[test]
    fn a_large_body_arrives_whole_in_any_pieces(
        size in LARGE - 2..LARGE * 3,
        mut cuts in prop::collection::vec(0..LARGE * 3, 0..6),
        near in 0..80_usize,
        discard in any::<bool>(),
    ) {
        let server = TestServer::start(if discard { &["--discard"] } else { &[] });
        let value = pattern(9, size);
        let sent = [put_head("k", size).as_bytes(), &value, get_head("k").as_bytes()].concat();
        cuts.push(near);
        cuts.push(sent.len());
        cuts.sort_unstable();
        let mut connection = server.connect();
        let mut at = 0;
        for cut in cuts.into_iter().map(|cut| cut.min(sent.len())) {
            connection.send(&sent[at..cut]);
            at = cut;
            // The pause separates the pieces. The outcome is the same for any pieces.
            let _ = connection.silent_for(Duration::from_millis(2));
        }
        prop_assert_eq!(connection.answer().status, 200);
        let got = connection.answer();
        let is_right = if discard { got.status == 404 } else { got.body == value };
        prop_assert!(is_right, "{} and {} bytes", got.status, got.body.len());
    }
}

/// The body waits for its request, which never comes, and must not keep the connection open.
#[test]
fn a_large_body_behind_a_closing_request_leaks_nothing() {
    let server = TestServer::start(&[]);
    let before = server.proc().descriptors();
    for first in [
        "GET /k HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n",
        "GET /k HTT\x05/1.1\r\nHost: t\r\n\r\n",
    ] {
        for _ in 0..5 {
            let mut connection = server.connect();
            connection.send([first, &put_head("k", 1 << 20), "the beginning"].concat());
            connection.rest();
        }
    }
    eventually("the descriptors are back", || {
        // The connections to a store stay.
        let are_back = server.proc().descriptors() <= before;
        server.connections() == 0 && (is_s3() || are_back)
    });
}

#[test]
fn more_slow_large_uploads_than_there_are_pipes_all_arrive() {
    const UPLOADS: usize = 80;
    directory_only!("bodies between sockets and files");
    let server = TestServer::start(&[]);
    let value = pattern(7, LARGE + 12_345);
    let half = value.len() / 2;
    let begin = |n: usize| {
        let mut connection = server.connect();
        connection.send(put_head(&format!("k{n}"), value.len()));
        connection.send(&value[..half]);
        connection
    };
    let mut uploads: Vec<Raw> = (0..UPLOADS).map(begin).collect();
    eventually("all have begun", || server.receiving() == UPLOADS);
    for connection in uploads.iter_mut().rev() {
        connection.send(&value[half..]);
        assert_eq!(connection.answer().status, 200);
    }
    for n in 0..UPLOADS {
        assert!(server.dir.read(format!("k{n}")) == value, "k{n}");
    }
}

#[test]
fn the_bytes_of_a_large_upload_do_not_pass_through_the_process() {
    const SIZE: usize = 16 << 20;
    http1_only!("what is framed passes through the process");
    clear_only!("what is sealed passes through the process");
    directory_only!("bodies between sockets and files");
    for discard in [false, true] {
        let trace = needed!(Trace::with(&[], "the system calls of a large upload"));
        let launch = Launch::new(if discard { &["--discard"] } else { &[] });
        let mut server = trace.around(launch).start();
        server.store("k", vec![b'x'; SIZE]);
        server.stop();
        // The part of the body in the packets of the head is received with it.
        let copies = words("recvfrom read write pwritev pwrite64");
        let mut calls = trace.calls();
        calls.retain(|call| copies.contains(&&*call.name) && !call.args.contains("MSG_TRUNC"));
        let lengths = calls
            .iter()
            .filter_map(|call| call.result.split(' ').next());
        let passed: usize = lengths.filter_map(|len| len.parse::<usize>().ok()).sum();
        let holds = passed < SIZE / 16;
        assert!(holds, "{passed} of {SIZE} bytes, discard: {discard}");
    }
}
