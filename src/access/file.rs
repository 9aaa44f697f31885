//! The file of `--access`: TOML, read whole and checked whole.
//!
//! A mistake is reported with its line; an unknown field is a mistake. Secrets are in other files, or are digests and
//! hashes, but for those of S3, which both sides need; no message has one.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use data_encoding::HEXLOWER_PERMISSIVE;
use serde::Deserialize;
use toml::Spanned;
use toml::value::Datetime;

use super::credentials::{
    LinkKey, PasswordHash, S3Key, SubjectCredentials, TokenDigest, read_secret,
};
use super::htpasswd::parse_htpasswd;
use super::policy::{Existing, Policy, Right, Rule, check_name};
use crate::file_error::{read_text, unreadable};
use crate::value::check_prefix;

/// The realm of a file that names none.
pub const REALM: &str = "data-server";

/// The fault of the file, or of one that it names.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {why}")]
pub struct BadAccess {
    /// The file, with the line where it is known.
    pub place: String,
    /// The fault there.
    pub why: String,
}

/// Reads the policy that the file at `path` is.
pub fn read(path: &Path) -> Result<Policy, BadAccess> {
    parse(path, &text_of(path)?)
}

/// The policy that `text` is, of the file at `path`.
pub fn parse(path: &Path, text: &str) -> Result<Policy, BadAccess> {
    let read = RulesFile { path, text };
    let file: AccessFile = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        read.wrong(at, error.message().trim().replace('\n', ", "))
    })?;
    read.policy(&file)
}

/// The file of the rules, while it is read.
struct RulesFile<'a> {
    path: &'a Path,
    text: &'a str,
}

