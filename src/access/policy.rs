//! The policy: the subjects of one reading of the file, their credentials, and their rights.
//!
//! Immutable: a request is decided by one policy as a whole, and never by parts of two.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::credentials::{
    Evidence, LinkKey, LinkKind, LinkTerms, PasswordHash, S3Key, SubjectCredentials, TokenDigest,
};
use crate::value::Prefixes;

/// The longest name of a subject, in bytes: it may be a part of keys.
const LONGEST_NAME: usize = 64;

/// A rule: rights of subjects to keys that begin with a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Names of subjects; `*` is every subject, `anonymous` every client.
    pub who: Vec<String>,
    /// The beginning of the keys; `{name}` in it is the name of the subject.
    pub prefix: String,
    /// The rights that are allowed.
    pub may: Vec<Right>,
    /// The answer to a PUT by the right `create` where there is a value.
    pub existing: Option<Existing>,
}

/// The answer to a client that may create and not replace, where there is a value already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// A right is missing, as anywhere else.
    #[default]
    NotAllowed,
    /// The value is in the way.
    Conflict,
    /// As if the client had asked to create only.
    Precondition,
}

impl Existing {
    /// Every answer, with its status.
    pub const STATUSES: [(Self, u16); 3] = [
        (Self::NotAllowed, 403),
        (Self::Conflict, 409),
        (Self::Precondition, 412),
    ];

    /// Its status.
    pub fn status(self) -> u16 {
        Self::STATUSES[self as usize].1
    }
}

impl Rule {
    /// The name of anonymous clients.
    pub const ANONYMOUS: &str = "anonymous";
    /// The name of all subjects.
    pub const EVERY_SUBJECT: &str = "*";
    /// The placeholder of the name of the subject in a prefix.
    pub const NAME: &str = "{name}";

    /// The prefixes for the subject `name`, or for anonymous clients, if the rule is for them. A rule for anonymous
    /// clients is for each subject too: credentials never take a right away, and without them a subject has it anyway.
    pub fn prefixes_for(&self, name: Option<&str>) -> impl Iterator<Item = String> {
        let names = |shown: &str| self.who.iter().any(|who| who == shown);
        let own = name.filter(|name| names(name) || names(Self::EVERY_SUBJECT));
        let of_all = Some(Self::ANONYMOUS).filter(|shown| names(shown));
        let shown = own.into_iter().chain(of_all);
        shown.map(|shown| self.prefix.replace(Self::NAME, shown))
    }
}

/// A user or a program with a name, or an anonymous client.
#[derive(Debug, Default)]
pub struct Subject {
    /// The name, as in the access log.
    pub name: Box<str>,
    /// True for clients without credentials.
    pub is_anonymous: bool,
    /// When the subject ends: its credentials are not valid from then on.
    pub not_after: Option<SystemTime>,
    /// The rights that it has.
    pub grant: Grant,
}

/// The policy of one reading of the file.
#[derive(Default)]
pub struct Policy {
    /// The name of the server in challenges.
    pub realm: Box<str>,
    /// The rules, in the order of the file.
    pub rules: Vec<Rule>,
    /// The subject of anonymous clients.
    pub anonymous: Arc<Subject>,
    /// The subjects, by name.
    pub subjects: HashMap<Box<str>, Arc<Subject>>,
    tokens: HashMap<TokenDigest, Arc<Subject>>,
    certificates: HashMap<Box<str>, Arc<Subject>>,
    /// The keys of S3, by their ids.
    s3_keys: HashMap<Box<str>, (S3Key, Arc<Subject>)>,
    /// The hashes of passwords, by the name of the subject.
    pub passwords: HashMap<Box<str>, PasswordHash>,
    /// The keys of signed links, by name.
    pub link_keys: HashMap<Box<str>, LinkKey>,
    /// The name of the link key by which the server signs links for a subject, by the name of that.
    pub shares: HashMap<Box<str>, Box<str>>,
    /// The parts of the file that mean nothing, a sentence each.
    pub warnings: Vec<String>,
    /// The prefixes that may cover other keys than was meant, a sentence each.
    pub doubts: Vec<String>,
}

impl Policy {
    /// A policy of `rules`, without subjects yet.
    pub fn new(realm: &str, rules: Vec<Rule>) -> Self {
        let anonymous = Subject {
            name: Rule::ANONYMOUS.into(),
            is_anonymous: true,
            grant: grant(&rules, None),
            ..Subject::default()
        };
        Self {
            realm: realm.into(),
            anonymous: Arc::new(anonymous),
            rules,
            ..Self::default()
        }
    }

