//! Links that take longer than the server has patience for what it has handed to its kernel: however a connection ends,
//! its response arrives whole, or is seen to be cut.

use proptest::prelude::*;

use crate::support::prelude::*;
use crate::support::relay::{Fault, Faults, GOOD, Relay};

/// A link, and the length of the value that passes it.
#[derive(Clone, Copy, Debug)]
struct Link {
    bytes_a_second: usize,
    len: usize,
}

/// What the kernel holds takes longer than a client has to acknowledge the end.
const SLOW: Link = Link {
    bytes_a_second: 400_000,
    len: 3 << 20,
};

/// The kernel takes all of the value at once, and the server has nothing left to send for as long as it is read; so
/// long a value that a client of HTTP/2 makes room meanwhile.
const DAILY: Link = Link {
    bytes_a_second: 36_000,
    len: 1_400_000,
};

/// The life of a certificate: enough for a handshake on a machine that others use, and less than its response takes.
const LIFE: Duration = Duration::from_secs(10);

/// What ends a connection while its response is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Stop,
    IdleTimeout,
    /// Others wait for a connection.
    Shortage,
    /// The client's certificate ends.
    Certificate,
}

impl End {
    const ALL: [Self; 4] = [
        Self::Stop,
        Self::IdleTimeout,
        Self::Shortage,
        Self::Certificate,
    ];

    fn args(self) -> &'static str {
        match self {
            Self::Stop => "--grace-period 10m",
            Self::IdleTimeout => "--idle-timeout 1s",
            Self::Shortage => "--max-connections 3",
            Self::Certificate => "--tls-client-auth allow",
        }
    }
}

/// Reads a value over the `link`, and has `end` happen once `at` bytes have come, and the client pause for `pause`
/// then. With `args`, which are [`End::args`] by themselves.
fn read(
    protocol: Protocol,
    link: Link,
    (end, args): (End, &str),
    (at, pause): (usize, Duration),
) -> (Result<Vec<u8>, Cut>, TestServer) {
    let (authority, clients) = (Authority::new(), Authority::new());
    let ca = clients.file();
    let mut args = [&["--threads", "1"], &words(args)[..]].concat();
    let mut client = authority.client();
    if end == End::Certificate {
        args.extend(["--tls-client-ca", ca.to_str().expect("text")]);
        client = client.with(&clients.issue_for("short", &["t"], LIFE));
    }
    let server = protocol.launch(&authority, &args).start();
    server.dir.place("k", pattern(1, link.len));
    let down = Fault::Trickle(link.bytes_a_second);
    let relay = Relay::to(server.addr, move || Faults { down, ..GOOD });
    let mut others = Vec::new();
    let mut body = Vec::new();
    let got = protocol.get(relay.addr(), &client, "/k", &[]);
    let got = got.and_then(|mut reading| {
        let mut has_ended = false;
        loop {
            if body.len() >= at && !std::mem::replace(&mut has_ended, true) {
                match end {
                    End::Stop => server.signal(Signal::TERM),
                    End::Shortage => {
                        others.extend([(); 4].map(|()| Raw::connect_clear(server.addr)));
                    }
                    End::IdleTimeout | End::Certificate => {}
                }
                thread::sleep(pause); // the client pauses
            }
            match reading.piece()? {
                Some(piece) => body.extend(piece),
                None => return Ok(()),
            }
        }
    });
    (got.map(|()| body), server)
}

/// Has each protocol read a value over the link until `end`.
#[track_caller]
fn assert_whole(link: Link, end: End) {
    thread::scope(|scope| {
        for protocol in Protocol::ALL {
            if end == End::Certificate && !protocol.is_tls {
                continue;
            }
            scope.spawn(move || {
                let at = (link.len / 2, Duration::ZERO);
                let (got, mut server) = read(protocol, link, (end, end.args()), at);
                let len = got.as_ref().map(Vec::len);
                assert_eq!(len, Ok(link.len), "{protocol:?}");
                assert!(got == Ok(pattern(1, link.len)), "{protocol:?}");
                if end == End::Stop {
                    assert_eq!(server.exit(), Some(0), "{protocol:?}");
                }
            });
        }
    });
}

/// Over HTTP/2, 5.6 of 8 MB arrived, and the server called that an end in order.
#[test]
fn a_stop_loses_no_end_of_a_response() {
    assert_whole(SLOW, End::Stop);
}

#[test]
fn an_idle_timeout_loses_no_end_of_a_response() {
    assert_whole(SLOW, End::IdleTimeout);
}

/// A connection whose response is in the kernel looks idle.
#[test]
fn a_shortage_of_connections_loses_no_end_of_a_response() {
    assert_whole(SLOW, End::Shortage);
}

#[test]
fn the_end_of_a_certificate_loses_no_end_of_a_response() {
    let slower = Link {
        bytes_a_second: SLOW.bytes_a_second / 2,
        ..SLOW
    };
    assert_whole(slower, End::Certificate);
}

/// With no option at all, 3.6 of 5 MB arrived over HTTP/2 at 36 KB/s.
#[test]
fn a_link_on_which_the_server_has_long_sent_all_loses_no_end_of_a_response() {
    assert_whole(DAILY, End::IdleTimeout);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scaled(4, 24)))]

    /// At any rate, pause and moment of an end, what arrives is the value, or no whole response; and it is the value
    /// unless the grace period ends.
    #[test]
    fn a_response_is_whole_or_seen_to_be_cut(
        mut protocol in prop::sample::select(Protocol::ALL.to_vec()),
        end in prop::sample::select(End::ALL.to_vec()),
        bytes_a_second in prop_oneof![Just(DAILY.bytes_a_second), SLOW.bytes_a_second..8_000_000_usize],
        at in 0..100_usize,
        pause in 0..1_500_u64,
        grace in prop_oneof![Just("10m"), Just("1s"), Just("3s")],
    ) {
        let len = SLOW.len.min(bytes_a_second * 7);
        let link = Link { bytes_a_second, len };
        protocol.is_tls |= end == End::Certificate;
        let stop = format!("--grace-period {grace}");
        let args = if end == End::Stop { &*stop } else { end.args() };
        let moment = (len / 100 * at, Duration::from_millis(pause));
        let (got, mut server) = read(protocol, link, (end, args), moment);
        if let Ok(body) = &got {
            prop_assert!(*body == pattern(1, len), "{} bytes taken for whole", body.len());
        }
        let may_be_cut = end == End::Stop && grace != "10m";
        prop_assert!(got.is_ok() || may_be_cut, "cut");
        if end == End::Stop {
            prop_assert!(server.exit().is_some());
        }
    }
}