impl RulesFile<'_> {
    fn wrong(&self, at: usize, why: impl Into<String>) -> BadAccess {
        let before = self.text.bytes().take(at);
        let line = 1 + before.filter(|&byte| byte == b'\n').count();
        BadAccess {
            place: format!("{}:{line}", self.path.display()),
            why: why.into(),
        }
    }

    /// What `read` makes of a value of the file, or the fault of the value.
    fn read<'v, T, U, E: Display>(
        &self,
        given: &'v Spanned<T>,
        read: impl FnOnce(&'v T) -> Result<U, E>,
    ) -> Result<U, BadAccess> {
        read(given.get_ref()).map_err(|why| self.wrong(given.span().start, why.to_string()))
    }

    /// What `read` makes of a value that the file may have.
    fn read_any<'v, T, U, E: Display>(
        &self,
        given: Option<&'v Spanned<T>>,
        read: impl FnOnce(&'v T) -> Result<U, E>,
    ) -> Result<Option<U>, BadAccess> {
        given.map(|given| self.read(given, read)).transpose()
    }

    fn policy(&self, file: &AccessFile) -> Result<Policy, BadAccess> {
        let realm = self.read_any(file.realm.as_ref(), |realm| {
            let why = "a realm is printable ASCII without quotes and backslashes";
            is_quotable(realm).then_some(&**realm).ok_or(why)
        })?;
        let mut hashes = self.hashes(file)?;
        let rules = file.rule.iter().map(|rule| self.rule(rule));
        let rules: Vec<Rule> = rules.collect::<Result<_, _>>()?;
        let mut policy = Policy::new(realm.unwrap_or(REALM), rules);
        for entry in &file.subject {
            self.read(&entry.name, |name| check_name(name))?;
            let name = entry.name.get_ref().as_str();
            let mut credentials = self.credentials(entry)?;
            credentials.password = credentials.password.or(hashes.remove(name));
            policy.add(name, credentials).map_err(|taken| {
                let why = format!("{taken} is another subject's already");
                self.wrong(entry.name.span().start, why)
            })?;
            if let Some(by) = &entry.shares {
                policy
                    .shares
                    .insert(name.into(), by.get_ref().as_str().into());
            }
        }
        for (name, hash) in hashes {
            let credentials = SubjectCredentials {
                password: Some(hash),
                ..SubjectCredentials::default()
            };
            // The names of that file are unique, and those of subjects are taken out.
            let _ = policy.add(&name, credentials);
        }
        for entry in &file.link_key {
            let key = self.link_key(entry)?;
            let name = entry.name.get_ref().as_str();
            // A link does not sign the name of its key: with another name it would have the prefix and the subject of
            // another key.
            if policy.link_keys.values().any(|it| it.secret == key.secret) {
                let why =
                    "two link keys of one secret: a link of one would count as a link of the other";
                return Err(self.wrong(entry.secret_file.span().start, why));
            }
            if policy.link_keys.insert(name.into(), key).is_some() {
                return Err(self.wrong(entry.name.span().start, "two link keys of one name"));
            }
        }
        self.check_names(file, &mut policy)?;
        policy.doubts = self.doubts(file);
        Ok(policy)
    }

    fn hashes(&self, file: &AccessFile) -> Result<HashMap<String, PasswordHash>, BadAccess> {
        let Some(named) = &file.htpasswd else {
            return Ok(HashMap::new());
        };
        let path = self.beside(named)?;
        let text = text_of(&path)?;
        parse_htpasswd(&text).map_err(|(line, why)| BadAccess {
            place: format!("{}:{line}", path.display()),
            why,
        })
    }

    fn credentials(&self, entry: &SubjectEntry) -> Result<SubjectCredentials, BadAccess> {
        let tokens = self.read_any(entry.token.as_ref(), |tokens| {
            let why = "a token is given by its digest, as `data-server new-token` prints it: sha256: and 64 digits";
            let digests: Option<_> = tokens.all().iter().map(|token| digest(token)).collect();
            digests.ok_or(why)
        })?;
        let certificates = entry.certificate.as_ref();
        Ok(SubjectCredentials {
            tokens: tokens.unwrap_or_default(),
            password: self.read_any(entry.password.as_ref(), |it| PasswordHash::new(it))?,
            certificates: certificates.map_or_else(Vec::new, |names| names.all().to_vec()),
            s3_key: self.s3_key(entry)?,
            not_after: self.read_any(entry.not_after.as_ref(), |end| {
                time(end).ok_or("not-after is a time of UTC, as 2027-06-30T00:00:00Z")
            })?,
        })
    }

    fn rule(&self, entry: &RuleEntry) -> Result<Rule, BadAccess> {
        let (may, at) = (entry.may.get_ref().all(), entry.may.span().start);
        let wrong = |what: &str| {
            let all = Right::NAMED.map(|(_, name)| name).join(", ");
            self.wrong(at, format!("may has one or more of {all}{what}"))
        };
        if may.is_empty() {
            return Err(wrong(""));
        }
        let named = |name: &String| {
            Right::named(name).ok_or_else(|| wrong(&format!("; {name:?} is none of them")))
        };
        let may: Vec<Right> = may.iter().map(named).collect::<Result<_, _>>()?;
        Ok(Rule {
            who: entry.who.get_ref().all().to_vec(),
            prefix: self.prefix(entry.prefix.as_ref())?.to_owned(),
            existing: self.existing(entry.existing.as_ref(), &may)?,
            may,
        })
    }

    fn existing(
        &self,
        existing: Option<&Spanned<u16>>,
        may: &[Right],
    ) -> Result<Option<Existing>, BadAccess> {
        self.read_any(existing, |given| match given {
            _ if may.contains(&Right::Write) => {
                Err("existing has no effect beside write, which replaces a value")
            }
            _ if !may.contains(&Right::Create) => {
                Err("existing needs create: it is the answer to that PUT where there is a value")
            }
            given => {
                let mut known = Existing::STATUSES.into_iter();
                let known = known.find(|(_, status)| status == given);
                known.map(|(it, _)| it).ok_or("existing is 403, 409 or 412")
            }
        })
    }

    fn prefix<'p>(&self, prefix: Option<&'p Spanned<String>>) -> Result<&'p str, BadAccess> {
        let read = self.read_any(prefix, |text| {
            check_prefix(&text.replace(Rule::NAME, "x")).map(|()| &**text)
        });
        read.map(Option::unwrap_or_default)
    }

    fn s3_key(&self, entry: &SubjectEntry) -> Result<Option<S3Key>, BadAccess> {
        match (&entry.s3_key, &entry.s3_secret) {
            (None, None) => Ok(None),
            (Some(id), Some(secret)) => {
                let key = self.read(id, |id| S3Key::new(id, secret.get_ref()))?;
                Ok(Some(key))
            }
            (Some(one), None) | (None, Some(one)) => {
                let why = "s3-key and s3-secret come together: `data-server new-s3-key` makes both";
                Err(self.wrong(one.span().start, why))
            }
        }
    }

    fn link_key(&self, entry: &LinkKeyEntry) -> Result<LinkKey, BadAccess> {
        self.read(&entry.name, |name| check_name(name))?;
        let prefix = self.prefix(entry.prefix.as_ref())?;
        let path = self.beside(&entry.secret_file)?;
        let secret = self.read(&entry.secret_file, |_| read_secret(&path))?;
        check_mode(&path)?;
        let subject = entry.subject.as_ref().map(|name| name.get_ref().as_str());
        let lasts = self.read_any(entry.lasts.as_ref(), |text| {
            let read = humantime::parse_duration(text).ok();
            let read = read.filter(|read| *read >= Duration::from_secs(1));
            read.ok_or("lasts is a duration of a second or more, as 7d")
        })?;
        let link_key = LinkKey::new(&secret, prefix, subject);
        Ok(LinkKey {
            lasts: lasts.unwrap_or(link_key.lasts),
            ..link_key
        })
    }

    /// Warns of each name in a rule or a link key that no subject has, and of each in a subject that no link key has.
    /// Such a name gives no client a right. The file is not refused for it: an operator revokes a right by removing the
    /// subject or the link key, and the old rules would stay in force.
    fn check_names(&self, file: &AccessFile, policy: &mut Policy) -> Result<(), BadAccess> {
        let reserved = HashSet::from([Rule::EVERY_SUBJECT, Rule::ANONYMOUS]);
        let mut unknown = Vec::new();
        for entry in &file.rule {
            let (who, at) = (entry.who.get_ref().all(), entry.who.span().start);
            if who.is_empty() {
                return Err(self.wrong(at, "who has one name or more"));
            }
            let names = who.iter().filter(|name| !reserved.contains(name.as_str()));
            unknown.extend(names.map(|name| (name, at)));
        }
        let links = file.link_key.iter().filter_map(|key| key.subject.as_ref());
        unknown.extend(links.map(|name| (name.get_ref(), name.span().start)));
        unknown.retain(|(name, _)| !policy.subjects.contains_key(name.as_str()));
        for (name, at) in unknown {
            let warning = self.wrong(at, format!("there is no subject {name:?}"));
            policy.warnings.push(warning.to_string());
        }
        for by in file.subject.iter().filter_map(|it| it.shares.as_ref()) {
            if !policy.link_keys.contains_key(by.get_ref().as_str()) {
                let why = format!("there is no link key {:?}", by.get_ref());
                let warning = self.wrong(by.span().start, why);
                policy.warnings.push(warning.to_string());
            }
        }
        Ok(())
    }

    /// The prefixes that may cover other keys than was meant. A whole key is a prefix too, so none is refused.
    fn doubts(&self, file: &AccessFile) -> Vec<String> {
        let of_rules = file.rule.iter().filter_map(|rule| rule.prefix.as_ref());
        let of_links = file.link_key.iter().filter_map(|key| key.prefix.as_ref());
        let doubt = |prefix: &Spanned<String>| {
            let text = prefix.get_ref();
            let why = if text.contains('*') {
                format!(
                    "'*' in the prefix {text:?} stands for itself: a prefix covers every key that begins with it"
                )
            } else if text.ends_with(|last: char| last.is_alphanumeric() || last == '}') {
                format!("the prefix {text:?} covers \"{text}-x\" too: a folder is \"{text}/\"")
            } else {
                return None;
            };
            Some(self.wrong(prefix.span().start, why).to_string())
        };
        of_rules.chain(of_links).filter_map(doubt).collect()
    }

    /// A file that this one names: beside it or below, where a server in its sandbox can read it again.
    fn beside(&self, named: &Spanned<PathBuf>) -> Result<PathBuf, BadAccess> {
        self.read(named, |named| {
            let mut parts = named.components();
            let is_below =
                parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
            let folder = self.path.parent().unwrap_or(Path::new(""));
            is_below
                .then(|| folder.join(named))
                .ok_or("this file lies beside the file of --access or below, by a relative path")
        })
    }
}

