//! Proves that one who is not known is offered to sign in where rules are in force, sees more then, and signs out again.

use crate::alice::ForAlice;
use crate::browser::{browse, origin};
use crate::support::prelude::*;

const PUBLIC: &str =
    "[[rule]]\nwho = [\"anonymous\"]\nprefix = \"public/\"\nmay = [\"read\", \"list\"]\n";

#[test]
fn one_signs_in_and_out_on_the_page() {
    browse(async |browser| {
        let dir = DataDir::temporary();
        dir.place("alice/letter", "x");
        let rules: &[_] = &[("alice/", &["read", "write", "list", "watch"][..])];
        let alice = ForAlice::start_with(&dir, rules, PUBLIC);
        let plain = format!("{}/", origin(alice.server.addr));
        browser.go(&plain).await;
        browser.until_keys(&[]).await;
        browser
            .until_text("#empty-title", "Nothing that you may see here")
            .await;
        browser
            .until_text("#empty-hint", "Sign in to see what is yours.")
            .await;
        browser.picture("sign-in.png").await;
        let href = browser
            .eval("document.getElementById('sign-in').href")
            .await;
        assert_eq!(href, format!("{plain}?sign-in="));
        // In an empty folder that may be seen, that is not said.
        browser.go(&format!("{plain}public/")).await;
        browser
            .until_text("#empty-title", "No files in public/ yet")
            .await;
        // Firefox asks for a password where a page is refused what it asks for.
        browser.until_text("#state", "Live updates are off").await;
        let refused = alice.server.events("");
        assert!(refused.is_empty(), "{refused:?}");
        // A URL with a name and a password is how a driver answers the prompt.
        let href = href.as_str().expect("text");
        browser
            .go(&href.replacen("://", "://alice:sesame@", 1))
            .await;
        browser.until_keys(&["alice/"]).await;
        browser.go(&plain).await;
        browser.until_keys(&["alice/"]).await;
        browser.until_text(".account", "alice").await;
        browser.picture("signed-in.png").await;
        browser.click("#sign-out").await;
        browser.until_text("h1", "You are signed out").await;
        browser.click("nav a:last-child").await;
        browser
            .until_text("#empty-title", "Nothing that you may see here")
            .await;
        browser.find("#sign-in").await;
    });
}
