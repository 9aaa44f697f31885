//! The query of a request: parsed once, and read by the table of parameters that each target has.
//!
//! Promises that no parameter is passed over which would change the meaning: one that the target has and that is
//! doubled or not percent-encoded UTF-8, and one that looks mistyped, is refused by its name. Other parameters are
//! ignored, as mails, chats and caches add some to an address, unless the target takes no other. Knows no parameter.

use std::borrow::Cow;

use form_urlencoded::parse;
use hyper::StatusCode;
use percent_encoding::percent_decode_str;

use crate::http::head::syntax::has_bad_escape;
use crate::http::refusal::Refusal;
use crate::http::refusal::kind::Kind;

/// The kind of the refusal of a query.
pub const BAD_QUERY: &Kind = &Kind::new(StatusCode::BAD_REQUEST, "bad-query");

/// The most edits that make a mistyped name of a parameter.
const EDITS: usize = 2;

/// The parameters of a target.
pub struct Parameters {
    /// The target, in words, as in `a listing`.
    pub of: &'static str,
    /// Those that a query has once at most.
    pub once: &'static [&'static str],
    /// Those that it may repeat.
    pub many: &'static [&'static str],
    /// The hint for a client that sends another, as in `it has prefix and since`.
    pub hint: &'static str,
}

impl Parameters {
    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.once.iter().chain(self.many).copied()
    }

    /// True where `name` is that of a parameter, or makes one by a few edits.
    fn resemble(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        self.names()
            .any(|own| strsim::osa_distance(&name, own) <= EDITS)
    }

    fn has_no(&self, name: &str) -> Refusal {
        let Self { of, hint, .. } = self;
        BAD_QUERY.because(format!("{of} has no parameter {name:?}: {hint}"))
    }
}

/// The parameters of a query, decoded, in their order.
#[derive(Debug, Default)]
pub struct QueryFields<'a>(Vec<QueryField<'a>>);

#[derive(Debug)]
struct QueryField<'a> {
    name: Cow<'a, str>,
    value: Cow<'a, str>,
    /// False where U+FFFD stands for bytes that are no UTF-8, or an escape is malformed.
    is_exact: bool,
}

impl<'a> QueryFields<'a> {
    /// The parameters of this query.
    pub fn of(query: Option<&'a str>) -> Self {
        query.map_or_else(Self::default, Self::parse)
    }

    #[cold]
    fn parse(query: &'a str) -> Self {
        let fields = query.split('&').filter_map(|pair| {
            let (name, value) = parse(pair.as_bytes()).next()?;
            let is_exact = !pair.contains('%')
                || !has_bad_escape(pair) && percent_decode_str(pair).decode_utf8().is_ok();
            Some(QueryField {
                name,
                value,
                is_exact,
            })
        });
        Self(fields.collect())
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names and values.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|field| (&*field.name, &*field.value))
    }

    /// The values of the parameter `name`.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let own = self.pairs().filter(move |(of, _)| *of == name);
        own.map(|(_, value)| value)
    }

    /// The value of the parameter `name`, which a query that was checked has once.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// True where there is a parameter `name`.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// True where one is of these `parameters`.
    pub fn has_any(&self, parameters: &Parameters) -> bool {
        parameters.names().any(|name| self.has(name))
    }

    /// True where one is of these `parameters`, or looks like a mistyped one.
    pub fn resembles(&self, parameters: &Parameters) -> bool {
        self.pairs().any(|(name, _)| parameters.resemble(name))
    }

    /// Refuses a query that `own`, the parameters of its target, do not allow; another is ignored, unless it looks like
    /// one of these or of the `others`, which other targets have.
    pub fn check(&self, own: &Parameters, others: &[&Parameters]) -> Result<(), Refusal> {
        let is_mistyped = |name: &str| others.iter().chain([&own]).any(|of| of.resemble(name));
        self.check_each(own, is_mistyped)
    }

    /// Refuses a query with any but these `own` parameters.
    pub fn check_all(&self, own: &Parameters) -> Result<(), Refusal> {
        self.check_each(own, |_| true)
    }

    fn check_each(
        &self,
        own: &Parameters,
        is_refused: impl Fn(&str) -> bool,
    ) -> Result<(), Refusal> {
        for (at, field) in self.0.iter().enumerate() {
            let (name, before) = (&*field.name, &self.0[..at]);
            let is_single = own.once.contains(&name);
            if !is_single && !own.many.contains(&name) {
                if is_refused(name) {
                    return Err(own.has_no(name));
                }
            } else if is_single && before.iter().any(|field| field.name == name) {
                let of = own.of;
                return Err(BAD_QUERY.because(format!("{of} has {name} once")));
            } else if !field.is_exact {
                let why = format!("bad {name}: percent-encoded UTF-8, as in {name}=a%20b");
                return Err(BAD_QUERY.because(why));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::http::head::query::*;

    const OWN: &Parameters = &Parameters {
        of: "a thing",
        once: &["prefix", "limit"],
        many: &["files"],
        hint: "it has prefix, limit and files",
    };
    const OTHER: &Parameters = &Parameters {
        of: "another",
        once: &["archive"],
        many: &[],
        hint: "it has archive",
    };

    fn checked(query: &str) -> Result<(), String> {
        let checked = QueryFields::of(Some(query)).check(OWN, &[OTHER]);
        checked.map_err(|why| why.to_string())
    }

    #[test]
    fn what_would_change_the_meaning_is_refused_by_its_name() {
        for query in [
            "",
            "&&",
            "prefix=a%20b&limit=1&files=a&files=b",
            "utm_source=x&utm_source=y&fbclid=%ff&gclid=%zz&v=1&=",
        ] {
            assert_eq!(checked(query), Ok(()), "{query}");
        }
        for (query, name) in [
            ("prefx=a", "prefx"),
            ("v=1&PREFIX=a", "PREFIX"),
            ("preifx", "preifx"),
            ("archive=tar", "archive"),
            ("archiv=tar", "archiv"),
        ] {
            let why = format!("a thing has no parameter {name:?}: {hint}", hint = OWN.hint);
            assert_eq!(checked(query), Err(why), "{query}");
        }
        let why = "a thing has prefix once".to_owned();
        assert_eq!(checked("prefix=a&files=b&%70refix=a"), Err(why));
        for query in ["files=a&files=%ff", "files=%zz", "files=%"] {
            let why = "bad files: percent-encoded UTF-8, as in files=a%20b".to_owned();
            assert_eq!(checked(query), Err(why), "{query}");
        }
    }

    proptest! {
        #[test]
        fn the_parameters_are_those_of_the_whole_query(query in "[a&=%2f+;]{0,12}") {
            let fields = QueryFields::of(Some(&query));
            let pairs = fields.pairs().map(|(name, value)| (name.into(), value.into()));
            prop_assert_eq!(pairs.collect::<Vec<_>>(), parse(query.as_bytes()).collect::<Vec<_>>());
        }
    }
}
