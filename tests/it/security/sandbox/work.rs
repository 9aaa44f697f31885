//! The server's work in the sandbox: what it makes, reads again, removes and reaches.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::{REQUIRE, possible};
use crate::support::prelude::*;

/// Stores, reads, lists and removes values in every way.
fn use_all(server: &TestServer) {
    for len in [0, 1, 1 << 10, 20_000, 1 << 20, 5 << 20] {
        let value = pattern(len as u64, len);
        server.store("k", &value);
        assert_eq!(server.get("k").body, value, "{len}");
        server.store("a/b/c", &value);
        assert_eq!(server.get("a/b/c").body, value, "{len}");
    }
    let mut raw = server.begin("PUT", "/chunked", "Transfer-Encoding: chunked\r\n");
    raw.send(chunked([&b"in "[..], b"pieces", b""]));
    assert_eq!(raw.answer().status, 200);
    let ask = |method: &str, path: &str, lines: &str, body: &[u8]| {
        server.request(method, path, lines, body).status
    };
    assert_eq!(ask("PUT", "/k", "If-None-Match: *\r\n", b"x"), 412);
    assert_eq!(ask("PUT", "/new", "If-None-Match: *\r\n", b"x"), 200);
    let fields = "Want-Repr-Digest: sha-256=1\r\nRange: bytes=0-9\r\n";
    assert_eq!(ask("GET", "/k", fields, b""), 206);
    let fields = "Content-Type: text/x\r\nCache-Control: no-store\r\n";
    assert_eq!(ask("PUT", "/typed", fields, b"x"), 200);
    assert_eq!(ask("GET", "/?delimiter=/", "", b""), 200);
    let found = ask("PUT", "/later", "Upload-Complete: ?0\r\n", b"some");
    assert_eq!(found, 201);
    for page in ["/-/metrics", "/-/ready", "/-/healthz"] {
        assert_eq!(ask("GET", page, "", b""), 200, "{page}");
    }
    for key in ["/a/b/c", "/new"] {
        assert_eq!(ask("DELETE", key, "", b""), 200, "{key}");
    }
    assert_eq!(ask("GET", "/a/", "", b""), 200);
}

#[test]
fn everything_works_in_a_directory_that_is_made_at_the_start() {
    directory_only!("the values are in a directory");
    needed!(possible());
    let place = TempDir::new().expect("a directory");
    let made = place.path().join("made/with/parents");
    for durability in ["disk", "os"] {
        let args = [&REQUIRE[..], &["--durability", durability]].concat();
        let mut server = Launch::new(&args).on(&DataDir::at(&made)).start();
        let mut events = Events::open(&server, "", "");
        use_all(&server);
        assert!(events.next().is_some(), "a change is told");
        server.stop();
    }
    // A link to it, from where the process stands.
    symlink(&made, place.path().join("link")).expect("a link");
    let in_place = format!("cd {} && exec \"$@\"", place.path().display());
    let launch = Launch::new(&REQUIRE).through(&["sh", "-c", &in_place, "sh"]);
    use_all(&launch.env("DATA_SERVER_DIR", "link").start());
}

/// As sops-nix, agenix and Capistrano have them, a link to a folder, which is made to lead to the next one; and as
/// certbot has them, a link for each file.
#[test]
fn files_are_read_again_where_a_link_leads_elsewhere() {
    needed!(possible());
    let authority = Authority::new();
    // How the files of each generation begin, the links on the way to it, and the one that is switched.
    let layouts = "secrets.d/N/ ; secrets>secrets.d/N ; secrets
        releases/N/secrets/ ; current>releases/N secrets>current/secrets ; current
        secrets-N/ ; ..data>secrets-N secrets>./..data/. ; ..data
        all/N- ; secrets/c.pem>../all/N-c.pem secrets/k.pem>../all/N-k.pem secrets/access.toml>../all/N-access.toml ; secrets/";
    for [folder, links, switched] in table(layouts) {
        let place = TempDir::new().expect("a directory");
        let at = |name: &str| place.path().join(name);
        let text = |path: PathBuf| path.to_str().expect("text").to_owned();
        let generation = |number: &str| {
            let file = |name| at(&format!("{}{name}", folder.replace('N', number)));
            fs::create_dir_all(file("c.pem").parent().expect("a folder")).expect("a directory");
            let issued = authority.issue(number, &["localhost", "127.0.0.1"]);
            fs::copy(&issued.certificate, file("c.pem")).expect("a copy");
            fs::copy(&issued.key, file("k.pem")).expect("a copy");
            let rule = "[[rule]]\nwho = \"anonymous\"\nmay = [\"read\"]\n";
            fs::write(file("access.toml"), rule).expect("a file");
        };
        let link = |number: &str, wanted: &dyn Fn(&str) -> bool| {
            let all = links.split(' ').map(|link| link.split_once('>'));
            for (name, target) in all.map(Option::unwrap).filter(|(name, _)| wanted(name)) {
                fs::create_dir_all(at(name).parent().expect("a folder")).expect("a folder");
                symlink(target.replace('N', number), at("next")).expect("a link");
                fs::rename(at("next"), at(name)).expect("it replaces the old");
            }
        };
        generation("1");
        link("1", &|_| true);
        let (certificate, key) = (text(at("secrets/c.pem")), text(at("secrets/k.pem")));
        let access = text(at("secrets/access.toml"));
        let files = format!("--tls-cert {certificate} --tls-key {key} --access {access}");
        let launch = Launch::new(&[&REQUIRE[..], &words(&files)].concat()).in_the_clear();
        let server = launch.listen("https://127.0.0.1:0").start();
        generation("2");
        link("2", &|name| name.starts_with(switched));
        let ended = server.reload().run();
        assert_eq!(ended.code, Some(0), "{folder}: {}", ended.stderr);
        let mut raw = Raw::connect_tls(server.addr, &authority.client());
        let found = raw
            .ask("GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .status;
        assert_eq!(found, 404);
        let shown = raw.look(|tls| tls.peer_certificates().expect("a certificate")[0].to_vec());
        let own = CertificateDer::from_pem_file(at("secrets/c.pem")).expect("a certificate");
        assert_eq!(shown, own.to_vec(), "{folder}");
    }
}

#[test]
fn a_unix_socket_comes_and_goes() {
    needed!(possible());
    let place = TempDir::new().expect("a directory");
    let path = place.path().join("socket");
    let socket = format!("unix:{}", path.display());
    let args = [&REQUIRE[..], &["--listen", &socket]].concat();
    for _ in 0..2 {
        let mut server = Launch::new(&args).start();
        let mut raw = Raw::connect_unix(&path);
        assert_eq!(raw.get("none").status, 404);
        server.stop();
        assert!(!path.exists());
    }
    // One that a dead server left.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    Launch::new(&args).start().stop();
}

#[test]
fn every_dispatch_listens_on_ports_that_are_picked() {
    needed!(possible());
    for dispatch in ["round-robin", "reuse-port"] {
        let options = format!("--dispatch {dispatch} --threads 3 --admin 127.0.0.1:0");
        let server = TestServer::start(&[&REQUIRE[..], &words(&options)].concat());
        assert_eq!(server.get("none").status, 404);
        assert_eq!(Raw::connect(server.admin()).get("-/ready").status, 200);
    }
}
