//! Proves that whoever asks for a reload hears what came of it, and that one that failed is seen until one succeeds.

use crate::support::prelude::*;

const RULES: &str = "[[rule]]\nwho = \"anonymous\"\nmay = [\"read\", \"metrics\"]\n";

/// A server whose rules are in the folder `own` of this place.
struct Served {
    server: TestServer,
    place: TempDir,
}

impl Served {
    fn new() -> Self {
        let place = TempDir::new().expect("a directory");
        fs::create_dir(place.path().join("own")).expect("a directory");
        let file = place.path().join("own/access.toml");
        fs::write(&file, RULES).expect("the rules");
        let server = TestServer::start(&["--access", file.to_str().expect("text")]);
        Self { server, place }
    }

    fn rules(&self, text: &str) {
        fs::write(self.place.path().join("own/access.toml"), text).expect("the rules");
    }

    /// What `data-server reload` does.
    fn reload(&self) -> (Option<i32>, String) {
        let ended = self.server.reload().run();
        assert_eq!(ended.stdout, "");
        (ended.code, ended.stderr)
    }

    /// What the readiness page says beside `ready`, and the gauge.
    fn state(&self) -> (String, u64) {
        let ready = self.server.ask("GET", "-/ready");
        assert_eq!(ready.status, 200);
        let text = ready.text();
        let scrape = Scrape::of(self.server.addr);
        let gauge = scrape.count("data_server_config_last_reload_successful", &[]);
        (text.replace("ready", "").trim().to_owned(), gauge)
    }
}

const STALE: &str =
    "; the last reload failed, so the old certificates or rules still count: the log says why";

#[test]
fn a_reload_that_fails_is_heard_by_who_asked_and_seen_until_one_succeeds() {
    let served = Served::new();
    let fine = (String::new(), 1);
    assert_eq!(served.state(), fine);
    assert_eq!(served.reload(), (Some(0), String::new()));
    served.rules("nonsense");
    let (code, said) = served.reload();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("access.toml:1: "), "{said}");
    assert!(!said.contains("sandbox"), "{said}");
    assert_eq!(served.state(), (STALE.to_owned(), 0));
    served.rules(RULES);
    served.server.signal(Signal::HUP);
    eventually("SIGHUP mends it", || served.state() == fine);
}

/// The sandbox knows folders, not names: one that was made later is out of reach.
#[test]
fn a_file_in_a_folder_that_was_replaced_is_told_with_the_sandbox_and_the_remedy() {
    let served = Served::new();
    let at = |name: &str| served.place.path().join(name);
    fs::create_dir(at("next")).expect("a directory");
    fs::write(at("next/access.toml"), RULES).expect("the rules");
    fs::rename(at("own"), at("old")).expect("it moves");
    fs::rename(at("next"), at("own")).expect("it moves");
    let (code, said) = served.reload();
    if code == Some(0) {
        data_server_testing::left_out("the sandbox", "this kernel has none");
        return;
    }
    assert_eq!(code, Some(1), "{said}");
    for part in "Permission denied|the sandbox keeps|own/access.toml|restart".split('|') {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(served.state(), (STALE.to_owned(), 0));
}

#[test]
fn who_asks_what_is_no_server_or_may_not_ask_is_told() {
    let no_server = std::process::id().to_string();
    let ended = Launch::new(&["reload", &no_server]).bare().run();
    let said = format!("process {no_server} is no server that can be asked");
    ended.says(1, &said);

    let server = TestServer::start(&[]);
    let ended = server.reload().run();
    assert_eq!(ended.code, Some(0), "there is nothing to reread");
    if data_server_testing::is_on_path("setpriv") && rustix::process::geteuid().is_root() {
        let nobody = words("setpriv --reuid=65534 --regid=65534 --clear-groups");
        let ended = server.reload().through(&nobody).run();
        ended.says(1, "root and its own user");
    }
}
