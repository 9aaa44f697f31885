//! The commands that need no server: tokens, hashes, links, what the rules of `--access` say, the check of a journal,
//! what bounds hold, and the request that a server rereads its files.
//!
//! Each answers text for standard output. Secrets come from files and standard input, never from arguments, which other
//! users of the machine can see.

mod bounds;
mod explain;

use std::fmt::Display;
use std::io::{self, BufRead, IsTerminal, Write as _};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytesize::ByteSize;
use clap::{Args, Subcommand};
use data_encoding::{BASE32_NOPAD, HEXLOWER};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::access::{Access, Evidence, LinkKey, LinkKind, LinkTerms, PasswordHash, read_secret};
use crate::http::{SignedLink, folder, key};
use crate::lifecycle::ask_reload;
use crate::store;
use crate::transfer::random;

pub use bounds::describe_bounds;

/// The prefix of tokens, so that they are told from other secrets where one has leaked.
const TOKEN: &str = "dst_";

/// Why a command fails; a [`UsageError`] if its arguments are wrong.
pub type Failure = Box<dyn std::error::Error>;

/// The arguments make no sense.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(String);

/// A command that needs no server and none of its options. Its documentation is its help.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Have a server reread certificates and the access file, as SIGHUP does: exits with 0 when all was read, else 1
    /// and the reason
    Reload {
        /// Process id of the server
        #[arg(value_parser = number(1..=u32::MAX))]
        pid: u32,
    },
    /// Make a token: prints the token for its user, and on a second line its digest for the access file
    NewToken,
    /// Make a key of S3: prints two lines for a subject of the access file, which its client needs too
    NewS3Key,
    /// Hash the password on the first line of standard input, for the access file
    HashPassword,
    /// Check or explain an access file
    #[command(subcommand)]
    Access(AccessCommand),
    /// Look at the journal of a directory
    #[command(subcommand)]
    Journal(JournalCommand),
    /// Sign a link by which one value may be read, or stored once, without a token
    Sign(LinkOrder),
}

/// A look at a file of `--access`.
#[derive(Clone, Debug, Subcommand)]
pub enum AccessCommand {
    /// Check a file, as a start would: `FILE: ok`, or what is wrong
    Check {
        /// The file
        file: PathBuf,
    },
    /// Print which rule decides; exits with 0 when the request is allowed, else 1
    Explain {
        /// The file
        file: PathBuf,
        /// Name of a subject, or anonymous
        subject: String,
        /// GET, HEAD, PUT, POST, DELETE, MKCOL, MOVE or COPY
        method: String,
        /// Path of a value (/a/b), a folder (/a/), /-/watch or /-/metrics, percent-encoded; folders and /-/watch with
        /// ?prefix=, folders with ?archive=, a value with ?share= for POST
        path: String,
        /// For MOVE and COPY, the path of the destination
        destination: Option<String>,
    },
}

/// A look at a journal.
#[derive(Clone, Debug, Subcommand)]
pub enum JournalCommand {
    /// Print what a journal has, whether it is damaged, and what a replay would do, changing nothing; exits with 0 when
    /// it is whole, else 1
    Check {
        /// Directory of the values
        dir: PathBuf,
        /// Directory of the journal [default: where the last server had it]
        #[arg(long, value_name = "DIR")]
        journal_dir: Option<PathBuf>,
    },
}

/// The terms of a link to be signed.
#[derive(Args, Clone, Debug)]
pub struct LinkOrder {
    /// The URL or the path of the value, or of a folder, with / at its end; with --base also its key, percent-encoded
    url: String,
    /// Name of the link key in the access file
    #[arg(long, value_name = "NAME")]
    by: String,
    /// File of its secret
    #[arg(long, value_name = "FILE", required_unless_present = "access")]
    secret_file: Option<PathBuf>,
    /// Access file, in place of the secret: refuses what the server would refuse
    #[arg(long, value_name = "FILE", conflicts_with = "secret_file")]
    access: Option<PathBuf>,
    /// URL of the server's root, where it is below a path of a proxy
    #[arg(long, value_name = "URL")]
    base: Option<String>,
    /// Time for which the link is valid
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    lasts: humantime::Duration,
    /// For one PUT, where there is no value, instead of GET; of a folder, for files to be handed in, of which the link
    /// shows none
    #[arg(long)]
    put: bool,
    /// With --put, the longest value that may be stored
    #[arg(long, value_name = "SIZE", requires = "put", value_parser = size)]
    max: Option<ByteSize>,
}

/// Parses a number of bytes.
pub fn size(text: &str) -> Result<ByteSize, String> {
    let why = "give a number of bytes, or one with KiB, MiB, GiB, kB, MB or GB, such as 64MiB";
    text.parse().map_err(|_| why.to_owned())
}

/// A parser of whole numbers of this range.
pub fn number<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: Clone + Display + FromStr + PartialOrd,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        let (least, most) = (range.start(), range.end());
        number.ok_or_else(|| format!("give a whole number from {least} to {most}"))
    }
}

/// Runs `command`; returns the text for standard output, and true if the answer is yes.
pub fn run(command: &Command) -> Result<(String, bool), Failure> {
    let yes = |text| (text, true);
    match command {
        Command::NewToken => new_token().map(yes),
        Command::NewS3Key => new_s3_key().map(yes),
        Command::HashPassword => hash_password().map(yes),
        Command::Reload { pid } => {
            ask_reload(*pid).map_err(|why| format!("reload: {why}"))?;
            Ok(yes(String::new()))
        }
        Command::Access(AccessCommand::Check { file }) => check_access(file).map(yes),
        Command::Access(AccessCommand::Explain {
            file,
            subject,
            method,
            path,
            destination,
        }) => explain::explain_access(file, subject, method, path, destination.as_deref()),
        Command::Journal(JournalCommand::Check { dir, journal_dir }) => {
            let report = store::check_journal(dir, journal_dir.as_deref())?;
            Ok((report.text, !report.is_damaged))
        }
        Command::Sign(order) => sign(order).map(yes),
    }
}

