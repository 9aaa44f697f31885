//! A host or an origin that a request names and the server does not serve: as text for the answer and the log, with the
//! option that would add it.
//!
//! Promises one line of visible ASCII, of bounded length, whatever the client sent.

use crate::http::head::hosts;
use crate::http::head::hosts::Hosts;
use crate::http::head::origins::serialized;

/// The longest name that is shown whole, in bytes; longer ones end in dots.
const SHOWN: usize = 100;

/// A host or an origin that is on no list, and the option that would allow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAllowlisted {
    /// As it was sent.
    pub seen: Box<str>,
    /// The option that would add it.
    pub remedy: Box<str>,
}

impl NotAllowlisted {
    /// The host of a request, with or without a port.
    pub fn host(authority: &[u8]) -> Self {
        let name = std::str::from_utf8(hosts::host(authority));
        let name = name.ok().filter(|name| name.len() <= SHOWN);
        let name = name.filter(|name| Hosts::default().add(name).is_ok());
        let remedy = name.map_or("--allowed-host adds one".to_owned(), |name| {
            format!("--allowed-host {name} adds it")
        });
        Self {
            seen: quoted(authority).into(),
            remedy: remedy.into(),
        }
    }

    /// The page that asks, by its Origin where the browser sends one.
    pub fn origin(origin: Option<&[u8]>) -> Self {
        let text = origin.and_then(|origin| std::str::from_utf8(origin).ok());
        // Not `null`: pages of any site can have that.
        let named = text.filter(|text| text.len() <= SHOWN && text.contains("://"));
        let named = named.and_then(serialized);
        let remedy = named.map_or("--cors-origin lets those of one".to_owned(), |named| {
            format!("--cors-origin {named} lets them")
        });
        Self {
            seen: origin.map_or("other origins".to_owned(), quoted).into(),
            remedy: remedy.into(),
        }
    }
}

/// These bytes of a client, in quotes.
fn quoted(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(SHOWN)];
    let dots = if shown.len() < bytes.len() { "..." } else { "" };
    format!("\"{}{dots}\"", shown.escape_ascii())
}

#[cfg(test)]
mod tests {
    use crate::http::refusal::not_allowlisted::*;
    use proptest::prelude::*;

    #[test]
    fn a_host_is_named_with_the_option_that_adds_it() {
        for (authority, name) in [
            ("store.example:8080", "store.example"),
            ("a_b.", "a_b."),
            ("[2001:db8::1]:80", "2001:db8::1"),
        ] {
            let unlisted = NotAllowlisted::host(authority.as_bytes());
            assert_eq!(*unlisted.seen, format!("\"{authority}\""));
            assert_eq!(*unlisted.remedy, format!("--allowed-host {name} adds it"));
        }
        for odd in ["$(reboot)", "a;b", "%41"] {
            let unlisted = NotAllowlisted::host(odd.as_bytes());
            assert_eq!(&*unlisted.remedy, "--allowed-host adds one", "{odd}");
        }
    }

    #[test]
    fn an_origin_is_named_with_the_option_that_lets_it() {
        let unlisted = NotAllowlisted::origin(Some(b"https://a.example"));
        assert_eq!(&*unlisted.seen, "\"https://a.example\"");
        assert_eq!(
            &*unlisted.remedy,
            "--cors-origin https://a.example lets them"
        );
        assert_eq!(&*NotAllowlisted::origin(None).seen, "other origins");
        for odd in [&b"null"[..], b"", b"x", b"\xff"] {
            let unlisted = NotAllowlisted::origin(Some(odd));
            assert_eq!(&*unlisted.remedy, "--cors-origin lets those of one");
        }
    }

    proptest! {
        #[test]
        fn whatever_was_sent_is_one_short_line(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            for NotAllowlisted { seen, remedy } in [NotAllowlisted::host(&bytes), NotAllowlisted::origin(Some(&bytes))] {
                prop_assert!(seen.len() + remedy.len() < 5 * SHOWN + 50);
                prop_assert!(seen.bytes().chain(remedy.bytes()).all(|b| matches!(b, b' '..=b'~')));
            }
        }
    }
}
