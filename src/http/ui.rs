//! The page for browsers at `/` and at a folder, and its headers.
//!
//! Pure, but for [`perform`]. The server writes a folder's listing into the page, so that clients that follow links
//! find every key; the scripts of the page take over from there, where they run. Links are relative: a proxy may serve
//! this server below a path. Their bytes are letters, digits, `-`, `.`, `_`, `~`, `/` and escapes: no name can be taken
//! for a scheme, a query or the end of an attribute.

pub mod frame;
pub mod perform;

use std::fmt::{Display, Write as _};

use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue,
    REFERRER_POLICY, VARY,
};

use crate::http::head::syntax::{encoded, up};
use crate::http::listing::unlisted::not_shown;
use crate::http::listing::{Item, ListFormat, ListTarget, items};
use crate::http::response::markup::{Attribute, Text};
use crate::http::ui::frame::{FRAME, Size, Slots};
use crate::store::bounds::{Bound, Total, named};
use crate::store::{ListedValue, Listing, Unlisted};

pub use frame::{Document, PageRights};

/// True for a client that prefers the page to the listing, by its Accept: browsers do.
pub fn is_preferred(headers: &HeaderMap) -> bool {
    ListFormat::preferred(headers, ListFormat::Json) == ListFormat::Html
}

/// The page of `listing`, of `target`, for a client with these rights, with these remarks below it; of a folder that
/// `is_absent`, it says so.
pub fn document(
    target: &ListTarget,
    listing: &Listing,
    rights: &PageRights,
    remarks: String,
    is_absent: bool,
) -> Document {
    FRAME.fill(&slots(target, listing, rights, remarks, is_absent))
}

/// What bounds hold, and how much that is of what they may.
pub fn bounds(bounds: &[(String, &Bound, Total)]) -> String {
    let mut lines = String::new();
    for (scope, bound, Total { bytes, keys }) in bounds {
        let size = bound.max_size;
        let size = size.map(|max| format!("{} of {}", Size(*bytes), Size(max)));
        let keys = bound.max_keys.map(|max| format!("{keys} of {max} files"));
        let used: Vec<_> = size.into_iter().chain(keys).collect();
        if !used.is_empty() {
            let (name, used) = (named(scope), used.join(", "));
            let _ = write!(
                lines,
                "<p class=\"muted\">Bound of {}: {used}</p>",
                Text(&name)
            );
        }
    }
    lines
}

/// What a folder has beside its rows: the links that are followed, and what is not shown.
pub fn unlisted(found: &Unlisted, follows: bool) -> String {
    let hidden = if found.is_none() { " hidden" } else { "" };
    let mut line = format!("<p id=\"unlisted\" class=\"muted\"{hidden}>");
    for (at, name) in found.followed.iter().enumerate() {
        let before = if at == 0 { "Symbolic links: " } else { ", " };
        let (href, name) = (encoded(name), Text(name));
        let _ = write!(line, "{before}<a href=\"{href}\">{name}</a>");
    }
    let gap = if found.followed.is_empty() { "" } else { ". " };
    let _ = write!(line, "{gap}{}</p>", not_shown(found, follows));
    line
}

/// The headers of a response with the page of this entity tag, and of one that says that the client has it.
pub fn headers(etag: &str) -> [(HeaderName, HeaderValue); 6] {
    let text = |text: &str| HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""));
    let fixed = HeaderValue::from_static;
    [
        (CONTENT_TYPE, fixed("text/html; charset=utf-8")),
        (CONTENT_SECURITY_POLICY, text(&FRAME.policy)),
        (ETAG, text(etag)),
        (CACHE_CONTROL, fixed("no-cache")),
        (VARY, fixed("accept, accept-encoding")),
        // Not `no-referrer`: a browser would send the Origin `null` with the form.
        (REFERRER_POLICY, fixed("same-origin")),
    ]
}

/// The length of a row, about.
const ROW: usize = 320;

