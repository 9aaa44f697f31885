//! A listening socket that was open when the process began, as a service manager passes it (`sd_listen_fds(3)`).
//!
//! The process that passed it keeps it, so it outlives this process. Clients that connect while no process accepts wait in
//! its queue.

use std::io;
use std::net::TcpListener;
use std::os::fd::RawFd;

use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use socket2::Socket;

/// The first descriptor that is passed.
const FIRST: RawFd = 3;

/// The descriptor that the environment passes to this process, if it does.
pub fn passed() -> Option<RawFd> {
    let variable = |name| std::env::var(name).ok();
    let own = std::process::id();
    is_passed(own, variable("LISTEN_PID"), variable("LISTEN_FDS")).then_some(FIRST)
}

fn is_passed(own: u32, pid: Option<String>, count: Option<String>) -> bool {
    let number = |text: Option<String>| text.and_then(|text| text.parse::<u32>().ok());
    number(pid) == Some(own) && number(count).is_some_and(|count| count > 0)
}

/// The TCP socket that listens as `fd`.
pub(super) fn listener(fd: RawFd) -> io::Result<TcpListener> {
    // A number cannot be owned safely. The kernel's duplicate of it can, and serves the same socket.
    let own = pidfd_open(getpid(), PidfdFlags::empty())?;
    let socket = Socket::from(pidfd_getfd(own, fd, PidfdGetfdFlags::empty())?);
    if socket.local_addr()?.as_socket().is_none() || !socket.is_listener()? {
        let why = "it is not a TCP socket that listens";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    socket.set_tcp_nodelay(true)?;
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
            ("7", "1", true),
            ("7", "2", true),
            ("7", "0", false),
            ("8", "1", false),
            ("", "1", false),
            ("7", "", false),
            ("7", "-1", false),
            ("7", "x", false),
        ] {
            let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            assert_eq!(
                is_passed(7, given(pid), given(count)),
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
