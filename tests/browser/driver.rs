//! One chromedriver as a child, on a port of its own, and what `WebDriver` has that fantoccini has no name for.

use std::env;
use std::io::{BufRead, BufReader, Write as _};
use std::process::Child;
use std::sync::mpsc;

use serde_json::Value;

use crate::support::prelude::*;

/// A running chromedriver. It ends its browser when the session is deleted, and is killed itself when dropped.
pub(crate) struct Driver {
    child: Child,
    addr: SocketAddr,
}

impl Driver {
    /// Starts one, or says that this test is left out, for there is no browser.
    pub(crate) fn start() -> Option<Self> {
        let missing = ["chromium", "chromedriver"].into_iter();
        let missing: Vec<&str> = missing.filter(|program| !is_on_path(program)).collect();
        if missing.is_empty() {
            return Some(Self::spawn());
        }
        let missing = missing.join(" and ");
        let is_required = env::var_os("DATA_SERVER_BROWSER").is_some_and(|it| it == "required");
        assert!(!is_required, "a browser is required: there is no {missing}");
        left_out(&this_test(), &format!("there is no {missing}"));
        None
    }

    /// One that picked a port of IPv4 which another program has of IPv6 ends at once: then another is tried.
    fn spawn() -> Self {
        let mut tries = (0..5).filter_map(|_| Self::try_spawn());
        tries.next().expect("chromedriver says that it has started")
    }

    fn try_spawn() -> Option<Self> {
        tested();
        let mut child = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver");
        let out = child.stdout.take().expect("its standard output");
        let port = port(BufReader::new(out));
        let started = Self {
            child,
            addr: SocketAddr::from(([127, 0, 0, 1], port.unwrap_or(0))),
        };
        port.is_some().then_some(started)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Sends a command that fantoccini has no name for; its value.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Value {
        let client = reqwest::Client::new();
        let request = client.post(self.url() + path).body(body.to_string());
        let answer = request.send().await.expect("an answer");
        let status = answer.status();
        let text = answer.bytes().await.expect("the answer");
        let json: Value = serde_json::from_slice(&text).expect("JSON");
        assert!(status.is_success(), "{path}: {json}");
        json["value"].clone()
    }

    /// Ends a session and its browser; whether that could be done.
    fn end(&self, session: &str) -> bool {
        let addr = self.addr;
        let request = format!("DELETE /session/{session} HTTP/1.1\r\nHost: {addr}\r\n\r\n");
        let socket = TcpStream::connect_timeout(&addr, Duration::from_secs(5));
        socket.is_ok_and(|mut socket| {
            let patience = socket.set_read_timeout(Some(Duration::from_secs(20)));
            let sent = patience.and_then(|()| socket.write_all(request.as_bytes()));
            sent.is_ok() && BufReader::new(socket).read_line(&mut String::new()).is_ok()
        })
    }
}

/// Ends the session of a driver, whatever becomes of the test: a browser outlives a driver that is killed.
pub(crate) struct Session {
    pub(crate) driver: Driver,
    pub(crate) id: String,
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.driver.end(&self.id) {
            eprintln!("the browser of session {} may still run", self.id);
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The port that the driver says it listens on, if it does before it ends. What it says is read to its end: a driver
/// that cannot write it ends too.
fn port(out: impl BufRead + Send + 'static) -> Option<u16> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            if let Some((_, port)) = line.rsplit_once("started successfully on port ") {
                let _ = send.send(port.trim_end_matches('.').parse().expect("a port"));
            }
        }
    });
    receive.recv_timeout(DEADLINE).ok()
}
