//! The commands for `--access`, without a server: tokens, hashes, links, and what the rules say.
//!
//! Each answers text for standard output. Secrets come from files and standard input, never from arguments, which other users
//! of the machine can see.

use std::fmt::Write as _;
use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use data_encoding::HEXLOWER;
use rustix::rand::{GetRandomFlags, getrandom};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::access::{
    Access, BadAccess, Evidence, LinkKey, LinkKind, LinkTerms, PasswordHash, Policy, Right, Rule,
    SHORTEST_SECRET,
};
use crate::http::key_of_path;
use crate::reload::{self, NotReloaded};
use crate::store;

/// The prefix of tokens, so that they are told from other secrets where one has leaked.
const TOKEN: &str = "dst_";

/// Random bytes of a token.
const TOKEN_BYTES: usize = 32;

/// Why a command does nothing.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The file of `--access` is wrong.
    #[error(transparent)]
    Access(#[from] BadAccess),
    /// A server has not reread its files.
    #[error("reload: {0}")]
    Reload(#[from] NotReloaded),
    /// A journal cannot be looked at.
    #[error(transparent)]
    Journal(#[from] store::OpenError),
    /// The system failed.
    #[error("{0}")]
    System(#[from] io::Error),
    /// The arguments make no sense.
    #[error("{0}")]
    Misuse(String),
}

/// The command.
#[derive(Clone, Debug)]
pub enum Command {
    /// Make a token.
    NewToken,
    /// Hash the password on standard input.
    HashPassword,
    /// Have the server that is this process reread its files.
    Reload(u32),
    /// Say whether a file of `--access` is right.
    CheckAccess(PathBuf),
    /// Say which rule decides.
    Explain {
        /// The file of `--access`.
        file: PathBuf,
        /// The name of a subject, or `anonymous`.
        who: String,
        /// The method.
        method: String,
        /// The path of a value, a folder, or one of the server's own pages.
        path: String,
    },
    /// Say what the journal of the values in a directory has, which lies elsewhere if that is given.
    CheckJournal(PathBuf, Option<PathBuf>),
    /// Sign a link by the secret in a file.
    Sign(PathBuf, LinkOrder),
}

/// Does it: the text for standard output, and whether the answer is yes.
pub fn run(command: &Command) -> Result<(String, bool), Failure> {
    let yes = |text| (text, true);
    match command {
        Command::NewToken => new_token().map(yes),
        Command::HashPassword => hash_password().map(yes),
        Command::Reload(pid) => {
            reload::ask(*pid)?;
            Ok(yes(String::new()))
        }
        Command::CheckAccess(file) => check_access(file).map(yes),
        Command::Explain {
            file,
            who,
            method,
            path,
        } => explain_access(file, who, method, path),
        Command::CheckJournal(dir, at) => {
            let report = store::check_journal(dir, at.as_deref())?;
            Ok((report.text, !report.is_damaged))
        }
        Command::Sign(file, order) => sign(file, order).map(yes),
    }
}

/// A new token and, on the second line, its digest for the file.
fn new_token() -> Result<String, Failure> {
    let mut bytes = [0; TOKEN_BYTES];
    let mut filled = 0;
    while filled < bytes.len() {
        let more = getrandom(&mut bytes[filled..], GetRandomFlags::empty());
        filled += more.map_err(io::Error::from)?;
    }
    let token = format!("{TOKEN}{}", URL_SAFE_NO_PAD.encode(bytes));
    let Evidence::Token(digest) = Evidence::token(token.as_bytes()) else {
        return Err(Failure::Misuse("no digest".to_owned()));
    };
    let digest = HEXLOWER.encode(&digest);
    Ok(format!("{token}\nsha256:{digest}\n"))
}

/// The hash of the password on the first line of standard input. Typed at a terminal, it is not shown.
fn hash_password() -> Result<String, Failure> {
    let stdin = io::stdin();
    let hidden = Hidden::new(&stdin);
    if hidden.is_some() {
        eprint_prompt();
    }
    let mut line = String::new();
    stdin.lock().read_line(&mut line)?;
    drop(hidden);
    let password = line.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        return Err(Failure::Misuse(
            "hash-password: there is no password on standard input".to_owned(),
        ));
    }
    let hash = PasswordHash::make(password.as_bytes());
    let hash = hash.ok_or_else(|| io::Error::other("the system has no random bytes"))?;
    Ok(format!("{}\n", hash.as_str()))
}

fn eprint_prompt() {
    use std::io::Write as _;
    let _ = io::stderr().write_all(b"password: ");
}

/// A terminal that shows nothing of what is typed, until it is dropped.
struct Hidden<'a> {
    terminal: &'a io::Stdin,
    before: Termios,
}

impl<'a> Hidden<'a> {
    fn new(terminal: &'a io::Stdin) -> Option<Self> {
        if !terminal.is_terminal() {
            return None;
        }
        let before = tcgetattr(terminal).ok()?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(terminal, OptionalActions::Flush, &silent).ok()?;
        Some(Self { terminal, before })
    }
}

impl Drop for Hidden<'_> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.terminal, OptionalActions::Flush, &self.before);
        eprint_prompt_end();
    }
}

