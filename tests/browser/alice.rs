//! A server that knows one user, alice, and a browser in which she has answered its prompt. What she may do is said by
//! rules, and may be replaced while she looks at a page.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::browser::{Browser, origin};
use crate::support::prelude::*;

/// The line by which her browser proves who she is.
pub(crate) fn credentials() -> String {
    let pair = STANDARD.encode("alice:sesame");
    format!("Authorization: Basic {pair}\r\n")
}

/// What she may do to keys that begin with a prefix.
pub(crate) type Rule<'a> = (&'a str, &'a [&'a str]);

/// See the module.
pub(crate) struct ForAlice {
    pub(crate) server: TestServer,
    hash: String,
    more: &'static str,
}

impl ForAlice {
    pub(crate) fn start(dir: &DataDir, rules: &[Rule<'_>]) -> Self {
        Self::start_with(dir, rules, "")
    }

    /// With `more` rules, of others.
    pub(crate) fn start_with(dir: &DataDir, rules: &[Rule<'_>], more: &'static str) -> Self {
        let hash = bcrypt::hash("sesame", 5).expect("a hash");
        let file = write(dir, &hash, rules, more);
        let launch = Launch::new(&["--audit-log", "--access", &file]);
        let server = launch.on(dir).start();
        Self { server, hash, more }
    }

    /// From now on, these rules hold.
    pub(crate) fn replace(&self, rules: &[Rule<'_>]) {
        let before = self.server.events("reload: access reread").len();
        write(&self.server.dir, &self.hash, rules, self.more);
        self.server.signal(Signal::HUP);
        let comes = || self.server.events("reload: access reread").len() > before;
        eventually("the rules are reread", comes);
    }

    /// The page at the root. A URL with a name and a password is how a driver answers the prompt; the browser knows
    /// them from then on.
    pub(crate) fn open(&self, page: &Browser, keys: &[&str]) {
        let plain = format!("{}/", origin(self.server.addr));
        page.go(&plain.replacen("://", "://alice:sesame@", 1));
        page.go(&plain);
        page.shows(keys);
    }
}

fn write(dir: &DataDir, hash: &str, rules: &[Rule<'_>], more: &str) -> String {
    let rules = rules.iter().map(|(prefix, may)| {
        format!("[[rule]]\nwho = [\"alice\"]\nprefix = \"{prefix}\"\nmay = {may:?}\n")
    });
    let text = format!("[[subject]]\nname = \"alice\"\npassword = \"{hash}\"\n");
    let text = text + &rules.collect::<String>() + more;
    dir.write_private("access.toml", &text)
}
