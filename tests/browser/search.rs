//! Proves the search inside names: in a folder and below it, as it is typed, within a bound that is told and can be
//! raised.

use crate::browser::{browse_at, browse_served};
use crate::support::prelude::*;

#[test]
fn a_part_of_a_name_is_found_in_the_folders_below() {
    browse_served(&[], |page, server| {
        for key in words("file-042.json a/File-0423.txt a/042/deep a/b/x042 a/b/other 042/q z") {
            server.store(key, "x");
        }
        page.visit_keys(server.addr, "/");
        page.eval("window.isTheSame = true");
        page.types("#find", "042");
        let found = "042/ a/042/ a/b/x042 a/File-0423.txt file-042.json";
        page.shows(&words(found));
        let count = "2 folders and 3 files found, all 7 names searched";
        page.says("#count", count);
        assert_eq!(page.eval("location.search"), "?find=042");
        // What comes and goes shows, if it is found.
        page.says("#state", "Live");
        server.store_each("a/new-042 a/new", "x");
        assert_eq!(server.ask("DELETE", "file-042.json").status, 200);
        page.shows(&["042/", "a/042/", "a/b/x042", "a/File-0423.txt", "a/new-042"]);
        // In a folder, only what is in it; a path with a slash is looked for as a path.
        page.visit_keys(server.addr, "/a/");
        page.types("#find", "b/o");
        page.shows(&["../", "b/other"]);
        page.click("#rows a[data-key]");
        page.says("#preview-title", "a/b/other");
        assert_eq!(page.eval("location.search"), "?find=b%2Fo&view=b%2Fother");
        page.click("#preview-close");
        page.reload();
        page.shows(&["../", "b/other"]);
        page.types("#find", "zzz");
        page.says("#empty-title", "No name in a/ has “b/ozzz” in it");
        assert_eq!(page.complaints(), [""; 0]);
    });
}

#[test]
fn a_search_goes_on_by_itself_and_says_where_it_stopped() {
    browse_served(&[], |page, server| {
        for n in 0..10_100 {
            server.dir.place(&format!("many/{n:05}"), "");
        }
        server.dir.place_each("zoo/wanted wanted-too", "x");
        page.visit_keys(server.addr, "/");
        page.eval("(() => { window.counts = []; const count = $('#count'); \
            new MutationObserver(() => counts.push(count.textContent)).observe(count, { childList: true }); })()");
        page.types("#find", "wanted");
        page.shows(&["wanted-too", "zoo/wanted"]);
        page.says("#count", "2 files found, all 10,102 names searched");
        page.holds("$('#search-on').hidden");
        // One that begins with the text is found at once, however many names there are before it.
        let first = "1 file found, only the first 10,000 names searched";
        page.holds(&format!("counts.includes('{first}')"));

        // A folder without an end, as the server would say it: the search stops, and a button has it go on.
        let endless = "(() => { const ask = list; list = async (...all) => { \
            const page = await ask(...all); return { ...page, next: page.next ?? 'many/00000' }; }; })()";
        page.eval(endless);
        page.eval("Search.forget()");
        page.types("#find", "-");
        page.says("#count", "names searched");
        page.holds("!$('#search-on').hidden && $('#keys').ariaBusy === 'false'");
        let names =
            "Number(/first ([\\d,]+) names/.exec($('#count').textContent)[1].replaceAll(',', ''))";
        let before = page.eval(names).as_u64().expect("a number");
        assert!((100_000..=110_200).contains(&before), "{before}");
        page.click("#search-on");
        page.holds(&format!("{names} > {before} + 90000"));
    });
}

#[test]
fn a_prefix_in_the_address_is_said_and_left() {
    browse_at("/f/?prefix=a", &[("f/ab", "x"), ("f/b", "x")], |page, _| {
        page.shows(&["../", "ab"]);
        page.says("#prefix-text", "Only names that begin with “a”.");
        page.click("#prefix-all");
        page.shows(&["../", "ab", "b"]);
        assert!(page.is("$('#prefix').hidden"));
    });
}