fn is_quotable(realm: &str) -> bool {
    let is_plain = |byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    !realm.is_empty() && realm.bytes().all(is_plain)
}

/// The digest of `sha256:` and 64 hexadecimal digits.
fn digest(text: &str) -> Option<TokenDigest> {
    let digits = text.strip_prefix("sha256:")?.as_bytes();
    let digest = HEXLOWER_PERMISSIVE.decode(digits).ok()?;
    digest.try_into().ok()
}

fn time(given: &Datetime) -> Option<SystemTime> {
    given.offset?;
    humantime::parse_rfc3339(&given.to_string()).ok()
}

fn text_of(path: &Path) -> Result<String, BadAccess> {
    let text = read_text(path).map_err(|error| BadAccess {
        place: path.display().to_string(),
        why: unreadable(path, &error),
    })?;
    check_mode(path)?;
    Ok(text)
}

/// Refuses a file that every user may write: they could give themselves any right. Warns of a file that every user may
/// read.
fn check_mode(path: &Path) -> Result<(), BadAccess> {
    let mode = rustix::fs::stat(path).map_or(0, |stat| stat.st_mode);
    if mode & 0o002 != 0 {
        return Err(BadAccess {
            place: path.display().to_string(),
            why: "every user of this machine may write it: chmod o-w".to_owned(),
        });
    }
    if mode & 0o004 != 0 {
        tracing::warn!(file = %path.display(), "every user of this machine may read this file: chmod o-r");
    }
    Ok(())
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct AccessFile {
    realm: Option<Spanned<String>>,
    htpasswd: Option<Spanned<PathBuf>>,
    subject: Vec<SubjectEntry>,
    link_key: Vec<LinkKeyEntry>,
    rule: Vec<RuleEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct SubjectEntry {
    name: Spanned<String>,
    token: Option<Spanned<OneOrMore>>,
    password: Option<Spanned<String>>,
    certificate: Option<OneOrMore>,
    s3_key: Option<Spanned<String>>,
    s3_secret: Option<Spanned<String>>,
    not_after: Option<Spanned<Datetime>>,
    shares: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct LinkKeyEntry {
    name: Spanned<String>,
    secret_file: Spanned<PathBuf>,
    prefix: Option<Spanned<String>>,
    subject: Option<Spanned<String>>,
    lasts: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RuleEntry {
    who: Spanned<OneOrMore>,
    prefix: Option<Spanned<String>>,
    may: Spanned<OneOrMore>,
    existing: Option<Spanned<u16>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    fn all(&self) -> &[String] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::More(more) => more,
        }
    }
}
