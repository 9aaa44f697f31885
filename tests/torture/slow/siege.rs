//! A siege: slow connections of several kinds, held and opened again, and what the server did about them.

use std::io::{ErrorKind, Read, Write};

use socket2::{Domain, Socket, Type};

use crate::prelude::*;

/// What a slow connection may cost, in bytes of the server's memory.
const MOST_EACH: u64 = 16 << 10;

/// What is allowed over a limit: two ticks of the server's watch, a pass of this harness, and what is no [`Pulse`]
/// late.
const SLACK: Duration = Duration::from_secs(4);

/// `--body-timeout` (10 s), and the time that the few bytes moved give back.
const BODY_LIMIT: Duration = Duration::from_secs(12);

/// How often each slow connection does a little.
fn pass_time() -> Duration {
    scaled(Duration::from_millis(500), Duration::from_secs(2))
}

/// How often each reactor is asked for a small value, and how late an answer may be that is no stall.
const PULSE: Duration = Duration::from_millis(50);

/// How long a reactor has stood still in all, by its answers: nothing is closed meanwhile, and the server counts no
/// time of a body.
#[derive(Default)]
struct Pulse {
    stood: Duration,
    asked: Option<Instant>,
}

impl Pulse {
    fn stood(&self) -> Duration {
        let waits = self.asked.map_or(Duration::ZERO, |asked| asked.elapsed());
        self.stood + waits.saturating_sub(PULSE)
    }

    fn beat(this: &Mutex<Self>, client: &mut Raw) {
        let pulse = || this.lock().expect("no panic under the lock");
        pulse().asked = Some(Instant::now());
        let answer = client.ask("GET /here HTTP/1.1\r\nHost: t\r\n\r\n");
        assert_eq!(answer.status, 200);
        let mut pulse = pulse();
        pulse.stood = pulse.stood();
        pulse.asked = None;
    }
}

/// Those of both reactors: connections go to them in turn.
#[derive(Default)]
struct Pulses([Mutex<Pulse>; 2]);

impl Pulses {
    fn stood(&self) -> [Duration; 2] {
        let stood = |pulse: &Mutex<Pulse>| pulse.lock().expect("no panic under the lock").stood();
        self.0.each_ref().map(stood)
    }

    /// The longest that a reactor has stood still since.
    fn stood_since(&self, before: [Duration; 2]) -> Duration {
        let [one, other] = self.stood();
        let since = one.saturating_sub(before[0]);
        since.max(other.saturating_sub(before[1]))
    }
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
            _ => BODY_LIMIT,
        }
    }

    /// How many the server may have open: those that are held, and some that have just ended.
    fn most(&self) -> usize {
        self.connections + self.connections / 50 + 8
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
    /// How long the reactors had stood still by then.
    stood: [Duration; 2],
    /// How long it was seen to live, without the time that the server stood still.
    lived: Duration,
}

impl Slow {
    fn open(addr: SocketAddr, kind: Kind, number: usize, stood: [Duration; 2]) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        // Some thousand for each address: one has not enough ports for all.
        let host = u8::try_from(2 + number % 8).expect("a small number");
        let source = SocketAddr::from(([127, 0, 0, host], 0));
        socket.bind(&source.into()).expect("an address");
        socket.set_recv_buffer_size(4096).expect("a small buffer");
        let connected = socket.connect_timeout(&addr.into(), DEADLINE);
        connected.expect("a connection");
        let mut stream: TcpStream = socket.into();
        stream.write_all(&kind.opening()).expect("room for a head");
        stream.set_nonblocking(true).expect("no waiting");
        Self {
            kind,
            stream,
            opened: Instant::now(),
            stood,
            lived: Duration::ZERO,
        }
    }

    /// Does a little; false once the server has closed. Of a reader that cannot be seen: what was on its way still
    /// comes.
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
    /// The most connections the server had open, and those it still had when all limits were over.
    most: usize,
    left: usize,
    /// Memory for each, in bytes, once all were there.
    pub(super) each: u64,
}

impl Report {
    pub(super) fn judge(&self, plan: &Plan) -> Result<(), String> {
        let most = plan.most();
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
        let mut these = self.longest.iter();
        these.any(|&(kind, lived)| lived > plan.limit(kind) + SLACK)
    }
}

struct Siege<'a> {
    server: &'a TestServer,
    plan: &'a Plan,
    pulses: &'a Pulses,
    at_rest: usize,
    /// The server's memory before, in KiB.
    before: u64,
    /// The most connections that the server had open in any moment: a heap keeps what they needed.
    peak: usize,
    held: Vec<Slow>,
    /// Readers whose time is over; kept, so that the server's end is not closed by this one.
    spent: Vec<Slow>,
    report: Report,
}