    /// Adds a subject with its credentials, or returns which of them another subject has already: the policy is then of
    /// no use.
    pub fn add(&mut self, name: &str, credentials: SubjectCredentials) -> Result<(), &'static str> {
        let subject = Arc::new(Subject {
            name: name.into(),
            is_anonymous: false,
            not_after: credentials.not_after,
            grant: grant(&self.rules, Some(name)),
        });
        let of_another =
            |known: Option<Arc<Subject>>| known.is_some_and(|it| it.name != subject.name);
        let known = self.subjects.insert(name.into(), Arc::clone(&subject));
        if known.is_some() {
            return Err("the name");
        }
        for token in credentials.tokens {
            if of_another(self.tokens.insert(token, Arc::clone(&subject))) {
                return Err("a token");
            }
        }
        for name in credentials.certificates {
            let name = name.to_ascii_lowercase().into();
            if of_another(self.certificates.insert(name, Arc::clone(&subject))) {
                return Err("the name of a certificate");
            }
        }
        if let Some(key) = credentials.s3_key {
            let known = self
                .s3_keys
                .insert(key.id.clone(), (key, Arc::clone(&subject)));
            if of_another(known.map(|(_, subject)| subject)) {
                return Err("an s3-key");
            }
        }
        let password = credentials.password.map(|hash| (name.into(), hash));
        self.passwords.extend(password);
        Ok(())
    }

    /// The subject that `evidence` proves, at the time `now`.
    pub fn prove(&self, evidence: &Evidence, now: SystemTime) -> Option<&Arc<Subject>> {
        let subject = match evidence {
            Evidence::Nothing => Some(&self.anonymous),
            Evidence::Token(digest) => self.tokens.get(digest),
            Evidence::Certificate(name) => self.certificates.get(name),
            Evidence::S3Key { id, secret } => {
                let own = self.s3_keys.get(id);
                let own = own.filter(|(key, _)| key.digest == *secret);
                own.map(|(_, subject)| subject)
            }
            Evidence::Proxy(name) => self.subjects.get(name),
            Evidence::Password { name, hash } => {
                let is_hash = self.passwords.get(name) == Some(hash);
                self.subjects.get(name).filter(|_| is_hash)
            }
        };
        subject.filter(|subject| subject.is_valid(now))
    }

    /// The key of S3 with this id.
    pub fn s3_key(&self, id: &str) -> Option<&S3Key> {
        self.s3_keys.get(id).map(|(key, _)| key)
    }

    /// The evidence that a client certificate of one of these `names` is, if it is a subject's.
    pub fn certificate<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Option<Evidence> {
        let mut names = names.into_iter().map(str::to_ascii_lowercase);
        let found = names.find(|name| self.certificates.contains_key(name.as_str()));
        found.map(|name| Evidence::Certificate(name.into()))
    }

    /// A hash that the password of an unknown name is held against, so that it takes as long as one of a known name;
    /// `None` where no subject has a password.
    pub fn stand_in(&self) -> Option<&PasswordHash> {
        let first = self.passwords.iter().min_by_key(|(name, _)| *name);
        first.map(|(_, hash)| hash)
    }

    /// The subject of a client with a link of the key `by`, with these terms and this `signature`, at the time `now`:
    /// it may do what the link says, and nothing else.
    pub fn by_link(
        &self,
        by: &str,
        terms: &LinkTerms<'_>,
        signature: &str,
        now: SystemTime,
    ) -> Option<Subject> {
        let link_key = self.link_keys.get(by)?;
        if !link_key.verify(terms, signature) {
            return None;
        }
        if let Some(name) = &link_key.subject {
            let subject = self.subjects.get(name)?;
            let may = |right: &Right| subject.grant.allows(*right, terms.key);
            if !subject.is_valid(now) || !may(&Right::Link) || !terms.rights().iter().all(may) {
                return None;
            }
        }
        Some(Subject {
            name: format!("link:{by}").into(),
            grant: Grant::new(&[(terms.key, terms.rights())]),
            ..Subject::default()
        })
    }

    /// The signature of a link of the key `by` with these terms; `None` where no such link counts at the time `now`.
    pub fn sign(&self, by: &str, terms: &LinkTerms<'_>, now: SystemTime) -> Option<String> {
        let signature = self.link_keys.get(by)?.sign(terms)?;
        self.by_link(by, terms, &signature, now)?;
        Some(signature)
    }

    /// The keys to which the server signs links for `subject` at the time `now`, where it may read them, and the
    /// longest that such a link lasts.
    pub fn shared(&self, subject: &Subject, now: SystemTime) -> Option<(Prefixes, Duration)> {
        let link_key = self.link_keys.get(self.shares.get(&subject.name)?)?;
        let of_key = Prefixes::new([&*link_key.prefix]);
        let shared = subject.grant.keys(Right::Link).and(&of_key);
        let Some(name) = &link_key.subject else {
            return Some((shared, link_key.lasts));
        };
        let of_links = self.subjects.get(name).filter(|it| it.is_valid(now))?;
        let keys = |right| of_links.grant.keys(right);
        let shared = shared.and(keys(Right::Link)).and(keys(Right::Read));
        Some((shared, link_key.lasts))
    }

    /// The first rule that allows `right` on `key` to the subject `name`, or to anonymous clients; on any key that
    /// begins so, if it `is_prefix`.
    pub fn deciding(
        &self,
        name: Option<&str>,
        right: Right,
        key: &str,
        is_prefix: bool,
    ) -> Option<&Rule> {
        let allows = |rule: &&Rule| {
            let has = |it: String| key.starts_with(&it) || (is_prefix && it.starts_with(key));
            right.is_of(&rule.may) && rule.prefixes_for(name).any(has)
        };
        self.rules.iter().find(allows)
    }
}

