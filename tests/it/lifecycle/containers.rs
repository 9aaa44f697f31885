//! A server in a container refused each client on its unix socket that was outside of it. Proves that such a client is
//! served.

use crate::support::prelude::*;
use std::os::unix::net::UnixStream;

/// A process of another container has the number 0 for the server, which its library took for an error.
#[test]
fn a_client_outside_of_the_servers_container_is_served_on_a_unix_socket() {
    let in_container = ["--pid", "--fork", "--kill-child"];
    let possible = Command::new("unshare")
        .args(in_container)
        .arg("true")
        .status();
    only_where!(
        possible.is_ok_and(|status| status.success()),
        "a server in a container",
        "not root, who makes namespaces"
    );
    let dir = TempDir::new().expect("a directory");
    let socket = dir.path().join("socket");
    let mut container = Command::new("unshare")
        .args(in_container)
        .arg(binary())
        .arg("--dir")
        .arg(dir.path().join("values"))
        .arg("--listen")
        .arg(format!("unix:{}", socket.display()))
        .stdout(Stdio::piped())
        .spawn()
        .expect("a container");
    let mut line = String::new();
    let mut said = BufReader::new(container.stdout.take().expect("its output"));
    said.read_line(&mut line).expect("a line");
    let asked = UnixStream::connect(&socket).and_then(|mut client| {
        client.write_all(b"GET /-/healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        client.read_to_string(&mut answer)?;
        Ok(answer)
    });
    container.kill().expect("its end");
    container.wait().expect("its end");
    assert!(line.starts_with("listening on unix:"), "{line}");
    let answer = asked.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
}
