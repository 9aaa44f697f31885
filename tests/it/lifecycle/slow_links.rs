//! Links that take longer than the server has patience for what it has handed to its kernel: however a connection ends,
//! its response arrives whole, or is seen to be cut.

use proptest::prelude::*;

use crate::support::prelude::*;
use crate::support::relay::{Fault, Faults, GOOD, Relay};

const LEN: usize = 3 << 20;

/// The bytes a second of these links: what the kernel holds takes longer than a client has to acknowledge the end.
const SLOW: usize = 400_000;

/// A way of speaking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Protocol {
    is_http2: bool,
    is_tls: bool,
}

const PROTOCOLS: [Protocol; 4] = [
    Protocol::new(false, false),
    Protocol::new(false, true),
    Protocol::new(true, false),
    Protocol::new(true, true),
];

impl Protocol {
    const fn new(is_http2: bool, is_tls: bool) -> Self {
        Self { is_http2, is_tls }
    }
}

/// A server of one value, behind a slow link.
struct Far {
    server: TestServer,
    link: Relay,
    protocol: Protocol,
    authority: Authority,
}

impl Far {
    fn start(protocol: Protocol, rate: usize, args: &[&str]) -> Self {
        let authority = Authority::new();
        let own = authority.issue("own", &["127.0.0.1"]);
        let args = [&["--threads", "1"], args].concat();
        let server = if protocol.is_tls {
            let args = [&own.options()[..], &args].concat();
            Launch::new(&args).listen("https://127.0.0.1:0").start()
        } else {
            let args = [&args[..], &["--http2-clear"]].concat();
            Launch::new(&args).in_the_clear().start()
        };
        server.dir.place("k", pattern(1, LEN));
        let down = Fault::Trickle(rate);
        let link = Relay::to(server.addr, move || Faults { down, ..GOOD });
        Self {
            server,
            link,
            protocol,
            authority,
        }
    }

    /// Reads the value, and has `meanwhile` done at this byte. `None` where it was cut, and the client saw it.
    fn read(&mut self, at: usize, meanwhile: impl FnOnce(&Self)) -> Option<Vec<u8>> {
        let tls = self.protocol.is_tls.then(|| self.authority.client());
        let addr = self.link.addr();
        let mut next = if self.protocol.is_http2 {
            reads_http2(addr, tls.as_ref())
        } else {
            reads_http1(addr, tls.as_ref())
        };
        let (mut body, mut meanwhile) = (Vec::new(), Some(meanwhile));
        loop {
            if body.len() >= at
                && let Some(meanwhile) = meanwhile.take()
            {
                meanwhile(self);
            }
            match next()? {
                Some(piece) => body.extend(piece),
                None => return Some(body),
            }
        }
    }
}

/// The next piece of a body; none at its end, and no such where it was cut.
type Next = Box<dyn FnMut() -> Option<Option<Vec<u8>>>>;

fn reads_http1(addr: SocketAddr, tls: Option<&TlsClient>) -> Next {
    let mut raw = match tls {
        Some(client) => Raw::connect_tls(addr, client),
        None => Raw::connect_clear(addr),
    };
    raw.send("GET /k HTTP/1.1\r\nHost: t\r\n\r\n");
    let mut left = None;
    Box::new(move || {
        if left.is_none() {
            left = Some(raw.try_head()?.length());
        }
        let rest = left.as_mut()?;
        let len = (16 << 10).min(*rest);
        *rest -= len;
        if len == 0 {
            return Some(None);
        }
        raw.try_take(len).map(Some)
    })
}

fn reads_http2(addr: SocketAddr, tls: Option<&TlsClient>) -> Next {
    let client = Http2::like_a_browser(addr, tls);
    let asked = client.and_then(|mut client| {
        let uri = ["http://t/k", "https://t/k"][usize::from(tls.is_some())];
        let asked = client.ask("GET", uri, &[], true);
        Ok((asked.map_err(std::io::Error::other)?, client))
    });
    let mut asked = asked.ok();
    let mut has_head = false;
    Box::new(move || {
        let (asked, _client) = asked.as_mut()?;
        if !has_head {
            asked.head().ok()?;
            has_head = true;
        }
        let data = asked.data().ok()?;
        Some(data.map(|data| data.to_vec()))
    })
}

/// Has each protocol read the value over a slow link while `meanwhile` happens.
#[track_caller]
fn assert_whole(args: &[&str], meanwhile: impl Fn(&Far) + Sync, stops: bool) {
    thread::scope(|scope| {
        for protocol in PROTOCOLS {
            let meanwhile = &meanwhile;
            scope.spawn(move || {
                let mut far = Far::start(protocol, SLOW, args);
                let body = far.read(LEN / 2, |far| meanwhile(far));
                let len = body.as_ref().map(Vec::len);
                assert_eq!(len, Some(LEN), "{protocol:?}");
                assert!(body == Some(pattern(1, LEN)), "{protocol:?}");
                if stops {
                    assert_eq!(far.server.exit(), Some(0), "{protocol:?}");
                }
            });
        }
    });
}

/// Over HTTP/2, 5.6 of 8 MB arrived, and the server called that an end in order.
#[test]
fn a_stop_loses_no_end_of_a_response() {
    let args = ["--grace-period", "10m"];
    assert_whole(&args, |far| far.server.signal(Signal::TERM), true);
}

#[test]
fn an_idle_timeout_loses_no_end_of_a_response() {
    assert_whole(&["--idle-timeout", "1s"], |_| {}, false);
}

/// A connection whose response is in the kernel looks idle.
#[test]
fn a_shortage_of_connections_loses_no_end_of_a_response() {
    let others = Mutex::new(Vec::new());
    let come = |far: &Far| {
        let more = [(); 4].map(|()| Raw::connect_clear(far.server.addr));
        others.lock().expect("a list").extend(more);
    };
    assert_whole(&["--max-connections", "3"], come, false);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(scaled(4, 16)))]

    /// A second signal, a grace period that ends, and a stop at any byte: what arrives is the value, or no whole
    /// response.
    #[test]
    fn a_response_is_whole_or_seen_to_be_cut(
        nth in 0..PROTOCOLS.len(),
        rate in 400_000..8_000_000_usize,
        at in 0..LEN,
        pause in 0..1_500_u64,
        grace in prop_oneof![Just("10m"), Just("1s"), Just("3s")],
    ) {
        let protocol = PROTOCOLS[nth];
        let mut far = Far::start(protocol, rate, &["--grace-period", grace]);
        let body = far.read(at, |far| {
            far.server.signal(Signal::TERM);
            thread::sleep(Duration::from_millis(pause)); // the client pauses
        });
        if let Some(body) = &body {
            prop_assert!(*body == pattern(1, LEN), "{} bytes taken for whole", body.len());
        }
        prop_assert!(body.is_some() || grace != "10m", "cut within the grace period");
        let status = far.server.exit();
        prop_assert!(status.is_some());
    }
}
