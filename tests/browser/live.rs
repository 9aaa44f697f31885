//! Proves that the page finds its server again, and what others change, also in the directory.

use crate::browser::{browse, browse_at, browse_keys, browse_served, origin};
use crate::support::prelude::*;

#[test]
fn the_page_finds_a_server_that_was_started_again() {
    browse(|page| {
        let mut server = TestServer::start(&[]);
        let (addr, dir) = (server.addr, server.dir.clone());
        server.store("before", "x");
        page.visit(addr, "/");
        page.shows(&["before"]);
        page.eval("window.isTheSame = true");
        server.stop();
        page.says("#state", "Offline");
        // What was listed stays to be seen.
        page.shows(&["before"]);
        dir.place("meanwhile", "y");
        let again = Launch::new(&[]).on(&dir).listen(&addr.to_string()).start();
        page.shows(&["before", "meanwhile"]);
        page.holds("$('#state').dataset.state !== 'offline'");
        again.store("after", "z");
        page.shows(&["after", "before", "meanwhile"]);
        assert!(page.is("window.isTheSame"), "it was loaded again");
    });
}

#[test]
fn the_reactors_view_draws_what_the_server_counts() {
    browse_served(&["--threads", "3"], |page, server| {
        server.store("k", "x");
        page.visit(server.addr, "/");
        page.click("#to-reactors");
        let mut raw = server.connect();
        let mut ask = || {
            for _ in 0..50 {
                raw.ask("GET /k HTTP/1.1\r\nHost: t\r\n\r\n");
            }
        };
        // A row for each reactor and one for all, with what was asked meanwhile.
        let rows = "$$('#reactor-rows tr').length === 4";
        let all = "$('#reactor-rows tr:last-child')";
        // A thousand and more has a comma.
        let rate = format!("Number({all}.cells[1].textContent.replaceAll(',', '')) >= 10");
        let timed = format!("/[0-9] (µs|ms)/.test({all}.cells[3].textContent)");
        let alive = format!("Number({all}.cells[4].textContent) >= 1");
        let expression = format!("{rows} && {rate} && {timed} && {alive}");
        page.until(&expression, || {
            ask();
            page.eval(&expression) == true
        });
        // Each chart says in words what it draws, and has drawn it.
        let charts = "$$('.chart svg').map((it) => it.getAttribute('aria-label'))";
        let charts = page.eval(charts).to_string();
        for title in [
            "Requests a second: all",
            "Time to answer: p50",
            "Bytes a second: in",
            "Answered from memory: hits",
            "Delay of a thread: p99",
            "3 threads",
        ] {
            assert!(charts.contains(title), "no {title} in {charts}");
        }
        page.holds("$('.chart path').getAttribute('d')?.includes('L') === true");
        page.holds("$$('.chart .bar').length === 3");
        page.picture("reactors-desk-light.png");
        assert_eq!(page.complaints(), [""; 0]);
    });
}

#[test]
fn without_metrics_there_is_no_reactors_view() {
    browse_served(&["--admin", "127.0.0.1:0"], |page, server| {
        page.visit(server.addr, "/");
        page.says("#state", "Live");
        server.store("told", "x");
        page.shows(&["told"]);
        assert_eq!(page.eval("$('#state').dataset.state"), "live");
        assert!(page.is("$('#views').hidden"));
        page.visit(server.addr, "/#activity");
        page.says("#reactors-note", "at another address");
    });
}

/// Guests come by another name than the loopback's, and where there are no rules, nothing tells them from the operator.
#[test]
fn guests_are_not_shown_what_the_server_does() {
    browse_served(&["--allowed-host", "plain.example"], |page, server| {
        for (host, is_hidden) in [("plain.example", true), ("127.0.0.1", false)] {
            page.go(&origin(format!("{host}:{}/", server.addr.port())));
            page.says("#state", "Live");
            page.holds(&format!("$('#views').hidden === {is_hidden}"));
        }
    });
}

#[test]
fn rows_follow_what_others_change_as_it_happens() {
    browse_keys(&[("b", "old")], |page, server| {
        page.says("#state", "Live");
        page.shows(&["b"]);
        // From here on the listing is not read again: what shows has come through the socket.
        page.eval("Keys.load = () => { throw new Error('the listing was read') }");
        server.store("c", "12345");
        server.store("a", "x");
        page.shows(&["a", "b", "c"]);
        assert_eq!(page.eval("$('#rows tr:last-child .size').title"), "5 bytes");
        server.store("b", "a longer value");
        page.holds("$('#rows tr:nth-child(2) .size').title === '14 bytes'");
        let today = "$('#rows tr:nth-child(2) time').dateTime.slice(0, 10) === new Date().toISOString().slice(0, 10)";
        assert!(page.is(today));
        assert_eq!(server.ask("DELETE", "c").status, 200);
        page.shows(&["a", "b"]);
        assert_eq!(page.eval("$('#state').dataset.state"), "live");
    });
}

#[test]
fn only_the_prefix_that_is_looked_for_is_watched() {
    browse_at("/?prefix=x", &[], |page, server| {
        page.says("#state", "Live");
        page.says("#empty-title", "No name begins with");
        server.store_each("other x1", "1");
        page.shows(&["x1"]);
        page.visit(server.addr, "/?prefix=x2");
        page.says("#state", "Live");
        page.says("#empty-title", "x2");
        server.store("x1", "22");
        server.store("x2", "1");
        page.shows(&["x2"]);
    });
}

#[test]
fn what_other_programs_change_in_the_directory_shows_within_ten_seconds() {
    browse_keys(&[("a", "x"), ("b", "x")], |page, server| {
        page.says("#state", "Live");
        page.shows(&["a", "b"]);
        server.dir.place("by-hand", "12345");
        fs::create_dir(server.dir.file("empty")).expect("a folder");
        server.dir.remove("a");
        let begun = Instant::now();
        page.shows(&["empty/", "b", "by-hand"]);
        assert!(begun.elapsed() < Duration::from_secs(10));
        page.says("#state", "Live");
        // While nothing changes, the server sends no list.
        let count = "(() => { const ask = list; window.looks = []; \
            list = async (...all) => { const page = await ask(...all); window.looks.push(page === null); return page; }; })()";
        page.eval(count);
        page.holds("window.looks.at(-1) === true");
        assert_eq!(page.complaints(), [""; 0]);
    });
}

#[test]
fn a_server_that_changes_nothing_is_not_called_live() {
    browse(|page| {
        let writer = TestServer::start(&[]);
        writer.store("a", "x");
        let reader = Launch::new(&["--read-only"]).on(&writer.dir).start();
        page.visit_keys(reader.addr, "/");
        page.says("#state", "Live updates are off");
        page.shows(&["a"]);
        writer.store("b", "y");
        page.shows(&["a", "b"]);
        assert_eq!(page.eval("$('#state').dataset.state"), "polling");
    });
}
