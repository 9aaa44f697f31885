//! Proves by an oracle that knows the rules alone that a MOVE takes the rights of a GET and a DELETE at its source and
//! of a PUT at its destination, and a COPY those of a GET and a PUT; that a folder takes those to all that could be
//! below it; and that what a client may not read is not told.

use super::send;
use crate::support::policy::{basic, bearer, in_set, rule, serve_on, subject, token};
use crate::support::prelude::*;

/// The rights that the subject of a number has to one end: a bit for each of these.
const RIGHTS: [&str; 4] = ["read", "create", "write", "delete"];

/// The same where a folder moves.
const OF_FOLDERS: [&str; 4] = ["read", "delete", "list", "create"];

/// Where each subject has which rights: `from` to keys below `from/`, `to` to keys below `to/`.
fn policy() -> String {
    let mut text = String::new();
    for (from, to) in pairs() {
        let name = format!("s{from}-{to}");
        text += &subject(&name);
        text += &rule(&name, "from/", &in_set(&RIGHTS, from));
        text += &rule(&name, "to/", &in_set(&RIGHTS, to));
    }
    text
}

fn pairs() -> impl Iterator<Item = (usize, usize)> {
    (0..16).flat_map(|from| (0..16).map(move |to| (from, to)))
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
    let server = serve_on(&dir, &policy(), &[]);
    let mut raw = server.connect();
    let conditions = ["", "Overwrite: F\r\n", "Destination-If-Match: *\r\n"];
    let cases = ["MOVE", "COPY"].map(|method| conditions.map(|lines| (method, lines)));
    let mut asked = 0;
    for (from, to) in pairs() {
        let proof = bearer(&format!("s{from}-{to}"));
        let (from, to) = (in_set(&RIGHTS, from), in_set(&RIGHTS, to));
        for ((method, lines), is_there) in cases
            .iter()
            .flatten()
            .flat_map(|case| [(case, false), (case, true)])
        {
            dir.place("from/k", "v");
            dir.remove("to/k");
            if is_there {
                dir.place("to/k", "old");
            }
            let answer = send(
                &mut raw,
                method,
                "/from/k",
                "/to/k",
                &format!("{lines}{proof}"),
            );
            let told = expected(method, &from, &to, is_there, lines);
            let case = format!("{method} {from:?} {to:?} {is_there} {lines:?}");
            assert_eq!(answer.status, told, "{case}");
            let is_made = answer.status < 300;
            let is_at_its_end = dir.get("to/k").is_some_and(|value| value == b"v");
            assert_eq!(is_at_its_end, is_made, "{case}");
            let stays = !(is_made && *method == "MOVE");
            assert_eq!(dir.get("from/k").is_some(), stays, "{case}");
            asked += 1;
        }
    }
    say(&format!("{asked} requests answered as the rules say"));
}

/// Of the rights to a folder, those in the set are to all that could be below it, and the others to one key alone.
#[test]
fn a_folder_takes_the_rights_to_all_that_could_be_below_either_end() {
    directory_only!("moves of folders");
    let mut policy = String::new();
    for set in 0..16 {
        let name = format!("s{set}");
        policy += &subject(&name);
        for right in OF_FOLDERS {
            let end = if right == "create" { "to/" } else { "from/" };
            let to_all = in_set(&OF_FOLDERS, set).contains(&right);
            let part = if to_all { "" } else { "k" };
            policy += &rule(&name, &format!("{end}{part}"), &[right]);
        }
    }
    let dir = DataDir::temporary();
    let server = serve_on(&dir, &policy, &[]);
    let mut raw = server.connect();
    let mut shift = |from, to, lines: &str| send(&mut raw, "MOVE", from, to, lines).status;
    for set in 0..16 {
        dir.place_each("from/k from/other", "v");
        let is_allowed = set == 15;
        let (status, end) = if is_allowed {
            (201, "to")
        } else {
            (403, "from")
        };
        let has = in_set(&OF_FOLDERS, set);
        let answered = shift("/from/", "/to/", &bearer(&format!("s{set}")));
        assert_eq!(answered, status, "{has:?}");
        dir.assert_holds(&[&format!("{end}/k"), &format!("{end}/other")]);
    }
    assert_eq!(shift("/to/", "/from/", ""), 401);
}

#[test]
fn a_value_that_may_not_be_read_is_not_told_apart_from_none() {
    directory_only!("moves");
    let dir = DataDir::temporary();
    let server = serve_on(&dir, &policy(), &[]);
    dir.place("from/there", "v");
    let mut raw = server.connect();
    let mut ask = |method, from, proof: &str| send(&mut raw, method, from, "/to/k", proof).status;
    for method in ["MOVE", "COPY"] {
        for key in ["/from/there", "/from/absent"] {
            assert_eq!(ask(method, key, &bearer("s14-15")), 403, "{method} {key}");
        }
    }
    assert_eq!(ask("MOVE", "/from/there", ""), 401);
    let by_password = basic("x", &token("s15-15"));
    assert_eq!(ask("MOVE", "/from/absent", &by_password), 404);
}

/// The rule that says what one is answered who may create and not replace.
#[test]
fn the_rule_for_a_key_that_has_a_value_holds_for_the_destination() {
    directory_only!("moves");
    let dir = DataDir::temporary();
    let rules = rule("ann", "from/", &["read", "delete"]) + &rule("ann", "to/", &["create"]);
    let policy = subject("ann") + &rules + "existing = 409\n";
    let server = serve_on(&dir, &policy, &[]);
    dir.place("from/k", "v");
    dir.place("to/k", "old");
    let mut raw = server.connect();
    let mut ask = |method, to| send(&mut raw, method, "/from/k", to, &bearer("ann")).status;
    for method in ["COPY", "MOVE"] {
        assert_eq!(ask(method, "/to/k"), 409, "{method}");
    }
    assert_eq!(ask("MOVE", "/to/new"), 201);
    assert_eq!(dir.read("to/k"), b"old");
}
