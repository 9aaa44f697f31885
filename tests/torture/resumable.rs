//! A resumable upload that is cut at every sixteenth of its length, by its client or by SIGKILL of the server, in parts
//! and in one request: no offset that was answered is taken back, and the value is published whole.
//!
//! `DATA_SERVER_TORTURE_SEED=N tests/run --test torture resumable` draws the same cuts again.

mod power;

pub(crate) use power::start_the_machine_anew;

use std::os::unix::fs::FileExt as _;

use crate::prelude::*;

/// What is sent at a time.
const BLOCK: usize = 1 << 20;

/// How often an upload is cut.
const CUTS: usize = 16;

/// What was counted of all uploads.
#[derive(Debug, Default)]
struct Counts {
    kills: usize,
    hang_ups: usize,
    resets: usize,
    /// Bytes that had been sent when the upload was cut, and were not there.
    sent_again: usize,
}

/// A client and its server, and one upload.
struct Run<'a> {
    blocks: usize,
    durability: &'static str,
    takeover: &'static str,
    /// Whether a byte of what lies in the directory is changed by hand.
    is_planted: bool,
    dir: DataDir,
    server: Option<TestServer>,
    dice: Random,
    counts: &'a mut Counts,
}

fn block(n: usize) -> Vec<u8> {
    pattern(n as u64 + 1, BLOCK)
}

impl<'a> Run<'a> {
    fn of(blocks: usize, dice: Random, counts: &'a mut Counts) -> Self {
        Self {
            blocks,
            durability: "os",
            takeover: "on",
            is_planted: false,
            dir: DataDir::temporary(),
            server: None,
            dice,
            counts,
        }
    }

    fn start(&mut self) {
        let launch = Launch::new(&["--durability", self.durability]).on(&self.dir);
        self.server = Some(launch.env("DATA_SERVER_TAKEOVER", self.takeover).start());
    }

    fn server(&self) -> &TestServer {
        self.server.as_ref().expect("a server")
    }

    fn length(&self) -> usize {
        self.blocks * BLOCK
    }

    /// Sends the bytes of the value in this range, as far as the server takes them; how far.
    fn send(raw: &mut Raw, from: usize, to: usize) -> usize {
        let mut at = from;
        while at < to {
            let block = block(at / BLOCK);
            let end = to.min(at - at % BLOCK + BLOCK);
            let bytes = &block[at % BLOCK..=(end - 1) % BLOCK];
            if raw.offer(bytes).is_err() {
                break;
            }
            at = end;
        }
        at
    }

    /// Ends what is under way on `raw`.
    fn cut(&mut self, raw: Raw) {
        match self.dice.u64(..3) {
            0 => {
                self.counts.kills += 1;
                let mut server = self.server.take().expect("a server");
                server.kill();
                self.start();
            }
            1 => {
                self.counts.hang_ups += 1;
                drop(raw);
            }
            _ => {
                self.counts.resets += 1;
                raw.reset();
            }
        }
    }

