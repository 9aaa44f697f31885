//! The four forms of a listing, and one way through the pages of each: what stands in a page, and where the next one
//! is.

use serde_json::Value;

use crate::support::prelude::*;

pub(crate) const JSON: &str = "Accept: application/json\r\n";
pub(crate) const TEXT: &str = "Accept: text/plain\r\n";
/// The page of browsers, which has scripts.
pub(crate) const PAGE: &str = "Accept: text/html\r\n";
/// The index for programs that follow links.
pub(crate) const INDEX: &str = "Accept: */*\r\n";

pub(crate) const FORMS: [&str; 4] = [JSON, TEXT, PAGE, INDEX];

/// The form that these lines of a head ask for, whatever else stands in them.
fn form_of(lines: &str) -> &'static str {
    let form = FORMS.into_iter().find(|form| lines.ends_with(form));
    form.expect("a form")
}

fn is_html(form: &str) -> bool {
    matches!(form_of(form), PAGE | INDEX)
}

/// `target` as a listing in this form is asked for. HTML stops at folders unless the query says that it does not, and a
/// program that sends a query gets JSON unless the query asks for HTML.
pub(crate) fn in_form(target: &str, form: &str) -> String {
    let delimiter = if target.contains("delimiter=") {
        ""
    } else {
        "&delimiter="
    };
    let and = if target.contains('?') { "" } else { "?" };
    if !is_html(form) {
        return target.to_owned();
    }
    format!("{target}{and}{delimiter}&format=html")
}

/// Where the links to keys and folders of a listing in HTML lead, and where its next page is. The index has that link
/// in its head: one among the others would be taken for a key by programs.
fn links(listing: &HtmlPage, form: &str) -> (Vec<String>, Option<String>) {
    let href = |link: &Element| link.attribute("href").expect("an address").to_owned();
    if form == PAGE {
        let rows = listing.rows().into_iter().map(|row| row.href);
        return (rows.collect(), listing.next());
    }
    let mut of_head = listing.named("link");
    let next = of_head.find(|link| link.attribute("rel") == Some("next"));
    (listing.named("a").map(href).collect(), next.map(href))
}

/// The paths of the keys and folders in a page, as they stand in it, and the query of the next page.
pub(crate) fn listed(raw: &mut Raw, target: &str, form: &str) -> (Vec<String>, Option<String>) {
    let got = ask(raw, "GET", target, form, b"");
    // The page of a folder that is not there says so; to a program it is a prefix that no key has.
    let is_absent = form_of(form) == PAGE && got.status == 404;
    assert!(got.status == 200 || is_absent, "{target} {form}");
    let link = got.header("link").map(|link| {
        let link = link.strip_prefix('<');
        let link = link.and_then(|link| link.strip_suffix(">; rel=\"next\""));
        link.expect("a link to the next page").to_owned()
    });
    let paths = match form_of(form) {
        JSON => {
            let page = got.json();
            let text = |value: &Value| value.as_str().expect("text").to_owned();
            let keys = page["keys"].as_array().expect("keys").iter();
            let keys: Vec<_> = keys.map(|key| text(&key["key"])).collect();
            assert!(keys.is_sorted(), "{keys:?}");
            let folders = page["prefixes"].as_array().into_iter().flatten();
            let items: BTreeSet<_> = folders.map(text).chain(keys).collect();
            let next = link.as_ref().and(items.last());
            assert_eq!(page["next"].as_str(), next.map(String::as_str));
            items.iter().map(|item| encode(item)).collect()
        }
        TEXT => got.text().lines().map(str::to_owned).collect(),
        form => {
            let (hrefs, next) = links(&HtmlPage::parse(&got.body), form);
            assert_eq!(next, link, "{target}");
            let path = target.split('?').next().expect("a path");
            let below = hrefs.iter().filter(|href| *href != "../");
            below.map(|href| format!("{}{href}", &path[1..])).collect()
        }
    };
    (paths, link)
}

/// All pages from this one on, by their links: what is in each, decoded. JSON and text have it in the order of its
/// bytes; HTML has folders first.
pub(crate) fn walk(raw: &mut Raw, first: &str, form: &str) -> Vec<Vec<String>> {
    let (mut target, mut pages) = (in_form(first, form), Vec::new());
    loop {
        let (paths, next) = listed(raw, &target, form);
        let mut items: Vec<String> = paths.iter().map(|path| decode(path)).collect();
        if is_html(form) {
            items.sort();
        }
        pages.push(items);
        assert!(pages.len() < 10_000, "no end");
        let Some(next) = next else { return pages };
        target.truncate(target.find('?').unwrap_or(target.len()));
        target += &next;
    }
}

/// Every character but those of words, and `/`.
pub(crate) fn encode(text: &str) -> String {
    let encoded = percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC);
    encoded.to_string().replace("%2F", "/")
}

fn decode(path: &str) -> String {
    assert!(path.bytes().all(|byte| byte.is_ascii_graphic()), "{path:?}");
    let decoded = percent_encoding::percent_decode_str(path).decode_utf8();
    decoded.expect("UTF-8").into_owned()
}
