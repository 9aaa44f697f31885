//! Proves the commands: tokens, hashes of passwords, and what the rules say.

use std::process::Output;

use sha2::{Digest, Sha256};

use super::{basic, rule, serve, subject, with_password, write};
use crate::support::prelude::*;
use crate::support::s3::hex;

fn run(words: &[&str], input: &str) -> Output {
    let mut child = Command::new(binary())
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut stdin = child.stdin.take().expect("its input");
    // One that reads none may be gone by now.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().expect("its end")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).expect("text")
}

#[test]
fn a_new_token_comes_with_its_digest() {
    let [first, second] = [(); 2].map(|()| text(&run(&["new-token"], "")));
    let (token, digest) = first.trim_end().split_once('\n').expect("two lines");
    assert!(token.starts_with("dst_") && token.len() == 47, "{token}");
    let expected = hex(&Sha256::digest(token));
    assert_eq!(digest, format!("sha256:{expected}"));
    assert_ne!(first, second);
}

#[test]
fn a_hashed_password_is_one_that_the_server_takes() {
    let hash = text(&run(&["hash-password"], "open sesame\n"));
    let hash = hash.trim_end();
    let is_right = hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$");
    assert!(is_right, "{hash}");
    let bob = with_password("bob", hash) + &rule("bob", "", &["read"]);
    let server = serve(&bob, &[]);
    let get = |password| {
        let proof = basic("bob", password);
        server.request("GET", "/key", &proof, b"").status
    };
    assert_eq!(get("open sesame"), 404);
    assert_eq!(get("open sesame\n"), 401);
    assert_eq!(run(&["hash-password"], "\n").status.code(), Some(2));
}