/// A new token of 256 random bits and, on the second line, its digest for the file.
fn new_token() -> Result<String, Failure> {
    let secret = [random()?, random()?].map(u128::to_ne_bytes).concat();
    let token = format!("{TOKEN}{}", URL_SAFE_NO_PAD.encode(secret));
    let Evidence::Token(digest) = Evidence::token(token.as_bytes()) else {
        return Err("no digest".into());
    };
    let digest = HEXLOWER.encode(&digest);
    Ok(format!("{token}\nsha256:{digest}\n"))
}

/// A new key of S3, as lines of the file: an id in the form of others, and a secret of 240 random bits.
fn new_s3_key() -> Result<String, Failure> {
    let [id, first, second] = [random()?, random()?, random()?].map(u128::to_ne_bytes);
    let (id, secret) = (BASE32_NOPAD.encode(&id), [first, second].concat());
    let (id, secret) = (&id[..18], URL_SAFE_NO_PAD.encode(&secret[..30]));
    Ok(format!("s3-key = \"DS{id}\"\ns3-secret = \"{secret}\"\n"))
}

/// The hash of the password on the first line of standard input. Typed at a terminal, it is not shown.
fn hash_password() -> Result<String, Failure> {
    let stdin = io::stdin();
    let hidden = Hidden::new(&stdin);
    if hidden.is_some() {
        let _ = io::stderr().write_all(b"password: ");
    }
    let mut line = String::new();
    stdin.lock().read_line(&mut line)?;
    drop(hidden);
    let password = line.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        let why = "hash-password: there is no password on standard input";
        return Err(UsageError(why.to_owned()).into());
    }
    let hash = PasswordHash::make(password.as_bytes());
    let hash = hash.ok_or("the system has no random bytes")?;
    Ok(format!("{}\n", hash.as_str()))
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
        let _ = io::stderr().write_all(b"\n");
    }
}

/// Checks the file.
fn check_access(file: &Path) -> Result<String, Failure> {
    let access = Access::read(file.to_owned())?;
    let policy = access.policy();
    let warnings = policy.warnings.iter();
    let warnings = warnings.chain(&policy.doubts);
    let text = warnings.fold(String::new(), |text, why| text + "warning: " + why + "\n");
    let count = policy.rules.len();
    let plural = if count == 1 { "" } else { "s" };
    Ok(format!(
        "{text}{}: ok, {count} rule{plural}\n",
        file.display()
    ))
}

/// A signed link.
fn sign(order: &LinkOrder) -> Result<String, Failure> {
    let LinkOrder { url, by, .. } = order;
    let bad = |why: &dyn Display| -> Failure { UsageError(format!("{url}: {why}")).into() };
    let base = order.base.as_deref().map(|base| base.trim_end_matches('/'));
    let has_query = |text: &str| text.contains(['?', '#']);
    if has_query(url) || base.is_some_and(has_query) {
        return Err(bad(&"a link has a query of its own"));
    }
    let below = base.map(|base| {
        let rest = url.strip_prefix(base).filter(|rest| rest.starts_with('/'));
        rest.unwrap_or(url).trim_start_matches('/')
    });
    if below.is_some_and(|below| below.contains("://")) {
        return Err(bad(&"it is not below --base"));
    }
    let (url, path) = match (base.zip(below), url.split_once("://")) {
        (Some((base, below)), _) => (format!("{base}/{below}"), format!("/{below}")),
        (None, Some((_, rest))) => {
            let path = rest.find('/').map_or("/", |at| &rest[at..]);
            (url.clone(), path.to_owned())
        }
        (None, None) => (url.clone(), url.clone()),
    };
    let of = match (&*path, folder(&path)) {
        ("/", _) => String::new(),
        (_, Ok(Some(folder))) => folder,
        _ => key(&path, false).map_err(|why| bad(&why))?.to_string(),
    };
    let now = SystemTime::now();
    let since_epoch = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let expires = since_epoch.saturating_add(*order.lasts).as_secs();
    let kind = if order.put {
        LinkKind::Create
    } else {
        LinkKind::Read
    };
    let max = order.max.map(|max| max.as_u64());
    let terms = LinkTerms {
        kind,
        key: &of,
        expires,
        max,
    };
    if max.is_some() && terms.is_of_folder() {
        return Err(bad(&"--max is of a link to one value"));
    }
    let signature = match (&order.secret_file, &order.access) {
        (Some(file), _) => {
            let secret = read_secret(file).map_err(UsageError)?;
            LinkKey::new(&secret, "", None).sign(&terms)
        }
        (None, Some(file)) => {
            let policy = Access::read(file.clone())?.policy();
            if !policy.link_keys.contains_key(&**by) {
                let why = format!("{}: there is no link key {by:?}", file.display());
                return Err(UsageError(why).into());
            }
            policy.sign(by, &terms, now)
        }
        (None, None) => None,
    };
    let Some(signature) = signature else {
        return Err(bad(&format!(
            "links of the link key {by:?} do not count for this: see its prefix and its subject"
        )));
    };
    let link = SignedLink {
        expires,
        by: by.clone(),
        max,
        signature,
    };
    if !terms.is_of_folder() {
        return Ok(format!("{url}?{}\n", link.query()));
    }
    let root = url.strip_suffix(&path).unwrap_or_default();
    Ok(format!("{root}{}\n", link.address(&terms)))
}
