//! Proves by an oracle that knows the rules alone that a MOVE takes the rights of a GET and a DELETE at its source and of a PUT at its
//! destination, and a COPY those of a GET and a PUT; and that what a client may not read is not told.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::send;
use crate::support::prelude::*;
use crate::support::s3::hex;

/// The rights that the subject of a number has to one end: a bit for each of these.
const RIGHTS: [&str; 4] = ["read", "create", "write", "delete"];

fn token(name: &str) -> String {
    format!("dst_{name}-0123456789abcdef0123456789abcdef")
}

/// The rights that `bits` stand for.
fn rights(bits: usize) -> Vec<&'static str> {
    let has = |n: &usize| bits & (1 << n) != 0;
    (0..RIGHTS.len()).filter(has).map(|n| RIGHTS[n]).collect()
}

/// Where each subject has which rights: `from` to keys below `from/`, `to` to keys below `to/`.
fn policy() -> String {
    let mut text = String::new();
    for from in 0..16 {
        for to in 0..16 {
            let name = format!("s{from}-{to}");
            let digest = hex(&Sha256::digest(token(&name)));
            let subject = format!("[[subject]]\nname = \"{name}\"\ntoken = \"sha256:{digest}\"\n");
            text.push_str(&subject);
            for (prefix, bits) in [("from/", from), ("to/", to)] {
                if bits > 0 {
                    let may = rights(bits);
                    let rule = format!(
                        "[[rule]]\nwho = [\"{name}\"]\nprefix = \"{prefix}\"\nmay = {may:?}\n"
                    );
                    text.push_str(&rule);
                }
            }
        }
    }
    text
}

/// What the rules say of a request by one that has these rights.
fn expected(method: &str, from: &[&str], to: &[&str], is_there: bool, lines: &str) -> u16 {
    let may = |rights: &[&str], right: &str| {
        rights.contains(&right) || (right == "create" && rights.contains(&"write"))
    };
    let takes = may(from, "read") && (method == "COPY" || may(from, "delete"));
    let is_create = lines.contains("Overwrite: F");
    let puts = match lines {
        "" => may(to, "write") || (may(to, "create") && !is_there),
        _ if is_create => may(to, "create"),
        _ => may(to, "write") && may(to, "read"),
    };
    match (takes && puts, is_there) {
        (false, _) => 403,
        (true, true) if is_create => 412,
        (true, false) if lines.contains("If-Match") => 412,
        (true, false) if is_create || may(to, "read") || !may(to, "write") => 201,
        // To one who may not read it, a new value is told as one that was there.
        (true, _) => 204,
    }
}

#[test]
fn both_ends_take_the_rights_that_their_parts_take() {
    directory_only!("moves");
    let dir = DataDir::temporary();
    let path = dir.write_private("access.toml", &policy());
    let server = Launch::new(&["--access", &path]).on(&dir).start();
    let mut raw = server.connect();
    let mut asked = 0;
    for from in 0..16 {
        for to in 0..16 {
            let name = format!("s{from}-{to}");
            for method in ["MOVE", "COPY"] {
                for is_there in [false, true] {
                    for lines in ["", "Overwrite: F\r\n", "Destination-If-Match: *\r\n"] {
                        dir.place("from/k", "v");
                        dir.remove("to/k");
                        if is_there {
                            dir.place("to/k", "old");
                        }
                        let proof = format!("{lines}Authorization: Bearer {}\r\n", token(&name));
                        let answer = send(&mut raw, method, "/from/k", "/to/k", &proof);
                        let told = expected(method, &rights(from), &rights(to), is_there, lines);
                        let case = format!(
                            "{method} {:?} {:?} {is_there} {lines:?}",
                            rights(from),
                            rights(to)
                        );
                        assert_eq!(answer.status, told, "{case}");
                        let is_made = answer.status < 300;
                        assert_eq!(
                            dir.get("to/k").is_some_and(|value| value == b"v"),
                            is_made,
                            "{case}"
                        );
                        assert_eq!(
                            dir.get("from/k").is_some(),
                            !(is_made && method == "MOVE"),
                            "{case}"
                        );
                        asked += 1;
                    }
                }
            }
        }
    }
    say(&format!("{asked} requests answered as the rules say"));
}

#[test]
fn a_value_that_may_not_be_read_is_not_told_apart_from_none() {
    directory_only!("moves");
    let dir = DataDir::temporary();
    let path = dir.write_private("access.toml", &policy());
    let server = Launch::new(&["--access", &path]).on(&dir).start();
    dir.place("from/there", "v");
    let mut raw = server.connect();
    let proof = format!("Authorization: Bearer {}\r\n", token("s14-15"));
    for method in ["MOVE", "COPY"] {
        for key in ["/from/there", "/from/absent"] {
            assert_eq!(send(&mut raw, method, key, "/to/k", &proof).status, 403);
        }
    }
    let anonymous = send(&mut raw, "MOVE", "/from/there", "/to/k", "");
    assert_eq!(anonymous.status, 401);
    let basic = STANDARD.encode(format!("x:{}", token("s15-15")));
    let line = format!("Authorization: Basic {basic}\r\n");
    assert_eq!(
        send(&mut raw, "MOVE", "/from/absent", "/to/k", &line).status,
        404
    );
}

/// The rule that says what one is answered who may create and not replace.
#[test]
fn the_rule_for_a_key_that_has_a_value_holds_for_the_destination() {
    directory_only!("moves");
    let dir = DataDir::temporary();
    let digest = hex(&Sha256::digest(token("ann")));
    let policy = format!(
        "[[subject]]\nname = \"ann\"\ntoken = \"sha256:{digest}\"\n\
         [[rule]]\nwho = [\"ann\"]\nprefix = \"from/\"\nmay = [\"read\", \"delete\"]\n\
         [[rule]]\nwho = [\"ann\"]\nprefix = \"to/\"\nmay = [\"create\"]\nexisting = 409\n"
    );
    let path = dir.write_private("access.toml", &policy);
    let server = Launch::new(&["--access", &path]).on(&dir).start();
    dir.place("from/k", "v");
    dir.place("to/k", "old");
    let mut raw = server.connect();
    let proof = format!("Authorization: Bearer {}\r\n", token("ann"));
    for method in ["COPY", "MOVE"] {
        let refused = send(&mut raw, method, "/from/k", "/to/k", &proof);
        assert_eq!(refused.status, 409, "{method}");
    }
    assert_eq!(
        send(&mut raw, "MOVE", "/from/k", "/to/new", &proof).status,
        201
    );
    assert_eq!(dir.read("to/k"), b"old");
}
