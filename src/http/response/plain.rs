//! Plain responses: a status with a body, or with none; and problems: as a line, as `application/problem+json` (RFC
//! 9457), as an error of S3 and Azure, or as a page for a browser, which says what failed, what can be done, and leads
//! back.
//!
//! The page holds no script. Its links are relative: a proxy may serve this server below a path.

use std::fmt::Write as _;
use std::sync::LazyLock;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use bytes::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::http::body::response::Body;
use crate::http::head::syntax::{encoded, put, up};
use crate::http::refusal::kind::{Flag, Kind};
use crate::http::refusal::table::SIGNED_OUT;
use crate::http::refusal::{HaltedForm, Refusal};
use crate::http::request::{ResponseContext, close};
use crate::http::response::remedies::describe;
use crate::http::service_config::ServiceConfig;
use crate::http::ui::frame::Text;
use crate::store::Key;

/// The media type of a line for people.
pub const TEXT: &str = "text/plain; charset=utf-8";

/// A problem of RFC 9457; docs/http.md lists the names.
#[derive(Serialize)]
struct Problem {
    r#type: String,
    title: &'static str,
    status: u16,
    detail: String,
    #[serde(flatten)]
    offsets: Option<Offsets>,
    /// The keys of a form that were stored before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stored: Vec<String>,
}

/// The members of the problem of a mismatching offset (draft-ietf-httpbis-resumable-upload, "Mismatching Offset").
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Offsets {
    expected_offset: u64,
    provided_offset: u64,
}

/// The response to a refused request, in the form that the context asks for.
pub fn refuse(
    refusal: &Refusal,
    context: &ResponseContext,
    config: &ServiceConfig,
) -> Response<Body> {
    let kind = refusal.kind(config.compat);
    if kind.has(Flag::Empty) {
        return empty(kind.status);
    }
    let mut response = if kind.has(Flag::OfStore) && context.of_store && !context.problem {
        store_error(kind.status, refusal)
    } else {
        problem(kind, refusal, context)
    };
    if kind.has(Flag::Closes) {
        close(&mut response);
    }
    describe(refusal, response.headers_mut(), config);
    response
}

/// A name that is a URI is the type itself.
fn problem(kind: Kind, refusal: &Refusal, context: &ResponseContext) -> Response<Body> {
    let Kind { status, name, .. } = kind;
    let form = match refusal {
        Refusal::OfForm(halted) => Some(&**halted),
        _ => None,
    };
    if let Some(depth) = context.page {
        let page = failure(status.as_u16(), name, &refusal.to_string(), depth, form);
        let response = error(status, "text/html; charset=utf-8", page);
        return with(response, |headers| {
            put(headers, CONTENT_SECURITY_POLICY, FAILURE_POLICY.clone());
        });
    }
    let stored = form.map_or(&[][..], |form| &form.stored);
    let stored: Vec<_> = stored.iter().map(|file| path(&file.key)).collect();
    let why = form.map_or_else(|| refusal.to_string(), |form| progress(form, &stored));
    if !context.problem {
        return error(status, TEXT, why);
    }
    let prefix = if name.starts_with("https:") {
        ""
    } else {
        "urn:data-server:problem:"
    };
    let problem = Problem {
        r#type: format!("{prefix}{name}"),
        title: status.canonical_reason().unwrap_or_default(),
        status: status.as_u16(),
        detail: why,
        offsets: match *refusal.reason() {
            Refusal::MismatchingOffset { expected, provided } => Some(Offsets {
                expected_offset: expected,
                provided_offset: provided,
            }),
            _ => None,
        },
        stored,
    };
    let json = serde_json::to_string(&problem).unwrap_or_default();
    error(status, "application/problem+json", json)
}

/// An error as S3 and Azure write it: from another body their clients show the status alone.
fn store_error(status: StatusCode, refusal: &Refusal) -> Response<Body> {
    let why = refusal.to_string();
    let why = quick_xml::escape::escape(&why);
    let text = format!("<Error><Code>NotImplemented</Code><Message>{why}</Message></Error>");
    error(status, "application/xml", text)
}

