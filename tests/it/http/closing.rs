//! Clients that close, half-close or reset the connection before the answers: whole requests are performed, a body that
//! breaks off is not stored, and a client that still reads gets every answer.

use crate::support::prelude::*;

/// How a client ends its side of the connection.
#[derive(Clone, Copy, Debug)]
enum End {
    /// It still reads.
    HalfClosed,
    Closed,
    /// After the server's kernel has received everything.
    Reset,
}

/// How a body is sent.
#[derive(Clone, Copy, Debug)]
enum Form {
    Length,
    Chunked,
    Http10,
    /// With `Expect: 100-continue`, without waiting for the 100.
    Expect,
    /// With an X-Request-Id.
    Noted,
}

impl Form {
    /// A request that stores `value`, in pieces.
    fn request(self, key: &str, value: &[u8]) -> Vec<u8> {
        let of_length = format!("Content-Length: {}\r\n", value.len());
        let (version, fields) = match self {
            Self::Chunked => ("1.1", "Transfer-Encoding: chunked\r\n".to_owned()),
            Self::Http10 => ("1.0", of_length),
            Self::Expect => ("1.1", format!("{of_length}Expect: 100-continue\r\n")),
            Self::Noted => ("1.1", format!("{of_length}X-Request-Id: a\r\n")),
            Self::Length => ("1.1", of_length),
        };
        let head = format!("PUT /{key} HTTP/{version}\r\nHost: t\r\n{fields}\r\n");
        let body = match self {
            Self::Chunked => [&chunked(value.chunks(30_000))[..], b"0\r\n\r\n"].concat(),
            _ => value.to_vec(),
        };
        [head.as_bytes(), &body].concat()
    }
}

/// An upload, and what its client does after it.
#[derive(Clone, Copy, Debug)]
struct Upload {
    form: Form,
    len: usize,
    end: End,
    /// How long the client waits before that.
    waits: Duration,
}

impl Upload {
    /// Performs it; whether the client read the answer that it should have.
    fn perform(self, addr: SocketAddr, key: &str, value: &[u8]) -> bool {
        let mut raw = Raw::connect(addr);
        // An early answer means that the connection has failed; then the value will be missing.
        let _ = raw.offer(self.form.request(key, value));
        thread::sleep(self.waits); // the time of the close is what is tested
        match self.end {
            End::Closed => {
                if is_tls() && !is_http2() {
                    // Its kernel resets the connection, for the tickets of the handshake are not read.
                    eventually("the server's kernel has it all", || raw.is_taken());
                }
                true
            }
            End::Reset => {
                eventually("the server's kernel has it all", || raw.is_taken());
                raw.reset();
                true
            }
            End::HalfClosed => {
                raw.finish();
                let said = raw.rest();
                let answer = said.strip_prefix(b"HTTP/1.1 100 Continue\r\n\r\n");
                is_status(answer.unwrap_or(&said), b'2')
            }
        }
    }
}

/// Whether `answer` has a status of this class.
fn is_status(answer: &[u8], class: u8) -> bool {
    answer.starts_with(b"HTTP/1.") && answer.get(9) == Some(&class)
}

/// Performs uploads of every one of `forms`, of `lens` and of `ends`, at once and a moment later, `rounds` times, some
/// at a time; and checks every value and every answer that could be read.
#[track_caller]
fn assert_all_stored(forms: &[Form], lens: &[usize], ends: &[End], rounds: usize) {
    const CLIENTS: usize = 8;
    let mut uploads = Vec::new();
    for (&form, &len) in forms.iter().flat_map(|f| lens.iter().map(move |l| (f, l))) {
        for waits in [Duration::ZERO, Duration::from_millis(100)] {
            uploads.extend(ends.iter().map(|&end| Upload {
                form,
                len,
                end,
                waits,
            }));
        }
    }
    let uploads = &uploads.repeat(rounds)[..];
    let server = Launch::new(&["--threads", "2"]).on(&DataDir::in_memory());
    let server = server.start();
    let name = |nth: usize| format!("k{nth}");
    let value = |nth: usize| pattern(nth as u64, uploads[nth].len);
    let unanswered = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (server, unanswered) = (&server, &unanswered);
            scope.spawn(move || {
                for nth in (client..uploads.len()).step_by(CLIENTS) {
                    if !uploads[nth].perform(server.addr, &name(nth), &value(nth)) {
                        unanswered.lock().expect("a list").push(uploads[nth]);
                    }
                }
            });
        }
    });
    // Values that are still missing are counted below.
    comes_true(|| server.dir.names().len() >= uploads.len());
    let stored = server.dir.values();
    let is_missing = |&nth: &usize| stored.get(name(nth).as_bytes()) != Some(&value(nth));
    let missing = (0..uploads.len()).filter(is_missing);
    let missing: Vec<_> = missing.map(|nth| uploads[nth]).collect();
    let unanswered = unanswered.into_inner().expect("a list");
    let (all, there) = (uploads.len(), uploads.len() - missing.len());
    eprintln!("{there} of {all} stored, {} not answered", unanswered.len());
    assert!(
        missing.is_empty() && unanswered.is_empty(),
        "{there} of {all} stored; missing {:?}; not answered {:?}",
        &missing[..missing.len().min(5)],
        &unanswered[..unanswered.len().min(5)]
    );
    server.dir.assert_nothing_staged();
}

