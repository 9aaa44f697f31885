//! The real binary as a child process: it starts on port 0, both its streams are read, and it is always ended and
//! reaped.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use socket2::{Domain, Socket, Type};

use super::lines::Lines;
use super::s3::Bucket;
use super::stream::{self, Way};
use super::tls::SUITE;
use super::{
    DEADLINE, DataDir, Event, Proc, Raw, Response, Scrape, eventually, in_chunks, is_http2, is_s3,
};

/// `tests/run --tls` sets it: servers of the tests speak TLS.
pub(crate) const TLS: &str = "DATA_SERVER_TLS";

/// The variable that tests inherit: `tests/run --sandbox` runs them all with servers that must give up their rights.
const INHERITED: &str = "DATA_SERVER_SANDBOX";

/// How to start the server: its options, its directory and its wrapper.
#[derive(Default)]
pub struct Launch {
    args: Vec<OsString>,
    dir: Option<DataDir>,
    bucket: Option<Bucket>,
    listen: Option<String>,
    wrapper: Vec<String>,
    env: Vec<(String, OsString)>,
    text_log: bool,
    bare: bool,
    in_the_clear: bool,
    input: Option<OwnedFd>,
    patience: Option<Duration>,
}

impl Launch {
    pub fn new(args: &[&str]) -> Self {
        Self {
            args: args.iter().map(OsString::from).collect(),
            ..Self::default()
        }
    }

    pub fn on(mut self, dir: &DataDir) -> Self {
        self.dir = Some(dir.clone());
        self
    }

    /// Serves the values of this bucket; the directory is for the spool.
    pub fn on_bucket(mut self, bucket: &Bucket) -> Self {
        self.bucket = Some(bucket.clone());
        self
    }

    pub fn listen(mut self, addr: &str) -> Self {
        self.listen = Some(addr.to_owned());
        self
    }

    /// Runs the binary through a command that ends in `exec`, so that the process becomes the server.
    pub fn through(mut self, wrapper: &[&str]) -> Self {
        self.wrapper = wrapper.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// Sets an environment variable; `DATA_SERVER_DIR` takes the place of `--dir`.
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.env.push((name.to_owned(), value.into()));
        self
    }

    pub fn text_log(mut self) -> Self {
        self.text_log = true;
        self
    }

    /// Passes a listening socket as descriptor 3, with `--listen fd:3`.
    pub fn passing(self, socket: &TcpListener) -> Self {
        let mut launch = self.with_third("", socket.try_clone().expect("a descriptor").into());
        launch.listen = Some("fd:3".to_owned());
        launch
    }

    /// The same by the variables of a service manager, without `--listen`.
    pub fn activated_by(self, socket: &TcpListener) -> Self {
        let socket = socket.try_clone().expect("a descriptor").into();
        let mut launch = self.with_third("export LISTEN_PID=$$ LISTEN_FDS=1;", socket);
        launch.listen = Some(String::new());
        launch
    }

    /// Opens `descriptor` as number 3.
    pub fn with_third(mut self, before: &str, descriptor: OwnedFd) -> Self {
        let script = format!("{before} exec \"$@\" 3<&0 0</dev/null");
        self.input = Some(descriptor);
        self.through(&["sh", "-c", &script, "sh"])
    }

    /// Gives only the options of the test, which include the directory and the address.
    pub fn bare(mut self) -> Self {
        self.bare = true;
        self
    }

    /// Listens in the clear, in a run over TLS too: for clients that are other programs.
    pub fn in_the_clear(mut self) -> Self {
        self.in_the_clear = true;
        self
    }

