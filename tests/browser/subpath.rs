//! Proves the page behind a proxy that serves the server below a path, of which the server knows nothing: each thing
//! that the page does is done there, and nothing at the root of the site.

use crate::browser::{Browser, Shape, browse_as, browse_served};
use crate::plain::send;
use crate::support::prelude::*;

/// nginx in front, as docs/operations.md has it.
fn front(server: &TestServer, more: &str) -> Option<Proxy> {
    let location = format!(
        "proxy_pass http://{}/; proxy_set_header Host $http_host; proxy_http_version 1.1; client_max_body_size 0; \
         proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection \"upgrade\"; {more}",
        server.addr
    );
    Proxy::nginx("/files/", &location)
}

fn address(page: &Browser) -> String {
    let address = page.eval("location.pathname");
    address.as_str().expect("text").to_owned()
}

#[test]
fn the_page_works_below_a_path_of_a_proxy() {
    clear_only!("its server is another program");
    browse_served(&[], |page, server| {
        let front = needed!(front(server, ""));
        server.store("album/a%20b", "of a b");
        server.store("top", "1");
        page.visit(front.addr, "/files/");
        page.shows(&["album/", "top"]);
        page.says("#state", "Live");
        page.click("a[data-folder='album/']");
        page.shows(&["../", "a b"]);
        assert_eq!(address(page), "/files/album/");

        // What others change shows by the socket alone.
        page.says("#state", "Live");
        page.holds("$('#keys').ariaBusy === 'false'");
        let refuse = "(window.load = Keys.load, Keys.load = () => { throw new Error('the listing was read') }, 0)";
        page.eval(refuse);
        server.store("album/c", "3");
        page.shows(&["../", "a b", "c"]);
        page.eval("(Keys.load = window.load, 0)");

        page.click("[aria-label='Download a b']");
        assert_eq!(page.downloaded("a b"), b"of a b");

        let value = pattern(3, 100_000);
        page.upload(&page.file("d.bin", &value));
        page.shows(&["../", "a b", "c", "d.bin"]);
        assert!(server.dir.read("album/d.bin") == value);

        page.click("[aria-label='Delete c']");
        page.click("#ask-yes");
        page.shows(&["../", "a b", "d.bin"]);
        assert_eq!(server.get("album/c").status, 404);

        page.look_at("a b");
        page.says("#preview-body", "of a b");
        page.click("#preview-rename");
        page.says("#naming-title", "Rename album/a b");
        page.eval("$('#naming-name').value = 'new'");
        page.click("#naming-yes");
        page.says("#notes", "album/a b is now album/new");
        page.shows(&["../", "d.bin", "new"]);
        let keys = ["album/d.bin", "album/new", "top"];
        server.dir.assert_holds(&keys);

        // Also after a new load of a folder, and up by the crumbs.
        page.visit(front.addr, "/files/album/?limit=1");
        page.shows(&["../", "d.bin"]);
        page.click("#next");
        page.shows(&["../", "new"]);
        page.click("#crumbs a");
        page.shows(&["album/", "top"]);
        assert_eq!(address(page), "/files/");
        page.visit(front.addr, "/files/#activity");
        page.holds("$$('#reactor-rows tr').length > 0");
        assert_eq!(page.complaints(), [""; 0]);
    });
}

/// A folder may have the name of the path: a proxy that says its path, and one that does not, both mean the same key.
#[test]
fn a_file_moves_into_a_folder_that_is_named_as_the_path_is() {
    clear_only!("its server is another program");
    let says = "proxy_set_header X-Forwarded-Prefix /files;";
    for (trusted, more) in [("127.0.0.1", says), ("127.0.0.1", ""), ("192.0.2.1", says)] {
        browse_served(&["--trusted-proxy", trusted], |page, server| {
            let front = needed!(front(server, more));
            server.store("files/one", "1");
            server.store("two", "2");
            page.visit(front.addr, "/files/?view=two");
            page.says("#preview-body", "2");
            page.click("#preview-rename");
            page.says("#naming-title", "Rename two");
            page.eval("$('#naming-folder').value = 'files/'");
            page.click("#naming-yes");
            page.says("#notes", "two is now files/two");
            server.dir.assert_holds(&["files/one", "files/two"]);
        });
    }
}

#[test]
fn without_scripts_it_works_there_too() {
    clear_only!("its server is another program");
    browse_as(Shape::PLAIN, |page| {
        let server = TestServer::start(&[]);
        let front = needed!(front(&server, ""));
        server.store("album/one", "1");
        page.visit(front.addr, "/files/album");
        send(page, &[&page.file("two.txt", "2")]);
        page.find("a[href='two.txt']");
        assert_eq!(address(page), "/files/album/");
        page.click("#crumbs a");
        page.find("a[href='album/']");
        assert_eq!(address(page), "/files/");
    });
}