/// The slots of the page of `listing`.
fn slots(
    target: &ListTarget,
    listing: &Listing,
    rights: &PageRights,
    remarks: String,
    is_absent: bool,
) -> Slots {
    let folder = &*target.folder;
    let is_empty = listing.keys.is_empty() && listing.folders.is_empty();
    let next = target.next_query(listing).map(|query| {
        let query = Text(&query);
        format!("<a class=\"button for-plain\" rel=\"next\" href=\"?{query}\">Next</a>")
    });
    let empty = is_empty.then(|| empty(target, rights, is_absent));
    let form = rights.may_create_in(folder).then(|| form(folder));
    let rights_json = serde_json::to_string(rights).unwrap_or_default();
    let hidden = |is_hidden| if is_hidden { " hidden" } else { "" }.to_owned();
    [
        ("title", title(folder, &rights.title)),
        ("name", Text(&rights.title).to_string()),
        ("crumbs", crumbs(folder)),
        ("rows", rows(folder, listing)),
        ("next", next.unwrap_or_default()),
        ("form", form.unwrap_or_default()),
        ("empty", empty.unwrap_or_default()),
        ("rights", Attribute(&rights_json).to_string()),
        ("account", account(folder, rights)),
        ("remarks", remarks),
        ("hidden-at-root", hidden(folder.is_empty())),
        ("hidden-with-rows", hidden(!is_empty)),
    ]
}

fn title(folder: &str, name: &str) -> String {
    let name = Text(name);
    match folder {
        "" => name.to_string(),
        _ => format!("{} \u{2013} {name}", Text(folder)),
    }
}

/// The folders from the root to this one, each a link.
fn crumbs(folder: &str) -> String {
    let names = || folder.split_terminator('/');
    let depth = names().count();
    let mut crumbs = String::new();
    for (at, name) in ["Files"].into_iter().chain(names()).enumerate() {
        let (up, current) = match depth - at {
            0 => ("./".to_owned(), " aria-current=\"page\""),
            above => ("../".repeat(above), ""),
        };
        let name = Text(name);
        let _ = write!(crumbs, "<li><a href=\"{up}\"{current}>{name}</a></li>"); // cannot fail
    }
    crumbs
}

fn rows(folder: &str, listing: &Listing) -> String {
    let mut items = items(listing);
    let mut rows = String::with_capacity(ROW * (items.len() + 1));
    if !folder.is_empty() {
        row(&mut rows, "../", &"../", None);
    }
    // Folders first. The sort is stable: each kind stays in byte order.
    items.sort_by_key(|item| item.value.is_some());
    for Item { text, value } in items {
        let name = text.strip_prefix(folder).unwrap_or(text);
        row(&mut rows, name, &encoded(name), value);
    }
    rows
}

fn row(rows: &mut String, name: &str, href: &dyn Display, value: Option<&ListedValue>) {
    let name = Text(name);
    // The style of narrow screens takes the roles of a table away, so they are written.
    let _ = write!(
        rows,
        "<tr role=\"row\"><th role=\"rowheader\" scope=\"row\"><a class=\"key\" href=\"{href}\">{name}</a></th>\
         <td role=\"cell\" class=\"size\">"
    );
    if let Some(value) = value {
        let len = value.len;
        let _ = write!(rows, "<data value=\"{len}\">{}</data>", Size(len));
    }
    rows.push_str("</td><td role=\"cell\" class=\"time\">");
    if let Some(value) = value {
        let time = humantime::format_rfc3339_seconds(value.date()).to_string();
        let (date, clock) = (&time[..10], &time[11..16]);
        let _ = write!(rows, "<time datetime=\"{time}\">{date} {clock} UTC</time>");
    }
    rows.push_str("</td></tr>\n");
}

/// The form for files; none for a folder with a line end in its name, which a browser would change.
fn form(folder: &str) -> String {
    if folder.contains(['\r', '\n']) {
        return String::new();
    }
    let root = "../".repeat(folder.matches('/').count());
    let folder = Attribute(folder);
    // The fields come before the files: a form is stored as it arrives.
    format!(
        "<form class=\"for-plain\" id=\"send\" method=\"post\" action=\"{root}-/upload\" enctype=\"multipart/form-data\">\
         <input type=\"hidden\" name=\"folder\" value=\"{folder}\">\
         <label><input type=\"checkbox\" name=\"replace\"> Replace what is there</label>\
         <label>Files <input type=\"file\" name=\"file\" multiple required></label>\
         <button class=\"primary\">Upload</button></form>"
    )
}

