//! The index of a folder, one link a line, that programs get in the form that nginx and Apache have given it.
//!
//! Pure. Promises that each `a` of an index is of `../`, of a folder or of a key of the listing, and that nothing else
//! in it looks like an address: programs take those for names. The next page is a `link` of the head, for programs that
//! know its relation.

use std::fmt::Write as _;

use crate::http::head::syntax::encoded;
use crate::http::listing::{Item, ListTarget, items};
use crate::http::response::markup::Text;
use crate::store::Listing;

/// The length of a line, about.
const LINE: usize = 160;

/// The column of the times, as in nginx.
const TIMES: usize = 51;

/// The index of `listing`, of `target`.
pub fn index(target: &ListTarget, listing: &Listing) -> Vec<u8> {
    let folder = &*target.folder;
    let items = items(listing);
    let mut index = String::with_capacity(LINE * (items.len() + 4));
    // Without the `/` at the end, as in Apache, which GDAL reads.
    let title = Text(folder.strip_suffix('/').unwrap_or(folder));
    // Writing to a String cannot fail.
    let _ = write!(
        index,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Index of /{title}</title>\n"
    );
    if let Some(query) = target.next_query(listing) {
        let query = Text(&query);
        let _ = writeln!(index, "<link rel=\"next\" href=\"?{query}\">");
    }
    let _ = write!(
        index,
        "</head>\n<body>\n<h1>Index of /{title}</h1>\n<pre>\n"
    );
    if !folder.is_empty() {
        index.push_str("<a href=\"../\">../</a>\n");
    }
    for item in items {
        line(&mut index, folder, &item);
    }
    index.push_str("</pre>\n</body>\n</html>\n");
    index.into_bytes()
}

fn line(index: &mut String, folder: &str, item: &Item<'_>) {
    let name = item.text.strip_prefix(folder).unwrap_or(item.text);
    let (href, text) = (encoded(name), Text(name));
    let _ = write!(index, "<a href=\"{href}\">{text}</a>");
    let gap = TIMES.saturating_sub(name.chars().count()).max(1);
    if let Some(value) = item.value {
        // As in "Sun, 06 Nov 1994 08:49:37 GMT".
        let time = httpdate::fmt_http_date(value.date());
        let (date, clock, len) = (time[5..16].replace(' ', "-"), &time[17..22], value.len);
        let _ = write!(index, "{:gap$}{date} {clock} {len:>19}", "");
    } else {
        let _ = write!(index, "{:gap$}{:>17} {:>19}", "", "-", "-");
    }
    index.push('\n');
}

#[cfg(test)]
mod tests {
    use crate::http::listing::index::*;
    use crate::http::listing::tests::{listing, place};
    use crate::store::Key;
    use data_server_testing::HtmlPage;
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    /// Names with parts that would be markup, addresses or lines, if they were taken for anything but names.
    fn name() -> impl Strategy<Value = String> {
        let odd = [
            "<script>alert(1)</script>",
            "</a>",
            "</pre>",
            "<!--",
            "&lt;",
            "\" onclick=\"x",
            "javascript:x",
            "http:",
            "?q",
            "#f",
            "%2F",
            "..",
            "\n",
            "\r",
            "\u{202e}",
        ];
        let odd = proptest::sample::select(odd.to_vec()).prop_map(str::to_owned);
        let name = vec(prop_oneof!["[^/\\x00]{1,3}", odd], 1..4).prop_map(|parts| parts.concat());
        name.prop_filter("no key", |name| Key::new(format!("{name}/x")).is_ok())
    }

    proptest! {
        #[test]
        fn a_parser_finds_a_link_for_each_name_and_no_other(
            names in btree_set(name(), 0..6),
            folders in btree_set(name(), 0..3),
            above in vec(name(), 0..3),
        ) {
            let folder = above.iter().fold(String::new(), |folder, name| folder + name + "/");
            let keys: Vec<_> = names.iter().map(|name| format!("{folder}{name}")).collect();
            let keys: Vec<_> = keys.iter().map(|key| (key.as_str(), 1, 1)).collect();
            let folders: Vec<_> = folders.iter().map(|name| format!("{folder}{name}/")).collect();
            let folders: Vec<_> = folders.iter().map(String::as_str).collect();
            let listing = listing(&keys, &folders, folders.first().copied());
            let index = index(&place(&folder, ""), &listing);
            let lines = String::from_utf8(index.clone()).unwrap().lines().count();
            prop_assert_eq!(lines, 13 + keys.len() + folders.len() + usize::from(!folder.is_empty()) - usize::from(folders.is_empty()));

            let page = HtmlPage::parse(&index);
            let decoded = |link: &str| percent_encoding::percent_decode_str(link).decode_utf8().unwrap().into_owned();
            let mut links: Vec<_> = page.named("a").map(|it| decoded(it.attribute("href").unwrap())).collect();
            if !folder.is_empty() {
                prop_assert_eq!(links.remove(0), "../");
            }
            let links: Vec<_> = links.into_iter().map(|link| format!("{folder}{link}")).collect();
            let mut all: Vec<_> = keys.iter().map(|(key, ..)| *key).chain(folders.iter().copied()).map(str::to_owned).collect();
            all.sort_unstable();
            prop_assert_eq!(links, all);
            for element in page.within("html") {
                let known = ["html", "head", "meta", "title", "link", "body", "h1", "pre", "a"];
                prop_assert!(known.contains(&&*element.name), "{element:?}");
                let known = ["lang", "charset", "rel", "href"];
                prop_assert!(element.attributes.keys().all(|name| known.contains(&&**name)), "{element:?}");
            }
        }
    }
}