#[test]
fn it_is_explained_which_rule_decides() {
    let dir = DataDir::temporary();
    let rules = [
        rule("ann", "a/", &["read", "create"]),
        rule("*", "{name}/", &["list"]),
        rule("anonymous", "public/", &["read"]),
        rule("ann", "c/", &["create"]) + "existing = 409\n",
        rule("anonymous", "d/", &["create"]) + "existing = 412\n",
        rule("ann", "w/", &["write"]),
    ];
    let path = &*write(&dir, &(subject("ann") + &rules.concat()));
    let checked = run(&["access", "check", path], "");
    assert_eq!(text(&checked), format!("{path}: ok, 6 rules\n"));
    let explain = |request: &str| {
        let args = [vec!["access", "explain", path], words(request)];
        run(&args.concat(), "")
    };
    let cases = "
        ann GET /a/b ; read: allowed by rule 1, for ann with the prefix \"a/\"
        ann GET /a%2Fb ; read: allowed by rule 1, for ann with the prefix \"a/\"
        ann PUT /a/b ; write: refused, no rule allows it|create: allowed by rule 1, for ann with the prefix \"a/\"|where there is a value: 403
        ann PUT /c/b ; write: refused, no rule allows it|create: allowed by rule 4, for ann with the prefix \"c/\"|where there is a value: 409
        anonymous PUT /d/a ; write: refused, no rule allows it|create: allowed by rule 5, for anonymous with the prefix \"d/\"|where there is a value: 412
        ann PUT /w/a ; write: allowed by rule 6, for ann with the prefix \"w/\"|create: allowed by rule 6, for ann with the prefix \"w/\"
        ann DELETE /a/b ; delete: refused, no rule allows it
        ann MKCOL /a/b/ ; create: allowed by rule 1, for ann with the prefix \"a/\"
        ann MKCOL /a ; create: allowed by rule 1, for ann with the prefix \"a/\"
        ann MKCOL /b ; create: refused, no rule allows it
        ann MOVE /a/b /w/c ; read of \"a/b\": allowed by rule 1, for ann with the prefix \"a/\"|delete of \"a/b\": refused, no rule allows it|write of \"w/c\": allowed by rule 6, for ann with the prefix \"w/\"|create of \"w/c\": allowed by rule 6, for ann with the prefix \"w/\"
        ann COPY /a/b /c/d ; read of \"a/b\": allowed by rule 1, for ann with the prefix \"a/\"|write of \"c/d\": refused, no rule allows it|create of \"c/d\": allowed by rule 4, for ann with the prefix \"c/\"|where there is a value of \"c/d\": 409
        ann MOVE /a/ /c/ ; read of \"a/\": allowed by rule 1, for ann with the prefix \"a/\"|delete of \"a/\": refused, no rule allows it|list of \"a/\": refused, no rule allows it|create of \"c/\": allowed by rule 4, for ann with the prefix \"c/\"
        ann COPY /ann/ /c/ ; list of \"ann/\": allowed by rule 2, for * with the prefix \"{name}/\"|create of \"c/\": allowed by rule 4, for ann with the prefix \"c/\"|each value below: as COPY of its key
        ann DELETE /ann/ ; delete: refused, no rule allows it|list: allowed by rule 2, for * with the prefix \"{name}/\"
        ann GET /?archive=tar ; read: allowed by rule 1, for ann with the prefix \"a/\"|list: allowed by rule 2, for * with the prefix \"{name}/\"|each value below: as GET and listing of its key
        ann PUT /?archive=tar ; create: allowed by rule 1, for ann with the prefix \"a/\"|each value below: as PUT of its key
        ann GET /ann/ ; list: allowed by rule 2, for * with the prefix \"{name}/\"
        ann GET /%61nn%2F ; list: allowed by rule 2, for * with the prefix \"{name}/\"
        ann GET /?prefix=%61nn/x ; list: allowed by rule 2, for * with the prefix \"{name}/\"
        ann GET /b/?prefix=ann/ ; list: refused, no rule allows it
        anonymous GET /ann/x ; read: refused, no rule allows it
        ann POST /a/b ; write: refused, no rule allows it|create: allowed by rule 1, for ann with the prefix \"a/\"|where there is a value: 403
        ann GET /-/metrics ; metrics: refused, no rule allows it";
    for [request, expected] in table(cases) {
        let output = explain(request);
        // A PUT may create where it may not write.
        let is_refused = expected
            .replace("write: refused", "")
            .replace("write of \"c/d\": refused", "")
            .contains("refused");
        let is_refused = is_refused || !expected.contains("allowed by");
        let code = i32::from(is_refused);
        assert_eq!(output.status.code(), Some(code), "{request}");
        let found = String::from_utf8_lossy(&output.stdout);
        assert_eq!(found, expected.replace('|', "\n") + "\n", "{request}");
    }
    let wrong = "
        bob GET /a ; there is no subject \"bob\"
        ann TRACE /a ; this path takes GET, HEAD, PUT, DELETE, MOVE, COPY, MKCOL, OPTIONS
        ann GET /..
        ann GET /%2e%2e/
        ann MOVE /a /..
        ann POST /-/upload ; each value is a PUT of its key
        ann MOVE /a/b ; MOVE and COPY need one Destination
        ann COPY /a/ ; MOVE and COPY need one Destination
        ann GET /a/?archiv=tar ; no parameter \"archiv\"
        ann DELETE /a/?files=b ; no parameter \"files\"
        ann COPY /a/b /c/ ; a folder is moved and copied to a folder
        ann MOVE /a/ / ; a folder is moved and copied to a folder
        ann PUT /a/b /c/d ; only MOVE and COPY have a destination
        ann GET /a/?archive=rar ; it is tar or zip";
    for [request, why] in table(wrong) {
        let output = explain(request);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{request} {said}");
        assert!(said.contains(why), "{said}");
    }
    write(&dir, "[[rule]]\nwho = \"bob\"\nmay = \"read\"\n");
    let checked = run(&["access", "check", path], "");
    assert_eq!(checked.status.code(), Some(0));
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(
        said.contains("access.toml:2: there is no subject \"bob\"\n")
            && said.ends_with("ok, 1 rule\n"),
        "{said}"
    );
}

#[test]
fn a_prefix_that_may_mean_something_else_is_doubted_or_refused() {
    let dir = DataDir::temporary();
    let check = |prefix: &str, may: &str| {
        let path = write(&dir, &(subject("ann") + &rule("ann", prefix, &[may])));
        let output = run(&["access", "check", &path], "");
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).expect("text"))
    };
    let doubted = r#"
        build/
        build/public-
        build ; access.toml:6: the prefix "build" covers "build-x" too
        {name} ; covers "{name}-x" too
        build/* ; access.toml:6: '*' in the prefix "build/*" stands for itself"#;
    for [prefix, part] in table(doubted) {
        let (code, said) = check(prefix, "read");
        assert_eq!(code, Some(0), "{said}");
        let is_doubted = said.contains("warning: ") && said.contains(part);
        assert_eq!(is_doubted, !part.is_empty(), "{said}");
    }
    let refused = r#"
        /build/ ; read ; access.toml:6: no key begins with '/': write "build/"
        build/ ; reed ; link, metrics; "reed" is none of them"#;
    for [prefix, may, part] in table(refused) {
        let (code, said) = check(prefix, may);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(part), "{said}");
    }
}
