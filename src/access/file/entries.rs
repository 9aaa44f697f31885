//! What stands in the file, as it is written.

use std::path::PathBuf;

use serde::Deserialize;
use toml::Spanned;
use toml::value::Datetime;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct File {
    pub(super) realm: Option<Spanned<String>>,
    pub(super) htpasswd: Option<Spanned<PathBuf>>,
    #[serde(default)]
    pub(super) subject: Vec<SubjectEntry>,
    #[serde(default)]
    pub(super) link_key: Vec<LinkKeyEntry>,
    #[serde(default)]
    pub(super) rule: Vec<RuleEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct SubjectEntry {
    pub(super) name: Spanned<String>,
    pub(super) token: Option<Spanned<OneOrMore>>,
    pub(super) password: Option<Spanned<String>>,
    pub(super) certificate: Option<Spanned<OneOrMore>>,
    pub(super) not_after: Option<Spanned<Datetime>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct LinkKeyEntry {
    pub(super) name: Spanned<String>,
    pub(super) secret_file: Spanned<PathBuf>,
    pub(super) prefix: Option<Spanned<String>>,
    pub(super) subject: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RuleEntry {
    pub(super) who: Spanned<OneOrMore>,
    pub(super) prefix: Option<Spanned<String>>,
    pub(super) may: Spanned<OneOrMore>,
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    pub(super) fn all(&self) -> &[String] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::More(more) => more,
        }
    }
}
