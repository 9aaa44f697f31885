//! Proves for each target that each parameter of its own is taken once, or often where it may be, that a mistyped one
//! is refused by its name, and that those which mails, chats and caches add to an address change nothing.

use crate::archives::tar;
use crate::support::policy::{bearer, rule, serve_on, subject};
use crate::support::prelude::*;

/// What a target makes of a parameter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Once,
    Often,
    /// It is another target's, and would be passed over.
    Not,
    /// Nothing depends on it.
    Ignored,
}

use Takes::{Ignored, Not, Often, Once};

/// The parameters of listings and of archives.
const LISTING: [&str; 6] = [
    "prefix=k",
    "after=a",
    "limit=5",
    "delimiter=/",
    "format=json",
    "unlisted",
];
const ARCHIVE: [&str; 2] = ["archive=tar", "files=a"];

/// A request, the query that it has in any case, what it makes of these parameters, and whether it takes others.
type Target = (
    &'static str,
    &'static str,
    &'static str,
    Takes,
    &'static [&'static str],
    bool,
);

const TARGETS: &[Target] = &[
    ("GET", "/d/", "", Once, &LISTING, true),
    ("HEAD", "/d/", "", Once, &LISTING, true),
    ("GET", "/d/", "", Not, &["files=a"], true),
    ("GET", "/d/", "", Once, &["archive=tar"], true),
    ("GET", "/d/", "archive=zip&", Often, &["files=a"], true),
    ("GET", "/d/", "archive=zip&", Not, &LISTING, true),
    ("PUT", "/d/", "", Once, &["archive=tar"], true),
    ("PUT", "/d/", "archive=tar&", Not, &LISTING, true),
    ("PUT", "/d/", "archive=tar&", Not, &["files=a"], true),
    ("GET", "/", "", Once, &["sign-in=d/", "sign-out"], true),
    ("GET", "/k", "", Ignored, &LISTING, true),
    ("GET", "/k", "", Ignored, &ARCHIVE, true),
    ("PUT", "/k", "", Not, &["archive=tar"], true),
    ("PUT", "/k", "", Ignored, &LISTING, true),
    ("DELETE", "/gone", "", Ignored, &LISTING, true),
    ("POST", "/k", "", Once, &["share=1h"], false),
    ("GET", "/-/watch", "", Once, &["prefix=k", "since=1"], false),
    ("GET", "/-/healthz", "", Ignored, &LISTING, true),
    ("MKCOL", "/new/", "", Not, &LISTING, false),
    ("DELETE", "/none/", "", Not, &LISTING, false),
    ("MOVE", "/none/", "", Not, &LISTING, false),
    ("COPY", "/none/", "", Not, &LISTING, false),
];

const ADDED: &[&str] = &[
    "utm_source=x",
    "utm_medium=x",
    "utm_campaign=x",
    "utm_term=x",
    "utm_content=x",
    "utm_id=x",
    "fbclid=x",
    "gclid=x",
    "dclid=x",
    "msclkid=x",
    "mc_cid=x",
    "mc_eid=x",
    "igshid=x",
    "twclid=x",
    "_ga=x",
    "_hsenc=x",
    "yclid=x",
    "ref=x",
    "source=x",
    "v=1",
    "x=%ff&x=%zz",
];

/// What a hurried hand makes of `name`: a letter less, twice, for another, two exchanged, and in capitals.
fn mistyped(name: &str) -> BTreeSet<String> {
    let mut made = BTreeSet::from([name.to_uppercase()]);
    for at in 0..name.len() {
        let (before, letter, after) = (&name[..at], &name[at..=at], &name[at + 1..]);
        made.insert(format!("{before}{after}"));
        made.insert(format!("{before}{letter}{letter}{after}"));
        made.insert(format!("{before}q{after}"));
        if let Some(next) = after.chars().next() {
            made.insert(format!("{before}{next}{letter}{}", &after[1..]));
        }
    }
    made.remove(name);
    made
}

/// The answer to the request of `target` with this query.
fn answer(server: &TestServer, target: &Target, query: &str) -> Response {
    let (method, path, given, ..) = target;
    let body = match (*method, *path) {
        ("PUT", "/d/") => tar([("a", &b"v"[..])]),
        ("PUT", _) => b"v".to_vec(),
        _ => Vec::new(),
    };
    let (address, lines) = (format!("{path}?{given}{query}"), bearer("ann"));
    if *path != "/-/watch" {
        let lines = lines + "Destination: /elsewhere/\r\n";
        return server.request(method, &address, &lines, &body);
    }
    // The feed has no end.
    let mut raw = server.connect();
    raw.begin(method, &address, &lines);
    let mut got = raw.head();
    if got.status != 200 {
        got.body = raw.take(got.length());
    }
    got
}

#[test]
fn each_target_takes_its_parameters_and_passes_over_none_that_is_mistyped() {
    let dir = DataDir::temporary();
    dir.write_private("k1.key", &"x".repeat(32));
    let all = ["read", "write", "delete", "list", "link", "watch"];
    let key = "[[link-key]]\nname = \"k1\"\nsecret-file = \"k1.key\"\n";
    let policy = subject("ann") + "shares = \"k1\"\n" + &rule("ann", "", &all) + key;
    let server = serve_on(&dir, &policy, &[]);
    server.dir.place("d/a", "v");
    server.dir.place("k", "v");
    let mut asked = 0;
    for target in TARGETS {
        let (method, path, given, takes, parameters, takes_others) = *target;
        let ask = |query: &str| answer(&server, target, query);
        let mut check = |query: &str, name: Option<&str>| {
            let (got, asks) = (ask(query), format!("{method} {path}?{given}{query}"));
            let says = String::from_utf8_lossy(&got.body);
            assert_eq!(got.status == 400, name.is_some(), "{asks}: {says}");
            let names_it = method == "HEAD" || name.is_none_or(|name| says.contains(name));
            assert!(names_it, "{asks}: {says}");
            asked += 1;
        };
        for parameter in parameters {
            let name = parameter.split('=').next().expect("a name");
            let unless = |is_taken: bool| Some(name).filter(|_| !is_taken);
            check(parameter, unless(takes != Not));
            let twice = format!("{parameter}&v=1&{parameter}");
            let twice = twice.replace("&v=1", if takes_others { "&v=1" } else { "" });
            check(&twice, unless(matches!(takes, Often | Ignored)));
            for other in mistyped(name) {
                let others = if takes_others { "v=1&" } else { "" };
                let query = others.to_owned() + &parameter.replacen(name, &other, 1);
                check(&query, Some(&*other).filter(|_| takes != Ignored));
            }
            if takes == Once || takes == Often {
                check(&format!("{name}=%ff"), Some(name));
            }
        }
        let plain = ask("");
        for added in ADDED {
            if takes_others {
                let same = ask(added);
                let is_same = same.status == plain.status && same.body == plain.body;
                assert!(is_same, "{method} {path}?{given}{added}: {same:?}");
            } else {
                let beside = if takes == Once { parameters[0] } else { "" };
                check(&format!("{beside}&{added}"), added.split('=').next());
            }
        }
    }
    say(&format!("{asked} queries answered by the table"));
}