    /// Uploads the value, cut at every sixteenth.
    fn upload(&mut self) -> Result<(), String> {
        self.start();
        let length = self.length();
        let mut raw = self.server().connect();
        let with_interim = self.takeover == "on";
        let upload = if with_interim {
            let head = format!(
                "PUT /big HTTP/1.1\r\nHost: t\r\nContent-Length: {length}\r\nUpload-Complete: ?1\r\n\
                 Upload-Draft-Interop-Version: 8\r\n\r\n"
            );
            raw.send(head);
            Resumable::of(&raw.head())
        } else {
            let lines = format!("Upload-Length: {length}\r\n");
            Resumable::create(&mut raw, "big", &lines, b"")
        };
        let (mut offset, mut is_sending) = (0, with_interim);
        // How far any request has sent: one that was cut may be received after the offset was asked for.
        let mut most = 0;
        for cut in 1..CUTS {
            let to = length / CUTS * cut - self.dice.usize(..BLOCK / 2);
            if !is_sending {
                raw = self.server().connect();
                raw.send(upload.append_head(offset, true, length - offset));
            }
            is_sending = false;
            let sent = Self::send(&mut raw, offset, to);
            most = sent.max(most);
            self.cut(raw);
            raw = self.server().connect();
            let there = upload.offset(&mut raw);
            if there < offset || there > most {
                return Err(format!("cut at {sent}: {there} are there, {offset} were"));
            }
            self.counts.sent_again += sent.saturating_sub(there);
            offset = there;
            if self.is_planted && cut == CUTS / 2 {
                self.plant();
            }
            // What was answered is there, whatever becomes of the server.
            if self.dice.u64(..4) == 0 {
                self.cut(raw);
                raw = self.server().connect();
                let still = upload.offset(&mut raw);
                if still < there || still > most {
                    return Err(format!("{there} were answered, and {still} are there"));
                }
                offset = still;
            }
        }
        self.send_the_rest(&upload, offset)?;
        self.check()
    }

    /// Sends what follows `offset`, and asks again where the upload goes on at another.
    fn send_the_rest(&self, upload: &Resumable, mut offset: usize) -> Result<(), String> {
        let length = self.length();
        for _ in 0..CUTS {
            let mut raw = self.server().connect();
            raw.send(upload.append_head(offset, true, length - offset));
            Self::send(&mut raw, offset, length);
            let stored = raw.answer();
            match stored.status {
                200 => return Ok(()),
                409 => offset = upload.offset(&mut self.server().connect()),
                _ => return Err(format!("the last part: {stored:?}")),
            }
        }
        Err("the last part is never taken".to_owned())
    }

    /// Changes a byte that has been received.
    fn plant(&self) {
        let data = self.dir.uploads().into_iter().find(|name| name.len() == 32);
        let path = self.dir.own("uploads").join(data.expect("the file"));
        let file = File::options().write(true).open(path).expect("the file");
        let written = file.write_at(&[!block(0)[12_345]], 12_345);
        assert_eq!(written.expect("a byte"), 1);
    }

    /// Reads the value, and what lies in the directory.
    fn check(&self) -> Result<(), String> {
        let mut raw = self.server().connect();
        raw.send("GET /big HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
        let head = raw.head();
        if head.status != 200 || head.length() != self.length() {
            return Err(format!("the value: {head:?}"));
        }
        for n in 0..self.blocks {
            if raw.take(BLOCK) != block(n) {
                return Err(format!("block {n} is another"));
            }
        }
        self.dir.assert_holds(&["big"]);
        Ok(())
    }
}

#[test]
fn an_upload_that_is_cut_at_every_sixteenth_is_published_whole() {
    let blocks = scaled(16, 1024);
    let mut dice = Random::with_seed(seed("resumable"));
    let (mut counts, mut uploads) = (Counts::default(), 0);
    for durability in ["os", "disk"] {
        for takeover in ["on", "off"] {
            let mut run = Run::of(blocks, dice.fork(), &mut counts);
            (run.durability, run.takeover) = (durability, takeover);
            let uploaded = run.upload();
            uploaded.unwrap_or_else(|why| panic!("{durability}, {takeover}: {why}"));
            uploads += 1;
        }
    }
    assert!(counts.kills + counts.hang_ups + counts.resets >= uploads * (CUTS - 1));
    let whole = "each whole, no answered offset taken back";
    counted!("resumable: {uploads} uploads of {blocks} MiB, {counts:?}; {whole}");
}

#[test]
fn a_byte_that_is_changed_by_hand_is_found() {
    let (dice, counts) = (
        Random::with_seed(seed("resumable, planted")),
        &mut Counts::default(),
    );
    let mut run = Run::of(16, dice, counts);
    run.is_planted = true;
    assert_eq!(run.upload(), Err("block 0 is another".to_owned()));
}
