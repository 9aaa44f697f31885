//! The policy: the subjects of one reading of the file, what proves them, and what each may do.
//!
//! Immutable: a request is decided by one policy as a whole, and never by parts of two.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use super::rights::{Grant, Right, RightSet};

/// SHA-256 of a token: what is kept of it.
pub type TokenDigest = [u8; 32];

/// A rule: who may do what to keys that begin with a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Names of subjects; `*` is each of them, `anonymous` a client that proves nothing.
    pub who: Vec<String>,
    /// What the keys begin with; `{name}` in it is the name of the subject.
    pub prefix: String,
    /// What is allowed.
    pub may: RightSet,
}

impl Rule {
    /// The name of clients that prove nothing.
    pub const ANONYMOUS: &str = "anonymous";
    /// The name of all subjects.
    pub const EVERY_SUBJECT: &str = "*";
    /// What stands for the name of the subject in a prefix.
    pub const NAME: &str = "{name}";

    /// The prefix for the subject `name`, or for clients that prove nothing, if the rule is for them.
    pub fn prefix_for(&self, name: Option<&str>) -> Option<String> {
        let is_meant = |who: &String| match name {
            Some(name) => who == name || who == Self::EVERY_SUBJECT,
            None => who == Self::ANONYMOUS,
        };
        let is_for = self.who.iter().any(is_meant);
        is_for.then(|| {
            self.prefix
                .replace(Self::NAME, name.unwrap_or(Self::ANONYMOUS))
        })
    }
}

/// Who asks: a user or a program with a name, or a client that proves nothing.
#[derive(Debug)]
pub struct Subject {
    /// The name, as it stands in the access log.
    pub name: Box<str>,
    /// It is any client that proves nothing.
    pub is_anonymous: bool,
    /// When it ends; what proves the subject is worth nothing from then on.
    pub not_after: Option<SystemTime>,
    /// What it may do.
    pub grant: Grant,
}

/// See the module.
#[derive(Debug)]
pub struct Policy {
    realm: Box<str>,
    rules: Vec<Rule>,
    anonymous: Arc<Subject>,
    subjects: HashMap<Box<str>, Arc<Subject>>,
    tokens: HashMap<TokenDigest, Arc<Subject>>,
    certificates: HashMap<Box<str>, Arc<Subject>>,
}

impl Policy {
    /// A policy of `rules`, without subjects yet.
    pub fn new(realm: &str, rules: Vec<Rule>) -> Self {
        let anonymous = Subject {
            name: Rule::ANONYMOUS.into(),
            is_anonymous: true,
            not_after: None,
            grant: grant(&rules, None),
        };
        Self {
            realm: realm.into(),
            anonymous: Arc::new(anonymous),
            rules,
            subjects: HashMap::new(),
            tokens: HashMap::new(),
            certificates: HashMap::new(),
        }
    }

    /// Adds a subject, by what proves it: digests of tokens, and names of client certificates. False where the name or one
    /// of them is another's already.
    pub fn add(
        &mut self,
        name: &str,
        not_after: Option<SystemTime>,
        tokens: &[TokenDigest],
        certificates: &[String],
    ) -> bool {
        let subject = Arc::new(Subject {
            name: name.into(),
            is_anonymous: false,
            not_after,
            grant: grant(&self.rules, Some(name)),
        });
        let mut is_new = self
            .subjects
            .insert(name.into(), Arc::clone(&subject))
            .is_none();
        for token in tokens {
            is_new &= self.tokens.insert(*token, Arc::clone(&subject)).is_none();
        }
        for certificate in certificates {
            let certificate = certificate.as_str().into();
            let other = self.certificates.insert(certificate, Arc::clone(&subject));
            is_new &= other.is_none();
        }
        is_new
    }

    /// What the server is called where a client is asked who it is.
    pub fn realm(&self) -> &str {
        &self.realm
    }

    /// The rules, in the order of the file.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The subject of this name.
    pub fn subject(&self, name: &str) -> Option<&Arc<Subject>> {
        self.subjects.get(name)
    }

    /// Whom `token` proves, at the time `now`.
    pub fn by_token(&self, token: &[u8], now: SystemTime) -> Option<&Arc<Subject>> {
        // The digest of what an attacker sends tells nothing of the one that is looked for: no constant time is needed.
        let digest: TokenDigest = Sha256::digest(token).into();
        self.tokens
            .get(&digest)
            .filter(|subject| subject.is_valid(now))
    }

    /// Whom a client certificate of one of these `names` proves, at the time `now`.
    pub fn by_certificate<'n>(
        &self,
        names: impl IntoIterator<Item = &'n str>,
        now: SystemTime,
    ) -> Option<&Arc<Subject>> {
        let mut found = names
            .into_iter()
            .filter_map(|name| self.certificates.get(name));
        found.find(|subject| subject.is_valid(now))
    }

    /// Clients that prove nothing.
    pub fn anonymous(&self) -> &Arc<Subject> {
        &self.anonymous
    }

    /// The first rule that allows `right` on `key` to the subject `name`, or to clients that prove nothing.
    pub fn deciding(&self, name: Option<&str>, right: Right, key: &str) -> Option<&Rule> {
        let allows = |rule: &&Rule| {
            let prefix = rule.prefix_for(name).filter(|_| rule.may.has(right));
            prefix.is_some_and(|prefix| right == Right::Metrics || key.starts_with(&prefix))
        };
        self.rules.iter().find(allows)
    }
}

impl Subject {
    /// Whether it has not ended at the time `now`.
    pub fn is_valid(&self, now: SystemTime) -> bool {
        self.not_after.is_none_or(|end| now < end)
    }
}

fn grant(rules: &[Rule], name: Option<&str>) -> Grant {
    let rules = rules.iter().filter_map(|rule| {
        let prefix = rule.prefix_for(name)?;
        Some((prefix, rule.may))
    });
    let rules: Vec<(String, RightSet)> = rules.collect();
    let rules: Vec<_> = rules
        .iter()
        .map(|(prefix, may)| (prefix.as_str(), *may))
        .collect();
    Grant::new(&rules)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn rule(who: &[&str], prefix: &str, may: &[Right]) -> Rule {
        Rule {
            who: who.iter().map(|&name| name.to_owned()).collect(),
            prefix: prefix.to_owned(),
            may: may.iter().copied().collect(),
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
        assert!(policy.add("ann", Some(ends), &[token], &["ann.example".to_owned()]));
        assert!(
            !policy.add("bob", None, &[token], &[]),
            "a token of two subjects"
        );
        assert!(policy.add("carl", None, &[], &[]));

        let ann = policy.subject("ann").unwrap();
        assert!(ann.grant.allows(Right::Write, "ann/x"));
        assert!(!ann.grant.allows(Right::Write, "carl/x"));
        assert!(!ann.grant.allows(Right::Read, "public/x"));
        assert!(policy.anonymous().grant.allows(Right::Read, "public/x"));
        assert!(!policy.anonymous().grant.allows(Right::Write, "anonymous/x"));
        assert!(policy.by_token(b"other", ends).is_none());
        assert!(
            policy.by_certificate(["ann.example"], ends).is_none(),
            "after its end"
        );
        let before = ends - Duration::from_secs(1);
        let by_certificate = policy.by_certificate(["x", "ann.example"], before);
        assert_eq!(by_certificate.map(|subject| &*subject.name), Some("ann"));
        assert_eq!(
            policy
                .deciding(Some("carl"), Right::Create, "carl/x")
                .unwrap()
                .prefix,
            "{name}/"
        );
        assert!(policy.deciding(None, Right::Write, "public/x").is_none());
    }
}