impl LinkTerms<'_> {
    /// The rights that the link gives.
    pub fn rights(&self) -> &'static [Right] {
        match self.kind {
            LinkKind::Read if self.is_of_folder() => &[Right::Read, Right::List],
            LinkKind::Read => &[Right::Read],
            LinkKind::Create => &[Right::Create],
        }
    }
}

impl Subject {
    /// True where it has not ended at the time `now`.
    pub fn is_valid(&self, now: SystemTime) -> bool {
        self.not_after.is_none_or(|end| now < end)
    }
}

/// Refuses a name that cannot stand in keys and in lines of a log, as names of subjects do.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@+".contains(&byte);
    match name {
        Rule::ANONYMOUS | "." | ".." => Err("this name has a meaning of its own"),
        "" => Err("a name has one character or more"),
        _ if name.len() > LONGEST_NAME => Err("a name has at most 64 characters"),
        _ if !name.bytes().all(is_plain) => {
            Err("a name has letters and digits of ASCII, and -_.@+")
        }
        _ => Ok(()),
    }
}

fn grant(rules: &[Rule], name: Option<&str>) -> Grant {
    let prefixes = |rule| Rule::prefixes_for(rule, name).map(move |prefix| (prefix, rule));
    let rules: Vec<(String, &Rule)> = rules.iter().flat_map(prefixes).collect();
    let rights = rules.iter().map(|(prefix, rule)| (&**prefix, &*rule.may));
    let existing = rules
        .iter()
        .filter_map(|(prefix, rule)| Some((prefix.as_str().into(), rule.existing?)));
    Grant {
        existing: existing.collect(),
        ..Grant::new(&rights.collect::<Vec<_>>())
    }
}

/// A right that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Right {
    /// Read a value.
    Read,
    /// Store a value under a key that has none.
    Create,
    /// Store a value, also in place of another one.
    Write,
    /// Remove a value.
    Delete,
    /// See the key in listings.
    List,
    /// Watch changes of the key.
    Watch,
    /// Make signed links to the key.
    Link,
    /// Read the server's metrics. It concerns no key.
    Metrics,
}

impl Right {
    /// Every right, with its name in the file.
    pub const NAMED: [(Self, &'static str); 8] = [
        (Self::Read, "read"),
        (Self::Create, "create"),
        (Self::Write, "write"),
        (Self::Delete, "delete"),
        (Self::List, "list"),
        (Self::Watch, "watch"),
        (Self::Link, "link"),
        (Self::Metrics, "metrics"),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMED[self as usize].1
    }

    /// The right of this name.
    pub fn named(name: &str) -> Option<Self> {
        let (right, _) = Self::NAMED.into_iter().find(|(_, known)| *known == name)?;
        Some(right)
    }

    /// True where it is one of `rights`; `write` implies `create`.
    fn is_of(self, rights: &[Self]) -> bool {
        rights.contains(&self) || (self == Self::Create && rights.contains(&Self::Write))
    }
}

/// The grants of one subject.
#[derive(Clone, Debug, Default)]
pub struct Grant {
    /// For each right, the keys that it holds for.
    keys: [Prefixes; Right::NAMED.len()],
    /// The prefixes of rules that say what is answered where there is a value, in the order of the file.
    existing: Box<[(Box<str>, Existing)]>,
}

impl Grant {
    /// The grant of `rules`, each a prefix of keys and the rights that hold there.
    pub fn new<P: AsRef<str>>(rules: &[(P, &[Right])]) -> Self {
        let keys = Right::NAMED.map(|(right, _)| {
            let rules = rules.iter().filter(|(_, rights)| right.is_of(rights));
            Prefixes::new(rules.map(|(prefix, _)| prefix.as_ref()))
        });
        Self {
            keys,
            ..Self::default()
        }
    }