fn eprint_prompt_end() {
    use std::io::Write as _;
    let _ = io::stderr().write_all(b"\n");
}

/// Says that the file is right.
fn check_access(file: &Path) -> Result<String, Failure> {
    let access = Access::read(file.to_owned())?;
    let policy = access.policy();
    let warnings = policy.warnings().iter();
    let mut text = warnings.fold(String::new(), |text, why| text + "warning: " + why + "\n");
    let count = policy.rules().len();
    let plural = if count == 1 { "" } else { "s" };
    // Writing to a String does not fail.
    let _ = writeln!(text, "{}: ok, {count} rule{plural}", file.display());
    Ok(text)
}

/// Which rule of `file` decides whether `who` may do `method` with `path`: a line for each right that is enough; and whether
/// one of them is allowed.
fn explain_access(
    file: &Path,
    who: &str,
    method: &str,
    path: &str,
) -> Result<(String, bool), Failure> {
    let policy = Access::read(file.to_owned())?.policy();
    let name = (who != Rule::ANONYMOUS).then_some(who);
    if name.is_some_and(|name| policy.subject(name).is_none()) {
        return Err(Failure::Misuse(format!("there is no subject {who:?}")));
    }
    let (rights, key) = asked(method, path)?;
    let (mut text, mut is_allowed) = (String::new(), false);
    for &right in rights {
        let rule = policy.deciding(name, right, &key);
        is_allowed |= rule.is_some();
        text += &decision(&policy, right, rule);
    }
    Ok((text, is_allowed))
}

fn decision(policy: &Policy, right: Right, rule: Option<&Rule>) -> String {
    let name = right.name();
    let Some(rule) = rule else {
        return format!("{name}: refused, no rule allows it\n");
    };
    let at = policy
        .rules()
        .iter()
        .position(|other| std::ptr::eq(other, rule));
    let at = at.map_or(0, |at| at + 1);
    let (who, prefix) = (rule.who.join(", "), &rule.prefix);
    format!("{name}: allowed by rule {at}, for {who} with the prefix {prefix:?}\n")
}

/// The rights of which one is enough, and the key.
fn asked(method: &str, path: &str) -> Result<(&'static [Right], String), Failure> {
    let bad = |why: String| Failure::Misuse(why);
    let key = || key_of_path(path).map_err(|why| bad(format!("{path}: {why}")));
    let folder = path
        .strip_prefix('/')
        .filter(|name| name.is_empty() || name.ends_with('/'));
    Ok(match (method, path, folder) {
        ("GET" | "HEAD", "/-/metrics", _) => (&[Right::Metrics], String::new()),
        ("GET", "/-/watch", _) => (&[Right::Watch], String::new()),
        ("GET" | "HEAD", _, Some(folder)) => (&[Right::List], folder.to_owned()),
        ("GET" | "HEAD", ..) => (&[Right::Read], key()?),
        ("PUT" | "POST", ..) => (&[Right::Write, Right::Create], key()?),
        ("DELETE", ..) => (&[Right::Delete], key()?),
        _ => {
            return Err(bad(format!(
                "{method}: give GET, HEAD, PUT, POST or DELETE"
            )));
        }
    })
}

/// The terms of a link to be signed.
#[derive(Clone, Debug)]
pub struct LinkOrder {
    /// The URL or the path of the value.
    pub url: String,
    /// The name of the key in the file of `--access`.
    pub by: String,
    /// For how long it counts.
    pub lasts: Duration,
    /// It is for one PUT, and not for GET.
    pub is_put: bool,
    /// The most of a value that is stored, in bytes.
    pub max: Option<u64>,
}

/// A signed link, by the secret in `file`.
fn sign(file: &Path, order: &LinkOrder) -> Result<String, Failure> {
    let LinkOrder {
        url,
        by,
        lasts,
        is_put,
        max,
    } = order;
    let read = std::fs::read(file);
    let secret = read.map_err(|error| Failure::Misuse(format!("{}: {error}", file.display())))?;
    let secret = secret.trim_ascii();
    if secret.len() < SHORTEST_SECRET {
        let why = format!("{}: a secret has 32 bytes or more", file.display());
        return Err(Failure::Misuse(why));
    }
    if url.contains(['?', '#']) {
        return Err(Failure::Misuse(format!(
            "{url}: a link has a query of its own"
        )));
    }
    let path = match url.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => url,
    };
    let key = key_of_path(path).map_err(|why| Failure::Misuse(format!("{path}: {why}")))?;
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let expires = now.saturating_add(*lasts).as_secs();
    let kind = if *is_put {
        LinkKind::Create
    } else {
        LinkKind::Read
    };
    let terms = LinkTerms {
        kind,
        key: &key,
        expires,
        max: *max,
    };
    let signature = LinkKey::new(secret, "", None)
        .sign(&terms)
        .unwrap_or_default();
    let max = max.map_or_else(String::new, |max| format!("&max={max}"));
    Ok(format!(
        "{url}?expires={expires}&by={by}{max}&signature={signature}\n"
    ))
}
