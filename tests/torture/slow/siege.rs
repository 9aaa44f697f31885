//! A siege: slow connections of several kinds, held and opened again, and what the server did about them.

use std::io::{ErrorKind, Read, Write};

use socket2::{Domain, Socket, Type};

use crate::scale::scaled;
use crate::support::prelude::*;

/// What a slow connection may cost, in bytes of the server's memory.
const MOST_EACH: u64 = 16 << 10;

/// What is allowed over a limit: a tick of the server's watch, a pass of this harness, and a busy machine.
const SLACK: Duration = Duration::from_secs(4);

/// A rate is averaged over 10 s, twice at worst: what came at once counts for the first window.
const RATE_LIMIT: Duration = Duration::from_secs(21);

/// How often each slow connection does a little.
fn pass_time() -> Duration {
    scaled(Duration::from_millis(500), Duration::from_secs(2))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Head,
    SmallBody,
    LargeBody,
    Reader,
}

impl Kind {
    fn opening(self) -> Vec<u8> {
        let put = |len| (put_head("slow", len) + "x").into_bytes();
        match self {
            Self::Head => b"GET /here HTTP/1.1\r\nHost: t\r\nX-Slow: ".to_vec(),
            Self::SmallBody => put(10_000),
            Self::LargeBody => put(200_000),
            Self::Reader => b"GET /large HTTP/1.1\r\nHost: t\r\n\r\n".to_vec(),
        }
    }
}

/// Who besieges, with how many, and what the server has promised them.
pub(super) struct Plan {
    pub(super) kinds: &'static [Kind],
    pub(super) connections: usize,
    pub(super) header_limit: Duration,
}

impl Plan {
    fn limit(&self, kind: Kind) -> Duration {
        match kind {
            Kind::Head => self.header_limit,
            _ => RATE_LIMIT,
        }
    }

    fn longest_limit(&self) -> Duration {
        let limits = self.kinds.iter().map(|&kind| self.limit(kind));
        limits.max().unwrap_or_default()
    }
}

struct Slow {
    kind: Kind,
    stream: TcpStream,
    opened: Instant,
    /// When it was last seen open.
    seen: Instant,
}

impl Slow {
    fn open(addr: SocketAddr, kind: Kind, number: usize) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        // Some thousand for each address: one has not enough ports for all.
        let host = u8::try_from(2 + number % 8).expect("a small number");
        let source = SocketAddr::from(([127, 0, 0, host], 0));
        socket.bind(&source.into()).expect("an address");
        socket.set_recv_buffer_size(4096).expect("a small buffer");
        socket
            .connect_timeout(&addr.into(), DEADLINE)
            .expect("a connection");
        let mut stream: TcpStream = socket.into();
        stream.write_all(&kind.opening()).expect("room for a head");
        stream.set_nonblocking(true).expect("no waiting");
        Self {
            kind,
            stream,
            opened: Instant::now(),
            seen: Instant::now(),
        }
    }

    /// Does a little; false once the server has closed. Of a reader that cannot be seen: what was on its way still comes.
    fn go_on(&mut self) -> bool {
        // A reader takes little at a time; of the others, an answer is read to its end.
        let mut buffer = [0; 1024];
        let most = if self.kind == Kind::Reader { 64 } else { 1024 };
        loop {
            match self.stream.read(&mut buffer[..most]) {
                Ok(0) => return false,
                Ok(_) if self.kind == Kind::Reader => return true,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
        }
        self.kind == Kind::Reader || self.stream.write(b"x").is_ok()
    }
}

/// What became of a siege.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) opened: usize,
    /// Closed by the server while this end could see it: all but readers.
    pub(super) closed: usize,
    early: Vec<String>,
    /// How long the longest of each kind was seen to live: this harness may be slow to see an end.
    longest: Vec<(Kind, Duration)>,
    /// How much longer than it should have this harness took: a busy machine delays the server as well.
    stretch: f64,
    /// The most connections the server had open, and those it still had when all limits were over.
    most: usize,
    left: usize,
    /// Memory for each, in bytes, once all were there.
    pub(super) each: u64,
}

impl Report {
    pub(super) fn judge(&self, plan: &Plan) -> Result<(), String> {
        let most = plan.connections + plan.connections / 50 + 8;
        for (fault, is_fault) in [
            (format!("late: {:?}", self.longest), self.is_late(plan)),
            (format!("early: {:?}", self.early), !self.early.is_empty()),
            (format!("{} were not closed", self.left), self.left > 0),
            (format!("{} open at once", self.most), self.most > most),
            (format!("{} bytes each", self.each), self.each > MOST_EACH),
        ] {
            if is_fault {
                return Err(fault);
            }
        }
        Ok(())
    }

    fn is_late(&self, plan: &Plan) -> bool {
        let limit = |kind| plan.limit(kind).mul_f64(self.stretch.max(1.0)) + SLACK;
        let mut these = self.longest.iter();
        these.any(|&(kind, lived)| lived > limit(kind))
    }
}

struct Siege<'a> {
    server: &'a TestServer,
    plan: &'a Plan,
    at_rest: usize,
    /// The server's memory before, in KiB.
    before: u64,
    held: Vec<Slow>,
    /// Readers whose time is over; kept, so that the server's end is not closed by this one.
    spent: Vec<Slow>,
    report: Report,
}

