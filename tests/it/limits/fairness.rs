//! Proves that one large download does not occupy a reactor: other clients are answered meanwhile.

use crate::support::prelude::*;

const SIZE: usize = 40_000_000;
/// Bytes of a file that may be sent between two polls of the other sockets: well under a millisecond of copying.
const TURN: u64 = 2 << 20;

fn download(connection: &mut Raw) {
    connection.send(get_head("large"));
    assert_eq!(connection.head().length(), SIZE);
    let got = connection.stream_to(SIZE, &mut vec![0; 1 << 20], |_| {});
    assert_eq!(got, SIZE);
}

/// In every mode, whatever sends the bytes. How many come depends on the machine: of two, one may be of before a
/// download and one of after.
#[test]
fn small_answers_come_while_a_large_one_is_sent() {
    let server = TestServer::start(&["--threads", "1"]);
    server.dir.place("large", pattern(1, SIZE));
    server.dir.place("small", "value");
    // What the reactor answers itself: how fast a store is, is not the matter.
    let (method, status) = by_engine(("GET", 200), ("OPTIONS", 204));
    let (answers, done) = (AtomicU64::new(0), Done::default());
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut connection = server.connect();
            while !done.is_said() {
                let got = ask(&mut connection, method, "/small", "", b"").status;
                assert_eq!(got, status);
                answers.fetch_add(1, Ordering::AcqRel);
            }
        });
        let _saying = done.when_dropped();
        let mut connection = server.connect();
        eventually("answers come", || answers.load(Ordering::Acquire) > 0);
        for _ in 0..2 {
            let before = answers.load(Ordering::Acquire);
            download(&mut connection);
            let meanwhile = answers.load(Ordering::Acquire) - before;
            assert!(meanwhile > 2, "{meanwhile} answers during a download");
        }
    });
}

/// sendfile from a file, or splice from a pipe, to a socket.
fn is_sending(call: &Call) -> bool {
    let to_socket = call.args.split(',').nth(2);
    let to_socket = to_socket.is_some_and(|to| to.contains("<socket:"));
    call.name == "sendfile" || (call.name == "splice" && to_socket)
}

/// Counted in bytes: also with a fast reader, the reactor polls its other sockets again and again.
#[test]
fn a_reactor_looks_at_its_other_sockets_during_a_download() {
    plain_only!("its system calls");
    directory_only!("bodies between sockets and files");
    let left_out = "what a reactor sends between two looks at its sockets";
    let calls = "trace=sendfile,splice,epoll_wait,epoll_pwait";
    let trace = needed!(Trace::with(&["-e", calls], left_out));
    let mut server = trace.around(Launch::new(&["--threads", "1"])).start();
    server.dir.place("large", pattern(1, SIZE));
    let mut connection = server.connect();
    for _ in 0..3 {
        download(&mut connection);
    }
    drop(connection);
    server.stop();
    let (mut turn, mut longest, mut all) = (0, 0, 0);
    for call in trace.calls() {
        if is_sending(&call) {
            let sent = call.result.parse().unwrap_or(0);
            (turn, all) = (turn + sent, all + sent);
            longest = longest.max(turn);
        } else if call.name.starts_with("epoll") {
            turn = 0;
        }
    }
    eprintln!("sent between two looks at the sockets: at most {longest} bytes");
    assert_eq!(all, 3 * SIZE as u64, "or this tests nothing");
    let is_right = longest <= TURN;
    assert!(is_right, "{longest} bytes of one download at a stretch");
}
