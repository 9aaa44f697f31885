//! One exchange of a client of the soak, which takes a broken connection for what it is: no answer.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longer than any fault lasts; a server that needs longer is one that hangs.
const PATIENCE: Duration = Duration::from_secs(15);

/// An answer, whole.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) etag: Option<String>,
    pub(super) body: Vec<u8>,
}

/// A connection to `addr`, if anybody listens there.
pub(super) fn connect(addr: SocketAddr) -> Option<TcpStream> {
    let Ok(stream) = TcpStream::connect_timeout(&addr, PATIENCE) else {
        // Nobody listens: the server is being started again.
        std::thread::sleep(Duration::from_millis(20));
        return None;
    };
    stream.set_nodelay(true).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    Some(stream)
}

/// Sends `request` and reads the whole answer, and whether the connection stays open.
pub(super) fn exchange(stream: &mut TcpStream, request: &[u8]) -> Option<(Answer, bool)> {
    // An answer may come before all has been said.
    let said = stream.write_all(request).is_ok();
    let (mut got, mut buffer) = (Vec::new(), vec![0; 16 << 10]);
    let mut more = |got: &mut Vec<u8>| loop {
        match stream.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(n) if n > 0 => {
                got.extend_from_slice(&buffer[..n]);
                return Some(());
            }
            _ => return None,
        }
    };
    let end = loop {
        match got.windows(4).position(|four| four == b"\r\n\r\n") {
            Some(end) => break end + 4,
            None => more(&mut got)?,
        }
    };
    let head = String::from_utf8_lossy(&got[..end]).into_owned();
    let field = |name: &str| {
        let line = head.lines().find_map(|line| line.strip_prefix(name));
        line.map(str::to_owned)
    };
    let len: usize = field("content-length: ")?.parse().ok()?;
    while got.len() < end + len {
        more(&mut got)?;
    }
    let answer = Answer {
        status: head.get(9..12)?.parse().ok()?,
        etag: field("etag: "),
        body: got.split_off(end),
    };
    Some((answer, said && field("connection: ").is_none()))
}
