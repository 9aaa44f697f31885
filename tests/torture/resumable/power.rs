//! Power is cut while a part of an upload arrives: with `--durability disk` every offset that was answered is there
//! afterwards, and so are the bytes before it; with `os` the upload is gone, and nothing is taken for its bytes.

use crate::disk::{Disk, Image, Kind, sync_of_a_stranger};
use crate::prelude::*;

const LENGTH: usize = 3_000_000;

/// What cuts of power did.
#[derive(Default)]
struct Report {
    answered: usize,
    /// Bytes beyond the answered offsets that had been written, and were cut off.
    unanswered: u64,
}

fn start(dir: &DataDir, durability: &str) -> TestServer {
    Launch::new(&["--durability", durability]).on(dir).start()
}

/// The machine of this test is not started anew by the cut: makes it look so, of these uploads, to the next server. A
/// record that is no longer whole is left to the server.
pub(crate) fn start_the_machine_anew(dir: &DataDir, uploads: &str) {
    let uploads = dir.own(uploads);
    let names = fs::read_dir(&uploads).expect("the uploads");
    for name in names.map(|entry| entry.expect("an entry").file_name()) {
        let text = fs::read_to_string(uploads.join(&name)).unwrap_or_default();
        let record = serde_json::from_str::<serde_json::Value>(&text).ok();
        if let Some(mut record) = record.filter(|record| record.get("started").is_some()) {
            record["boot"] = "another".into();
            record["started"] = 1.into();
            fs::write(uploads.join(&name), record.to_string()).expect("another record");
        }
    }
}

impl Report {
    fn cut(&mut self, disk: &mut impl Disk, durability: &str, mut dice: Random) {
        let (dir, value) = (disk.dir(), pattern(dice.u64(..), LENGTH));
        let mut server = start(&dir, durability);
        let raw = &mut server.connect();
        let upload = Resumable::create(raw, "a/k", "", b"");
        let mut answered = 0;
        for _ in 0..=dice.usize(..5) {
            let part = &value[answered..answered + dice.usize(..400_000)];
            let appended = upload.append(raw, answered, false, part);
            assert_eq!(appended.status, 204, "{appended:?}");
            answered += part.len();
        }
        // Bytes that nothing was promised of.
        let mut hangs = server.connect();
        hangs.send(upload.append_head(answered, true, LENGTH - answered));
        hangs.send(&value[answered..LENGTH - 1000]);
        let written = || fs::metadata(upload.file(&dir, "")).map_or(0, |meta| meta.len());
        let enough = answered as u64 + 256 * 1024;
        eventually("more is written", || written() > enough);
        let before = written();
        if dice.u64(..2) == 0 {
            sync_of_a_stranger(&dir);
        }
        disk.cut_under(&mut server);
        start_the_machine_anew(&dir, "uploads");

        let mut server = start(&dir, durability);
        let raw = &mut server.connect();
        if durability == "disk" {
            assert_eq!(upload.offset(raw), answered, "what was answered");
            let stored = upload.append(raw, answered, true, &value[answered..]);
            assert_eq!(stored.status, 200, "{stored:?}");
            assert!(server.get("a/k").body == value, "the value is whole");
            assert_eq!(server.ask("DELETE", "a/k").status, 200);
        } else {
            assert_eq!(upload.state(raw).status, 404);
            assert!(!upload.file(&dir, "").exists(), "its bytes are removed");
        }
        server.stop();
        dir.assert_nothing_staged();
        self.answered += answered;
        self.unanswered += before - answered as u64;
    }
}

fn cuts_of_power_on(what: &str, mut disk: Image) {
    let mut dice = Random::with_seed(seed("power, uploads"));
    for (durability, cuts) in [("disk", scaled(4, 100)), ("os", scaled(1, 10))] {
        let mut report = Report::default();
        for _ in 0..cuts {
            report.cut(&mut disk, durability, dice.fork());
        }
        let Report {
            answered,
            unanswered,
        } = report;
        let bytes = format!("{answered} bytes answered, {unanswered} more cut off");
        counted!("{what}: {durability}: {cuts} cuts, {bytes}");
    }
}

#[test]
fn answered_offsets_survive_a_power_cut() {
    Image::each(&Kind::ALL, "power cut, uploads", cuts_of_power_on);
}