const LENS: [usize; 6] = [100, 3_000, 50_000, 200_000, 1_000_000, 5_000_000];

const ENDS: [End; 2] = [End::Closed, End::HalfClosed];

#[test]
fn a_put_with_a_length_or_in_chunks_survives_a_close_or_half_close() {
    let forms = [Form::Length, Form::Chunked];
    assert_all_stored(&forms, &LENS, &ENDS, by_engine(scaled(3, 10), 3));
}

#[test]
fn other_forms_of_put_survive_a_close_or_half_close() {
    let (forms, lens) = ([Form::Http10, Form::Noted], [0, 100, 50_000, 1_000_000]);
    assert_all_stored(&forms, &lens, &ENDS, scaled(2, 5));
    // A client that does not read cannot send much after an interim answer: its kernel resets the connection.
    let (forms, lens) = ([Form::Expect], [300_000, 5_000_000]);
    assert_all_stored(&forms, &[100, 20_000], &ENDS, scaled(3, 10));
    assert_all_stored(&forms, &lens, &[End::HalfClosed], scaled(2, 5));
}

#[test]
fn a_put_survives_a_reset() {
    let forms = [Form::Length, Form::Chunked, Form::Http10, Form::Noted];
    let lens = [100, 50_000, 200_000, 1_000_000];
    assert_all_stored(&forms, &lens, &[End::Reset], scaled(2, 5));
}

/// Nothing of it is stored, the old value stays, and no descriptor is left. It is cut at its first and its last byte
/// and half way; where it goes from the socket to the file, at every sixteenth.
#[test]
fn a_body_that_breaks_off_is_never_stored() {
    let server = TestServer::start(&[]);
    let at_rest = server.in_flight();
    server.store("k", "old");
    eventually("its connection is over", || server.in_flight() == at_rest);
    let descriptors = server.proc().descriptors();
    let forms = [Form::Length, Form::Chunked, Form::Http10, Form::Noted];
    let cases = forms.map(|form| [100, 50_000, 1 << 20].map(|len| (form, len)));
    for (form, len) in cases.concat() {
        let request = form.request("k", &pattern(1, len));
        let is_spliced = len == 1 << 20 && matches!(form, Form::Length | Form::Chunked);
        let parts = if is_spliced { 16 } else { 2 };
        let cuts = (1..=parts).map(|nth| len * nth / parts).chain([1, len - 1]);
        let cuts =
            cuts.flat_map(|cut| [End::Closed, End::HalfClosed, End::Reset].map(|end| (cut, end)));
        let both = cuts.flat_map(|cut| [None, Some("old")].map(|old| (cut, old)));
        // By turns with an old value and without one, which are an odd number of ways to end; in the full form all of
        // them.
        let by_turns = |&(n, _): &(usize, _)| is_full() || n % 4 == 0 || n % 4 == 3;
        let cases = both.enumerate().filter(by_turns);
        for (_, ((cut, end), old)) in cases {
            let shown = format!("{form:?} {len}, {cut} missing, {end:?}, {old:?}");
            server.dir.clear();
            if let Some(old) = old {
                server.dir.place("k", old);
            }
            let mut raw = server.connect();
            raw.send(&request[..request.len() - cut]);
            let is_large = len - cut.min(len) > len / 2 && len == 1 << 20;
            let comes = || {
                let has_begun = server.in_flight() > at_rest && raw.is_taken();
                has_begun && (!is_large || server.receiving() > 0)
            };
            eventually(&format!("{shown}: accepted"), comes);
            match end {
                End::Closed => drop(raw),
                End::Reset => raw.reset(),
                End::HalfClosed => {
                    raw.finish();
                    let answer = raw.rest();
                    let is_refused = answer.is_empty() || is_status(&answer, b'4');
                    assert!(is_refused, "{shown}: {}", answer.escape_ascii());
                }
            }
            let comes = || server.in_flight() == at_rest;
            eventually(&format!("{shown}: forgotten"), comes);
            assert_eq!(server.dir.get("k"), old.map(Vec::from), "{shown}");
            server.dir.assert_holds(old.map(|_| "k").as_slice());
        }
    }
    // The server keeps pipes for later uploads: two descriptors for each.
    let comes = || server.proc().descriptors() <= descriptors + 4 && server.receiving() == 0;
    eventually("the descriptors are back", comes);
}