fn error(status: StatusCode, media_type: &'static str, text: String) -> Response<Body> {
    unstored(status, media_type, text + "\n")
}

/// The line about a form that ended early: the file that was not stored, the reason, and the files that were `stored`
/// before.
fn progress(form: &HaltedForm, stored: &[String]) -> String {
    let file = form.file.as_ref().map(|key| format!("{}: ", path(key)));
    let (file, why) = (file.unwrap_or_default(), &form.why);
    match stored {
        [] => format!("{file}{why}; nothing was stored before"),
        stored => format!("{file}{why}; stored before: {}", stored.join(", ")),
    }
}

/// The key as it is written in a path.
fn path(key: &Key<'_>) -> String {
    encoded(key.as_str()).to_string()
}

/// A response of this media type that no cache stores: caches may keep some errors, 404 among them, and guess for how
/// long (RFC 9110, section 15.1).
pub fn unstored(
    status: StatusCode,
    media_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Body> {
    with(plain(status, Body::bytes(body)), |headers| {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    })
}

/// A response of this `status` with this `body`.
pub fn plain(status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

/// A response of this `status` with no body.
pub fn empty(status: StatusCode) -> Response<Body> {
    plain(status, Body::empty())
}

/// `response`, with the headers that `describe` adds.
pub fn with(mut response: Response<Body>, describe: impl FnOnce(&mut HeaderMap)) -> Response<Body> {
    describe(response.headers_mut());
    response
}

const STYLE: &str = include_str!("../ui/failure.css");

/// The policy of the page: it runs nothing, and loads nothing but its own style.
static FAILURE_POLICY: LazyLock<String> = LazyLock::new(|| {
    let digest = BASE64_STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
});

/// The page of the problem with this `name`, of which programs get the line `why`: for a target that is `depth` folders
/// below the root.
fn failure(status: u16, name: &str, why: &str, depth: usize, form: Option<&HaltedForm>) -> String {
    let file = form.and_then(|form| form.file.as_ref()).map(Key::as_str);
    let (title, advice) = words(status, name, why, file);
    let (title, advice) = (Text(&title), Text(&advice));
    let stored = form.map_or_else(String::new, stored_files);
    let links = links(status, depth, form);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"robots\" content=\"noindex\">\n<title>{title} \u{2013} data-server</title>\n\
             <style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n<p>{advice}</p>\n{stored}\
             <p class=\"muted\">Status {status}</p>\n<nav aria-label=\"Ways on\">{links}</nav>\n</main>\n</body>\n</html>\n"
    )
}

/// The title, which says what failed, and the advice.
fn words(status: u16, name: &str, why: &str, file: Option<&str>) -> (String, String) {
    let both = |title: &str, advice: &str| (title.to_owned(), advice.to_owned());
    match (status, file) {
        (401, _) if name == SIGNED_OUT => both(
            "You are signed out",
            "If you still see your name on the page, this browser keeps the password until it is closed.",
        ),
        (401, _) => both("Sign in to see this", "It takes a name and a password that this server knows."),
        (404, _) => both(
            "There is no such file",
            "It may have been deleted or renamed, or there is a slip in the address.",
        ),
        (412, Some(file)) => (
            format!("\u{201c}{file}\u{201d} is there already"),
            "It was not replaced. To replace it, tick \u{201c}Replace what is there\u{201d} and send the files again.".to_owned(),
        ),
        (412, None) => both("It has changed meanwhile", "Look at what is there now, and try again."),
        (status, _) => both(general(status), &sentence(why)),
    }
}

/// The folder, all files, and where it helps, a way to sign in.
fn links(status: u16, depth: usize, form: Option<&HaltedForm>) -> String {
    let root = match up(depth) {
        root if root.is_empty() => "./".to_owned(),
        root => root,
    };
    let mut links = String::new();
    let mut link = |href: &str, text: &str| {
        let _ = write!(links, "<a href=\"{href}\">{text}</a>"); // cannot fail
    };
    if status == 401 {
        link(&format!("{root}?sign-in"), "Sign in");
    }
    match form {
        Some(form) if !form.folder.is_empty() => {
            link(
                &format!("{root}{}", encoded(&form.folder)),
                "Back to the folder",
            );
        }
        None if depth > 0 => link("./", "Back to the folder"),
        _ => {}
    }
    link(&root, "All files");
    links
}

/// The sentence about the files of a form that were stored.
fn stored_files(form: &HaltedForm) -> String {
    let stored: Vec<&str> = form.stored.iter().map(|file| file.key.as_str()).collect();
    match &*stored {
        [] => "<p>Nothing was uploaded before it.</p>\n".to_owned(),
        stored => format!("<p>Uploaded before it: {}.</p>\n", Text(&stored.join(", "))),
    }
}

/// The title of a failure that has no words of its own.
fn general(status: u16) -> &'static str {
    match status {
        403 => "This is not allowed",
        409 => "Something is in the way",
        413 | 414 => "This is too large",
        429 => "Wait a little",
        503 | 504 => "The server is busy",
        507 => "There is no space left",
        500.. => "Something failed at the server",
        _ => "The server does not understand this",
    }
}

