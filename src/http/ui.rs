//! The page that a browser gets at `/`: when it is wanted, its one document, and what that document may do.
//!
//! The files in `ui/` are put into one document, so that nothing else has to be reachable for it. Its
//! Content-Security-Policy lets exactly these scripts and this style act, by their digests, and refuses everything else:
//! a key or an error that became markup would still do nothing.

use std::fmt::Write as _;
use std::sync::LazyLock;
use std::time::SystemTime;

use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine as _};
use bytes::Bytes;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue,
    REFERRER_POLICY, VARY,
};
use sha2::{Digest as _, Sha256};

use crate::http::semantics::accept::media_type;
use crate::http::semantics::conditional::{Current, PreconditionFailed, Preconditions, Verdict};

const FRAME: &str = include_str!("ui/index.html");
const STYLES: &[(&str, &str)] = &[("app.css", include_str!("ui/app.css"))];
const SCRIPTS: &[(&str, &str)] = &[
    ("common.js", include_str!("ui/common.js")),
    ("keys.js", include_str!("ui/keys.js")),
    ("live.js", include_str!("ui/live.js")),
    ("uploads.js", include_str!("ui/uploads.js")),
    ("preview.js", include_str!("ui/preview.js")),
    ("metrics.js", include_str!("ui/metrics.js")),
    ("reactors.js", include_str!("ui/reactors.js")),
    ("app.js", include_str!("ui/app.js")),
];

static PAGE: LazyLock<Page> = LazyLock::new(Page::assemble);

struct Page {
    document: Bytes,
    policy: String,
    etag: String,
}

impl Page {
    fn assemble() -> Self {
        let mut document = FRAME.to_owned();
        for (name, text) in STYLES {
            let link = format!("<link rel=\"stylesheet\" href=\"{name}\">");
            document = document.replacen(&link, &format!("<style>{text}</style>"), 1);
        }
        for (name, text) in SCRIPTS {
            let link = format!("<script src=\"{name}\"></script>");
            document = document.replacen(&link, &format!("<script>{text}</script>"), 1);
        }
        let policy = format!(
            "default-src 'none'; script-src{}; style-src{}; connect-src 'self'; img-src blob: data:; base-uri 'none'; \
             form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
            sources(SCRIPTS),
            sources(STYLES),
        );
        // The policy belongs to the version, as the document means nothing without it.
        let digest = Sha256::new()
            .chain_update(&document)
            .chain_update(&policy)
            .finalize();
        Self {
            etag: format!("\"{}\"", BASE64_URL_SAFE_NO_PAD.encode(&digest[..12])),
            document: document.into(),
            policy,
        }
    }
}

/// These texts as the sources of a policy: by digest (CSP Level 3, section 2.3.1).
fn sources(texts: &[(&str, &str)]) -> String {
    texts.iter().fold(String::new(), |mut sources, (_, text)| {
        let digest = BASE64_STANDARD.encode(Sha256::digest(text));
        let _ = write!(sources, " 'sha256-{digest}'"); // writing to a String cannot fail
        sources
    })
}

/// Whether the client prefers the page to the listing: browsers do, other clients only if their Accept says so.
pub(super) fn is_preferred(headers: &HeaderMap) -> bool {
    let offers = ["application/json", "text/plain", "text/html"];
    media_type(headers, &offers) == Some(2)
}

/// Whether the client has the page already. It has no date, so preconditions that go by one say nothing.
pub(super) fn is_known(headers: &HeaderMap) -> Result<bool, PreconditionFailed> {
    let current = Current {
        etag: &PAGE.etag,
        variants: &[],
        modified: SystemTime::now(),
    };
    let verdict = |preconditions: &Preconditions| match preconditions.for_read(Some(current)) {
        Verdict::Failed => Err(PreconditionFailed),
        Verdict::NotModified(_) => Ok(true),
        Verdict::Proceed => Ok(false),
    };
    Preconditions::of(headers)
        .as_ref()
        .map_or(Ok(false), verdict)
}

/// The document, a copy of nothing.
pub(super) fn document() -> Bytes {
    PAGE.document.clone()
}

/// The headers of an answer with the document, and of one that says that it is known.
pub(super) fn headers() -> [(HeaderName, HeaderValue); 7] {
    let text = |text: &str| HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""));
    let fixed = HeaderValue::from_static;
    [
        (CONTENT_TYPE, fixed("text/html; charset=utf-8")),
        (CONTENT_SECURITY_POLICY, text(&PAGE.policy)),
        (ETAG, text(&PAGE.etag)),
        (CACHE_CONTROL, fixed("no-cache")),
        (VARY, fixed("accept")),
        (REFERRER_POLICY, fixed("no-referrer")),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            fixed("same-origin"),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use crate::http::ui::*;

    fn preferred(accept: &str) -> bool {
        let headers = [(hyper::header::ACCEPT, accept.parse().unwrap())];
        is_preferred(&headers.into_iter().collect())
    }

    #[test]
    fn browsers_get_the_page_and_nobody_else_by_accident() {
        assert!(preferred(
            "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
        ));
        assert!(preferred("text/html"));
        for other in [
            "*/*",
            "",
            "application/json",
            "text/plain",
            "text/*",
            "image/png",
        ] {
            assert!(!preferred(other), "{other}");
        }
        assert!(!preferred("application/json, text/html;q=0.9"));
        assert!(!is_preferred(&HeaderMap::new()));
    }

    #[test]
    fn every_file_is_in_the_document_and_none_ends_its_element() {
        let document = std::str::from_utf8(&PAGE.document).unwrap();
        for (name, text) in STYLES.iter().chain(SCRIPTS) {
            assert!(document.contains(text), "{name} is not in the document");
            assert!(!text.contains("</s"), "{name} ends its own element");
            assert!(!text.contains("<!--"), "{name} begins a comment");
        }
        assert!(!document.contains("src=\"") && !document.contains("rel=\"stylesheet\""));
    }
}