    /// Waits for this long for its end: for what takes its time.
    pub fn ends_within(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// Starts it and waits for the line with its address.
    #[track_caller]
    pub fn start(self) -> TestServer {
        let started = self.start_or_end();
        started.unwrap_or_else(|ended| panic!("does not serve: {}", ended.stderr))
    }

    /// Starts it and waits for the line with its address, or for its end.
    pub fn start_or_end(mut self) -> Result<TestServer, Ended> {
        let (process, dir) = self.spawn();
        let place = process.out.find_map(|line| {
            let (scheme, addr) = line.strip_prefix("listening on ")?.split_once("://")?;
            let is_direct = !scheme.starts_with("proxy+");
            Some((scheme == "https", addr.parse().ok().filter(|_| is_direct)?))
        });
        match place {
            Some((is_sealed, addr)) => {
                let tls = SUITE.as_ref().map(|suite| suite.client.clone());
                let way = Way {
                    tls: tls.filter(|_| is_sealed),
                    http2: is_http2() && !self.bare && (is_sealed || !self.in_the_clear),
                };
                stream::set_way(addr, way);
                Ok(TestServer { process, addr, dir })
            }
            None => Err(process.ended(DEADLINE)),
        }
    }

    /// Starts it and waits for its end.
    #[track_caller]
    pub fn run(mut self) -> Ended {
        self.spawn().0.ended(self.patience.unwrap_or(DEADLINE))
    }

    /// Starts it and kills it after this time, at any point of its start.
    pub fn killed_after(mut self, time: Duration) {
        let (process, _dir) = self.spawn();
        thread::sleep(time);
        drop(process);
    }

    #[track_caller]
    fn spawn(&mut self) -> (Process, DataDir) {
        let dir = self.dir.clone().unwrap_or_else(DataDir::temporary);
        (Process::spawn(self.command(&dir)), dir)
    }

    fn command(&mut self, dir: &DataDir) -> Command {
        let binary = binary();
        let binary = binary.to_str().expect("text");
        let mut words = self.wrapper.iter().map(String::as_str).chain([binary]);
        let mut command = Command::new(words.next().expect("a program"));
        command.args(words);
        command.stdin(self.input.take().map_or_else(Stdio::null, Stdio::from));
        let is_option = |name: &str| {
            name.starts_with("DATA_SERVER_") && name != INHERITED || name.starts_with("AWS_")
        };
        for (name, _) in env::vars_os().filter(|(name, _)| is_option(&name.to_string_lossy())) {
            command.env_remove(name);
        }
        // Tests send `Host: t` or any other name; tests of the rules for names override this.
        command.env("DATA_SERVER_ALLOWED_HOST", "*");
        let has_store = self.bucket.is_some() || dir.bucket().is_some();
        if !has_store && !self.bare {
            // Many tests have small file systems of their own.
            command.env("DATA_SERVER_MIN_FREE", "0");
        }
        let env = self.env.iter().map(|(name, value)| (name, value));
        command.args(&self.args).envs(env);
        if self.bare {
            return command;
        }
        if let Some(bucket) = self.bucket.as_ref().or(dir.bucket()) {
            let given = |name: &str| self.env.iter().any(|(set, _)| set == name);
            let own = bucket.variables().into_iter().chain([bucket.trial()]);
            command.envs(own.filter(|(name, _)| !given(name)));
            command.args(bucket.options());
            command.arg("--spool").arg(dir.path());
        } else if is_s3() {
            panic!("a directory is served: directory_only!");
        } else if !self.env.iter().any(|(name, _)| name == "DATA_SERVER_DIR") {
            command.arg("--dir").arg(dir.path());
        }
        match self.listen.as_deref().unwrap_or("127.0.0.1:0") {
            "" => {}
            listen => match &*SUITE {
                Some(suite) if !self.in_the_clear && !listen.contains("//") => {
                    let is_passed = listen.contains("fd:");
                    let scheme = if is_passed { "https+" } else { "https://" };
                    command.args(["--listen", &format!("{scheme}{listen}")]);
                    command.args(suite.own.options());
                }
                _ => drop(command.args(["--listen", listen])),
            },
        }
        if is_http2() && !self.in_the_clear {
            command.arg("--http2-clear");
        }
        if !self.text_log {
            command.args(["--log-format", "json"]);
        }
        command
    }
}

/// A server of one reactor on this directory, which anybody may write to, with the rights of nobody; `None` where that
/// cannot be had, which is said.
pub fn served_by_nobody(dir: &DataDir, left_out: &str) -> Option<TestServer> {
    served_by_nobody_with(dir, &[], left_out)
}

/// The same with these options.
pub fn served_by_nobody_with(dir: &DataDir, args: &[&str], left_out: &str) -> Option<TestServer> {
    for open in [dir.path(), &dir.outside("")] {
        crate::chmod(open, 0o777);
    }
    let nobody = words("setpriv --reuid=65534 --regid=65534 --clear-groups");
    let launch = Launch::new(&[&["--threads", "1"], args].concat()).on(dir);
    let is_here = crate::is_on_path("setpriv");
    let started = is_here.then(|| launch.through(&nobody).start_or_end().ok());
    let started = started.flatten();
    if started.is_none() {
        crate::left_out(left_out, "another user cannot run the server");
    }
    started
}

/// Options as they are typed, none of which has a space in it.
pub fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// The scheme of what servers of the tests listen on where the test does not say it.
pub fn scheme() -> &'static str {
    if SUITE.is_some() { "https" } else { "http" }
}

