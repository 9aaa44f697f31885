//! Clocks that step while a server runs: ages since the last use and the order of uses go on as they are, and what is
//! told by the system's clock follows it, back and forth.

use crate::prelude::*;

/// What has a program see another time. (The command of that name is not the parent of what it starts.)
pub(crate) fn faketime() -> Result<PathBuf, String> {
    let libraries = fs::read_dir("/usr/lib").into_iter().flatten();
    let libraries = libraries.map_while(Result::ok);
    let mut paths = libraries.map(|entry| entry.path().join("faketime/libfaketimeMT.so.1"));
    let path = paths.find(|path| path.exists());
    path.ok_or("there is no libfaketime".to_owned())
}

/// The system's clock as servers see it.
struct Clock {
    library: PathBuf,
    place: TempDir,
}

impl Clock {
    fn new() -> Result<Self, String> {
        let (library, place) = (faketime()?, TempDir::new());
        let place = place.map_err(|error| error.to_string())?;
        let clock = Self { library, place };
        clock.step(0);
        Ok(clock)
    }

    fn file(&self) -> PathBuf {
        self.place.path().join("step")
    }

    /// Sets the clock so many minutes ahead of the time, or behind it.
    fn step(&self, minutes: i64) {
        let new = self.place.path().join("new");
        fs::write(&new, format!("{:+}\n", minutes * 60)).expect("a file");
        fs::rename(new, self.file()).expect("a step");
    }

    /// A server that sees this clock at each look; what is timed goes on as it is.
    fn over(&self, launch: Launch) -> Launch {
        launch
            .env("LD_PRELOAD", &self.library)
            .env("FAKETIME_TIMESTAMP_FILE", self.file())
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("DATA_SERVER_EXPIRY", "100")
    }
}

/// Waits until the server has looked at the ages of all values.
fn look(server: &TestServer) {
    for _ in 0..2 {
        server.store("probe/x", "x");
        // The folder goes last.
        let is_gone = || !server.dir.file("probe").exists();
        eventually("the server looks at ages", is_gone);
    }
}

#[track_caller]
fn assert_has(server: &TestServer, keys: &str) {
    server.dir.assert_holds(&words(keys));
}

const PROBE: [&str; 4] = [
    "--bound",
    r#"prefix = "probe/", max-age = "1s""#,
    // The files of libfaketime are no files of the server.
    "--sandbox",
    "off",
];

