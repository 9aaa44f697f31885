//! Proves who may do what: `--access FILE`, by every way in which a client proves who it is.

mod answers;
mod audit;
mod certificates;
mod commands;
mod existing;
mod failures;
mod hidden;
mod links;
mod reload;
mod rights;
mod shares;
mod sharing;
mod sign_in;
mod sites;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::support::prelude::*;
use crate::support::s3::hex;

/// The token of the subject `name`.
fn token(name: &str) -> String {
    format!("dst_{name}-0123456789abcdef0123456789abcdef")
}

/// What the file has of the token of `name`.
fn digest(name: &str) -> String {
    format!("sha256:{}", hex(&Sha256::digest(token(name))))
}

/// A subject with a token.
fn subject(name: &str) -> String {
    let digest = digest(name);
    format!("[[subject]]\nname = \"{name}\"\ntoken = \"{digest}\"\n")
}

/// A rule.
fn rule(who: &str, prefix: &str, may: &[&str]) -> String {
    format!("[[rule]]\nwho = [\"{who}\"]\nprefix = \"{prefix}\"\nmay = {may:?}\n")
}

/// The line by which a program proves that it is `name`.
fn bearer(name: &str) -> String {
    format!("Authorization: Bearer {}\r\n", token(name))
}

/// The line by which a browser or curl sends a name and a password.
fn basic(name: &str, password: &str) -> String {
    let pair = STANDARD.encode(format!("{name}:{password}"));
    format!("Authorization: Basic {pair}\r\n")
}

/// Writes the file of a policy beside the directory; its path.
fn write(dir: &DataDir, text: &str) -> String {
    dir.write_private("access.toml", text)
}

/// A server with this policy, and `args` besides.
#[track_caller]
fn serve(text: &str, args: &[&str]) -> TestServer {
    serve_on(&DataDir::temporary(), text, args)
}

/// The same, on this directory.
#[track_caller]
fn serve_on(dir: &DataDir, text: &str, args: &[&str]) -> TestServer {
    let path = write(dir, text);
    Launch::new(&[&["--access", &*path], args].concat())
        .on(dir)
        .start()
}

/// Has the server read the file again, and waits until it has.
pub fn reread(server: &TestServer) {
    let before = server.events("reload: access reread").len();
    server.signal(Signal::HUP);
    let comes = || server.events("reload: access reread").len() > before;
    eventually("it is reread", comes);
}

/// The target that `data-server sign` makes of `target`.
fn sign(dir: &DataDir, by: &str, target: &str, options: &[&str]) -> String {
    let secret = dir.outside(&format!("{by}.key"));
    let made = Command::new(env!("CARGO_BIN_EXE_data-server"))
        .args(["sign", "--by", by, "--secret-file"])
        .arg(secret)
        .args(options)
        .arg(target)
        .output()
        .expect("it runs");
    assert!(made.status.success(), "{made:?}");
    String::from_utf8(made.stdout)
        .expect("text")
        .trim_end()
        .to_owned()
}
