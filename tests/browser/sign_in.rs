//! Proves that one who is not known is offered to sign in where rules are in force, sees more then, and signs out
//! again.

use crate::alice::ForAlice;
use crate::browser::{browse, origin};
use crate::support::prelude::*;

const PUBLIC: &str =
    "[[rule]]\nwho = [\"anonymous\"]\nprefix = \"public/\"\nmay = [\"read\", \"list\"]\n";

#[test]
fn one_signs_in_and_out_on_the_page() {
    browse(|page| {
        let dir = DataDir::temporary();
        dir.place("alice/letter", "x");
        let rules: &[_] = &[("alice/", &["read", "write", "list", "watch"][..])];
        let alice = ForAlice::start_with(&dir, rules, PUBLIC);
        let plain = format!("{}/", origin(alice.server.addr));
        page.go(&plain);
        page.shows(&[]);
        page.says("#empty-title", "Nothing that you may see here");
        page.says("#empty-hint", "Sign in to see what is yours.");
        page.picture("sign-in.png");
        let href = page.eval("$('#sign-in').href");
        assert_eq!(href, format!("{plain}?sign-in="));
        // In a folder that may be seen, that is not said.
        page.go(&format!("{plain}public/"));
        page.says("#empty-title", "There is no folder public/");
        // Firefox asks for a password where a page is refused what it asks for.
        page.says("#state", "Live updates are off");
        let refused = alice.server.events("");
        assert!(refused.is_empty(), "{refused:?}");
        // A URL with a name and a password is how a driver answers the prompt.
        let href = href.as_str().expect("text");
        page.go(&href.replacen("://", "://alice:sesame@", 1));
        page.shows(&["alice/"]);
        page.go(&plain);
        page.shows(&["alice/"]);
        page.says(".account", "alice");
        page.picture("signed-in.png");
        page.click("#sign-out");
        page.says("h1", "You are signed out");
        page.click("nav a:last-child");
        page.says("#empty-title", "Nothing that you may see here");
        page.find("#sign-in");
    });
}