#[test]
fn ages_since_the_last_use_do_not_step_and_those_since_a_write_follow_the_clock() {
    let clock = needed!(available("steps under ages", Clock::new()));
    let of_use = ["--bound", r#"prefix = "use/", max-age = "30m""#];
    let of_write = [
        "--bound",
        r#"prefix = "write/", max-age = "90m", of = "write""#,
    ];
    let args = [&of_use[..], &of_write, &PROBE].concat();
    let server = clock.over(Launch::new(&args)).start();
    let store = |key: &str| server.store(key, "value");
    store("use/1");
    store("write/1");
    for minutes in [60, 0, 60, -60, 0] {
        clock.step(minutes);
        look(&server);
        assert_has(&server, "use/1 write/1");
    }
    clock.step(60);
    store("use/2");
    store("write/2");
    clock.step(0);
    look(&server);
    assert_has(&server, "use/1 use/2 write/1 write/2");
    clock.step(120);
    look(&server);
    assert_has(&server, "use/1 use/2 write/2");
    clock.step(180);
    look(&server);
    assert_has(&server, "use/1 use/2");
    clock.step(-60);
    store("write/3");
    look(&server);
    assert_has(&server, "use/1 use/2 write/3");
}

#[test]
fn uses_keep_their_order_and_stay_sane_over_restarts_under_clocks_that_step() {
    let clock = needed!(available("steps under uses", Clock::new()));
    let bound = ["--bound", r#"prefix = "c/", max-keys = 4"#];
    let start = |dir: &DataDir| {
        let args = [&bound[..], &PROBE].concat();
        clock.over(Launch::new(&args)).on(dir).start()
    };
    let tick = || pass(Duration::from_millis(1100));
    // The clock while values are used, at the end, and at the next start. Uses are noted by the clock of the end: after
    // one that is set back, the latest are of now, and what was used before them is older all the same.
    for [used, ended, started] in [
        [0, 60, 60],
        [60, 0, 0],
        [-60, 0, 60],
        [60, 60, 0],
        [0, 0, -60],
    ] {
        let what = format!("{used}, {ended}, {started} minutes");
        let dir = DataDir::in_memory();
        clock.step(used);
        let mut server = start(&dir);
        for key in ["c/1", "c/2", "c/3", "c/4"] {
            server.store(key, "value");
            tick();
        }
        assert_eq!(server.get("c/1").status, 200);
        clock.step(ended);
        server.store("c/5", "value");
        assert_has(&server, "c/1 c/3 c/4 c/5");
        server.stop();
        // Files alone do not tell of uses: all are as old.
        for key in ["c/1", "c/3", "c/4", "c/5"] {
            let old = SystemTime::now() - Duration::from_secs(86_400);
            let times = fs::FileTimes::new().set_accessed(old).set_modified(old);
            let file = File::options().write(true).open(dir.file(key));
            file.and_then(|file| file.set_times(times)).expect("times");
        }
        clock.step(started);
        let mut server = start(&dir);
        if started >= ended {
            server.store("c/6", "value");
            tick();
            server.store("c/7", "value");
            let mut names = dir.names();
            names.retain(|name| name.starts_with(b"c/"));
            let names = String::from_utf8(names.join(&b' ')).expect("text");
            assert_eq!(names, "c/1 c/5 c/6 c/7", "{what}");
        } else {
            // A use now is the latest of all.
            tick();
            assert_eq!(server.get("c/3").status, 200);
            for n in 6..9 {
                tick();
                server.store(&format!("c/{n}"), "value");
            }
            let mut names = dir.names();
            names.retain(|name| name.starts_with(b"c/"));
            let names = String::from_utf8(names.join(&b' ')).expect("text");
            assert_eq!(names, "c/3 c/6 c/7 c/8", "{what}");
        }
        server.stop();
    }
}

#[test]
fn ends_are_by_the_clock_back_and_forth() {
    let clock = needed!(available("steps under ends", Clock::new()));
    let launch = Launch::new(&["--sandbox", "off"]);
    // A walk removes what has ended, for good: not in this test.
    let server = clock
        .over(launch)
        .env("DATA_SERVER_EXPIRY", "3600000")
        .start();
    let status = |key: &str| server.get(key).status;
    let store = |key: &str| server.store_as(key, "X-Delete-After: 1800\r\n", "value");
    store("k");
    for (minutes, expected) in [
        (0, 200),
        (60, 404),
        (0, 200),
        (-60, 200),
        (29, 200),
        (31, 404),
    ] {
        clock.step(minutes);
        assert_eq!(status("k"), expected, "{minutes} minutes");
        let listed = server.get("?format=text").text().contains('k');
        assert_eq!(listed, expected == 200, "{minutes} minutes");
    }
    clock.step(-60);
    store("early");
    assert_eq!(status("early"), 200);
    let past = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let past = past.expect("after 1970").as_secs() - 600;
    let at = format!("X-Delete-At: {past}\r\n");
    server.store_as("at", &at, "value");
    clock.step(0);
    assert_eq!([status("early"), status("at")], [404, 404]);
    let refused = server.request("PUT", "/at", &at, b"other");
    refused.says(400, "a value ends in the future");
    // Where it has ended a value may be made.
    let made = server.request("PUT", "/early", "If-None-Match: *\r\n", b"other");
    assert_eq!(made.status, 200);
    clock.step(-60);
    assert_eq!(server.get("early").body, b"other");
    assert_eq!(status("at"), 200);
}
