//! One matrix of rights: each operation, asked by clients that have each set of the rights that it names, alone and
//! beside all others, and by one that proves nothing. The status, what changes on the disk and what `access explain`
//! says are judged by one function from a row, which knows the rules alone.
//!
//! An operation joins by a row.

use super::{bearer, one_who_may, rule, serve, serve_on, sign, subject};
use crate::archives::tar;
use crate::support::form::{FOLDER, FORM, REPLACE, file, form};
use crate::support::prelude::*;

/// The rights of the subjects: to what begins with `in/`, with `to/`, and with `in/f/k`, a part of a folder.
const RIGHTS: &str = "read create write delete list watch link metrics \
    to.read to.create to.write k.read k.delete k.list";

/// Rows of a request, what it is answered, its lines parted by `|`, and what changes where it succeeds.
///
/// The last word of a request is a value, the name of the member of an archive, the key of a form, or the Destination.
/// The answer is that of the first alternative whose rights the client has, where `anonymous` is each client;
/// without any it is 403, or 401 to one that proves nothing.
const OPERATIONS: &str = "
GET /in/there ; 200 read
GET /in/open/there ; 200 read | 200 anonymous
GET /in/absent ; 404 read
GET /in%2Fthere ; 200 read
GET /out/there ;
GET /out/absent ;
HEAD /in/there ; 200 read
HEAD /out/absent ;
GET /in/there ; 206 read ; Range: bytes=0-0
GET /in/there ; 304 read ; If-None-Match: *
PUT /in/new w ; 200 create | 200 write ; ; +in/new
PUT /in/there w ; 200 write ; ; ~in/there
PUT /in/new w ; 200 create | 200 write ; If-None-Match: * ; +in/new
PUT /in/there w ; 412 create | 412 write ; If-None-Match: *
PUT /in/there w ; 200 write read ; If-Match: * ; ~in/there
PUT /in/there w ; 412 write read ; If-Match: \"x\"
PUT /in/there w ; 200 write read ; If-None-Match: \"x\" ; ~in/there
PUT /out/new w ;
PUT /out/there w ; ; Expect: 100-continue
PUT /in/?archive=tar new ; 200 create | 200 write ; ; +in/new
PUT /in/?archive=tar there ; 200 write ; ; ~in/there
PUT /in/?archive=tar there ; 200 create | 200 write ; If-None-Match: *
PUT /?archive=tar out/new ;
POST /-/upload in/new ; 200 create | 200 write ; ; +in/new
POST /-/upload in/there ; 200 write ; ; ~in/there
POST /-/upload out/new ;
POST /-/upload ; 400 ; Content-Type: multipart/form-data; boundary=b | Content-Length: 0
DELETE /in/there ; 200 delete ; ; -in/there
DELETE /in/absent ; 404 delete
DELETE /out/absent ;
GET /?prefix=in/ ; 200 list | 200 k.list
GET /?prefix=i ; 200 list | 200 k.list
GET /?prefix=in/x ; 200 list
GET / ; 200 list | 200 k.list
GET /in/ ; 200 list | 200 k.list
GET /in/ ; 200 list | 200 k.list ; Accept: text/html
GET /?prefix=out/ ;
GET /out/ ;
GET /in/f/?archive=tar ; 200 read list | 200 read k.list | 200 k.read list | 200 k.read k.list
GET /in/f/?archive=zip ; 200 read list | 200 read k.list | 200 k.read list | 200 k.read k.list
GET /out/f/?archive=tar ;
GET /-/watch?prefix=out ;
GET /-/metrics ; 200 metrics
GET /-/healthz ; 200
GET /-/ready ; 200
GET /-/none ; 404
OPTIONS /in/there ; 204
PATCH /in/there ; 405 ; Content-Length: 0
POST /in/there?share ; 200 read link
POST /out/there?share ;
POST /in/f/?share ; 200 read list link
POST /in/f/?share&hand-in ; 200 create link | 200 write link
POST /out/f/?share ;
POST /?share&hand-in ;
";