/// The server that cargo built for this test. Cargo's own variable for its path is lost on the way through a wrapper
/// that is a script of `sh`, as that of the profile is.
pub fn binary() -> PathBuf {
    let test = env::current_exe().expect("the path of this test");
    let profile = test.ancestors().nth(2);
    profile
        .expect("the directory of the profile")
        .join("data-server")
}

/// A socket as a service manager holds it: it listens for the whole test.
#[track_caller]
pub fn held_socket() -> TcpListener {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    socket.bind(&any.into()).expect("a port");
    socket.listen(1024).expect("a queue");
    socket.into()
}

/// How a server ended that did not start.
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// Asserts that it ended with this code and this reason, before it said that it listens.
    #[track_caller]
    pub fn says(&self, code: i32, why: &str) {
        let ended = (self.code, &*self.stdout);
        assert_eq!(ended, (Some(code), ""), "{}", self.stderr);
        assert!(self.stderr.contains(why), "{why}: {}", self.stderr);
    }

    /// What it printed, after which it has ended without a fault.
    #[track_caller]
    pub fn printed(&self) -> &str {
        assert_eq!((self.code, &*self.stderr), (Some(0), ""));
        self.stdout.trim_end()
    }
}

/// A serving server.
pub struct TestServer {
    process: Process,
    pub addr: SocketAddr,
    pub dir: DataDir,
}

impl TestServer {
    #[track_caller]
    pub fn start(args: &[&str]) -> Self {
        Launch::new(args).start()
    }

    /// A server of a directory; `None` where the engine is an S3 store, which says why the test is left out.
    #[track_caller]
    pub fn of_directory(why: &str, args: &[&str]) -> Option<Self> {
        if is_s3() {
            crate::left_out(&crate::this_test(), &format!("directory only: {why}"));
            return None;
        }
        Some(Self::start(args))
    }

    pub fn proc(&self) -> Proc {
        Proc(self.process.child.id())
    }

    /// The command by which it rereads its files.
    pub fn reload(&self) -> Launch {
        Launch::new(&["reload", &self.proc().0.to_string()]).bare()
    }

    pub fn connect(&self) -> Raw {
        Raw::connect(self.addr)
    }

    /// A connection of its own on which a request has begun, with these header lines.
    #[track_caller]
    pub fn begin(&self, method: &str, target: &str, lines: &str) -> Raw {
        let mut raw = self.connect();
        raw.begin(method, target, lines);
        raw
    }

    /// A connection of its own on which a PUT of so many bytes waits for 100 Continue.
    #[track_caller]
    pub fn ask_to_put(&self, key: &str, length: usize, lines: &str) -> Raw {
        let waits = format!("Content-Length: {length}\r\nExpect: 100-continue\r\n{lines}");
        self.begin("PUT", &format!("/{key}"), &waits)
    }

    /// One request on a connection of its own.
    #[track_caller]
    pub fn ask(&self, method: &str, key: &str) -> Response {
        let lines = "Host: t\r\nConnection: close\r\n\r\n";
        self.connect()
            .ask(format!("{method} /{key} HTTP/1.1\r\n{lines}"))
    }

    /// One request on a connection of its own, with these header lines, each ending in CRLF; the answer has its chunks
    /// decoded.
    #[track_caller]
    pub fn request(&self, method: &str, target: &str, lines: &str, body: &[u8]) -> Response {
        crate::ask(&mut self.connect(), method, target, lines, body)
    }

    #[track_caller]
    pub fn get(&self, key: &str) -> Response {
        self.ask("GET", key)
    }