/// The name of the client, or the link to sign in. The link leads to the root: browsers send a password to addresses
/// below the one that asked for it (RFC 7617, section 2.2).
fn account(folder: &str, rights: &PageRights) -> String {
    let root = up(folder.matches('/').count());
    let root = if root.is_empty() { "./" } else { &root };
    match rights.name.as_deref() {
        None => String::new(),
        Some("") => {
            let folder = encoded(folder);
            format!(
                "<p class=\"account\"><a class=\"button\" id=\"sign-in\" href=\"{root}?sign-in={folder}\">Sign in</a></p>"
            )
        }
        Some(name) => {
            let sign_out = format!(
                "<a class=\"button\" id=\"sign-out\" href=\"{root}?sign-out\">Sign out</a>"
            );
            let sign_out = if rights.signs_out { &*sign_out } else { "" };
            let name = Text(name);
            format!(
                "<p class=\"account\"><span><span class=\"unseen\">Signed in as </span>{name}</span>{sign_out}</p>"
            )
        }
    }
}

/// The sentence in place of rows.
fn empty(target: &ListTarget, rights: &PageRights, is_absent: bool) -> String {
    let prefix = target.page.prefix.strip_prefix(&target.folder);
    match prefix.unwrap_or_default() {
        "" if !target.page.after.is_empty() => "No more files".to_owned(),
        "" if !rights.may_list(&target.folder) => "Nothing that you may see here".to_owned(),
        "" if is_absent => {
            let may_make = rights.may_create_in(&target.folder);
            let hint = if may_make {
                ". Uploading a file here makes it"
            } else {
                ""
            };
            format!("There is no folder {}{hint}", Text(&target.folder))
        }
        "" => "No files yet".to_owned(),
        prefix => format!("No name begins with \u{201c}{}\u{201d}", Text(prefix)),
    }
}

#[cfg(test)]
mod tests {
    use crate::http::listing::tests::{listing, place};
    use crate::http::ui::frame::SCRIPTS;
    use crate::http::ui::*;
    use crate::store::Key;
    use data_server_testing::HtmlPage;
    use proptest::collection::{btree_map, btree_set, vec};
    use proptest::prelude::*;
    use proptest::sample::select;

    fn page(place: &ListTarget, listing: &Listing) -> HtmlPage {
        let rights = PageRights::new(None, false, false);
        HtmlPage::parse(&document(place, listing, &rights, String::new(), false).html)
    }

    #[test]
    fn every_slot_of_the_frame_has_a_value_and_every_value_a_slot() {
        let (place, listing) = (place("", ""), listing(&[], &[], None));
        let rights = PageRights::new(None, false, false);
        let slots = slots(&place, &listing, &rights, String::new(), false);
        let mut values: Vec<_> = slots.map(|(name, _)| name).into();
        let mut names: Vec<_> = FRAME.pieces.iter().map(|(_, slot)| *slot).collect();
        assert_eq!(names.pop(), Some(""));
        names.sort_unstable();
        values.sort_unstable();
        assert_eq!(names, values);
    }

    fn is_hidden(page: &HtmlPage, id: &str) -> bool {
        page.element(id).attribute("hidden").is_some()
    }

    #[test]
    fn the_folders_above_are_links_up_to_the_root() {
        let none = listing(&[], &[], None);
        let folder = page(&place("a/<b>/", ""), &none);
        let expected = [("../../", "Files"), ("../", "a"), ("./", "<b>")];
        let expected = expected.map(|(href, text)| (href.to_owned(), text.to_owned()));
        assert_eq!(folder.crumbs(), expected);
        assert!(!is_hidden(&folder, "crumbs"));
        let root = page(&place("", ""), &none);
        assert!(is_hidden(&root, "crumbs") && root.rows().is_empty());
    }

    #[test]
    fn what_follows_is_a_link_and_what_is_missing_a_sentence() {
        let full = listing(&[("a/x&y", 0, 0)], &[], Some("a/x&y"));
        for (query, next) in [
            (
                "prefix=x%26&limit=1",
                "?prefix=x%26&after=a%2Fx%26y&limit=1",
            ),
            ("", "?after=a%2Fx%26y&limit=10000"),
            ("delimiter=", "?delimiter=&after=a%2Fx%26y&limit=10000"),
        ] {
            let found = page(&place("a/", query), &full);
            assert_eq!(found.next().as_deref(), Some(next));
        }
        for (query, sentence) in [
            ("", "No files yet"),
            ("after=a%2Fb", "No more files"),
            ("prefix=%3Cb%3E", "No name begins with \u{201c}<b>\u{201d}"),
        ] {
            let found = page(&place("a/", query), &listing(&[], &[], None));
            assert_eq!(found.element("empty-title").text, sentence);
            assert!(!is_hidden(&found, "empty"));
        }
    }

