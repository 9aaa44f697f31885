//! A client of the page: whether it is installed, a home of its own, and the lines of its section, run as they stand.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::session::{Session, Setting};
use crate::support::{TestServer, left_out, say, table};
use crate::{CLIENTS, page};

/// How long the lines up to the next output may take: the first start of a Java program on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// Whether a run with fewer clients than expected fails.
pub(crate) fn is_required() -> bool {
    env::var_os("DATA_SERVER_CLIENTS").is_some_and(|form| form == "required" || form == "full")
}

/// Whether the forms that take long were asked for.
fn is_full() -> bool {
    env::var_os("DATA_SERVER_CLIENTS").is_some_and(|form| form == "full")
}

/// Where `tests/clients/install` puts what is no Debian package.
pub(crate) fn installed() -> PathBuf {
    let test = env::current_exe().expect("the path of this test");
    let target = test.ancestors().nth(3).expect("the directory of builds");
    target.join("clients")
}

/// The variables of a client: none of the machine's own settings, only where programs are.
pub(crate) fn environment() -> Vec<(String, OsString)> {
    let installed = installed();
    let found = env::var_os("PATH").unwrap_or_default();
    let own = ["venv/bin", "npm/node_modules/.bin", "sccache/bin"].map(|bin| installed.join(bin));
    let path = env::join_paths(own.into_iter().chain(env::split_paths(&found)));
    let cache = installed.join("go");
    // rustup keeps the toolchains in the home, unless it is told where.
    let home = env::var_os("HOME").unwrap_or_default();
    let rustup = env::var_os("RUSTUP_HOME");
    let rustup = rustup.unwrap_or_else(|| Path::new(&home).join(".rustup").into());
    [
        ("PATH", path.expect("directories")),
        ("CLIENTS", installed.into()),
        ("GOCACHE", cache.into()),
        ("RUSTUP_HOME", rustup),
        ("GOTOOLCHAIN", "local".into()),
        ("PIP_DISABLE_PIP_VERSION_CHECK", "1".into()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// The first of these needs, with commas between them, that is not met.
pub(crate) fn missing(needs: &'static str) -> Option<&'static str> {
    let is_met = |need: &str| {
        let is_program = !need.contains(' ');
        let find = if is_program { "command -v " } else { "" };
        let mut bash = Command::new("bash");
        bash.args(["-c", &format!("{find}{need}")]);
        let output = bash.env_clear().envs(environment()).output();
        output.is_ok_and(|output| output.status.success())
    };
    needs.split(", ").find(|need| !is_met(need))
}

/// The client of this name in the list.
#[track_caller]
fn row(name: &str) -> [&'static str; 2] {
    let row = table(CLIENTS).find(|[listed, _]| *listed == name);
    row.expect("a client of the list")
}

/// A client that is installed, and a server to come.
pub(crate) struct Client {
    name: &'static str,
    session: Session,
    since: Instant,
}

impl Client {
    /// The client of this section; or says that it is left out.
    #[track_caller]
    pub(crate) fn of(name: &str) -> Option<Self> {
        let [name, needs] = row(name);
        Self::needing(name, needs)
    }

    /// A client of this name, where these needs are met; or says that it is left out.
    #[track_caller]
    pub(crate) fn needing(name: &'static str, needs: &'static str) -> Option<Self> {
        if let Some(need) = missing(needs) {
            left_out(name, &format!("there is no `{need}`"));
            return None;
        }
        let setting = Setting {
            is_strict: true,
            env: Some(environment()),
            patience: PATIENCE,
        };
        Some(Self {
            name,
            session: Session::new(&setting),
            since: Instant::now(),
        })
    }

    /// Writes a file of the user's home, such as settings that the page takes for granted.
    pub(crate) fn place(&self, path: &str, text: &str) {
        let path = self.home().join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, text).expect("a file of the home");
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.session.home()
    }

    /// Runs the lines of the section.
    #[track_caller]
    pub(crate) fn play(&mut self) {
        match self.session.run(&page::section(self.name)) {
            Ok(held) => assert!(held > 0, "{}: the page shows no output", self.name),
            Err(why) => panic!("docs/clients.md, {why}"),
        }
    }

    /// Runs more lines in the same shell. They print what their `#>` lines say.
    #[track_caller]
    pub(crate) fn run(&mut self, lines: &str) {
        let ran = self.session.run(&format!("```sh\n{}\n```\n", lines.trim()));
        if let Err(why) = ran {
            panic!("{}, {why}", self.name);
        }
    }

    /// Runs these lines in the full form only.
    #[track_caller]
    pub(crate) fn run_if_full(&mut self, lines: &str) {
        if is_full() {
            self.run(lines);
        }
    }

    /// Runs a program of `tests/clients/programs`: every way of its library to store and read a value, whole and cut
    /// off. Where the section has a proxy in front, through that.
    #[track_caller]
    pub(crate) fn hold(&mut self, command: &str, program: &str) {
        let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/programs");
        let program = programs.join(program);
        let program = program.display();
        self.run(&format!("{command} {program} ${{FRONT:-$S}}\n#> held"));
        let dir = &self.server().dir;
        dir.assert_nothing_staged();
        assert_eq!(dir.read("cut"), b"old", "after an upload that broke off");
        assert!(!dir.file("many").exists(), "folders of keys that are gone");
    }

    /// Transfers of all kinds through the proxy of the section, by the clients that are installed.
    #[track_caller]
    pub(crate) fn through_front(&mut self) {
        for (name, command, program) in [
            ("requests", "python3", "with_requests.py"),
            ("aiohttp", "python3", "with_aiohttp.py"),
            ("Node", "node", "with_fetch.mjs"),
        ] {
            let [_, needs] = row(name);
            if let Some(need) = missing(needs) {
                let what = format!("{name} through {}", self.name);
                left_out(&what, &format!("there is no `{need}`"));
            } else {
                self.hold(command, program);
            }
        }
    }

    /// The server of the section.
    #[track_caller]
    pub(crate) fn server(&self) -> &TestServer {
        self.session.server()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let time = self.since.elapsed().as_secs_f32();
        say(&format!("CLIENT: {}: {time:.1} s", self.name));
    }
}

/// The files below a directory, by their paths in it.
pub(crate) fn files(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else {
                let inside = path.strip_prefix(dir).expect("a path inside");
                found.push(inside.to_str().expect("text").to_owned());
            }
        }
    }
    found.sort();
    found
}