    #[track_caller]
    pub fn put(&self, key: &str, value: impl AsRef<[u8]>) -> Response {
        self.connect().put(key, value)
    }

    /// A PUT in chunks, which may be refused before all of it is sent.
    #[track_caller]
    pub fn put_chunked(&self, key: &str, value: &[u8]) -> Response {
        let mut connection = self.connect();
        let head = format!("PUT /{key} HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
        connection.send(head);
        let _may_be_refused_meanwhile = connection.offer(in_chunks(value, 50_000));
        connection.answer()
    }

    /// Stores a value and asserts 200.
    #[track_caller]
    pub fn store(&self, key: &str, value: impl AsRef<[u8]>) {
        assert_eq!(self.put(key, value).status, 200, "PUT /{key}");
    }

    /// Stores a value under each of these keys, none of which has a space in it.
    #[track_caller]
    pub fn store_each(&self, keys: &str, value: impl AsRef<[u8]>) {
        for key in words(keys) {
            self.store(key, &value);
        }
    }

    /// Stores a value with these header lines, and asserts 200.
    #[track_caller]
    pub fn store_as(&self, key: &str, lines: &str, value: impl AsRef<[u8]>) {
        let put = self.request("PUT", &format!("/{key}"), lines, value.as_ref());
        assert_eq!(put.status, 200, "PUT /{key} {lines}");
    }

    /// Waits until a checkpoint has settled all that its journal has.
    #[track_caller]
    pub fn settle(&self) {
        let unsettled = "data_server_journal_unsettled_bytes";
        let unsettled = || Scrape::of(self.addr).count(unsettled, &[]);
        super::eventually("all is settled", || unsettled() == 0);
    }

    /// The connections of clients that it holds, also where it has connections to a store besides.
    pub fn connections(&self) -> usize {
        let local = format!(":{:04X}", self.addr.port());
        let table = fs::read_to_string("/proc/net/tcp").expect("the sockets");
        let is_held = |line: &&str| {
            let mut columns = line.split_whitespace().skip(1);
            let (from, state) = (columns.next(), columns.nth(1));
            // Not the listener, and with an inode: what is closed has none.
            from.is_some_and(|from| from.ends_with(&local))
                && state != Some("0A")
                && columns.nth(5) != Some("0")
        };
        table.lines().filter(is_held).count()
    }

    /// Connections of clients and uploads under way; to be compared with the count at rest.
    pub fn in_flight(&self) -> usize {
        if self.dir.bucket().is_none() {
            return self.proc().in_flight();
        }
        // An upload is a connection until it is over.
        self.connections()
    }

    /// Uploads under way that have left memory: their temporary files, or what is sent on to the store.
    pub fn receiving(&self) -> usize {
        if self.dir.bucket().is_none() {
            return self.proc().staged();
        }
        let uploads = Scrape::of(self.addr).count("data_server_uploads_in_flight", &[]);
        usize::try_from(uploads).expect("a few")
    }

    /// What the page of readiness answers.
    pub fn ready(&self) -> (u16, String) {
        let answer = self.get("-/ready");
        (answer.status, answer.text())
    }

    /// Whether nothing listens at its address.
    pub fn refuses_connections(&self) -> bool {
        TcpStream::connect_timeout(&self.addr, DEADLINE).is_err()
    }

    /// Sends a signal. After STOP no thread runs any more when this returns: the kernel stops one after the other.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        pidfd_send_signal(&self.process.pidfd, signal).expect("the server takes a signal");
        if signal == Signal::STOP {
            eventually("every thread has stopped", || self.proc().is_stopped());
        }
    }

    /// Waits for the end of the process and of its log; its exit code, or `None` when a signal ended it.
    #[track_caller]
    pub fn exit(&mut self) -> Option<i32> {
        let status = self.process.wait(DEADLINE).expect("the server ends");
        self.process.err.all(); // its last words have been read
        status.code()
    }