/// The line of a program as a sentence.
fn sentence(line: &str) -> String {
    let mut chars = line.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), chars.as_str())
}

#[cfg(test)]
mod tests {
    use crate::http::refusal::StoredFile;
    use crate::http::response::plain::*;
    use data_server_testing::HtmlPage;

    fn links(page: &HtmlPage) -> Vec<(String, String)> {
        let links = page.named("a");
        let links = links.map(|it| (it.attribute("href").unwrap().to_owned(), it.text.clone()));
        links.collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let pairs = pairs.iter();
        pairs
            .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
            .collect()
    }

    #[test]
    fn each_failure_has_words_and_ways_back() {
        for (status, depth, title, ways) in [
            (
                404,
                2,
                "There is no such file",
                &[("./", "Back to the folder"), ("../../", "All files")][..],
            ),
            (404, 0, "There is no such file", &[("./", "All files")]),
            (
                401,
                0,
                "Sign in to see this",
                &[("./?sign-in", "Sign in"), ("./", "All files")],
            ),
            (412, 0, "It has changed meanwhile", &[("./", "All files")]),
            (413, 0, "This is too large", &[("./", "All files")]),
            (
                400,
                0,
                "The server does not understand this",
                &[("./", "All files")],
            ),
            (
                502,
                0,
                "Something failed at the server",
                &[("./", "All files")],
            ),
        ] {
            let page = HtmlPage::parse(failure(status, "x", "why", depth, None).as_bytes());
            assert_eq!(page.named("h1").next().unwrap().text, title);
            assert_eq!(links(&page), pairs(ways));
        }
        let page = failure(403, "x", "not allowed: it takes <b>", 0, None);
        assert!(
            page.contains("<p>Not allowed: it takes &lt;b&gt;.</p>"),
            "{page}"
        );
    }

    #[test]
    fn a_form_says_which_file_is_in_the_way_and_leads_to_its_folder() {
        let form = HaltedForm {
            folder: "a/b&/".to_owned(),
            file: Key::new("a/<b>").ok(),
            stored: vec![StoredFile {
                key: Key::new("a/x y").expect("a key"),
                published: None,
            }],
            why: Refusal::Precondition,
        };
        let text = failure(412, "x", "", 1, Some(&form));
        let page = HtmlPage::parse(text.as_bytes());
        assert_eq!(
            page.named("h1").next().unwrap().text,
            "\u{201c}a/<b>\u{201d} is there already"
        );
        assert!(text.contains("Uploaded before it: a/x y."), "{text}");
        let ways = [("../a/b%26/", "Back to the folder"), ("../", "All files")];
        assert_eq!(links(&page), pairs(&ways));
    }
}
