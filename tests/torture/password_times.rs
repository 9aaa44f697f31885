//! Whether the time of an answer tells that a name is known: wrong passwords of known and unknown names take equally long.
//!
//! The full form alone, for it holds times against each other: one name of each kind in turn, so that whatever else the
//! machine does meets both, and medians. Other jobs may still hit the one and not the other: a difference that is there is
//! there each time.

use std::os::unix::fs::PermissionsExt;

use argon2::{Argon2, PasswordHasher};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::scale::{counted, is_full};
use crate::support::prelude::*;

/// Pairs of answers that are compared.
const PAIRS: u16 = 400;

/// How often they are, until they are equal.
const TRIES: u16 = 3;

/// The most that the medians may differ, as a part of the one of unknown names.
const MOST: f64 = 0.05;

/// How long a wrong password of `name` takes. Each comes from an address that has not failed before.
fn time(server: &TestServer, name: &str, at: u16) -> Duration {
    let [high, low] = at.to_be_bytes();
    let mut connection = Raw::connect_from([127, 1, high, low], server.addr);
    let pair = STANDARD.encode(format!("{name}:wrong {at}"));
    let lines = format!("Authorization: Basic {pair}\r\n");
    let began = Instant::now();
    assert_eq!(ask(&mut connection, "GET", "/key", &lines, b"").status, 401);
    began.elapsed()
}

fn median(mut all: Vec<Duration>) -> Duration {
    all.sort_unstable();
    all[all.len() / 2]
}

/// Medians of known and of unknown names, in turn. Each second pair begins with the other one.
fn compare(server: &TestServer, first: u16) -> (Duration, Duration) {
    let pairs = (first..).step_by(2).take(usize::from(PAIRS)).map(|at| {
        let unknown = format!("user{at}");
        if at % 4 < 2 {
            let known = time(server, "alice", at);
            (known, time(server, &unknown, at + 1))
        } else {
            let unknown = time(server, &unknown, at);
            (time(server, "alice", at + 1), unknown)
        }
    });
    let (known, unknown) = pairs.unzip();
    (median(known), median(unknown))
}

/// Of a server whose passwords have hashes like that of `alice`.
fn known_and_unknown_names_take_equally_long(what: &str, hash: &str) {
    only_where!(is_full(), what, "in the full form alone");
    let dir = DataDir::temporary();
    let file = dir.outside("access.toml");
    let text = format!("[[subject]]\nname = \"alice\"\npassword = '{hash}'\n");
    fs::write(&file, text).expect("the file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("its mode");
    let file = file.to_str().expect("text");
    let server = Launch::new(&["--access", file]).on(&dir).start();
    let mut seen = Vec::new();
    for again in 0..TRIES {
        let (known, unknown) = compare(&server, 1 + again * 2 * PAIRS);
        let ratio = known.as_secs_f64() / unknown.as_secs_f64();
        seen.push(format!("{known:?} and {unknown:?}, ratio {ratio:.4}"));
        if (ratio - 1.0).abs() <= MOST {
            let last = seen.last().expect("this one");
            let tries = seen.len();
            counted!(
                what,
                "medians of {PAIRS} known and unknown names: {last}, try {tries}"
            );
            return;
        }
    }
    panic!("{what}: {seen:#?}");
}

#[test]
fn names_with_bcrypt_are_not_told_by_time() {
    let hash = bcrypt::hash("secret", 8).expect("a hash");
    known_and_unknown_names_take_equally_long("times of names, bcrypt", &hash);
}

#[test]
fn names_with_argon2id_are_not_told_by_time() {
    let hash = Argon2::default().hash_password(b"secret");
    let hash = hash.expect("a hash").to_string();
    known_and_unknown_names_take_equally_long("times of names, argon2id", &hash);
}
