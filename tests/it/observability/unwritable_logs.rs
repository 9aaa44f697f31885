//! Logs that cannot be written: a full disk, `/dev/full`, a reader that is gone or has stopped, no standard error. Each
//! of them ended or blocked the server. Now every request is answered, lost lines are counted, and SIGTERM leads to
//! exit code 0.

use std::io::PipeReader;
use std::sync::mpsc;

use crate::support::prelude::*;

/// Each of many refused uploads had a line, and others were lost for want of room.
#[test]
fn a_client_causes_one_line_of_a_kind_in_a_second() {
    directory_only!("a bound on uploads");
    let server = TestServer::start(&["--threads", "1", "--max-uploads-per-client", "1"]);
    let began = Instant::now();
    let mut connection = server.connect();
    let lines = "Upload-Complete: ?0\r\n";
    let lines = &format!("{lines}Content-Length: 0\r\n");
    let mut upload = || ask(&mut connection, "POST", "/key", lines, b"").status;
    assert_eq!(upload(), 201);
    for _ in 0..100 {
        assert_eq!(upload(), 503);
    }
    let told = || server.events("out of resources");
    let most = 1 + began.elapsed().as_secs();
    eventually("it is told", || !told().is_empty());
    assert!(told().len() as u64 <= most, "{:?}", told());
    // It tells whose request was refused.
    let [first, ..] = &told()[..] else { return };
    assert_eq!(first.field("key"), "/key");
    assert_eq!(first.field("size"), "0");
    assert!(first.field("peer").contains("127.0.0.1"));
    eventually("those left out are counted", || {
        upload();
        let told = told();
        let left_out = told
            .iter()
            .map(|event| event.field("left_out").parse::<u64>().expect("a number"));
        left_out.sum::<u64>() >= 99
    });
}

const OPTIONS: [&str; 3] = ["--access-log", "--threads", "2"];
const CLIENTS: usize = 4;
const REQUESTS: usize = 500;

/// The line that says how many lines were lost.
const REPORT: &str = "log lines were lost";

/// Starts the server with its standard error redirected by the shell.
fn redirected(args: &[&str], redirection: &str) -> Launch {
    let script = format!("exec \"$@\" {redirection}");
    Launch::new(args).through(&["sh", "-c", &script, "sh"])
}

/// Starts the server with standard error on a pipe, and returns the end to read from.
fn piped(nonblocking: bool) -> (TestServer, PipeReader) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    rustix::io::ioctl_fionbio(&writer, nonblocking).expect("a pipe that may not block");
    let launch = Launch::new(&OPTIONS).with_third("exec 2>&0;", writer.into());
    (launch.start(), reader)
}

/// Sends requests for targets of this many bytes on several connections, and checks the server's health meanwhile: all
/// are answered. Returns how many requests it sent.
fn load(server: &TestServer, length: usize) -> usize {
    let target = "k".repeat(length);
    let client = || {
        let mut connection = server.connect();
        let mut sent = 0;
        for n in 0..REQUESTS {
            let answer = connection.get(&target);
            let is_right = matches!(answer.status, 404 | 414);
            assert!(is_right, "request {n}: {answer:?}");
            sent += 1;
            if n % 25 == 0 {
                let health = connection.get("-/healthz");
                assert_eq!(health.status, 200, "health after request {n}");
                sent += 1;
            }
        }
        sent
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        let sent = clients.into_iter().map(|c| c.join().expect("a client"));
        sent.sum()
    })
}

fn lost(server: &TestServer) -> u64 {
    Scrape::of(server.addr).count("data_server_log_lines_lost_total", &[])
}

/// Requests with a line in this log, and the lost lines that it reports.
fn told(log: &str) -> (u64, u64) {
    let events: Vec<Event> = log.lines().filter_map(Event::parse).collect();
    let access = events.iter().filter(|event| event.target == "access");
    let reports = events.iter().filter(|event| event.message == REPORT);
    let lost = reports.map(|report| report.number("lost")).sum();
    (access.count() as u64, lost)
}

#[test]
fn a_standard_error_that_takes_nothing_fails_no_request() {
    for redirection in ["2>/dev/full", "2>&-"] {
        let mut server = redirected(&OPTIONS, redirection).start();
        let sent = load(&server, 1) as u64;
        // Lines that come without rest are written, or lost, a little later.
        eventually("every line is lost", || {
            redirection == "2>&-" || lost(&server) >= sent
        });
        server.stop();
    }
}