    /// Kills it, and waits for its end.
    #[track_caller]
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        assert_eq!(self.exit(), None, "killed");
    }

    /// Drains it and asserts a clean end.
    #[track_caller]
    pub fn stop(&mut self) {
        self.signal(Signal::TERM);
        assert_eq!(self.exit(), Some(0), "exit code after SIGTERM");
    }

    /// The address of `--admin`.
    #[track_caller]
    pub fn admin(&self) -> SocketAddr {
        let found = self.process.err.find_map(|line| {
            let message = Event::parse(line)?.message;
            let addr = message.strip_prefix("admin listening on http://")?;
            addr.parse().ok()
        });
        let addr =
            found.unwrap_or_else(|| panic!("no admin address in {:#?}", self.process.err.so_far()));
        // A server of another test may have had the port.
        stream::set_way(addr, Way::default());
        addr
    }

    /// Waits for an event with this message.
    #[track_caller]
    pub fn event(&self, message: &str) -> Event {
        let is_it = |event: &Event| event.message == message;
        let found = self
            .process
            .err
            .find_map(|line| Event::parse(line).filter(is_it));
        found.unwrap_or_else(|| panic!("no event {message:?} in {:#?}", self.process.err.so_far()))
    }

    /// The events with this message so far.
    pub fn events(&self, message: &str) -> Vec<Event> {
        let lines = self.process.err.so_far();
        let these = lines.iter().filter_map(|line| Event::parse(line));
        these.filter(|event| event.message == message).collect()
    }

    /// The events of this target, such as `access`, that the log has once the server has ended.
    pub fn logged(&self, target: &str) -> Vec<Event> {
        let lines = self.log();
        let these = lines.iter().filter_map(|line| Event::parse(line));
        these.filter(|event| event.target == target).collect()
    }

    /// What the audit log tells of requests, once the server has ended: these fields of each, and `-` for one that it
    /// has not.
    pub fn audited(&self, names: &str) -> Vec<String> {
        let of_requests = self.logged("audit").into_iter();
        let of_requests = of_requests.filter(|event| event.has("peer"));
        let field = |event: &Event, name| {
            if event.has(name) {
                event.field(name)
            } else {
                "-".to_owned()
            }
        };
        let line = |event: Event| {
            words(names)
                .iter()
                .map(|name| field(&event, name))
                .collect()
        };
        of_requests
            .map(line)
            .map(|fields: Vec<_>| fields.join(" "))
            .collect()
    }

    /// Every line on standard error, once the process has ended.
    #[track_caller]
    pub fn log(&self) -> Vec<String> {
        self.process.err.all()
    }

    /// The lines on standard output so far.
    pub fn stdout_so_far(&self) -> Vec<String> {
        self.process.out.so_far()
    }

    /// Every line on standard output, once the process has ended.
    #[track_caller]
    pub fn stdout(&self) -> Vec<String> {
        self.process.out.all()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("its threads: {:#?}", self.proc().whereabouts());
            let log = self.process.err.so_far();
            let last = &log[log.len().saturating_sub(20)..];
            eprintln!("the server's last words: {last:#?}");
        }
    }
}

/// A child that never outlives its owner, addressed by a descriptor, because a process id may be reused.
struct Process {
    child: Child,
    pidfd: OwnedFd,
    out: Arc<Lines>,
    err: Arc<Lines>,
}

impl Process {
    #[track_caller]
    fn spawn(mut command: Command) -> Self {
        crate::tested();
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
        let pidfd = pidfd.expect("a descriptor of the child");
        let out = Lines::collect(child.stdout.take().expect("its standard output"));
        let err = Lines::collect(child.stderr.take().expect("its standard error"));
        Self {
            child,
            pidfd,
            out,
            err,
        }
    }

    /// Waits for its end.
    fn ended(mut self, patience: Duration) -> Ended {
        let status = self.wait(patience);
        Ended {
            code: status.and_then(|status| status.code()),
            stdout: self.out.all().join("\n"),
            stderr: self.err.all().join("\n"),
        }
    }

    fn wait(&mut self, time: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + time;
        let timeout = Timespec::try_from(time).expect("a short time");
        let ended = &mut [PollFd::new(&self.pidfd, PollFlags::IN)];
        poll(ended, Some(&timeout)).expect("a wait for the child");
        loop {
            let status = self.child.try_wait().expect("the state of the child");
            if status.is_some() || Instant::now() >= deadline {
                return status;
            }
            // A tracer learns of the end first, and passes it on some time later.
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
