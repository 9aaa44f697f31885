//! Sites: below the prefixes of `[[site]]` a folder is opened as its index, a page may answer where there is no value,
//! stored pages may run scripts, and a value goes out compressed where a sibling holds it so.
//!
//! Pure: which site a key is in.

use std::cmp::Reverse;
use std::sync::Arc;

/// The name of the index of a folder, unless an operator gives another.
pub const INDEX: &str = "index.html";

/// A site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The beginning of its keys: empty, or with a `/` at the end.
    pub prefix: String,
    /// The name of the value that a folder is opened as.
    pub index: String,
    /// Its pages run scripts, as pages of this origin.
    pub scripts: bool,
    /// An address without a value is that of the page of this name with `.html` behind it.
    pub clean: bool,
    /// The key of the page that a person gets who opens an address without a value: an application shows what the
    /// address means.
    pub fallback: Option<String>,
    /// The key of the page that says that an address has no value.
    pub not_found: Option<String>,
}

/// The sites.
#[derive(Clone, Debug, Default)]
pub struct Sites(
    /// Those with longer prefixes first.
    Arc<[Site]>,
);

impl Sites {
    /// These sites; the prefix that two of them have is an error.
    pub fn new(mut sites: Vec<Site>) -> Result<Self, String> {
        sites.sort_by(|a, b| {
            (Reverse(a.prefix.len()), &a.prefix).cmp(&(Reverse(b.prefix.len()), &b.prefix))
        });
        match sites.windows(2).find(|two| two[0].prefix == two[1].prefix) {
            Some(two) => Err(two[0].prefix.clone()),
            None => Ok(Self(sites.into())),
        }
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The innermost site that has `key`.
    pub fn of(&self, key: &str) -> Option<&Site> {
        self.0.iter().find(|site| key.starts_with(&*site.prefix))
    }

    /// The innermost site that has what is below `folder`, a name without a `/` at the end.
    pub fn below(&self, folder: &str) -> Option<&Site> {
        let is_root = |site: &Site| site.prefix.strip_suffix('/') == Some(folder);
        let has = |site: &&Site| folder.starts_with(&*site.prefix) || is_root(site);
        self.0.iter().find(has)
    }
}

#[cfg(test)]
mod tests {
    use crate::http::sites::*;

    fn site(prefix: &str) -> Site {
        Site {
            prefix: prefix.to_owned(),
            index: INDEX.to_owned(),
            scripts: false,
            clean: false,
            fallback: None,
            not_found: None,
        }
    }

    #[test]
    fn a_key_is_in_the_innermost_site() {
        let sites = Sites::new(["a/", "a/b/c/", "d/"].map(site).to_vec()).unwrap();
        let of = |key: &str| sites.of(key).map(|site| &*site.prefix);
        let below = |key: &str| sites.below(key).map(|site| &*site.prefix);
        for (key, expected, of_folder) in [
            ("a", None, Some("a/")),
            ("a/", Some("a/"), Some("a/")),
            ("a/b/c", Some("a/"), Some("a/b/c/")),
            ("a/b/c/d", Some("a/b/c/"), Some("a/b/c/")),
            ("a/b/cd", Some("a/"), Some("a/")),
            ("ab", None, None),
            ("", None, None),
        ] {
            assert_eq!((of(key), below(key)), (expected, of_folder), "{key}");
        }
        let all = Sites::new(vec![site("")]).unwrap();
        assert!(all.of("x").is_some() && all.below("x").is_some());
        assert!(Sites::default().of("x").is_none());
        let twice = Sites::new(["a/", "b/", "a/"].map(site).to_vec());
        assert_eq!(twice.unwrap_err(), "a/");
    }
}
