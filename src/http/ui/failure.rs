//! The page that a browser gets in place of what it asked for: what failed, what can be done, and a way back.
//!
//! Pure. It holds no script. Its links are relative, so that they hold behind a proxy that serves this server below a path.

use std::fmt::Write as _;
use std::sync::LazyLock;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use percent_encoding::percent_decode_str;
use sha2::{Digest as _, Sha256};

use crate::http::head::syntax::up;
use crate::http::ui::markup::Text;

/// The name of the problem that is none: a client wanted to be known no more.
pub const SIGNED_OUT: &str = "signed-out";

const STYLE: &str = include_str!("failure.css");

/// The page runs nothing, and loads nothing but its own style.
pub static FAILURE_POLICY: LazyLock<String> = LazyLock::new(|| {
    let digest = BASE64_STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
});

/// A failure, for the page that tells of it.
pub struct Failure<'a> {
    pub status: u16,
    /// The name of the problem.
    pub name: &'a str,
    /// The line that programs get.
    pub why: &'a str,
    /// How far below the root the request was.
    pub depth: usize,
    /// Of a form with files.
    pub form: Option<FailedForm<'a>>,
}

/// How far a form with files came. Names are as they stand in paths.
pub struct FailedForm<'a> {
    pub folder: &'a str,
    pub file: Option<&'a str>,
    pub stored: &'a [String],
}

impl Failure<'_> {
    /// The page.
    pub fn page(&self) -> String {
        let (title, advice) = self.words();
        let (title, advice) = (Text(&title), Text(&advice));
        let form = self
            .form
            .as_ref()
            .map_or_else(String::new, FailedForm::progress);
        let links = self.links();
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"robots\" content=\"noindex\">\n<title>{title} \u{2013} data-server</title>\n\
             <style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n<p>{advice}</p>\n{form}\
             <p class=\"muted\">Status {}</p>\n<nav aria-label=\"Ways on\">{links}</nav>\n</main>\n</body>\n</html>\n",
            self.status
        )
    }

    /// The title, which says what failed, and the advice.
    fn words(&self) -> (String, String) {
        let both = |title: &str, advice: &str| (title.to_owned(), advice.to_owned());
        let file = self.form.as_ref().and_then(|form| form.file).map(decoded);
        match (self.status, file) {
            (401, _) if self.name == SIGNED_OUT => both(
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
            (status, _) => both(general(status), &sentence(self.why)),
        }
    }

    /// The folder, all files, and where it helps, a way to sign in.
    fn links(&self) -> String {
        let root = match up(self.depth) {
            root if root.is_empty() => "./".to_owned(),
            root => root,
        };
        let mut links = String::new();
        let mut link = |href: &str, text: &str| {
            let _ = write!(links, "<a href=\"{href}\">{text}</a>"); // cannot fail
        };
        if self.status == 401 {
            link(&format!("{root}?sign-in"), "Sign in");
        }
        match &self.form {
            Some(form) if !form.folder.is_empty() => {
                link(&format!("{root}{}", form.folder), "Back to the folder");
            }
            None if self.depth > 0 => link("./", "Back to the folder"),
            _ => {}
        }
        link(&root, "All files");
        links
    }
}

impl FailedForm<'_> {
    fn progress(&self) -> String {
        let stored: Vec<String> = self.stored.iter().map(|name| decoded(name)).collect();
        match &*stored {
            [] => "<p>Nothing was uploaded before it.</p>\n".to_owned(),
            stored => format!("<p>Uploaded before it: {}.</p>\n", Text(&stored.join(", "))),
        }
    }
}

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

fn decoded(name: &str) -> String {
    percent_decode_str(name).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use crate::http::ui::failure::*;
    use data_server_testing::HtmlPage;

    fn failure(status: u16, why: &str, depth: usize) -> Failure<'_> {
        Failure {
            status,
            name: "x",
            why,
            depth,
            form: None,
        }
    }

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
            let page = HtmlPage::parse(failure(status, "why", depth).page().as_bytes());
            assert_eq!(page.named("h1").next().unwrap().text, title);
            assert_eq!(links(&page), pairs(ways));
        }
        let page = failure(403, "not allowed: it takes <b>", 0).page();
        assert!(
            page.contains("<p>Not allowed: it takes &lt;b&gt;.</p>"),
            "{page}"
        );
    }

    #[test]
    fn a_form_says_which_file_is_in_the_way_and_leads_to_its_folder() {
        let stored = ["a/x%20y".to_owned()];
        let form = FailedForm {
            folder: "a/b%26/",
            file: Some("a/%3Cb%3E"),
            stored: &stored,
        };
        let failure = Failure {
            form: Some(form),
            ..failure(412, "", 1)
        };
        let text = failure.page();
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
