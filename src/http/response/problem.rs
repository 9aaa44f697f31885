//! A refusal as a response: a line, `application/problem+json` (RFC 9457), an error of S3 and Azure, or a page for a
//! browser, which says what failed, what can be done, and leads back.
//!
//! The page holds no script. Its links are relative: a proxy may serve this server below a path.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use hyper::header::{CONTENT_SECURITY_POLICY, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::http::body::response::Body;
use crate::http::head::syntax::{encoded, put, up};
use crate::http::refusal::kind::Flag;
use crate::http::refusal::{BulkProgress, BulkWork, Refusal};
use crate::http::response::markup::Text;
use crate::http::response::{JSON, TEXT, close, empty, unstored, with};
use crate::store::Key;

/// A problem of RFC 9457; docs/http.md lists the names.
#[derive(Serialize)]
struct Problem<'a> {
    r#type: String,
    title: &'static str,
    status: u16,
    detail: String,
    #[serde(flatten)]
    members: Option<&'a BTreeMap<&'static str, u64>>,
    #[serde(flatten)]
    done: Option<DoneBefore>,
}

/// The members of a problem that say what was done before.
#[derive(Serialize)]
struct DoneBefore {
    /// The paths of the values, or of the first ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stored: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

/// The form of a refusal that a request asks for.
#[derive(Clone, Copy, Debug, Default)]
pub struct ErrorForm {
    /// As `application/problem+json`.
    pub problem: bool,
    /// As a page, for a browser whose request has this depth below the root.
    pub page: Option<usize>,
    /// The client is of another store, and shows its user no line of text.
    pub of_store: bool,
    /// In the words of its door.
    pub by_door: Option<fn(&Refusal) -> Response<Body>>,
}

/// The response to a refused request.
pub fn refuse(refusal: &Refusal, form: ErrorForm, compat: bool) -> Response<Body> {
    let kind = refusal.kind.shown(compat);
    if kind.has(Flag::Empty) {
        return empty(kind.status);
    }
    let json = refusal.besides().and_then(|more| more.json.clone());
    let mut response = if let Some(render) = form.by_door {
        render(refusal)
    } else if let Some(json) = json {
        unstored(kind.status, JSON, json)
    } else if kind.has(Flag::OfStore) && form.of_store && !form.problem {
        store_error(kind.status, refusal)
    } else {
        problem(kind.status, refusal, form)
    };
    if kind.has(Flag::Closes) {
        close(&mut response);
    }
    let headers = response.headers_mut();
    for &(name, value) in kind.fields {
        let name = HeaderName::from_static(name);
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Some(more) = refusal.besides() {
        headers.extend(more.fields.clone());
    }
    response
}

/// A name that is a URI is the type itself.
fn problem(status: StatusCode, refusal: &Refusal, form: ErrorForm) -> Response<Body> {
    if let Some(depth) = form.page {
        let response = error(
            status,
            "text/html; charset=utf-8",
            page(status, refusal, depth),
        );
        return with(response, |headers| {
            put(headers, CONTENT_SECURITY_POLICY, FAILURE_POLICY.clone());
        });
    }
    if !form.problem {
        return error(status, TEXT, line(refusal));
    }
    let name = refusal.name();
    let prefix = if name.starts_with("https:") {
        ""
    } else {
        "urn:data-server:problem:"
    };
    let problem = Problem {
        r#type: format!("{prefix}{name}"),
        title: status.canonical_reason().unwrap_or_default(),
        status: status.as_u16(),
        detail: line(refusal),
        members: refusal.besides().map(|more| &more.members),
        done: refusal.done().map(|done| DoneBefore {
            stored: paths(done),
            values: done.values,
            bytes: done.bytes,
        }),
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

/// The line for programs and people: what failed, the reason, and what was done before.
fn line(refusal: &Refusal) -> String {
    let Some(done) = refusal.done() else {
        return refusal.to_string();
    };
    let at = done.at.as_ref().map(|at| format!("{}: ", encoded(at)));
    let (values, bytes) = (done.values.unwrap_or(0), done.bytes.unwrap_or(0));
    let before = match (&done.work, &*paths(done)) {
        (BulkWork::Form(_), []) => "nothing was stored before".to_owned(),
        (BulkWork::Form(_), paths) => format!("stored before: {}", paths.join(", ")),
        (BulkWork::Archive, _) => format!("values stored before: {values} ({bytes} bytes)"),
        (BulkWork::Copy, _) => format!("{values} values were copied before"),
        (BulkWork::Removal, _) => format!("{values} values were removed before"),
    };
    format!("{}{refusal}; {before}", at.unwrap_or_default())
}

/// The keys of values as they are written in a path.
fn paths(done: &BulkProgress) -> Vec<String> {
    let keys = done.keys.iter();
    keys.map(|key| encoded(key.as_str()).to_string()).collect()
}

const STYLE: &str = include_str!("../ui/failure.css");

/// The policy of the page: it runs nothing, and loads nothing but its own style.
static FAILURE_POLICY: LazyLock<String> = LazyLock::new(|| {
    let digest = BASE64_STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
});

/// The page of a `refusal`: for a target that is `depth` folders below the root.
fn page(status: StatusCode, refusal: &Refusal, depth: usize) -> String {
    let status = status.as_u16();
    let form = refusal.done().and_then(|done| match &done.work {
        BulkWork::Form(folder) => Some((&**folder, done)),
        _ => None,
    });
    let (title, advice) = words(status, refusal, form.map(|(_, done)| done));
    let (title, advice) = (Text(&title), Text(&advice));
    let stored = form.map_or_else(String::new, |(_, done)| stored_files(&done.keys));
    let links = links(status, depth, form.map(|(folder, _)| folder));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"robots\" content=\"noindex\">\n<title>{title} \u{2013} data-server</title>\n\
             <style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n<p>{advice}</p>\n{stored}\
             <p class=\"muted\">Status {status}</p>\n<nav aria-label=\"Ways on\">{links}</nav>\n</main>\n</body>\n</html>\n"
    )
}

/// The title, which says what failed, and the advice.
fn words(status: u16, refusal: &Refusal, form: Option<&BulkProgress>) -> (String, String) {
    let file = form.and_then(|done| done.at.as_deref());
    let both = |title: &str, advice: &str| (title.to_owned(), advice.to_owned());
    match (status, file) {
        (401, _) if refusal.name() == "signed-out" => both(
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
        (status, _) if form.is_some() => both(general(status), &sentence(&refusal.text)),
        (status, _) => both(general(status), &sentence(&line(refusal))),
    }
}

/// The folder, all files, and where it helps, a way to sign in. The `folder` is that of a form.
fn links(status: u16, depth: usize, folder: Option<&str>) -> String {
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
    match folder {
        Some(folder) if !folder.is_empty() => {
            link(&format!("{root}{}", encoded(folder)), "Back to the folder");
        }
        None if depth > 0 => link("./", "Back to the folder"),
        _ => {}
    }
    link(&root, "All files");
    links
}

/// The sentence about the files of a form that were stored.
fn stored_files(keys: &[Key<'_>]) -> String {
    let stored: Vec<&str> = keys.iter().map(Key::as_str).collect();
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
    use crate::http::refusal::common::PRECONDITION;
    use crate::http::refusal::kind::Kind;
    use crate::http::response::problem::*;
    use data_server_testing::HtmlPage;

    const WHY: Refusal = Refusal::new(&Kind::new(StatusCode::IM_A_TEAPOT, ""), "why");

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
        let up = [("./", "Back to the folder"), ("../../", "All files")];
        let all = [("./?sign-in", "Sign in"), ("./", "All files")];
        for (status, depth, title, ways) in [
            (404, 2, "There is no such file", &up[..]),
            (404, 0, "There is no such file", &all[1..]),
            (401, 0, "Sign in to see this", &all),
            (412, 0, "It has changed meanwhile", &all[1..]),
            (413, 0, "This is too large", &all[1..]),
            (400, 0, "The server does not understand this", &all[1..]),
            (502, 0, "Something failed at the server", &all[1..]),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let page = HtmlPage::parse(page(status, &WHY, depth).as_bytes());
            assert_eq!(page.named("h1").next().unwrap().text, title);
            assert_eq!(links(&page), pairs(ways));
        }
        let refusal = WHY.kind.because("not allowed: it takes <b>");
        let page = page(StatusCode::FORBIDDEN, &refusal, 0);
        assert!(
            page.contains("<p>Not allowed: it takes &lt;b&gt;.</p>"),
            "{page}"
        );
    }

    #[test]
    fn a_form_says_which_file_is_in_the_way_and_leads_to_its_folder() {
        let refusal = PRECONDITION.after(BulkProgress {
            at: Some("a/<b>".to_owned()),
            keys: vec![Key::new("a/x y").expect("a key")],
            ..BulkProgress::of(BulkWork::Form("a/b&/".to_owned()))
        });
        let text = page(StatusCode::PRECONDITION_FAILED, &refusal, 1);
        let page = HtmlPage::parse(text.as_bytes());
        let title = page.named("h1").next().unwrap();
        assert_eq!(title.text, "\u{201c}a/<b>\u{201d} is there already");
        assert!(text.contains("Uploaded before it: a/x y."), "{text}");
        let ways = [("../a/b%26/", "Back to the folder"), ("../", "All files")];
        assert_eq!(links(&page), pairs(&ways));
    }

    #[test]
    fn what_was_done_before_is_one_line_and_a_few_members() {
        let key = |name: &str| Key::new(name.to_owned()).expect("a key");
        let done = |work, at: Option<&str>, keys: &[&str]| BulkProgress {
            at: at.map(str::to_owned),
            values: (!matches!(work, BulkWork::Form(_))).then_some(2),
            bytes: (work == BulkWork::Archive).then_some(3),
            keys: keys.iter().copied().map(key).collect(),
            ..BulkProgress::of(work)
        };
        let form = || BulkWork::Form(String::new());
        for (done, expected, members) in [
            (
                done(form(), None, &[]),
                "why; nothing was stored before",
                "",
            ),
            (
                done(form(), Some("a b"), &["x y", "z"]),
                "a%20b: why; stored before: x%20y, z",
                ",\"stored\":[\"x%20y\",\"z\"]",
            ),
            (
                done(BulkWork::Archive, Some("d/a"), &["b"]),
                "d/a: why; values stored before: 2 (3 bytes)",
                ",\"stored\":[\"b\"],\"values\":2,\"bytes\":3",
            ),
            (
                done(BulkWork::Copy, None, &["b"]),
                "why; 2 values were copied before",
                ",\"stored\":[\"b\"],\"values\":2",
            ),
            (
                done(BulkWork::Removal, None, &[]),
                "why; 2 values were removed before",
                ",\"values\":2",
            ),
        ] {
            let refusal = WHY.after(done);
            assert_eq!(line(&refusal), expected);
            let form = ErrorForm {
                problem: true,
                ..ErrorForm::default()
            };
            let mut response = problem(StatusCode::CONFLICT, &refusal, form);
            let json = response.body_mut().take_short().expect("a short body");
            let json = String::from_utf8(json.to_vec()).expect("text");
            let end = format!("\"detail\":\"{expected}\"{members}}}\n");
            assert!(json.ends_with(&end), "{json} {end}");
        }
    }
}
