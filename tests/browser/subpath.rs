//! Proves the page behind a proxy that serves the server below a path, of which the server knows nothing: each thing that
//! the page does is done there, and nothing at the root of the site.

use serde_json::json;

use crate::browser::{Browser, Shape, browse, browse_as};
use crate::support::prelude::*;

/// nginx in front, as docs/operations.md has it.
fn front(server: &TestServer) -> Option<Proxy> {
    let location = format!(
        "proxy_pass http://{}/; proxy_set_header Host $http_host; proxy_http_version 1.1; client_max_body_size 0; \
         proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection \"upgrade\";",
        server.addr
    );
    Proxy::nginx("/files/", &location)
}

async fn address(browser: &Browser) -> String {
    let address = browser.eval("location.pathname").await;
    address.as_str().expect("text").to_owned()
}

#[test]
fn the_page_works_below_a_path_of_a_proxy() {
    clear_only!("its server is another program");
    browse(async |browser| {
        let server = TestServer::start(&[]);
        let front = needed!(front(&server));
        server.store("album/a%20b", "of a b");
        server.store("top", "1");
        browser.visit(front.addr, "/files/").await;
        browser.until_keys(&["album/", "top"]).await;
        browser.until_text("#state", "Live").await;
        browser.click("a[data-folder='album/']").await;
        browser.until_keys(&["../", "a b"]).await;
        assert_eq!(address(browser).await, "/files/album/");

        // What others change shows by the socket alone.
        browser.until_text("#state", "Live").await;
        browser
            .until_true("document.getElementById('keys').ariaBusy === 'false'")
            .await;
        browser
            .eval("(window.load = Keys.load, Keys.load = () => { throw new Error('the listing was read') }, 0)")
            .await;
        server.store("album/c", "3");
        browser.until_keys(&["../", "a b", "c"]).await;
        browser.eval("(Keys.load = window.load, 0)").await;

        browser.click("[aria-label='Download a b']").await;
        assert_eq!(browser.downloaded("a b").await, b"of a b");

        let value = pattern(3, 100_000);
        let file = browser.file("d.bin", &value);
        browser.upload(&file).await;
        browser.until_keys(&["../", "a b", "c", "d.bin"]).await;
        assert!(server.dir.read("album/d.bin") == value);

        browser.click("[aria-label='Delete c']").await;
        browser.click("#ask-yes").await;
        browser.until_keys(&["../", "a b", "d.bin"]).await;
        assert_eq!(server.get("album/c").status, 404);

        let open = "[...document.querySelectorAll('#rows a[data-key]')].find((it) => it.textContent === 'a b').click()";
        browser.eval(open).await;
        browser.until_text("#preview-body", "of a b").await;
        browser.click("#preview-rename").await;
        browser
            .until_text("#rename-title", "Rename album/a b")
            .await;
        let set = "document.getElementById('rename-key').value = arguments[0]";
        browser.eval_with(set, vec![json!("album/new")]).await;
        browser.click("#rename-yes").await;
        browser
            .until_text("#notes", "album/a b is now album/new")
            .await;
        browser.until_keys(&["../", "d.bin", "new"]).await;
        server
            .dir
            .assert_holds(&["album/d.bin", "album/new", "top"]);

        // Also after a new load of a folder, and up by the crumbs.
        browser.visit(front.addr, "/files/album/?limit=1").await;
        browser.until_keys(&["../", "d.bin"]).await;
        browser.click("#next").await;
        browser.until_keys(&["../", "new"]).await;
        browser.click("#crumbs a").await;
        browser.until_keys(&["album/", "top"]).await;
        assert_eq!(address(browser).await, "/files/");
        browser.visit(front.addr, "/files/#activity").await;
        browser
            .until_true("document.querySelectorAll('#reactor-rows tr').length > 0")
            .await;
        assert_eq!(browser.complaints().await, [""; 0]);
    });
}

#[test]
fn without_scripts_it_works_there_too() {
    clear_only!("its server is another program");
    let shape = Shape {
        is_plain: true,
        ..Shape::default()
    };
    browse_as(shape, async |browser| {
        let server = TestServer::start(&[]);
        let front = needed!(front(&server));
        server.store("album/one", "1");
        browser.visit(front.addr, "/files/album").await;
        let file = browser.file("two.txt", "2");
        browser
            .type_into("#send [type=file]", &file.display().to_string())
            .await;
        browser.click("#send button").await;
        browser.find("a[href='two.txt']").await;
        assert_eq!(address(browser).await, "/files/album/");
        browser.click("#crumbs a").await;
        browser.find("a[href='album/']").await;
        assert_eq!(address(browser).await, "/files/");
    });
}