    /// Names with parts that would be markup, addresses or directions, if they were taken for anything but names.
    fn name() -> impl Strategy<Value = String> {
        let odd = "<script>alert(1)</script> </a> </tbody></table> <!-- --> ]]> <plaintext> \"_onclick=\"x '_x=' &lt; \
            &amp &#60 javascript:x http:x ?q #f %2F % .. \\ \r \n \t \u{202e} \u{2066} \u{feff} \u{85} {{rows}}";
        let odd: Vec<_> = odd.split(' ').map(|odd| odd.replace('_', " ")).collect();
        let part = prop_oneof!["[^/\\x00]{1,3}", select(odd)];
        let name = vec(part, 1..4).prop_map(|parts| parts.concat());
        // As a folder too: no key lies below `-/`.
        name.prop_filter("no key", |name| Key::new(format!("{name}/x")).is_ok())
    }

    proptest! {
        #[test]
        fn a_parser_finds_the_keys_and_no_other_markup(
            keys in btree_map(name(), (any::<u64>(), any::<i64>()), 0..6),
            folders in btree_set(name(), 0..3),
            above in vec(name(), 0..3),
            prefix in name(),
        ) {
            let folder = above.iter().fold(String::new(), |folder, name| folder + name + "/");
            let whole = |name: &String| format!("{folder}{name}");
            let keys: Vec<_> = keys.iter().map(|(name, (len, nanos))| (whole(name), *len, i128::from(*nanos))).collect();
            let keys: Vec<_> = keys.iter().map(|(key, len, nanos)| (key.as_str(), *len, *nanos)).collect();
            let folders: Vec<_> = folders.iter().map(|name| whole(name) + "/").collect();
            let folders: Vec<_> = folders.iter().map(String::as_str).collect();
            let mut place = place(&folder, "");
            place.page.prefix.push_str(&prefix);
            let found = page(&place, &listing(&keys, &folders, folders.first().copied()));

            let mut rows = found.rows();
            if !folder.is_empty() {
                prop_assert_eq!(rows.remove(0).href, "../");
            }
            let sizes = keys.iter().map(|(key, len, _)| ((*key).to_owned(), Some(*len)));
            let mut items: Vec<_> = sizes.chain(folders.iter().map(|it| ((*it).to_owned(), None))).collect();
            // Folders first.
            items.sort_unstable_by_key(|(name, size)| (size.is_some(), name.clone()));
            let read: Vec<_> = rows.iter().map(|row| (whole(&row.target()), row.size)).collect();
            prop_assert_eq!(read, items);
            for row in &rows {
                let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~/%".contains(&b);
                prop_assert!(row.href.bytes().all(is_plain), "{}", row.href);
                prop_assert!(!row.text.chars().any(char::is_control), "{}", row.text);
            }
            for element in ["rows", "crumbs", "empty"].into_iter().flat_map(|id| found.within(id)) {
                let known = ["tbody", "tr", "th", "td", "a", "data", "time", "nav", "ol", "li", "div", "p"];
                prop_assert!(known.contains(&&*element.name), "{element:?}");
                let known = [
                    "role", "scope", "class", "href", "value", "datetime", "aria-current", "aria-label", "id", "hidden",
                ];
                prop_assert!(element.attributes.keys().all(|name| known.contains(&&**name)), "{element:?}");
            }
            let sent = found.named("input").find(|it| it.attribute("name") == Some("folder"));
            match sent {
                Some(field) => prop_assert_eq!(field.attribute("value"), Some(&*folder)),
                None => prop_assert!(folder.contains(['\r', '\n'])),
            }
            prop_assert_eq!(found.crumbs().len(), folder.matches('/').count() + 1);
            prop_assert_eq!(found.next().is_some(), !folders.is_empty());
            prop_assert_eq!(found.named("script").count(), SCRIPTS.len());
            prop_assert_eq!(&*found.element("reactors").name, "table", "what comes after the rows is still there");
        }
    }
}