impl<'a> Siege<'a> {
    /// Opens all connections, and measures what they cost.
    fn lay(server: &'a TestServer, plan: &'a Plan, pulses: &'a Pulses) -> Self {
        let at_rest = server.proc().sockets();
        let before = server.proc().anonymous_kib();
        let mut siege = Self {
            server,
            plan,
            pulses,
            at_rest,
            before,
            peak: plan.connections,
            held: Vec::with_capacity(plan.connections),
            spent: Vec::new(),
            report: Report::default(),
        };
        for number in 0..plan.connections {
            siege.open(plan.kinds[number % plan.kinds.len()]);
        }
        let come = || siege.open_now() >= plan.connections;
        eventually("all slow connections are held", come);
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
        let (number, stood) = (self.report.opened, self.pulses.stood());
        let slow = Slow::open(self.server.addr, kind, number, stood);
        self.held.push(slow);
        self.report.opened += 1;
    }

    /// The memory that the server has taken for each connection, in bytes.
    fn grown(&self) -> u64 {
        let now = self.server.proc().anonymous_kib();
        let grown = now.saturating_sub(self.before);
        grown * 1024 / self.peak as u64
    }

    /// The same, once the server had time to let go of those that have ended: others take their place at once.
    fn open_at_last(&self) -> usize {
        within(SLACK, || self.open_now() <= self.plan.most());
        self.open_now()
    }

    /// Slow connections that the server has open.
    fn open_now(&self) -> usize {
        self.server.proc().sockets().saturating_sub(self.at_rest)
    }

    /// Holds on until it is `over`, then until the server has closed them all or had time to.
    fn hold(mut self, over: &Done) -> Report {
        let mut over_since = None;
        loop {
            thread::sleep(pass_time());
            if over.is_said() {
                over_since.get_or_insert_with(|| (Instant::now(), self.pulses.stood()));
            }
            let closed = self.pass();
            if over_since.is_none() {
                for kind in closed {
                    self.open(kind);
                }
            }
            let open = self.open_now();
            self.peak = self.peak.max(open);
            self.report.most = self.report.most.max(self.open_at_last());
            self.report.each = self.report.each.max(self.grown());
            let limit = self.plan.longest_limit() * 2 + SLACK;
            if let Some((since, stood)) = over_since
                && (open == 0 || since.elapsed() > limit + self.pulses.stood_since(stood))
            {
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
            let (goes_on, open) = (slow.go_on(), slow.opened.elapsed());
            let (kind, limit) = (slow.kind, self.plan.limit(slow.kind));
            let lived = open.saturating_sub(self.pulses.stood_since(slow.stood));
            let may_be_kept = self.spent.len() < self.plan.connections * 8 / 10;
            // Half as long again as the limit: a server that the machine delays must have had its time too.
            let must_have_ended = lived > limit * 3 / 2 + SLACK;
            let is_spent = kind == Kind::Reader && must_have_ended && may_be_kept;
            if goes_on && !is_spent {
                slow.lived = lived;
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
            if open < shortest {
                self.report.early.push(format!("{kind:?} after {open:?}"));
            }
            match self.report.longest.iter_mut().find(|(k, _)| *k == kind) {
                Some((_, longest)) => *longest = slow.lived.max(*longest),
                None => self.report.longest.push((kind, slow.lived)),
            }
        }
        closed
    }
}

/// Besieges `server` for as long as `meanwhile` takes, and until all limits are over.
pub(super) fn besiege(server: &TestServer, plan: &Plan, meanwhile: impl FnOnce()) -> Report {
    let (over, ended, pulses) = (Done::default(), Done::default(), Pulses::default());
    let mut clients = [server.connect(), server.connect()];
    // They are there before connections are counted.
    let [pulse, other] = &pulses.0;
    Pulse::beat(pulse, &mut clients[0]);
    Pulse::beat(other, &mut clients[1]);
    thread::scope(|scope| {
        let _ended = ended.when_dropped();
        for (pulse, mut client) in pulses.0.iter().zip(clients) {
            let ended = &ended;
            scope.spawn(move || {
                while !ended.is_said() {
                    thread::sleep(PULSE);
                    Pulse::beat(pulse, &mut client);
                }
            });
        }
        let siege = Siege::lay(server, plan, &pulses);
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