/// Open connections, including the one of the scrape.
fn connections(server: &TestServer) -> u64 {
    Scrape::of(server.addr).count("data_server_connections_active", &[])
}

/// Pipelined requests of each kind and path, and the expected statuses.
fn pipeline(nth: u64) -> (Vec<u8>, [u16; 9]) {
    let get = |target: &str| format!("GET /{target} HTTP/1.1\r\nHost: t\r\n\r\n").into_bytes();
    let delete = b"DELETE /gone HTTP/1.1\r\nHost: t\r\n\r\n".to_vec();
    let requests = [
        Form::Length.request("a", &pattern(nth, 100)),
        Form::Chunked.request("b", &pattern(nth, 5_000)),
        get("large"),
        delete,
        get("?limit=5"),
        Form::Length.request("c", &pattern(nth, 300_000)),
        get("c"),
        get("a"),
        Form::Noted.request("d", &pattern(nth, 300_000)),
    ];
    let statuses = [200, 200, 200, 404, 200, 200, 200, 200, 200];
    (requests.concat(), statuses)
}

/// The values that [`pipeline`] stores.
fn stored_by_pipeline(nth: u64) -> [(&'static str, Vec<u8>); 4] {
    [("a", 100), ("b", 5_000), ("c", 300_000), ("d", 300_000)]
        .map(|(key, len)| (key, pattern(nth, len)))
}

fn holds(server: &TestServer, values: &[(&str, Vec<u8>)]) -> bool {
    let mut values = values.iter();
    values.all(|(key, value)| server.dir.get(key).is_some_and(|stored| stored == *value))
}

#[test]
fn a_half_closed_connection_gets_all_its_answers() {
    let server = TestServer::start(&["--threads", "1"]);
    server.dir.place("large", pattern(0, 3_000_000));
    for nth in 0..scaled(5, 20) {
        let (requests, statuses) = pipeline(nth);
        let mut raw = server.connect();
        let mut sending = raw.twin();
        thread::scope(|scope| {
            scope.spawn(move || {
                sending.send(requests);
                sending.finish();
            });
            let answered = statuses.map(|_| raw.answer().status);
            assert_eq!(answered, statuses, "round {nth}");
        });
        raw.assert_closed();
        assert!(holds(&server, &stored_by_pipeline(nth)), "round {nth}");
    }
}

/// Also the requests behind a response that could not be sent.
#[test]
fn pipelined_requests_of_a_client_that_left_are_performed() {
    http1_only!("pipelining");
    let server = TestServer::start(&["--threads", "1"]);
    server.dir.place("large", pattern(0, 3_000_000));
    for nth in 0..scaled(5, 20) {
        let (requests, _) = pipeline(nth);
        let mut raw = server.connect();
        raw.send(&requests);
        // Where the kernel holds less than the answer, the server reads on when some of that is taken.
        eventually("the server's kernel has it all", || {
            raw.is_taken() || {
                let has_come = raw.silent_for(Duration::from_millis(1)).is_err();
                has_come && raw.read_once().is_err()
            }
        });
        // There are unread answers, so closing resets the connection.
        drop(raw);
        let values = stored_by_pipeline(nth);
        eventually(&format!("round {nth} is done"), || holds(&server, &values));
    }
    eventually("its connections have ended", || connections(&server) == 1);
}

/// An upload whose client has left is in flight until it is stored, and a shutdown waits for it.
#[test]
fn a_drain_waits_for_an_upload_whose_client_left() {
    let delay = "inject=pwrite64,pwritev,pwritev2:delay_enter=1500000:when=1";
    let options = ["-e", "trace=pwrite64,pwritev,pwritev2", "-e", delay];
    let trace = needed!(Trace::with(&options, "the end while an upload is written"));
    let args = ["--threads", "1", "--admin", "127.0.0.1:0"];
    let mut server = trace.around(Launch::new(&args)).start();
    let admin = server.admin();
    let value = pattern(1, 300_000);
    let mut raw = server.connect();
    raw.send(Form::Chunked.request("k", &value));
    eventually("the server's kernel has it all", || raw.is_taken());
    drop(raw);
    let in_flight = || Scrape::of(admin).count("data_server_uploads_in_flight", &[]);
    eventually("it is in flight", || in_flight() == 1);
    server.stop();
    assert!(server.dir.read("k") == value);
    server.dir.assert_holds(&["k"]);
}

/// Runs ffmpeg with these arguments; false if it is not installed.
fn ffmpeg(words: &[&str]) -> bool {
    let quiet = ["-nostdin", "-loglevel", "error", "-y"];
    let mut command = Command::new("ffmpeg");
    let status = command.args(quiet).args(words).status();
    status.is_ok_and(|status| status.success())
}

/// ffmpeg sends each segment in chunks and closes the connection without reading the answer.
#[test]
fn every_segment_of_ffmpeg_is_stored() {
    let runs = scaled(2, 5);
    clear_only!("its client is another program");
    let place = TempDir::new().expect("a directory");
    let path = |name: &str| place.path().join(name).to_str().expect("text").to_owned();
    let source = "testsrc=duration=10:size=320x240:rate=10";
    let film = path("v.mp4");
    if !ffmpeg(&[
        "-f", "lavfi", "-i", source, "-c:v", "mpeg4", "-g", "10", &film,
    ]) {
        left_out("what ffmpeg puts", "ffmpeg does not run here");
        return;
    }
    // The segments that it writes to files are the expected values.
    let hls = ["-i", &film, "-c", "copy", "-f", "hls"];
    assert!(ffmpeg(&[&hls[..], &[&path("live.m3u8")]].concat()));
    let names = fs::read_dir(place.path()).expect("the files");
    let names = names.map(|entry| entry.expect("a file").file_name());
    let mut names: Vec<_> = names.filter(|name| name != "v.mp4").collect();
    assert_eq!(names.len(), 6, "five segments and their list: {names:?}");
    if is_s3() {
        // It is written again and again by a client that waits for no answer: which is the last, the store decides.
        names.retain(|name| name != "live.m3u8");
    }
    let mut stored = 0;
    for _ in 0..runs {
        let server = TestServer::start(&[]);
        let to = format!("http://{}/live.m3u8", server.addr);
        assert!(ffmpeg(&[&hls[..], &["-method", "PUT", &to]].concat()));
        eventually("all that it left has ended", || connections(&server) == 1);
        let is_same = |name: &&std::ffi::OsString| {
            let put = server.dir.get(name.to_str().expect("text"));
            put == fs::read(place.path().join(name)).ok()
        };
        stored += names.iter().filter(is_same).count();
    }
    let all = runs * names.len();
    eprintln!("{stored} of {all} files stored");
    assert_eq!(stored, all);
}

#[test]
fn a_refused_upload_without_end_is_not_read_without_end() {
    const MOST: u64 = 2 << 30;
    // Over HTTP/2 the stream is ended, and the client knows.
    http1_only!("a client that goes on sending");
    let server = TestServer::start(&["--threads", "1", "--max-body", "1000"]);
    let mut raw = server.connect();
    raw.send("PUT /k HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n4000000000\r\n");
    let mut sending = raw.twin();
    thread::scope(|scope| {
        scope.spawn(move || {
            let piece = vec![b'x'; 1 << 20];
            while sending.offer(&piece).is_ok() {}
        });
        assert_eq!(raw.answer().status, 413);
    });
    let received = Scrape::of(server.addr).count("data_server_received_bytes_total", &[]);
    // And what came with the head, before the refusal.
    assert!(received < MOST + (2 << 20), "{received} bytes");
}

/// Connection is a list: `close` may stand anywhere in it, and it ends a connection that sends a long value itself too.
#[test]
fn close_among_other_connection_options_ends_the_connection() {
    let server = TestServer::start(&[]);
    for size in [1 << 10, 1 << 20] {
        server.dir.place("value", pattern(1, size));
        let mut raw = server.connect();
        let request = "GET /value HTTP/1.1\r\nHost: t\r\nConnection: keep-alive, Close\r\n\r\n";
        let response = raw.ask(request);
        assert_eq!(response.status, 200, "{size}");
        assert!(response.closes(), "{size}");
        raw.assert_closed();
    }
}
