//! Proves that SIGHUP replaces all rules at once, that a bad file replaces none, and that what was revoked holds no
//! longer.

use super::{bearer, revise, rule, serve, subject, write};
use crate::support::prelude::*;

fn policy(names: &[&str]) -> String {
    let subjects: String = names.iter().map(|name| subject(name)).collect();
    subjects + &rule("*", "", &["read", "write", "metrics"])
}

/// To take a leaked token out with its subject is the plainest way to revoke it, and rules may name the subject still.
#[test]
fn a_subject_that_a_rule_still_names_is_revoked_with_a_warning() {
    let rules = rule("ann", "", &["read"]) + &rule("bob", "", &["read"]);
    let server = serve(&(subject("ann") + &subject("bob") + &rules), &[]);
    let mut connection = server.connect();
    let mut get = |name| ask(&mut connection, "GET", "/key", &bearer(name), b"").status;
    assert_eq!(get("ann"), 404);
    let carl = subject("carl") + &rule("carl", "", &["read"]);
    let path = revise(&server, &(subject("bob") + &rules + &carl));
    assert_eq!(get("ann"), 401, "from the next request on");
    assert_eq!((get("bob"), get("carl")), (404, 404));
    server.event(&format!("{path}:5: there is no subject \"ann\""));
}

#[test]
fn a_bad_file_changes_nothing_and_is_told() {
    let server = serve(&policy(&["ann"]), &[]);
    write(&server.dir, "[[rule]]\nwho = []\nmay = [\"read\"]\n");
    server.signal(Signal::HUP);
    let event = server.event("reload: access not reread: the old rules stay");
    let error = event.field("error");
    let is_right = error.contains("access.toml:2: who has one name or more");
    assert!(is_right, "{error}");
    let mut connection = server.connect();
    let status = ask(&mut connection, "GET", "/key", &bearer("ann"), b"").status;
    assert_eq!(status, 404);
    revise(&server, &policy(&["ann"]));
    let scrape = Scrape::over(&mut server.connect(), &bearer("ann"));
    for result in ["ok", "failed"] {
        let count = scrape.count("data_server_access_reloads_total", &[("result", result)]);
        assert_eq!(count, 1, "{result}");
    }
}

#[test]
fn a_bad_file_keeps_the_server_from_starting() {
    let hash = "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHQ";
    // The lines of the file, the one that is wrong, and why.
    let files = format!(
        "
        who = 1 ; 1 ; unknown field
        [[subject]]|name = \"a b\" ; 2 ; letters and digits
        [[subject]]|name = \"anonymous\" ; 2 ; a meaning of its own
        [[subject]]|name = \"a\"|[[subject]]|name = \"a\" ; 4 ; another subject's
        [[subject]]|name = \"a\"|token = \"plain\" ; 3 ; by its digest
        [[subject]]|name = \"a\"|password = \"plain\" ; 3 ; no hash
        [[subject]]|name = \"a\"|password = \"{hash}\" ; 3 ; malformed
        [[subject]]|name = \"a\"|not-after = 2027-01-01 ; 3 ; a time of UTC
        [[rule]]|who = \"*\"|may = [\"Read\"] ; 3 ; may has one or more of read, create
        [[rule]]|who = \"*\"|may = [] ; 3 ; may has one or more
        [[rule]]|who = \"*\"|prefix = \"/a\"|may = [\"read\"] ; 3 ; no key begins
        [[rule]]|who = []|may = [\"read\"] ; 2 ; one name or more
        realm = \"a\\\"b\" ; 1 ; without quotes
        [[link-key]]|name = \"k\"|secret-file = \"absent\" ; 3 ; No such file"
    );
    for [text, line, why] in table(&files) {
        let text = text.replace('|', "\n") + "\n";
        let dir = DataDir::temporary();
        let path = &*write(&dir, &text);
        let ended = Launch::new(&["--access", path]).on(&dir).start_or_end();
        let Err(ended) = ended else {
            panic!("it serves: {text}")
        };
        assert_eq!(ended.code, Some(1), "{text}");
        let place = format!("access.toml:{line}: ");
        assert!(ended.stderr.contains(&place), "{text}: {}", ended.stderr);
        assert!(ended.stderr.contains(why), "{text}: {}", ended.stderr);
    }
}

/// Each of two files gives both names the same one right: a mixture of them would give both or none.
#[test]
fn no_request_fails_and_none_sees_two_files_while_rules_are_replaced() {
    let files = ["a/", "b/"].map(|prefix| {
        let rules = rule("ann", prefix, &["read"]) + &rule("bob", prefix, &["read"]);
        [subject("ann"), subject("bob"), rules].concat()
    });
    let server = serve(&files[0], &["--threads", "2"]);
    let done = Done::default();
    thread::scope(|scope| {
        let asking = ["ann", "bob"].map(|name| {
            let (server, lines) = (&server, bearer(name));
            scope.spawn(move || {
                let mut connection = server.connect();
                for target in ["/a/key", "/b/key"].into_iter().cycle().take(1000) {
                    let status = ask(&mut connection, "GET", target, &lines, b"").status;
                    assert!(matches!(status, 403 | 404), "{status}");
                }
            })
        });
        scope.spawn(|| {
            let mut rounds = 0;
            while !done.is_said() {
                rounds += 1;
                revise(&server, &files[rounds % 2]);
            }
            say(&format!("{rounds} files"));
        });
        let _done = done.when_dropped();
        for asking in asking {
            asking.join().expect("no failure");
        }
    });
}