/// What a directory alone has, or a store that the tests do not have.
const OF_A_DIRECTORY: &str = "
PUT /in/new w ; 201 create | 201 write ; Upload-Complete: ?0
LOCK /in/there {\"ID\":\"1\"} ; 200 read create | 200 read write ; Content-Type: application/json ; +in/there.lock
LOCK /out/there {\"ID\":\"1\"} ; ; Content-Type: application/json
UNLOCK /in/there {\"ID\":\"1\"} ; 409 read delete ; Content-Type: application/json
UNLOCK /out/there ; ; Content-Type: application/json
POST /in/there?ID=1 w ; 409 read create | 409 read write ; Content-Type: application/json
PUT /in/there?ID=1 w ; 409 read write ; Content-Type: application/json | If-Match: *
POST /out/there?ID=1 w ; ; Content-Type: application/json
DELETE /in/there ; 412 delete read ; If-Match: \"x\"
MOVE /in/there /to/new ; 201 read delete to.read to.write | 204 read delete to.write | 201 read delete to.create ; ; -in/there +to/new
MOVE /in/there /to/there ; 204 read delete to.write ; ; -in/there ~to/there
MOVE /in/there /to/new ; 201 read delete to.create | 201 read delete to.write ; Overwrite: F ; -in/there +to/new
MOVE /in/there /to/there ; 412 read delete to.create | 412 read delete to.write ; Overwrite: F
MOVE /in/there /to/new ; 412 read delete to.read to.write ; Destination-If-Match: *
MOVE /in/there /to/there ; 204 read delete to.read to.write ; Destination-If-Match: * ; -in/there ~to/there
MOVE /in/absent /to/new ; 404 read delete to.create | 404 read delete to.write
MOVE /in/there /out/new ;
COPY /in/there /to/new ; 201 read to.read to.write | 204 read to.write | 201 read to.create ; ; +to/new
COPY /in/there /to/there ; 204 read to.write ; ; ~to/there
COPY /in/there /to/new ; 201 read to.create | 201 read to.write ; Overwrite: F ; +to/new
COPY /in/there /to/there ; 412 read to.create | 412 read to.write ; Overwrite: F
COPY /in/there /to/new ; 412 read to.read to.write ; Destination-If-Match: *
COPY /in/there /to/there ; 204 read to.read to.write ; Destination-If-Match: * ; ~to/there
COPY /in/absent /to/new ; 404 read to.create | 404 read to.write
MKCOL /in/new ; 201 create | 201 write ; ; +in/new
MKCOL /in/new/below/ ; 409 create | 409 write
MKCOL /in/f/ ; 405 create | 405 write
MKCOL /in ; 405 create | 405 write
MKCOL /i ;
MKCOL /in- ;
MKCOL /out/new ;
MKCOL /out/f/ ;
DELETE /in/f/ ; 409 delete list
DELETE /in/f/ ; 200 delete list ; Depth: infinity ; -in/f/k -in/f/other
DELETE /in/absent/ ; 404 delete list ; Depth: infinity
DELETE /in/ ; 200 delete list ; Depth: infinity ; -in/f/k -in/f/other -in/open/there -in/there
DELETE /out/f/ ; ; Depth: infinity
DELETE /out/f/ ;
MOVE /in/f/ /to/new/ ; 201 read delete list to.create | 201 read delete list to.write ; ; -in/f/k -in/f/other +to/new/k +to/new/other
COPY /in/f/ /to/new/ ; 200 read list to.create | 200 read list to.write ; ; +to/new/k +to/new/other
";

/// The same by the door of `WebDAV`, where a folder needs no `/` at the end.
const OF_S3: &str = "
GET /in/there ; 200 read
GET /in/open/there ; 200 read | 200 anonymous
GET /in/absent ; 404 read
GET /out/absent ;
HEAD /in/there ; 200 read
GET /in/there?attributes ; 200 read ; x-amz-object-attributes: ETag
PUT /in/new w ; 200 create | 200 write ; ; +in/new
PUT /in/there w ; 200 write ; ; ~in/there
PUT /in/there w ; 412 create | 412 write ; If-None-Match: *
PUT /in/there?partNumber=1&uploadId=x w ; 404 create | 404 write
PUT /out/new w ;
PUT /out/new?partNumber=1&uploadId=x w ;
PUT /to/new ; 200 read to.create | 200 read to.write ; x-amz-copy-source: /in/there | Content-Length: 0 ; +to/new
PUT /to/there ; 200 read to.write ; x-amz-copy-source: /in/there | Content-Length: 0 ; ~to/there
PUT /to/new ; ; x-amz-copy-source: /out/there | Content-Length: 0
DELETE /in/there ; 204 delete ; ; -in/there
DELETE /in/absent ; 204 delete
DELETE /in/there?uploadId=x ; 404 create | 404 write
DELETE /out/absent ;
GET /in ; 200 list | 200 k.list
GET /in?prefix=x ; 200 list
GET /in?uploads ; 200 list | 200 k.list
GET /in?versioning ; 200 list | 200 k.list
GET / ; 200 list | 200 k.list
GET /out ;
HEAD /in ; 200 list | 200 k.list
HEAD /out ;
PUT /in ; 409 create | 409 write
PUT /out ;
DELETE /in ; 409 delete list
DELETE /out ;
";

const OF_WEBDAV: &str = "
OPTIONS /in/there ; 200
PROPFIND /in/there ; 207 list ; Depth: 0
PROPFIND /in/absent ; 404 list ; Depth: 0
PROPFIND /in/ ; 207 list | 207 k.list ; Depth: 1
PROPFIND /in/f ; 207 list | 207 k.list ; Depth: 1
PROPFIND / ; 207 list | 207 k.list ; Depth: 0
PROPFIND /out/ ; ; Depth: 1
PROPFIND /out/absent ; ; Depth: 0
GET /in/there ; 200 read
GET /out/absent ;
PUT /in/new w ; 201 create | 201 write ; ; +in/new
PUT /in/there w ; 204 write ; ; ~in/there
PUT /in/none/new w ; 409 create | 409 write
PUT /in/there w ; 412 create | 412 write ; If: (<urn:none>)
PUT /out/new w ;
PUT /out/there w ; ; If: (<urn:none>)
DELETE /in/there ; 204 delete ; ; -in/there
DELETE /in/absent ; 404 delete
DELETE /in/f ; 204 delete list ; ; -in/f/k -in/f/other
DELETE /out/f ;
DELETE /out/absent ;
MKCOL /in/new ; 201 create | 201 write ; ; +in/new
MKCOL /in/f ; 405 create | 405 write
MKCOL /out/new ;
MKCOL /out/f ;
MOVE /in/there /to/new ; 201 read delete to.create | 201 read delete to.write ; ; -in/there +to/new
MOVE /in/there /to/there ; 204 read delete to.write ; ; -in/there ~to/there
MOVE /in/there /to/there ; 412 read delete to.create | 412 read delete to.write ; Overwrite: F
MOVE /in/there /out/new ;
MOVE /in/absent /to/new ; 404 read delete to.create | 404 read delete to.write
MOVE /in/f /to/new ; 201 read delete list to.create | 201 read delete list to.write ; ; -in/f/k -in/f/other +to/new/k +to/new/other
MOVE /out/f /to/new ;
COPY /in/there /to/new ; 201 read to.create | 201 read to.write ; ; +to/new
COPY /in/there /to/there ; 204 read to.write ; ; ~to/there
COPY /in/f /to/new ; 201 read list to.create | 201 read list to.write ; ; +to/new/k +to/new/other
PROPPATCH /in/there ; 207 create | 207 write
PROPPATCH /out/there ;
LOCK /in/there ; 412 create | 412 write
LOCK /out/there ;
UNLOCK /in/there ; 409 create | 409 write ; Lock-Token: <urn:none>
UNLOCK /out/there ; ; Lock-Token: <urn:none>
";

/// Repositories of restic. One who may create adds to them, and removes where the rules say so, as in `locks/`; here
/// that is `keys/`, which `k.delete` is for.
const OF_REPOSITORIES: &str = "
POST /in/config w ; 200 create | 200 write ; ; +in/config
POST /in/f/keys/50e721e49c013f00c62cf59f2163542a9d8df02464efeb615d31051b0fddc326 w ; 200 create | 200 write ; ; +in/f/keys/50e721e49c013f00c62cf59f2163542a9d8df02464efeb615d31051b0fddc326
POST /in/f/data/50e721e49c013f00c62cf59f2163542a9d8df02464efeb615d31051b0fddc326 w ; 200 create | 200 write ; ; +in/f/data/50/50e721e49c013f00c62cf59f2163542a9d8df02464efeb615d31051b0fddc326
POST /in/f/config w ; 403 create | 403 write
POST /in/f/locks/0000000000000000000000000000000000000000000000000000000000000000 w ; 400 create | 400 write
POST /out/config w ;
POST /out/keys/0000000000000000000000000000000000000000000000000000000000000000 w ;
POST /in/f/?create=true ; 200 create | 200 write
POST /out/?create=true ;
GET /in/f/data/0000000000000000000000000000000000000000000000000000000000000000 ; 200 read
GET /out/data/0000000000000000000000000000000000000000000000000000000000000000 ;
GET /in/f/keys/ ; 200 list | 200 k.list ; Accept: application/vnd.x.restic.rest.v2
GET /in/f/data/ ; 200 list ; Accept: application/vnd.x.restic.rest.v2
GET /out/keys/ ; ; Accept: application/vnd.x.restic.rest.v2
DELETE /in/f/keys/0000000000000000000000000000000000000000000000000000000000000000 ; 200 delete | 200 k.delete ; ; -in/f/keys/0000000000000000000000000000000000000000000000000000000000000000
DELETE /in/f/data/0000000000000000000000000000000000000000000000000000000000000000 ; 200 delete ; ; -in/f/data/00/0000000000000000000000000000000000000000000000000000000000000000
DELETE /in/f/data/50e721e49c013f00c62cf59f2163542a9d8df02464efeb615d31051b0fddc326 ; 404 delete
DELETE /out/data/0000000000000000000000000000000000000000000000000000000000000000 ;
";

/// With `--compat`, where keys have one segment and nothing is listed.
const COMPAT: &str = "
GET /in-there ; 200 read
GET /in-absent ; 404 read
GET /out-there ;
GET /out-absent ;
HEAD /in-there ; 200 read
GET /in-there ; 206 read ; Range: bytes=0-0
PUT /in-new w ; 200 create | 200 write ; ; +in-new
PUT /in-there w ; 200 write ; ; ~in-there
PUT /out-new w ;
PUT /out-there w ;
DELETE /in-there ; 200 delete ; ; -in-there
DELETE /in-absent ; 404 delete
DELETE /out-absent ;
GET /-/metrics ; 200 metrics
GET /-/watch?prefix=out ;
GET /-/healthz ; 200
GET / ; 404
GET /in-there/ ; 404
GET /in-there/x ; 404
PUT /in-new/x w ; 204
PUT / w ; 204
PUT /in-there ; 304
PUT /out-there ; 304
OPTIONS /in-there ; 404
POST /-/upload ; 404 ; Content-Type: multipart/form-data; boundary=b | Content-Length: 0
POST /in-there?share ; 404
PATCH /in-there ; 404 ; Content-Length: 0
";

/// A set of the rights, by their numbers in [`RIGHTS`].
type Set = usize;

/// The name of the subject that has these rights.
fn name(set: Set) -> String {
    format!("s{set}")
}

struct Row {
    text: String,
    method: &'static str,
    target: &'static str,
    last: &'static str,
    lines: String,
    /// Each status, and the rights that it takes.
    answers: Vec<(u16, Vec<&'static str>)>,
    changes: &'static str,
}

impl Row {
    fn all(rows: &'static str) -> Vec<Self> {
        let row = |[request, answers, lines, changes]: [&'static str; 4]| {
            let text = format!("{request} {lines}");
            let request = words(request);
            let answers = answers.split('|').map(words);
            let answers = answers.filter(|answer| !answer.is_empty());
            let answers = answers.map(|answer| (answer[0].parse().unwrap(), answer[1..].to_vec()));
            let lines = match lines {
                "" => String::new(),
                lines => lines.replace(" | ", "\r\n") + "\r\n",
            };
            Self {
                text,
                method: request[0],
                target: request[1],
                last: request.get(2).copied().unwrap_or_default(),
                lines,
                answers: answers.collect(),
                changes,
            }
        };
        table(rows).map(row).collect()
    }

    /// Each set of the rights that it names, alone and beside all others.
    fn sets(&self) -> impl Iterator<Item = Set> {
        let rights = words(RIGHTS);
        let all = (1 << rights.len()) - 1;
        let is_named = |right| self.answers.iter().any(|(_, needs)| needs.contains(right));
        let named = rights
            .iter()
            .enumerate()
            .filter(|(_, right)| is_named(*right));
        let named: Set = named.map(|(at, _)| 1 << at).sum();
        (0..=all).filter(move |set| set & !named == 0 || set | named == all)
    }

    /// A client by a link has not what others have that prove nothing.
    fn expected(&self, who: Option<Set>, is_link: bool) -> u16 {
        let rights = words(RIGHTS);
        let has = |right: &&str| match who {
            _ if *right == "anonymous" => !is_link,
            None => false,
            Some(set) => rights
                .iter()
                .position(|it| it == right)
                .is_some_and(|at| set >> at & 1 == 1),
        };
        let mut answers = self.answers.iter();
        let answer = answers.find(|(_, needs)| needs.iter().all(has));
        answer.map_or(if who.is_some() { 403 } else { 401 }, |(status, _)| *status)
    }

    /// Asks below the path `link`.
    fn ask(&self, raw: &mut Raw, link: &str, proof: &str) -> Response {
        let destination = format!("Destination: {}\r\n", self.last);
        let (of_body, body) = match (self.method, self.last.rsplit_once('/')) {
            ("MOVE" | "COPY", _) => (&*destination, Vec::new()),
            ("POST", Some((folder, name))) => {
                let parts: [(&str, &[u8]); 3] = [
                    (FOLDER, folder.as_bytes()),
                    (REPLACE, b"1"),
                    (&file(name), b"w"),
                ];
                (FORM, form(&parts))
            }
            _ if self.target.contains("?archive") => ("", tar([(self.last, &b"w"[..])])),
            _ => ("", self.last.as_bytes().to_vec()),
        };
        let body = if self.method == "GET" { &[] } else { &*body };
        let lines = format!("{proof}{of_body}{}", self.lines);
        let target = format!("{link}{}", self.target);
        ask(raw, self.method, &target, &lines, body)
    }

    /// The clients by links to the folder: of each the beginning of its paths, and the set of rights that it stands
    /// for.
    fn by_links(&self, links: &[String; 2]) -> [(String, Set); 2] {
        let set = |names: &[&str]| {
            let rights = words(RIGHTS).into_iter().enumerate();
            let named = rights.filter(|(_, right)| names.contains(right));
            named.map(|(at, _)| 1 << at).sum()
        };
        // A listing by a link to hand files in is empty.
        let hands_in = ["create", "list"];
        let hands_in = &hands_in[..if self.method == "GET" { 2 } else { 1 }];
        let [read, create] = links.clone();
        [(read, set(&["read", "list"])), (create, set(hands_in))]
    }

    /// Whether `access explain` ends as the answer does, or takes no such request. It knows no lines, and says what a
    /// value that is there takes besides, and each value below.
    fn is_explained(&self, dir: &DataDir, who: Option<Set>, inside: &str, expected: u16) -> bool {
        if !self.lines.is_empty() || is_s3() || is_http2() || is_tls() {
            return true;
        }
        let policy = who.map_or(policy([], inside), |set| policy([set], inside));
        let path = dir.write_private("explained.toml", &policy);
        let who = who.map_or("anonymous".to_owned(), name);
        let mut explain = Command::new(binary());
        explain.args(["access", "explain", &path, &who, self.method, self.target]);
        if matches!(self.method, "MOVE" | "COPY") {
            explain.arg(self.last);
        }
        let ended = explain.output().expect("it runs");
        let is_refused = matches!(expected, 401 | 403);
        let said = String::from_utf8_lossy(&ended.stdout);
        let is_of_values =
            ["where there is a value", "each value below"].map(|it| said.contains(it));
        match ended.status.code() {
            Some(0) => !is_refused || is_of_values.contains(&true),
            Some(1) => is_refused,
            code => code == Some(2),
        }
    }
}

/// A subject with these rights, and the rules that give them.
fn policy_of(set: Set, inside: &str) -> String {
    let (name, rights) = (name(set), words(RIGHTS));
    let has = rights
        .iter()
        .enumerate()
        .filter(|(at, _)| set >> at & 1 == 1);
    let rules = has.map(|(_, right)| match right.split_once('.') {
        Some(("to", right)) => rule(&name, "to/", &[right]),
        Some((_, right)) => rule(&name, "in/f/k", &[right]),
        None => rule(&name, inside, &[*right]),
    });
    subject(&name) + "shares = \"k1\"\n" + &rules.collect::<String>()
}

/// The policy of these subjects, beside a client that proves nothing.
fn policy(sets: impl IntoIterator<Item = Set>, inside: &str) -> String {
    let subjects = sets.into_iter().map(|set| policy_of(set, inside));
    let key = "[[link-key]]\nname = \"k1\"\nsecret-file = \"k1.key\"\n";
    subjects.collect::<String>() + key + &rule("anonymous", &format!("{inside}open/"), &["read"])
}

/// The beginning of the paths by a link to the folder of the rights.
fn link(dir: &DataDir, options: &[&str], is_asked_for: bool) -> String {
    let link = is_asked_for.then(|| sign(dir, "k1", "/in/", options));
    link.unwrap_or_default().trim_end_matches("/in/").to_owned()
}

type Tree = BTreeMap<String, Option<Vec<u8>>>;

/// The keys that were changed, made and removed, as rows name them.
fn changes(before: &Tree, after: &Tree) -> String {
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let changes = keys
        .into_iter()
        .filter_map(|key| match (before.get(key), after.get(key)) {
            (Some(old), Some(new)) if old == new => None,
            (Some(_), Some(_)) => Some(format!("~{key}")),
            (Some(_), None) => Some(format!("-{key}")),
            (None, _) => Some(format!("+{key}")),
        });
    changes.collect::<Vec<_>>().join(" ")
}

/// Asks each of these rows by each client. Keys that begin with `inside` are those of the rights without a prefix.
fn holds(rows: &'static str, keys: &str, inside: &str, args: &[&str]) {
    let dir = DataDir::in_memory();
    dir.write_private("k1.key", &"secret-".repeat(6));
    let rows = Row::all(rows);
    let sets: BTreeSet<_> = rows.iter().flat_map(Row::sets).collect();
    let server = serve_on(&dir, &policy(sets, inside), args);
    let tree = || {
        let names = dir.names().into_iter();
        let names = names.map(|name| String::from_utf8(name).expect("text"));
        let tree: Tree = names.map(|name| (name.clone(), dir.get(&name))).collect();
        tree
    };
    let place = || words(keys).into_iter().for_each(|key| dir.place(key, key));
    place();
    let before = tree();
    let has_links = args.is_empty();
    let is_s3 = args.iter().any(|arg| arg.starts_with("s3+"));
    let links = [&[][..], &["--put"]].map(|options| link(&dir, options, has_links));
    let (mut faults, mut asked, mut raw) = (Vec::new(), 0, server.connect());
    for row in &rows {
        let proved = row.sets().map(|set| (String::new(), Some(set)));
        let by_links = row.by_links(&links).map(|(link, set)| (link, Some(set)));
        let by_links = by_links.into_iter().filter(|_| has_links);
        for (link, who) in proved.chain([(String::new(), None)]).chain(by_links) {
            let proof = who.filter(|_| link.is_empty());
            let proof = proof.map_or(String::new(), |set| bearer(&name(set)));
            let answer = row.ask(&mut raw, &link, &proof);
            let text = String::from_utf8_lossy(&answer.body);
            let names = [
                "in/there",
                "in/f",
                "in/open",
                "href=\"there\"",
                "href=\"f/\"",
            ];
            let seen = row.method == "GET" && names.iter().any(|name| text.contains(name));
            if link == links[1] && has_links && answer.status == 200 && seen {
                faults.push(format!(
                    "{}: seen by one who hands in: {answer:?}",
                    row.text
                ));
            }
            asked += 1;
            if answer.closes() {
                raw = server.connect();
            }
            let expected = row.expected(who, !link.is_empty());
            let changes = changes(&before, &tree());
            // S3 has no 401.
            let shown = if expected == 401 && is_s3 {
                403
            } else {
                expected
            };
            let is_made = (200..300).contains(&expected);
            let wanted = if is_made { row.changes } else { "" };
            let is_asked_who = answer.header("www-authenticate").is_some();
            let found = (answer.status, changes.clone(), is_asked_who);
            let is_explained = !args.is_empty()
                || !link.is_empty()
                || row.is_explained(&dir, who, inside, expected);
            if found != (shown, wanted.to_owned(), expected == 401) || !is_explained {
                let has = words(RIGHTS).into_iter().enumerate();
                let has = has.filter(|(at, _)| who.is_some_and(|set| set >> at & 1 == 1));
                let has: Vec<_> =
                    who.map_or(vec!["no proof"], |_| has.map(|(_, right)| right).collect());
                faults.push(format!(
                    "{link} {} {has:?}: {found:?}, not {expected} {wanted:?} {is_explained}",
                    row.text
                ));
            }
            if !changes.is_empty() {
                dir.clear();
                place();
            }
        }
    }
    let unknown = server.request(
        "GET",
        &format!("/{inside}open/there"),
        &bearer("unknown"),
        b"",
    );
    assert_eq!(
        unknown.status,
        if is_s3 { 403 } else { 401 },
        "it has not even the rights of anonymous clients"
    );
    dir.assert_nothing_staged();
    assert!(
        faults.is_empty(),
        "{} of {asked}:\n{}",
        faults.len(),
        faults.join("\n")
    );
    say(&format!("{asked} requests answered as the rules say"));
}

const KEYS: &str = "in/there in/f/k in/f/other in/open/there to/there out/there out/f/k";

#[test]
fn each_client_may_do_what_the_rules_say_and_nothing_else() {
    holds(OPERATIONS, KEYS, "in/", &[]);
}

#[test]
fn folders_are_made_moved_and_removed_as_the_rules_say() {
    directory_only!("moves, and folders of the directory");
    holds(OF_A_DIRECTORY, KEYS, "in/", &[]);
}

#[test]
fn by_webdav_the_rules_say_the_same() {
    directory_only!("folders");
    let door = ["--listen", "dav+http://127.0.0.1:0"];
    holds(OF_WEBDAV, KEYS, "in/", &door);
}

#[test]
fn by_s3_the_rules_say_the_same() {
    directory_only!("buckets");
    let door = ["--listen", "s3+http://127.0.0.1:0"];
    holds(OF_S3, KEYS, "in/", &door);
}

#[test]
fn of_a_repository_the_rules_say_the_same() {
    let content = ["--content", r#"prefix = "", kind = "restic""#];
    let file = "0000000000000000000000000000000000000000000000000000000000000000";
    let keys = ["in/f/keys/", "in/f/data/00/", "out/keys/", "out/data/00/"];
    let keys = keys.map(|folder| format!("{folder}{file} {folder}other "));
    let keys = keys.concat();
    holds(
        OF_REPOSITORIES,
        &(keys + "in/f/config in/open/there"),
        "in/",
        &content,
    );
}

#[test]
fn one_who_may_create_locks_nothing_of_others() {
    directory_only!("locks");
    let door = ["--listen", "dav+http://127.0.0.1:0"];
    let server = serve(&one_who_may("create", &["create"]), &door);
    server.dir.place("in/there", "v");
    let xml = "<lockinfo xmlns='DAV:'><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>";
    let lines = format!("{}Content-Length: {}\r\n", bearer("create"), xml.len());
    for (target, status) in [
        ("/in/there", 403),
        ("/in/", 403),
        ("/in", 403),
        ("/in/new", 201),
    ] {
        let got = server.request("LOCK", target, &lines, xml.as_bytes());
        assert_eq!(got.status, status, "{target}");
    }
}

/// The older server's answers come after the same decisions.
#[test]
fn with_compat_the_rules_say_the_same() {
    directory_only!("the mode of the C server");
    holds(COMPAT, "in-there in-open out-there", "in-", &["--compat"]);
}

#[test]
fn one_who_may_create_stores_a_long_value() {
    let server = serve(&one_who_may("create", &["create"]), &[]);
    let long = vec![b'x'; 3_000_000];
    let put = server.request("PUT", "/in/c", &bearer("create"), &long);
    assert_eq!(put.status, 200);
    assert_eq!(server.dir.read("in/c"), long);
}

/// Two writers of a key that is not there, of which neither may replace: one of them stores it.
#[test]
fn of_two_who_may_create_one_does() {
    let server = serve(&one_who_may("create", &["create"]), &[]);
    let begin = |body: &str| {
        let mut raw: Raw = server.connect();
        let create = bearer("create");
        raw.send(format!(
            "PUT /in/one HTTP/1.1\r\nHost: t\r\n{create}Content-Length: 2\r\n\r\n{body}"
        ));
        raw
    };
    let (mut first, mut second) = (begin("a"), begin("b"));
    first.send("a");
    second.send("b");
    let mut answers = [first.answer().status, second.answer().status];
    answers.sort_unstable();
    assert_eq!(answers, [200, 403]);
    let stored = server.dir.read("in/one");
    assert!(stored == b"aa" || stored == b"bb", "{stored:?}");
}

/// The request was refused, and ended the one under way all the same.
#[test]
fn a_request_that_is_refused_does_not_end_anothers_upload() {
    directory_only!("resumable uploads");
    let policy = subject("ann")
        + &subject("bob")
        + &rule("ann", "ann/", &["write"])
        + &rule("ann", "", &["metrics"]);
    let server = serve(&policy, &[]);
    let ann = bearer("ann");
    let upload = Resumable::create(&mut server.connect(), "ann/k", &ann, b"x");
    let mut under_way = server.connect();
    let head = upload.append_head(1, true, 4);
    under_way.send(head.replace("\r\n\r\n", &format!("\r\n{ann}\r\n")));
    under_way.send("ab");
    eventually("it is received", || {
        let scrape = Scrape::over(&mut server.connect(), &ann);
        scrape.only("data_server_uploads_in_flight") > 0.0
    });
    for method in ["HEAD", "DELETE"] {
        let mut raw = server.connect();
        let status = ask(&mut raw, method, &upload.path, &bearer("bob"), b"").status;
        assert_eq!(status, 403);
        assert_eq!(ask(&mut raw, method, &upload.path, "", b"").status, 401);
    }
    let refused = upload.append_with(&mut server.connect(), 1, true, &bearer("bob"), b"evil");
    assert_eq!(refused.status, 403);
    under_way.send("cd");
    assert_eq!(under_way.answer().status, 200);
    assert_eq!(server.dir.read("ann/k"), b"xabcd");
}

#[test]
fn a_query_whose_parameter_only_ends_like_a_links_is_ignored() {
    let server = serve(&(subject("ann") + &rule("ann", "", &["read"])), &[]);
    server.dir.place("k", "v");
    let mut raw = server.connect();
    for query in ["my_signature=abc", "a=signature=b"] {
        let answer = ask(&mut raw, "GET", &format!("/k?{query}"), &bearer("ann"), b"");
        assert_eq!(answer.status, 200, "{query}");
    }
    let answer = ask(&mut raw, "GET", "/k?signature=abc", &bearer("ann"), b"");
    assert_eq!(answer.status, 403);
}
