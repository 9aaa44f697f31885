//! What the client of a page may do, for the scripts of the page: they offer nothing that would be refused.
//!
//! Pure. Promises to name no prefix at which its client may list nothing: it would be told of what it cannot see.

use serde::{Serialize, Serializer};

use crate::access::{Grant, Right, Subject};
use crate::store::Prefixes;

/// The keys that some rights hold for, and whose they are; as the scripts read it, the prefixes by right.
#[derive(Debug, Serialize)]
pub struct PageRights {
    #[serde(serialize_with = "sequence")]
    list: Prefixes,
    #[serde(serialize_with = "sequence")]
    read: Prefixes,
    #[serde(serialize_with = "sequence")]
    create: Prefixes,
    #[serde(serialize_with = "sequence")]
    write: Prefixes,
    #[serde(serialize_with = "sequence")]
    delete: Prefixes,
    #[serde(serialize_with = "sequence")]
    watch: Prefixes,
    metrics: bool,
    /// The name of the client; empty where it has proved nothing, `None` where the server asks no client who it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
    /// It is proved by a password, which its browser can forget.
    #[serde(skip)]
    pub signs_out: bool,
}

fn sequence<S: Serializer>(prefixes: &Prefixes, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(prefixes.iter())
}

impl PageRights {
    /// Those of a client with `grant`, or with every right where there are no rules. In a server that is `read_only` nothing
    /// changes.
    pub fn new(grant: Option<&Grant>, read_only: bool) -> Self {
        let keys = |right| grant.map_or_else(Prefixes::all, |grant| grant.keys(right).clone());
        let listed = keys(Right::List);
        let shown = |right| {
            let keys = keys(right);
            Prefixes::new(keys.iter().filter(|prefix| listed.may_have_below(prefix)))
        };
        let changed = |right| {
            if read_only {
                Prefixes::new([])
            } else {
                shown(right)
            }
        };
        Self {
            read: shown(Right::Read),
            create: changed(Right::Create),
            write: changed(Right::Write),
            delete: changed(Right::Delete),
            watch: shown(Right::Watch),
            metrics: keys(Right::Metrics).may_have_below(""),
            list: listed,
            name: None,
            signs_out: false,
        }
    }

    /// The same, of this subject, which `signs_out` if its browser can forget by what it was proved.
    pub fn of(self, subject: &Subject, signs_out: bool) -> Self {
        let name = if subject.is_anonymous {
            ""
        } else {
            &subject.name
        };
        Self {
            name: Some(name.into()),
            signs_out,
            ..self
        }
    }

    /// Whether all of `folder` may be listed.
    pub fn may_list(&self, folder: &str) -> bool {
        self.list.has(folder)
    }

    /// Whether a value may be stored under some key that lies in `folder`, and in no folder of it.
    pub fn may_create_in(&self, folder: &str) -> bool {
        let mut below = self.create.below(folder);
        self.create.has(folder) || below.any(|prefix| !prefix[folder.len()..].contains('/'))
    }
}

#[cfg(test)]
mod tests {
    use crate::access::{Grant, Right, RightSet};
    use crate::http::ui::rights::*;

    fn grant(rules: &[(&str, &[Right])]) -> Grant {
        let rules = rules.iter().map(|(prefix, rights)| {
            let rights: RightSet = rights.iter().copied().collect();
            (*prefix, rights)
        });
        Grant::new(&rules.collect::<Vec<_>>())
    }

    #[test]
    fn a_page_has_the_rights_of_its_client_where_it_may_list() {
        use Right::{Create, Delete, List, Read, Watch, Write};
        let grant = grant(&[
            ("pub/", &[List, Read, Watch]),
            ("pub/in", &[Write]),
            ("box/5e1f/", &[Create, Delete]),
            ("p", &[Delete]),
            ("hidden/", &[Watch]),
        ]);
        let text = |rights| serde_json::to_string(rights).unwrap();
        let rights = PageRights::new(Some(&grant), false);
        let json = r#"{"list":["pub/"],"read":["pub/"],"create":["pub/in"],"write":["pub/in"],"delete":["p"],"watch":["pub/"],"metrics":false}"#;
        assert_eq!(text(&rights), json);
        let rights = PageRights::new(Some(&grant), true);
        assert_eq!(
            text(&rights),
            r#"{"list":["pub/"],"read":["pub/"],"create":[],"write":[],"delete":[],"watch":["pub/"],"metrics":false}"#
        );
        let all = PageRights::new(None, false);
        let json = r#"{"list":[""],"read":[""],"create":[""],"write":[""],"delete":[""],"watch":[""],"metrics":true}"#;
        assert_eq!(text(&all), json);
    }

    #[test]
    fn files_are_stored_in_folders_that_may_have_them() {
        let may = |prefix, folder| {
            let grant = grant(&[(prefix, &[Right::Create, Right::List])]);
            PageRights::new(Some(&grant), false).may_create_in(folder)
        };
        for (prefix, folder) in [
            ("", ""),
            ("", "a/"),
            ("a/", "a/"),
            ("a/", "a/b/"),
            ("a/x", "a/"),
            ("x", ""),
        ] {
            assert!(may(prefix, folder), "{prefix:?} {folder:?}");
        }
        for (prefix, folder) in [("a/", ""), ("a/b/", "a/"), ("a/x", "b/"), ("a/x", "a/b/")] {
            assert!(!may(prefix, folder), "{prefix:?} {folder:?}");
        }
    }
}
