//! Proves that the page works for one who answers the browser's prompt for a name and a password.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::browser::{browse, origin};
use crate::support::{DataDir, Launch, ask, eventually};

const RULES: &str = "
[[rule]]
who = \"alice\"
prefix = \"alice/\"
may = [\"read\", \"write\", \"list\", \"watch\"]
[[rule]]
who = \"alice\"
prefix = \"shared/\"
may = [\"read\", \"list\"]
";

#[test]
fn one_who_answers_the_prompt_has_the_page_and_sees_what_is_theirs() {
    browse(async |browser| {
        let dir = DataDir::temporary();
        let hash = bcrypt::hash("sesame", 5).expect("a hash");
        let subject = format!("[[subject]]\nname = \"alice\"\npassword = \"{hash}\"\n");
        let file = dir.outside("access.toml");
        fs::write(&file, subject + RULES).expect("a file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("its mode");
        dir.place("alice/letter", "x");
        dir.place("bob/secret", "x");
        dir.place("shared/all", "x");
        let server = Launch::new(&["--access", file.to_str().expect("text")])
            .on(&dir)
            .start();
        let plain = format!("{}/", origin(server.addr));
        // A URL with a name and a password is how a driver answers it; the browser knows them from then on.
        let answered = plain.replacen("://", "://alice:sesame@", 1);
        browser.go(&answered).await;
        browser.go(&plain).await;
        browser.until_keys(&["alice/", "shared/"]).await;
        browser.go(&format!("{plain}shared/")).await;
        browser.until_keys(&["../", "all"]).await;
        browser.go(&format!("{plain}alice/")).await;
        browser.until_keys(&["../", "letter"]).await;
        // Of what is stored by another program the page hears, for the browser proves who follows the changes.
        let pair = STANDARD.encode("alice:sesame");
        let lines = format!("Authorization: Basic {pair}\r\n");
        let stored = ask(&mut server.connect(), "PUT", "/alice/more", &lines, b"y");
        assert_eq!(stored.status, 200);
        browser.until_keys(&["../", "letter", "more"]).await;
        let photo = browser.file("photo.bin", b"pixels");
        browser
            .type_into("#files", &photo.display().to_string())
            .await;
        browser.until_text("#uploads .fate", "stored").await;
        eventually("the upload is a value", || {
            dir.get("alice/photo.bin").is_some()
        });
        assert_eq!(dir.read("alice/photo.bin"), b"pixels");
    });
}
