//! Listening sockets that were open when the process began, as a service manager passes it (`sd_listen_fds(3)`).
//!
//! The process that passed one keeps it, so it outlives this process. Clients that connect while no process accepts wait in
//! its queue.

use std::io;
use std::net::TcpListener;
use std::ops::Range;
use std::os::fd::RawFd;

use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use socket2::{Socket, Type};

/// The first descriptor that is passed.
const FIRST: RawFd = 3;

/// More sockets than this are passed by mistake.
const MOST: RawFd = 1 << 10;

/// A value of `LISTEN_FDS` that is no number of sockets.
#[derive(Debug, thiserror::Error)]
#[error("LISTEN_FDS passes sockets to this process, and is no number of them: {0:?}")]
pub struct BadCount(String);

/// The descriptors that the environment passes to this process, if it does.
pub fn passed() -> Result<Range<RawFd>, BadCount> {
    let variable = |name| std::env::var(name).ok();
    let own = std::process::id();
    let count = count(own, variable("LISTEN_PID"), variable("LISTEN_FDS"))?;
    Ok(FIRST..FIRST + count)
}

/// How many are passed.
fn count(own: u32, pid: Option<String>, count: Option<String>) -> Result<RawFd, BadCount> {
    let is_own = pid.and_then(|pid| pid.parse().ok()) == Some(own);
    let Some(count) = count.filter(|_| is_own) else {
        return Ok(0);
    };
    let number = count
        .parse()
        .ok()
        .filter(|number| (0..=MOST).contains(number));
    number.ok_or(BadCount(count))
}

/// The socket that listens as `fd`.
pub(super) fn listener(fd: RawFd) -> io::Result<TcpListener> {
    // A number cannot be owned safely. The kernel's duplicate of it can, and serves the same socket.
    let own = pidfd_open(getpid(), PidfdFlags::empty())?;
    let socket = Socket::from(pidfd_getfd(own, fd, PidfdGetfdFlags::empty())?);
    let address = socket.local_addr()?;
    let is_stream =
        socket.r#type()? == Type::STREAM && (address.is_unix() || address.as_socket().is_some());
    if !is_stream || !socket.is_listener()? {
        let why = "it is not a TCP or unix socket that listens";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    if !address.is_unix() {
        socket.set_tcp_nodelay(true)?;
    }
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_socket_is_passed_to_the_process_that_is_named_alone() {
        for (pid, count, expected) in [
            ("7", "1", Some(1)),
            ("7", "2", Some(2)),
            ("7", "0", Some(0)),
            ("8", "1", Some(0)),
            ("8", "x", Some(0)),
            ("", "1", Some(0)),
            ("7", "", Some(0)),
            ("7", "9999", None),
            ("7", "-1", None),
            ("7", "x", None),
        ] {
            let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            assert_eq!(
                super::count(7, given(pid), given(count)).ok(),
                expected,
                "{pid} {count}"
            );
        }
    }

    #[test]
    fn what_does_not_listen_is_refused() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let bound = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(listener(file.as_raw_fd()).is_err());
        assert!(listener(bound.as_raw_fd()).is_err());
        assert!(listener(1 << 20).is_err());
        let own = listener(listening.as_raw_fd()).unwrap();
        assert_eq!(own.local_addr().unwrap(), listening.local_addr().unwrap());
    }
}