    /// True where `right` holds for `key`.
    pub fn allows(&self, right: Right, key: &str) -> bool {
        self.keys(right).has(key)
    }

    /// The keys that `right` holds for.
    pub fn keys(&self, right: Right) -> &Prefixes {
        &self.keys[right as usize]
    }

    /// The answer where `key`, which may be created and not replaced, has a value. The first rule of the file that says
    /// one counts.
    pub fn existing(&self, key: &str) -> Existing {
        let mut said = self.existing.iter();
        let said = said.find(|(prefix, _)| key.starts_with(&**prefix));
        said.map_or(Existing::default(), |(_, existing)| *existing)
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;

    fn rule(who: &[&str], prefix: &str, may: &[Right]) -> Rule {
        Rule {
            who: who.iter().map(|&name| name.to_owned()).collect(),
            prefix: prefix.to_owned(),
            may: may.to_vec(),
            existing: None,
        }
    }

    #[test]
    fn a_rule_holds_for_those_it_names() {
        let rules = vec![
            rule(&["anonymous"], "public/", &[Right::Read]),
            rule(&["*"], "{name}/", &[Right::Write]),
        ];
        let mut policy = Policy::new("r", rules);
        let ends = SystemTime::UNIX_EPOCH + Duration::from_secs(10);
        let token = Sha256::digest(b"secret").into();
        let ann = SubjectCredentials {
            tokens: vec![token],
            certificates: vec!["Ann.example".to_owned()],
            not_after: Some(ends),
            ..SubjectCredentials::default()
        };
        let bob = SubjectCredentials {
            tokens: vec![token],
            ..SubjectCredentials::default()
        };
        assert_eq!(policy.add("ann", ann), Ok(()));
        assert_eq!(policy.add("carl", SubjectCredentials::default()), Ok(()));

        let ann = &policy.subjects["ann"];
        assert!(ann.grant.allows(Right::Write, "ann/x"));
        assert!(!ann.grant.allows(Right::Write, "carl/x"));
        // What anonymous clients may do, each subject may, and a client without a name may not do what a subject may.
        assert!(ann.grant.allows(Right::Read, "public/x"));
        assert!(!ann.grant.allows(Right::Write, "public/x"));
        assert!(policy.anonymous.grant.allows(Right::Read, "public/x"));
        assert!(!policy.anonymous.grant.allows(Right::Write, "anonymous/x"));
        let before = ends - Duration::from_secs(1);
        let proved = |evidence: &Evidence, now| {
            let subject = policy.prove(evidence, now);
            subject.map(|subject| subject.name.clone().into_string())
        };
        let token = Evidence::token(b"secret");
        assert_eq!(proved(&token, before).as_deref(), Some("ann"));
        assert_eq!(proved(&token, ends), None, "after its end");
        assert_eq!(proved(&Evidence::token(b"other"), before), None);
        let shown = policy.certificate(["x", "ANN.example"]).unwrap();
        assert_eq!(proved(&shown, before).as_deref(), Some("ann"));
        assert_eq!(policy.certificate(["bob.example"]), None);
        assert_eq!(
            policy
                .deciding(Some("carl"), Right::Create, "carl/x", false)
                .unwrap()
                .prefix,
            "{name}/"
        );
        let of_anonymous = |right, key| policy.deciding(None, right, key, true).is_some();
        assert!(!of_anonymous(Right::Write, "public/x"));
        assert!(of_anonymous(Right::Read, "pub"));
        assert_eq!(policy.add("bob", bob), Err("a token"), "of two subjects");
    }

    #[test]
    fn every_right_has_a_name_and_a_place() {
        for (right, name) in Right::NAMED {
            assert_eq!((right.name(), Right::named(name)), (name, Some(right)));
            for (other, _) in Right::NAMED {
                let implied = right == Right::Write && other == Right::Create;
                let is_of = other.is_of(&[right]);
                assert_eq!(is_of, other == right || implied, "{right:?} {other:?}");
            }
        }
        assert_eq!(Right::named("Read"), None);
    }

    #[test]
    fn rights_add_up_and_hold_for_their_prefixes_alone() {
        let grant = Grant::new(&[("a/", &[Right::Read]), ("a/b/", &[Right::Write])]);
        assert!(grant.allows(Right::Read, "a/x"));
        assert!(grant.allows(Right::Read, "a/b/x"));
        assert!(grant.allows(Right::Create, "a/b/x"));
        assert!(!grant.allows(Right::Write, "a/x"));
        assert!(!grant.allows(Right::Read, "b"));
        assert!(!grant.allows(Right::Delete, "a/b/x"));
    }
}