#[test]
fn an_access_log_on_a_full_disk_recovers_with_space() {
    let mount = needed!(Mount::tmpfs("size=4m", "an access log on a full disk"));
    let log = mount.dir().path().to_owned();
    let filler = log.with_file_name("filler");
    let mut server = redirected(&OPTIONS, &format!("2>>{}", log.display())).start();
    let mut file = File::create(&filler).expect("a file");
    while file.write_all(&[0; 4096]).is_ok() {}
    let full = file.metadata().expect("its size").len();
    file.set_len(full - 64 * 1024).expect("a little room");

    let mut sent = load(&server, 1) as u64;
    let without_room = lost(&server);
    assert!(without_room > 0, "nothing was lost of {sent} lines");
    fs::remove_file(&filler).expect("room again");
    drop(file);
    sent += load(&server, 1) as u64;
    server.stop();

    let (logged, reported) = told(&fs::read_to_string(&log).expect("the log"));
    // The look at the metric is a request too.
    let found = logged + reported;
    assert_eq!(found, sent + 1, "{reported} lines reported lost");
    assert!(reported >= without_room, "{reported} of {without_room}");
}

/// The reader closes the pipe before the first line, or amid the lines: the next one once ended the server.
#[test]
fn a_closed_pipe_fails_no_request_and_keeps_the_exit_code_of_a_drain() {
    for nonblocking in [false, true] {
        let (mut server, reader) = piped(nonblocking);
        load(&server, 1);
        drop(reader);
        load(&server, 1);
        assert!(lost(&server) > 0, "nothing was lost");
        server.stop();
    }
    let (mut server, reader) = piped(false);
    drop(reader);
    server.stop();
}

#[test]
fn a_stopped_log_reader_stops_no_request_and_no_end_and_losses_are_logged() {
    let (mut server, reader) = piped(false);
    load(&server, 4096);
    server.stop();
    drop(reader);
    for nonblocking in [false, true] {
        let (mut server, reader) = piped(nonblocking);
        let sent = load(&server, 4096) as u64;
        let without_reader = lost(&server);
        assert!(without_reader > 0, "nothing was lost of {sent} lines");
        let (saw_report, report_seen) = mpsc::channel();
        let reading = thread::spawn(move || {
            let mut log = String::new();
            for line in BufReader::new(reader).lines() {
                let line = line.expect("text") + "\n";
                if line.contains(REPORT) {
                    let _ = saw_report.send(());
                }
                log += &line;
            }
            log
        });
        report_seen.recv_timeout(DEADLINE).expect("a report");
        server.stop();
        let (logged, reported) = told(&reading.join().expect("the log"));
        // The look at the metric is a request too.
        let found = logged + reported;
        assert_eq!(found, sent + 1, "{reported} lines reported lost");
        assert!(reported >= without_reader, "{reported} of {without_reader}");
    }
}

#[test]
fn the_log_is_flushed_in_order_at_the_exit() {
    const LINES: usize = 3000;
    let mut server = TestServer::start(&OPTIONS);
    let mut connection = server.connect();
    for n in 0..LINES {
        assert_eq!(connection.get(&n.to_string()).status, 404);
    }
    server.stop();
    let events = server.log();
    let events: Vec<Event> = events.iter().filter_map(|l| Event::parse(l)).collect();
    let access = events.iter().filter(|event| event.target == "access");
    let keys: Vec<String> = access.map(|event| event.field("key")).collect();
    let expected: Vec<String> = (0..LINES).map(|n| format!("/{n}")).collect();
    let is_right = keys == expected;
    assert!(is_right, "{} of {LINES} lines, in order", keys.len());
    assert_eq!(events.last().expect("events").message, "drained");
}

/// A panic is a line of the log too. The panic hook wrote it, and a failure in the hook aborts the process.
#[test]
fn a_panic_whose_line_cannot_be_written_costs_one_request() {
    let server = redirected(&OPTIONS, "2>/dev/full");
    let mut server = server.env("DATA_SERVER_PANIC", "answer:/panic").start();
    for _ in 0..3 {
        assert_eq!(server.get("panic").status, 500);
    }
    eventually("the lines are counted", || lost(&server) >= 3);
    assert_eq!(server.get("gone").status, 404);
    server.stop();
}

#[test]
fn an_error_message_that_cannot_be_written_keeps_the_exit_code() {
    directory_only!("hands in the directory");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = taken.local_addr().expect("its address").to_string();
    let dir = DataDir::temporary();
    dir.place("file", "not a directory");
    let first = TestServer::start(&[]);
    for redirection in ["2>/dev/full", "2>&-"] {
        let start = |args: &[&str]| redirected(args, redirection);
        let codes = [
            start(&["--no-such-option"]).run().code,
            start(&["--allowed-host", "http://a"]).run().code,
            start(&[]).on(&first.dir).run().code,
            start(&[]).listen(&addr).run().code,
            start(&[]).on(&DataDir::at(dir.file("file"))).run().code,
        ];
        assert_eq!(codes, [2, 2, 3, 4, 1].map(Some), "{redirection}");
    }
}
