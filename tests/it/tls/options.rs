//! Proves what the options of TLS mean, and that what does not fit is refused with its reason.

use super::NAMES;
use crate::support::prelude::*;

#[test]
fn a_file_that_cannot_be_used_is_named() {
    let authority = Authority::new();
    let own = authority.issue("own", &NAMES);
    let other = authority.issue("other", &NAMES);
    let text = |path: &Path| path.to_str().expect("text").to_owned();
    let (certificate, key) = (text(&own.certificate), text(&own.key));
    let dir = DataDir::temporary();
    let empty = text(&dir.path().join("../empty.pem"));
    fs::write(&empty, "").expect("a file");
    let missing = "/nonexistent/own.pem";
    let encrypted = [("pkey", "pkcs8.key"), ("ec", "ec.key")].map(|(command, name)| {
        let file = text(&dir.path().join("..").join(name));
        let args = format!("{command} -in {key} -aes128 -passout pass:word -out {file}");
        let made = Command::new("openssl").args(words(&args)).output();
        assert!(made.expect("openssl runs").status.success());
        file
    });
    let decrypts = encrypted
        .clone()
        .map(|file| format!("`openssl pkey -in {file} -out NEW` decrypts it"));
    for (certificate, key, named) in [
        (missing, &*key, missing),
        (&certificate, missing, missing),
        (&empty, &key, &empty),
        (&certificate, &empty, &empty),
        (&certificate, &encrypted[0], &decrypts[0]),
        (&certificate, &encrypted[1], &decrypts[1]),
        (&certificate, &text(&other.key), &certificate),
    ] {
        let launch = Launch::new(&["--tls-cert", certificate, "--tls-key", key]);
        launch.listen("https://127.0.0.1:0").run().says(1, named);
    }
}

/// As editors of Windows save it.
#[test]
fn a_pem_file_may_begin_with_a_byte_order_mark() {
    let authority = Authority::new();
    let own = authority.issue("own", &NAMES);
    let dir = TempDir::new().expect("a directory");
    let marked = |name: &str, of: &Path| {
        let path = dir.path().join(name);
        let pem = fs::read_to_string(of).expect("PEM");
        fs::write(&path, format!("\u{feff}{}", pem.replace('\n', "\r\n"))).expect("a file");
        path.to_str().expect("text").to_owned()
    };
    let (certificate, key) = (marked("cert", &own.certificate), marked("key", &own.key));
    let args = ["--tls-cert", &certificate, "--tls-key", &key];
    let server = Launch::new(&args).listen("https://127.0.0.1:0").start();
    let mut raw = Raw::connect_tls(server.addr, &authority.client());
    assert_eq!(raw.get("k").status, 404);
}

#[test]
fn a_certificate_is_made_and_its_fingerprint_printed() {
    let args = ["--tls-self-signed", "--allowed-host", "store.example"];
    let server = Launch::new(&args).listen("https://127.0.0.1:0").start();
    let event = server.event("self-signed certificate");
    let expected = "localhost, 127.0.0.1, ::1, store.example";
    assert_eq!(event.field("names"), expected);
    let connected = std::process::Command::new("sh")
        .args(["-c", "openssl s_client -connect \"$0\" < /dev/null 2> /dev/null | openssl x509 -noout -fingerprint -sha256 -ext subjectAltName -text"])
        .arg(server.addr.to_string())
        .output();
    let printed = String::from_utf8(connected.expect("openssl runs").stdout).expect("text");
    assert!(printed.contains(&event.field("sha256")), "{printed}");
    for part in ["DNS:store.example", "IP Address:127.0.0.1", "prime256v1"] {
        assert!(printed.contains(part), "{printed}");
    }
}

#[test]
fn a_server_speaks_tls_at_some_places_and_none_at_others() {
    let authority = Authority::new();
    let own = authority.issue("own", &NAMES);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let socket = dir.path().join("socket");
    let clear = "http://127.0.0.1:0";
    let sealed = format!("https+unix:{}", socket.display());
    let args = [own.options(), vec!["--listen", &sealed, "--listen", clear]].concat();
    let mut server = Launch::new(&args).listen("https://127.0.0.1:0").start();
    crate::support::eventually("all lines are there", || server.stdout_so_far().len() == 3);
    let lines = server.stdout_so_far();
    assert_eq!(lines[0], format!("listening on {sealed}"));
    let clear = lines[1]
        .strip_prefix("listening on http://")
        .expect("a place in the clear");
    let sealed = lines[2].strip_prefix("listening on https://");
    let sealed = sealed.expect("one with TLS");
    let clear = Raw::connect_clear(clear.parse().expect("an address"));
    let sealed = Raw::connect_tls(sealed.parse().expect("an address"), &authority.client());
    for mut raw in [clear, sealed] {
        assert_eq!(raw.get("k").status, 404);
    }
    server.stop();
}