impl<'a> Siege<'a> {
    /// Opens all connections, and measures what they cost.
    fn lay(server: &'a TestServer, plan: &'a Plan) -> Self {
        let at_rest = server.proc().sockets();
        let before = server.proc().rss_kib();
        let mut siege = Self {
            server,
            plan,
            at_rest,
            before,
            held: Vec::with_capacity(plan.connections),
            spent: Vec::new(),
            report: Report::default(),
        };
        for number in 0..plan.connections {
            siege.open(plan.kinds[number % plan.kinds.len()]);
        }
        eventually("all slow connections are held", || {
            siege.open_now() >= plan.connections
        });
        for slow in &mut siege.held {
            assert!(slow.go_on(), "a {:?} was closed at once", slow.kind);
        }
        // What the server does with the last of them takes a moment.
        for _ in 0..4 {
            thread::sleep(Duration::from_millis(500));
            siege.report.each = siege.report.each.max(siege.grown());
        }
        siege
    }

    fn open(&mut self, kind: Kind) {
        let slow = Slow::open(self.server.addr, kind, self.report.opened);
        self.held.push(slow);
        self.report.opened += 1;
    }

    /// The memory that the server has taken for each connection that is open, in bytes.
    fn grown(&self) -> u64 {
        let grown = self.server.proc().rss_kib().saturating_sub(self.before);
        grown * 1024 / self.open_now().max(self.plan.connections) as u64
    }

    /// Slow connections that the server has open.
    fn open_now(&self) -> usize {
        self.server.proc().sockets().saturating_sub(self.at_rest)
    }

    /// Holds on until it is `over`, then until the server has closed them all or had time to.
    fn hold(mut self, over: &Done) -> Report {
        let (start, mut passes) = (Instant::now(), 0);
        let mut over_since = None;
        loop {
            thread::sleep(pass_time());
            passes += 1;
            if over.is_said() {
                over_since.get_or_insert_with(Instant::now);
            }
            let should = pass_time() * passes;
            self.report.stretch = start.elapsed().as_secs_f64() / should.as_secs_f64();
            let closed = self.pass();
            if over_since.is_none() {
                for kind in closed {
                    self.open(kind);
                }
            }
            let open = self.open_now();
            self.report.most = self.report.most.max(open);
            self.report.each = self.report.each.max(self.grown());
            let limit = self.plan.longest_limit() * 2 + SLACK;
            if over_since.is_some_and(|since| open == 0 || since.elapsed() > limit) {
                self.report.left = open;
                return self.report;
            }
        }
    }

    /// Has each do a little; the kinds of those that were closed, or, of readers, must have been.
    fn pass(&mut self) -> Vec<Kind> {
        let mut closed = Vec::new();
        let mut at = 0;
        while at < self.held.len() {
            let slow = &mut self.held[at];
            let (goes_on, lived) = (slow.go_on(), slow.opened.elapsed());
            let (kind, limit) = (slow.kind, self.plan.limit(slow.kind));
            let may_be_kept = self.spent.len() < self.plan.connections * 8 / 10;
            // Half as long again as the limit: a server that the machine delays must have had its time too.
            let must_have_ended =
                lived > (limit * 3 / 2).mul_f64(self.report.stretch.max(1.0)) + SLACK;
            let is_spent = kind == Kind::Reader && must_have_ended && may_be_kept;
            if goes_on && !is_spent {
                slow.seen = Instant::now();
                at += 1;
                continue;
            }
            let slow = self.held.swap_remove(at);
            closed.push(kind);
            if kind == Kind::Reader {
                self.spent.push(slow);
                continue;
            }
            self.report.closed += 1;
            let shortest = limit.min(Duration::from_secs(10)) * 9 / 10;
            if lived < shortest {
                self.report.early.push(format!("{kind:?} after {lived:?}"));
            }
            let seen = slow.seen - slow.opened;
            match self.report.longest.iter_mut().find(|(k, _)| *k == kind) {
                Some((_, longest)) => *longest = seen.max(*longest),
                None => self.report.longest.push((kind, seen)),
            }
        }
        closed
    }
}

/// Besieges `server` for as long as `meanwhile` takes, and until all limits are over.
pub(super) fn besiege(server: &TestServer, plan: &Plan, meanwhile: impl FnOnce()) -> Report {
    let over = Done::default();
    let siege = Siege::lay(server, plan);
    thread::scope(|scope| {
        let holding = scope.spawn(|| siege.hold(&over));
        {
            let _over = over.when_dropped();
            meanwhile();
        }
        holding.join().expect("the siege")
    })
}

type Change = fn(&mut Report);

/// The harness is shown to fail.
#[test]
fn each_fault_of_a_siege_is_found_out() {
    let plan = Plan {
        kinds: &[Kind::Head],
        connections: 40,
        header_limit: Duration::from_secs(1),
    };
    let sound = || Report {
        longest: vec![(Kind::Head, Duration::from_secs(5))],
        each: MOST_EACH,
        most: 48,
        ..Report::default()
    };
    assert_eq!(sound().judge(&plan), Ok(()));
    let faults: [(&str, Change); 5] = [
        ("late", |r| r.longest[0].1 = Duration::from_secs(6)),
        ("early", |r| r.early.push(String::new())),
        ("40 were not closed", |r| r.left = 40),
        ("49 open at once", |r| r.most = 49),
        ("16385 bytes each", |r| r.each = MOST_EACH + 1),
    ];
    for (fault, change) in faults {
        let mut report = sound();
        change(&mut report);
        let found = report.judge(&plan).expect_err(fault);
        assert!(found.starts_with(fault), "{found}");
    }
}
