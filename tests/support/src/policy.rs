//! What `--access` reads: subjects, rules, and the lines of a head by which a client proves that it is one of them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use super::s3::hex;
use super::{DataDir, Launch, TestServer, eventually};
use rustix::process::Signal;

/// The token of the subject `name`.
pub fn token(name: &str) -> String {
    format!("dst_{name}-0123456789abcdef0123456789abcdef")
}

/// What the file has of the token of `name`.
pub fn digest(name: &str) -> String {
    format!("sha256:{}", hex(&Sha256::digest(token(name))))
}

/// A subject with a token.
pub fn subject(name: &str) -> String {
    let digest = digest(name);
    format!("[[subject]]\nname = \"{name}\"\ntoken = \"{digest}\"\n")
}

/// A subject with the hash of a password.
pub fn with_password(name: &str, hash: &str) -> String {
    format!("[[subject]]\nname = \"{name}\"\npassword = \"{hash}\"\n")
}

/// A rule; none where it allows nothing.
pub fn rule(who: &str, prefix: &str, may: &[&str]) -> String {
    if may.is_empty() {
        return String::new();
    }
    format!("[[rule]]\nwho = [\"{who}\"]\nprefix = \"{prefix}\"\nmay = {may:?}\n")
}

/// A subject that may do this with all values.
pub fn one_who_may(name: &str, may: &[&str]) -> String {
    subject(name) + &rule(name, "", may)
}

/// The rights that are in the `set` of this number: a bit for each.
pub fn in_set(rights: &[&'static str], set: usize) -> Vec<&'static str> {
    let has = rights.iter().enumerate().filter(|(n, _)| set >> n & 1 == 1);
    has.map(|(_, right)| *right).collect()
}

/// The line by which a program proves that it is `name`.
pub fn bearer(name: &str) -> String {
    format!("Authorization: Bearer {}\r\n", token(name))
}

/// The line by which a browser or curl sends a name and a password.
pub fn basic(name: &str, password: &str) -> String {
    let pair = STANDARD.encode(format!("{name}:{password}"));
    format!("Authorization: Basic {pair}\r\n")
}

/// Writes the file of a policy beside the directory; its path.
pub fn write_policy(dir: &DataDir, text: &str) -> String {
    dir.write_private("access.toml", text)
}

/// A server of this directory with this policy, and `args` besides.
#[track_caller]
pub fn serve_on(dir: &DataDir, text: &str, args: &[&str]) -> TestServer {
    let path = write_policy(dir, text);
    let args = [&["--access", &*path], args].concat();
    Launch::new(&args).on(dir).start()
}

/// Has the server read the file again, and waits until it has.
#[track_caller]
pub fn reread(server: &TestServer) {
    let before = server.events("reload: access reread").len();
    server.signal(Signal::HUP);
    let comes = || server.events("reload: access reread").len() > before;
    eventually("it is reread", comes);
}

/// Replaces the policy of a server that runs; the path of its file.
#[track_caller]
pub fn revise(server: &TestServer, text: &str) -> String {
    let path = write_policy(&server.dir, text);
    reread(server);
    path
}
