//! Proves that the page finds its server again.

use crate::browser::{Shape, browse, browse_as};
use crate::support::prelude::*;

#[test]
fn the_page_finds_a_server_that_was_started_again() {
    browse(async |browser| {
        let mut server = TestServer::start(&[]);
        let (addr, dir) = (server.addr, server.dir.clone());
        server.store("before", "x");
        browser.visit(addr, "/").await;
        browser.until_keys(&["before"]).await;
        browser.eval("window.isTheSame = true").await;
        server.stop();
        browser.until_text("#state", "Offline").await;
        // What was listed stays to be seen.
        browser.until_keys(&["before"]).await;
        dir.place("meanwhile", "y");
        let again = Launch::new(&[]).on(&dir).listen(&addr.to_string()).start();
        browser.until_keys(&["before", "meanwhile"]).await;
        browser
            .until_true("document.getElementById('state').dataset.state !== 'offline'")
            .await;
        again.store("after", "z");
        browser.until_keys(&["after", "before", "meanwhile"]).await;
        assert_eq!(
            browser.eval("window.isTheSame").await,
            true,
            "it was loaded again"
        );
    });
}

#[test]
fn the_reactors_view_draws_what_the_server_counts() {
    browse(async |browser| {
        let server = TestServer::start(&["--threads", "3"]);
        server.store("k", "x");
        browser.visit(server.addr, "/").await;
        browser.click("#to-reactors").await;
        let mut raw = server.connect();
        let mut ask = || {
            for _ in 0..50 {
                raw.ask("GET /k HTTP/1.1\r\nHost: t\r\n\r\n");
            }
        };
        // A row for each reactor and one for all, with what was asked meanwhile.
        let rows = "document.querySelectorAll('#reactor-rows tr').length === 4";
        let all = "document.querySelector('#reactor-rows tr:last-child')";
        // A thousand and more has a comma.
        let rate = format!("Number({all}.cells[1].textContent.replaceAll(',', '')) >= 10");
        let timed = format!("/[0-9] (µs|ms)/.test({all}.cells[3].textContent)");
        let alive = format!("Number({all}.cells[4].textContent) >= 1");
        let expression = format!("{rows} && {rate} && {timed} && {alive}");
        browser
            .until(&expression, async || {
                ask();
                browser.eval(&expression).await == true
            })
            .await;
        // Each chart says in words what it draws, and has drawn it.
        let charts = "[...document.querySelectorAll('.chart svg')].map((it) => it.getAttribute('aria-label'))";
        let charts = browser.eval(charts).await.to_string();
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
        browser
            .until_true(
                "document.querySelector('.chart path').getAttribute('d')?.includes('L') === true",
            )
            .await;
        browser
            .until_true("document.querySelectorAll('.chart .bar').length === 3")
            .await;
        browser.picture("reactors-desk-light.png").await;
        assert_eq!(browser.complaints().await, [""; 0]);
    });
}

#[test]
fn without_metrics_there_is_no_reactors_view() {
    browse(async |browser| {
        let server = TestServer::start(&["--admin", "127.0.0.1:0"]);
        browser.visit(server.addr, "/").await;
        browser.until_text("#state", "Live").await;
        server.store("told", "x");
        browser.until_keys(&["told"]).await;
        let state = "document.getElementById('state').dataset.state";
        assert_eq!(browser.eval(state).await, "live");
        assert_eq!(
            browser
                .eval("document.getElementById('views').hidden")
                .await,
            true
        );
        browser.visit(server.addr, "/#activity").await;
        browser
            .until_text("#reactors-note", "at another address")
            .await;
    });
}

#[test]
fn the_charts_fit_a_phone() {
    let shape = Shape {
        is_phone: true,
        is_dark: true,
        ..Shape::default()
    };
    browse_as(shape, async |browser| {
        let server = TestServer::start(&["--threads", "4"]);
        browser.visit(server.addr, "/#activity").await;
        browser
            .until_true("document.querySelectorAll('#reactor-rows tr').length === 5")
            .await;
        let fits = "document.documentElement.scrollWidth <= window.innerWidth";
        assert_eq!(browser.eval(fits).await, true);
        browser.picture("reactors-phone-dark.png").await;
    });
}

#[test]
fn rows_follow_what_others_change_as_it_happens() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        server.store("b", "old");
        browser.visit(server.addr, "/").await;
        browser.until_text("#state", "Live").await;
        browser.until_keys(&["b"]).await;
        // From here on the listing is not read again: what shows has come through the socket.
        browser
            .eval("Keys.load = () => { throw new Error('the listing was read') }")
            .await;
        server.store("c", "12345");
        server.store("a", "x");
        browser.until_keys(&["a", "b", "c"]).await;
        let size = "document.querySelector('#rows tr:last-child .size').title";
        assert_eq!(browser.eval(size).await, "5 bytes");
        server.store("b", "a longer value");
        browser
            .until_true(
                "document.querySelector('#rows tr:nth-child(2) .size').title === '14 bytes'",
            )
            .await;
        let today = "document.querySelector('#rows tr:nth-child(2) time').dateTime.slice(0, 10) === new Date().toISOString().slice(0, 10)";
        assert_eq!(browser.eval(today).await, true);
        assert_eq!(server.ask("DELETE", "c").status, 200);
        browser.until_keys(&["a", "b"]).await;
        assert_eq!(
            browser
                .eval("document.getElementById('state').dataset.state")
                .await,
            "live"
        );
    });
}

#[test]
fn only_the_prefix_that_is_looked_for_is_watched() {
    browse(async |browser| {
        let server = TestServer::start(&[]);
        browser.visit(server.addr, "/?prefix=x").await;
        browser.until_text("#state", "Live").await;
        browser
            .until_text("#empty-title", "No name begins with")
            .await;
        server.store("other", "1");
        server.store("x1", "1");
        browser.until_keys(&["x1"]).await;
        browser.visit(server.addr, "/?prefix=x2").await;
        browser.until_text("#state", "Live").await;
        browser.until_text("#empty-title", "x2").await;
        server.store("x1", "22");
        server.store("x2", "1");
        browser.until_keys(&["x2"]).await;
    });
}
